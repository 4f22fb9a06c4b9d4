"""A real broker: one node of Apache Kafka on this machine, for tests and demos."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import ClassVar
from uuid import uuid4

from evenflow.kafka.artifacts import JARS
from evenflow.model import InputError
from evenflow.spark.jars import Report
from evenflow.spark.java import find_java
from evenflow_lab.checking.server import Server, free_port

_STARTED = re.compile(r"Kafka Server started")
_LONGEST_FORMAT = 90.0  # seconds

# One node that is broker and controller, sized for a laptop: few threads, small indexes and buffers,
# internal topics without replicas.
_SETTINGS = """\
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
controller.quorum.voters=1@127.0.0.1:{controller}
log.dirs={data}
auto.create.topics.enable=false
num.network.threads=2
num.io.threads=4
num.recovery.threads.per.data.dir=2
background.threads=2
controlled.shutdown.enable=false
broker.heartbeat.interval.ms=500
broker.session.timeout.ms=3000
group.initial.rebalance.delay.ms=0
group.consumer.heartbeat.interval.ms=1000
group.consumer.min.heartbeat.interval.ms=100
offsets.topic.num.partitions=2
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=2
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
log.cleaner.dedupe.buffer.size=8388608
log.index.size.max.bytes=1048576
log.initial.task.delay.ms=5000
"""

_LOGGING = """\
status=error
appender.out.type=Console
appender.out.name=out
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=%d %p %m (%c)%n%throwable
rootLogger.level=info
rootLogger.appenderRef.out.ref=out
logger.config.name=org.apache.kafka.common.config
logger.config.level=warn
logger.settings.name=kafka.server.KafkaConfig
logger.settings.level=warn
"""

_JAVA_OPTIONS = ("-Xms96m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:+ExitOnOutOfMemoryError")


class Broker(Server):
    """One node of Apache Kafka (KRaft) on loopback, as a process of its own.

    Guarantee: as for `Server`. What was acknowledged is there again after `kill` and `restart`.

    Parameters:
        folder: where data, settings and `broker.log` lie.
        port: on which it listens.
        own_folder: the folder is removed at the end.
        command: starts Java with Kafka's archives.

    Example:
        >>> with Broker.start() as broker:  # doctest: +SKIP
        ...     print(broker.bootstrap)
        127.0.0.1:40123
    """

    product: ClassVar[str] = "Kafka"
    log_name: ClassVar[str] = "broker.log"

    def __init__(self, folder: Path, port: int, own_folder: bool, command: list[str]) -> None:
        super().__init__(folder, port, own_folder)
        self._command = command

    @classmethod
    def start(
        cls, folder: str | Path | None = None, port: int = 0, report: Report | None = None
    ) -> Broker:
        """Fetch Kafka if need be, and start it.

        Parameters:
            folder: for its data; one that a broker left is used on. None for a temporary folder,
                which is removed at the end.
            port: to listen on; 0 for a free one (the same as before in a folder that is used on).
            report: called while archives are fetched.
        """
        jars = ":".join(str(jar) for jar in JARS.archives("broker", report))
        java = str(find_java().executable)
        return cls._start(folder, port, command=[java, *_JAVA_OPTIONS, "-cp", jars])

    @property
    def bootstrap(self) -> str:
        """The address for clients: `bootstrap.servers`."""
        return f"127.0.0.1:{self.port}"

    def prepare(self) -> list[str]:
        """Write the settings and format the folder, if no broker left one; return the command."""
        settings, logging = self.settings, self.folder / "log4j2.properties"
        data = self.folder / "data"
        logging.write_text(_LOGGING)
        written = settings.read_text() if settings.is_file() else ""
        kept = re.search(r"127\.0\.0\.1:(\d+),CONTROLLER://127\.0\.0\.1:(\d+)", written)
        self.port = self.port or (int(kept[1]) if kept else free_port())
        controller = int(kept[2]) if kept else free_port()
        settings.write_text(_SETTINGS.format(port=self.port, controller=controller, data=data))
        java, *options = self._command
        command = [java, f"-Dlog4j2.configurationFile={logging.as_uri()}", *options]
        if not (data / "meta.properties").is_file():
            self._format(command, settings)
        return [*command, "kafka.Kafka", str(settings)]

    def ready(self, said: str) -> bool:
        return _STARTED.search(said) is not None

    def _format(self, command: list[str], settings: Path) -> None:
        shutil.rmtree(self.folder / "data", ignore_errors=True)  # of a start that was interrupted
        options = ("--cluster-id", uuid4().hex[:22], "--config", str(settings))
        formatted = subprocess.run(
            [*command, "kafka.tools.StorageTool", "format", *options],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_LONGEST_FORMAT,
        )
        if formatted.returncode:
            output = (formatted.stderr + formatted.stdout).strip()
            raise InputError(f"Kafka's folder {self.folder} could not be prepared: {output[-300:]}")
