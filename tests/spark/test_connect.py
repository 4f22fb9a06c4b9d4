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


@pytest.mark.long
def test_sessions_and_the_last_batch_over_connect(connect, tmp_path):
    """`session_window` as a key, found by Spark's mark on it; the last batch runs in the client."""
    printed = connect(f"""
        from pathlib import Path

        import evenflow as ef
        from pyspark.sql import functions as F

        source, out, checkpoint = [Path({str(tmp_path)!r}, name) for name in ("in", "out", "ckpt")]
        rows = spark.range(0, 60, 1, 1).selectExpr(
            "id % 3 AS k", "timestamp_seconds(1700000000 + 20 * id) AS ts"
        )
        rows.write.parquet(str(source))
        stream = spark.readStream.schema(rows.schema).parquet(str(source))
        stream = stream.withWatermark("ts", "1 minute")
        keyed = ef.keyed(stream, F.session_window("ts", F.lit("30 seconds")), "k")
        query = (
            keyed.balance("key", partitions=2)
            .agg(n=ef.count())
            .writeStream.option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start(out)
        )
        query.awaitTermination()
        found = ef.read_output(spark, out)
        batches = found.select("batch").distinct().collect()
        print(found.columns, found.count(), [row["batch"] for row in batches])
        once = ef.keyed(rows, "k").balance("key", partitions=2).dropDuplicates()
        print(sorted(row["k"] for row in once.collect()))
    """)
    assert printed == "['k', 'session_window', 'n', 'batch'] 55 [1]\n[0, 1, 2]\n"


@pytest.mark.long
def test_a_join_with_a_hot_key_over_connect(connect):
    printed = connect("""
        import evenflow as ef

        spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
        a = spark.range(0, 400, 1, 3).selectExpr("nullif(id % 9 % 4, 2) k", "id x")
        b = spark.range(6).selectExpr("id k", "id y")
        for how in ("left", "full", "anti"):
            joined = ef.keyed(a, "k").balance(partitions=3).join(b, how=how)
            assert "__evenflow_cell" in joined._explain_string(extended=True)
            wanted = sorted(map(str, a.join(b, "k", how).collect()))
            assert sorted(map(str, joined.collect())) == wanted
            print(len(wanted))
    """)
    assert printed == "400\n403\n89\n"
