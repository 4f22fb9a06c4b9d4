"""The Java archives that Spark and the servers of the tests need for S3 and HDFS."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from evenflow.model import InputError
from evenflow.spark.jars import JarLock, Report

#: `s3a-…`, by the version of Hadoop; `hdfs`.
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
