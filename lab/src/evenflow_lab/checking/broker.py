"""A real broker: one node of Apache Kafka on this machine, for tests and demos."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from uuid import uuid4

from evenflow.kafka.artifacts import Report, archives
from evenflow.model import InputError
from evenflow.spark.java import find_java

_STARTED = re.compile(r"Kafka Server started")
_PORT_TAKEN = re.compile(r"Address already in use|BindException")
_LONGEST_START = 90.0  # seconds
_TRIES = 4

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


class Broker:
    """One node of Apache Kafka (KRaft) on loopback, as a process of its own.

    Guarantee: when `start` returns, it takes messages. After `stop`, and also when the process that
    started it is killed, no process is left, and no file unless `folder` was given. What was
    acknowledged is there again after `kill` and `restart`.

    Parameters:
        folder: where data, settings and `broker.log` lie.
        port: on which it listens.
        own_folder: the folder is removed at the end.

    Example:
        >>> with Broker.start() as broker:  # doctest: +SKIP
        ...     print(broker.bootstrap)
        127.0.0.1:40123
    """

    def __init__(self, folder: Path, port: int, own_folder: bool) -> None:
        self.folder, self.port, self._own_folder = folder, port, own_folder
        self._watchdog: subprocess.Popen[str] | None = None

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
        jars = archives("broker", report)
        java = str(find_java().executable)
        own_folder = folder is None
        place = Path(tempfile.mkdtemp(prefix="evenflow-kafka-") if folder is None else folder)
        try:
            place.mkdir(parents=True, exist_ok=True)
            for attempt in range(_TRIES):
                broker = cls(place.resolve(), port, own_folder)
                try:
                    broker._configure(java, jars)
                    broker._launch()
                    return broker
                except _PortTaken as error:
                    broker._end_watchdog(keep=True)
                    if port or attempt == _TRIES - 1:
                        raise InputError(str(error)) from None
                    (place / "server.properties").unlink()
                except BaseException:
                    broker._end_watchdog(keep=True)
                    raise
        except BaseException:
            if own_folder:
                shutil.rmtree(place, ignore_errors=True)
            raise
        raise AssertionError("unreachable")

    @property
    def bootstrap(self) -> str:
        """The address for clients: `bootstrap.servers`."""
        return f"127.0.0.1:{self.port}"

    @property
    def log(self) -> Path:
        """What the broker said."""
        return self.folder / "broker.log"

    @property
    def last_words(self) -> str:
        """The last error in its log, or the last line."""
        return _last_words(_text(self.log))

    @property
    def running(self) -> bool:
        """Whether its process is alive."""
        return self._watchdog is not None and self._ask("poll") == "running"

    def kill(self) -> None:
        """End it at once, as `kill -9` does; its data stay for `restart`."""
        self._ask("kill")

    def pause(self) -> None:
        """Shut it down in good order; its data stay for `restart`."""
        self._ask("stop")

    def restart(self) -> None:
        """Start it again on the same port with the same data, after `kill` or `pause`."""
        if self.running:
            self.pause()
        self._launch()

    def stop(self) -> None:
        """End it and leave nothing behind; may be called again."""
        self._end_watchdog(keep=False)

    def __enter__(self) -> Broker:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _configure(self, java: str, jars: list[Path]) -> None:
        """Settings and an empty log in the folder, and the watchdog that will start the broker."""
        settings, logging = self.folder / "server.properties", self.folder / "log4j2.properties"
        data = self.folder / "data"
        logging.write_text(_LOGGING)
        kept = re.search(r"127\.0\.0\.1:(\d+),CONTROLLER://127\.0\.0\.1:(\d+)", _text(settings))
        port = self.port or (int(kept[1]) if kept else _free_port())
        controller = int(kept[2]) if kept else _free_port()
        settings.write_text(_SETTINGS.format(port=port, controller=controller, data=data))
        self.port = port
        command = [
            java,
            *_JAVA_OPTIONS,
            f"-Dlog4j2.configurationFile={logging.as_uri()}",
            "-cp",
            ":".join(str(jar) for jar in jars),
        ]
        if not (data / "meta.properties").is_file():
            self._format(command, settings)
        watchdog = [sys.executable, "-I", str(Path(__file__).with_name("watchdog.py"))]
        removed = str(self.folder) if self._own_folder else ""
        self._watchdog = subprocess.Popen(
            [*watchdog, removed, str(self.log), *command, "kafka.Kafka", str(settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def _format(self, command: list[str], settings: Path) -> None:
        shutil.rmtree(self.folder / "data", ignore_errors=True)  # of a start that was interrupted
        options = ("--cluster-id", uuid4().hex[:22], "--config", str(settings))
        formatted = subprocess.run(
            [*command, "kafka.tools.StorageTool", "format", *options],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_LONGEST_START,
        )
        if formatted.returncode:
            told = (formatted.stderr + formatted.stdout).strip()
            raise InputError(f"Kafka's folder {self.folder} could not be prepared: {told[-300:]}")

    def _launch(self) -> None:
        """Start the process and wait until it takes messages."""
        said_before = self.log.stat().st_size if self.log.is_file() else 0
        self._ask("start")
        end = time.monotonic() + _LONGEST_START
        while True:
            said = _text(self.log, said_before)
            if _STARTED.search(said):
                return
            state = self._ask("poll")
            if state != "running" or time.monotonic() > end:
                self._ask("kill")
                said = _text(self.log, said_before)
                if _PORT_TAKEN.search(said):
                    raise _PortTaken(
                        f"Kafka did not start: port {self.port} of this machine is taken; choose "
                        "another, or 0 for a free one"
                    )
                raise InputError(
                    f"Kafka did not start ({state}): {_last_words(said)}; more in {self.log}, if "
                    "that folder was given"
                )
            time.sleep(0.05)

    def _ask(self, word: str) -> str:
        watchdog = self._watchdog
        if watchdog is None:
            raise InputError("the broker was stopped; start another one with Broker.start()")
        assert watchdog.stdin is not None
        assert watchdog.stdout is not None
        try:
            watchdog.stdin.write(word + "\n")
            watchdog.stdin.flush()
            return watchdog.stdout.readline().strip()
        except BrokenPipeError:
            return "ended"

    def _end_watchdog(self, keep: bool) -> None:
        watchdog, self._watchdog = self._watchdog, None
        if watchdog is None:
            return
        assert watchdog.stdin is not None
        assert watchdog.stdout is not None
        if keep:  # the folder is needed for another try
            watchdog.kill()
        watchdog.stdin.close()
        watchdog.wait()
        watchdog.stdout.close()


class _PortTaken(Exception):
    """Somebody was faster at the free port."""


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _text(path: Path, start: int = 0) -> str:
    if not path.is_file():
        return ""
    with open(path, "rb") as file:
        file.seek(start)
        return file.read().decode(errors="replace")


def _last_words(said: str) -> str:
    lines = [line for line in said.splitlines() if re.search(r"ERROR|FATAL|Exception", line)]
    return " ".join((lines or said.splitlines() or ["it said nothing"])[-1].split())[:300]
