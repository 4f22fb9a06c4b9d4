"""The Java archives that Kafka and Spark's connector for it need."""

from __future__ import annotations

from pathlib import Path

from evenflow.spark.jars import JarLock, Report

#: The environment variable for a folder with all archives, for machines without network access.
JARS_FOLDER = "EVENFLOW_KAFKA_JARS"

#: `broker` and `connector`.
JARS = JarLock(Path(__file__).with_name("jars.lock"), "Kafka", JARS_FOLDER)


def connector_jars(report: Report | None = None) -> list[Path]:
    """Spark's Kafka connector, for the setting `spark.jars` of a new session.

    Guarantee: as for `JarLock.archives`. If your cluster has a connector of its own, use that instead.

    Example:
        >>> jars = connector_jars()  # doctest: +SKIP
        >>> spark = local_session(**{"spark.jars": ",".join(map(str, jars))})  # doctest: +SKIP
    """
    return JARS.archives("connector", report)
