"""The Java archives that Kafka and Spark's connector for it need."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

from evenflow.spark.jars import JarLock, Report

#: The environment variable for a folder with all archives, for machines without network access.
JARS_FOLDER = "EVENFLOW_KAFKA_JARS"

#: `broker`, and `connector-…` by the version of Spark.
JARS = JarLock(Path(__file__).with_name("jars.lock"), "Kafka", JARS_FOLDER)


def connector_jars(report: Report | None = None) -> list[Path]:
    """Spark's Kafka connector, for the setting `spark.jars` of a new session.

    Guarantee: as for `JarLock.archives`; it fits the installed pyspark. If your cluster has a connector
    of its own, use that instead.

    Parameters:
        report: called with the progress.

    Example:
        >>> jars = connector_jars()  # doctest: +SKIP
        >>> spark = local_session(**{"spark.jars": ",".join(map(str, jars))})  # doctest: +SKIP
    """
    return JARS.archives(connector_group(), report)


def connector_group(version: str | None = None) -> str:
    """The heading in the lock file of the connector for a version of Spark.

    Parameters:
        version: of Spark; None for that of the installed pyspark.

    Example:
        >>> connector_group("4.1.4"), connector_group("4.3.0")
        ('connector-4.1', 'connector-4.2')
    """
    found = metadata.version("pyspark") if version is None else version
    return "connector-4.1" if found.startswith("4.1.") else "connector-4.2"
