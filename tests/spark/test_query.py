"""A query that is stopped in the midst of a batch."""

import threading
import time

import pytest

pytestmark = pytest.mark.spark


def test_a_query_that_is_stopped_in_a_batch_ends_in_words_that_spark_understands(spark, tmp_path):
    from evenflow.spark.query import stoppable

    begun, told = threading.Event(), []

    def long_batch(df, batch):
        def sleeping(batches):
            time.sleep(60)
            yield from batches

        begun.set()
        df.mapInArrow(sleeping, df.schema).write.format("noop").mode("overwrite").save()

    def each(df, batch):
        try:
            stoppable(long_batch)(df, batch)
        except Exception as error:
            told.append(error)
            raise

    stream = spark.readStream.format("rate").option("rowsPerSecond", 100).load()
    query = (
        stream.writeStream.foreachBatch(each).option("checkpointLocation", str(tmp_path)).start()
    )
    assert begun.wait(60)
    time.sleep(2)  # until the job of the batch is under way
    query.stop()
    assert query.exception() is None
    [error] = told
    # Spark's own judgement; for the job's account as it was it is a StackOverflowError.
    runtime = spark._jvm.org.apache.spark.sql.execution.streaming.runtime
    proxied = spark._jvm.py4j.Py4JException(f"RuntimeError: {error}")
    assert runtime.StreamExecution.isInterruptionException(proxied, spark._jsc.sc())
    assert "\n" not in str(error)


def test_other_errors_of_a_batch_stay_as_they_are(spark):
    from py4j.protocol import Py4JJavaError

    from evenflow.spark.query import stoppable

    def failing(df, batch):
        spark._jvm.java.util.Optional.empty().get()

    with pytest.raises(Py4JJavaError, match="NoSuchElementException"):
        stoppable(failing)(None, 0)
