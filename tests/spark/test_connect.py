"""What the engine rests on works over Spark Connect: no JVM in reach, no `.rdd`, no context."""

import pytest

pytestmark = pytest.mark.spark


@pytest.mark.long
def test_tasks_are_workers_over_connect(connect):
    printed = connect("""
        from evenflow.spark.session import check_session

        check_session(spark)

        def route(batches):
            for batch in batches:
                ids = batch.column(0)
                workers = pa.array([i % 3 for i in ids.to_pylist()], pa.int32())
                yield pa.record_batch([ids, workers], ["id", "worker"])

        def work(batches):
            from pyspark import TaskContext

            here = TaskContext.get().partitionId()
            rows = [w for batch in batches for w in batch.column(1).to_pylist()]
            assert set(rows) <= {here}, (here, rows)
            yield pa.record_batch([pa.array([here]), pa.array([len(rows)])], ["worker", "rows"])

        routed = spark.range(100).mapInArrow(route, "id long, worker int")
        worked = routed.repartitionById(4, "worker").mapInArrow(work, "worker long, rows long")
        print(sorted(tuple(row) for row in worked.collect()))
    """)
    assert printed == "[(0, 34), (1, 33), (2, 33), (3, 0)]\n"


@pytest.mark.long
def test_foreach_batch_over_connect(connect, tmp_path):
    # The function runs in a process of the server's: it has nothing of this one but what it reads.
    printed = connect(f"""
        from pathlib import Path

        source, out, seen = [Path({str(tmp_path)!r}, name) for name in ("in", "out", "seen")]
        spark.range(0, 30, 1, 3).write.parquet(str(source))

        def work(batches):
            for batch in batches:
                yield batch

        def each(batch, number):
            workers = batch.selectExpr("id", "cast(id % 2 as int) worker")
            rows = workers.repartitionById(2, "worker").mapInArrow(work, workers.schema)
            rows.write.mode("overwrite").parquet(f"{{out}}/{{number}}")
            with seen.open("a") as file:
                print(number, file=file)

        stream = spark.readStream.schema("id long").option("maxFilesPerTrigger", 1)
        query = (
            stream.parquet(str(source))
            .writeStream.foreachBatch(each)
            .option("checkpointLocation", {str(tmp_path / "checkpoint")!r})
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)
        assert query.exception() is None, query.exception()
        print(seen.read_text().split(), spark.read.parquet(str(out / "*")).count())
    """)
    assert printed == "['0', '1', '2'] 30\n"


def test_keyed_work_over_connect(connect, tmp_path):
    """Batch and stream, the same answer; what a batch needs is in the checkpoint, not in the client."""
    printed = connect(f"""
        from pathlib import Path

        from pyspark.sql import functions as F

        import evenflow as ef

        rows = [("hot" if i % 3 else f"key {{i % 7}}", i) for i in range(300)]
        df = spark.createDataFrame(rows, "key string, value long")
        work = ef.keyed(df, F.col("key")).balance("d-choices", partitions=3)
        batch = work.agg(n=ef.count(), total=ef.sum(F.col("value") + 0))
        wanted = sorted(map(tuple, df.groupBy("key").agg({{"*": "count", "value": "sum"}}).collect()))
        assert sorted(map(tuple, batch.collect())) == wanted

        source, out = [str(Path({str(tmp_path)!r}, name)) for name in ("in", "out")]
        df.repartition(3).write.parquet(source)
        stream = spark.readStream.schema(df.schema).option("maxFilesPerTrigger", 1).parquet(source)
        query = (
            ef.keyed(stream, "key")
            .balance("auto", partitions=3)
            .agg(n=ef.count(), total=ef.sum("value"))
            .writeStream.option("checkpointLocation", {str(tmp_path / "ckpt")!r})
            .trigger(availableNow=True)
            .start(out)
        )
        assert query.awaitTermination(300)
        query.stop()
        newest = spark.read.parquet(out).groupBy("key").agg({{"n": "max", "total": "max"}})
        assert sorted(map(tuple, newest.collect())) == wanted
        print([m["batch"] for m in query.metrics()])
    """)
    assert printed == "[0, 1, 2]\n"
