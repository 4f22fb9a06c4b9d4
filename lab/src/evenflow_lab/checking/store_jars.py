"""The Java archives that Spark and the servers of the tests need for S3 and HDFS."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from evenflow.model import InputError
from evenflow.spark.jars import JarLock, Report

#: `s3a-…`, by the version of Hadoop; `s3a-log`; `hdfs`.
JARS = JarLock(Path(__file__).with_name("jars.lock"), "Stores", "EVENFLOW_STORE_JARS")


def hadoop_version(jars: Path | None = None) -> str:
    """The version of the Hadoop client that the installed Spark has.

    Parameters:
        jars: Spark's folder of jars; None for that of the installed pyspark.

    Example:
        >>> hadoop_version().startswith("3.")
        True
    """
    place = spark_jars() if jars is None else jars
    found = sorted(place.glob("hadoop-client-api-*.jar"))
    if not found:
        raise InputError(
            f"there is no hadoop-client-api-*.jar in {place}: is this Spark with Hadoop?"
        )
    return found[-1].stem.removeprefix("hadoop-client-api-")


def spark_jars() -> Path:
    """The installed pyspark's folder of jars.

    Example:
        >>> spark_jars().name
        'jars'
    """
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise InputError("pyspark is not installed; install it with: pip install 'evenflow[spark]'")
    return Path(spec.origin).with_name("jars")


def s3a_jars(version: str | None = None, report: Report | None = None) -> list[Path]:
    """Hadoop's `s3a://`, for the setting `spark.jars` of a new session; 13 MB.

    Guarantee: as for `JarLock.archives`.

    Parameters:
        version: of Spark's Hadoop client; None for that of the installed pyspark.
        report: called with the progress.

    Example:
        >>> jars = s3a_jars()  # doctest: +SKIP
        >>> spark = local_session(**{"spark.jars": ",".join(map(str, jars))})  # doctest: +SKIP
    """
    return JARS.archives(f"s3a-{version or hadoop_version()}", report)


#: Settings of a session under which Spark's own log on `s3a://` costs fewer requests, as Spark's guide
#: to cloud storage has them; a log on a local disk must not be written under them. The session's
#: `spark.jars` must have `s3a_log_jars()`.
S3A_LOG = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.internal.io.cloud.AbortableStreamBasedCheckpointFileManager"
    )
}

#: And those of a new session, as Hadoop's guide to S3A has them.
S3A_FEWER_REQUESTS = {"spark.hadoop.fs.s3a.performance.flags": "*"}


def s3a_log_jars(report: Report | None = None) -> list[Path]:
    """Spark's checkpoint files on `s3a://` without renames.

    Parameters:
        report: called with the progress.
    """
    return JARS.archives("s3a-log", report)
