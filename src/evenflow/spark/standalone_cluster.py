"""A standalone Spark cluster on this machine: a master and several workers, on loopback."""

from __future__ import annotations

import os
import re
import signal
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from evenflow.model import InputError
from evenflow.model.validation import check_whole
from evenflow.spark.java import find_java
from evenflow.spark.watchdog import Watchdog, descendants, last_words

Report = Callable[[str, int, int | None], None]  #: (what is being started, done, of how many)

_MASTER_READY = re.compile(r"Starting Spark master at (spark://\S+)")
_WORKER_READY = re.compile(r"Successfully registered with master")
_PORT_TAKEN = re.compile(r"Address already in use|BindException")
_MEMORY = re.compile(r"\d+[kmgtKMGT]")
_EXECUTOR = b"CoarseGrainedExecutorBackend"
_LONGEST_START = 120.0  # seconds
_LOOK_EVERY = 0.05  # seconds
_HOST = "127.0.0.1"

# Many small processes share one machine: one garbage collector thread each, and no second compiler
# for daemons that have little to do.
_DAEMON_OPTIONS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"


class Node:
    """The process of a master or a worker, and its directory.

    Parameters:
        name: `master`, `worker-1`, `worker-2`, …
        folder: holds everything that is this node's own.
        pid: of the Java process; another one after `restart`.
    """

    def __init__(self, watchdog: Watchdog, name: str, folder: Path, command: list[str]) -> None:
        self.name, self.folder, self.pid = name, folder, 0
        self._watchdog, self._command = watchdog, command
        self._environment: dict[str, str] = {}

    @property
    def log(self) -> Path:
        """What the process printed."""
        return self.folder / "log"

    @property
    def running(self) -> bool:
        """Whether the process is alive, be it paused."""
        return self._watchdog.poll(self.name) == "running"

    def executor_pids(self) -> list[int]:
        """The Java processes of the executors that this worker has started; Linux only."""
        return [pid for pid in descendants(self.pid) if _EXECUTOR in _command_line(pid)]

    def kill(self) -> None:
        """End it at once, as `kill -9` does. Executors of a killed worker end by themselves."""
        self._watchdog.end(self.name, signal.SIGKILL)

    def pause(self) -> None:
        """Freeze it, as SIGSTOP does; its executors go on."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on after `pause`."""
        os.kill(self.pid, signal.SIGCONT)

    def launch(self, environment: Mapping[str, str]) -> None:
        """Start the process, without waiting until it is ready."""
        self._environment = dict(environment)
        self.pid = self._watchdog.start(self.name, self._command, self.log, self._environment)

    def restart(self) -> None:
        """Start it again after `kill`, and wait until it is ready."""
        said = self.log.stat().st_size
        self.launch(self._environment)
        self.wait_until(_MASTER_READY if self.name == "master" else _WORKER_READY, said)

    def wait_until(self, ready: re.Pattern[str], start: int = 0) -> str:
        """What the log says once the process is ready."""
        until = time.monotonic() + _LONGEST_START
        while True:
            said = self.log.read_bytes()[start:].decode(errors="replace")
            found = ready.search(said)
            if found:
                return found[found.re.groups]
            if not self.running or time.monotonic() > until:
                if _PORT_TAKEN.search(said):
                    raise InputError(
                        f"the {self.name} did not start: its port is taken; give another one, or 0 "
                        "for a free one"
                    )
                raise InputError(f"the {self.name} did not start: {last_words(said)}")
            time.sleep(_LOOK_EVERY)


class StandaloneCluster:
    """A master and several workers of Spark's own standalone cluster, each a process on loopback.

    Every worker has directories of its own for work, shuffles, temporary files, HOME and compiled
    kernels, so that executors share nothing but what a job names.

    Guarantee: when `start` returns, all workers are registered. After `stop`, and also when the process
    that started it is killed, no process is left, and no file unless `folder` was given.

    Example:
        >>> with StandaloneCluster.start(workers=2) as cluster:  # doctest: +SKIP
        ...     spark = local_session(cluster.url)
    """

    def __init__(self, folder: Path, own_folder: bool) -> None:
        self.folder = folder
        self.url = ""  #: of the master, such as spark://127.0.0.1:7077
        self._watchdog = Watchdog(folder if own_folder else None)
        self.master: Node
        self.workers: list[Node] = []

    @classmethod
    def start(
        cls,
        workers: int = 3,
        *,
        cores: int = 2,
        memory: str = "1g",
        port: int = 0,
        folder: str | Path | None = None,
        environment: Mapping[str, str] | None = None,
        report: Report | None = None,
    ) -> StandaloneCluster:
        """Start a cluster, and wait until it takes jobs.

        Parameters:
            workers: how many.
            cores: how many tasks each of them runs at a time.
            memory: for the executors of each worker, as Spark writes it: 512m, 2g.
            port: of the master; 0 for a free one.
            folder: for logs, work and shuffles; None for a temporary one, which is removed at the end.
            environment: environment variables for all workers and their executors, which go before
                those made here. Others are this process' own, without Spark's.
            report: called with what is being started.
        """
        check_whole("workers", workers, least=1)
        check_whole("cores", cores, least=1)
        if not _MEMORY.fullmatch(memory):
            raise InputError(f"memory takes a size as Spark writes it (512m, 2g), got {memory!r}")
        place = Path(tempfile.mkdtemp(prefix="evenflow-cluster-") if folder is None else folder)
        place.mkdir(parents=True, exist_ok=True)
        cluster = cls(place.resolve(), folder is None)
        say = report or (lambda what, done, total: None)
        try:
            say("master", 0, workers + 1)
            cluster._start_master(port)
            options = ("--cores", str(cores), "--memory", memory)
            for i in range(workers):
                cluster._launch_worker(f"worker-{i + 1}", options, environment or {})
            for i, worker in enumerate(cluster.workers):
                say(worker.name, i + 1, workers + 1)
                worker.wait_until(_WORKER_READY)
        except BaseException:
            cluster.stop()
            raise
        return cluster

    def executor_pids(self) -> dict[str, list[int]]:
        """The Java processes of all executors, by the name of their worker; Linux only."""
        return {worker.name: worker.executor_pids() for worker in self.workers}

    def stop(self) -> None:
        """End all processes; may be called again."""
        self._watchdog.close()

    def __enter__(self) -> StandaloneCluster:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _start_master(self, port: int) -> None:
        self.master = self._node("master", "deploy.master.Master", "--port", str(port))
        # A port that was asked for is not silently replaced by the next free one. Nobody submits by
        # REST here, and its fixed port would let no second cluster start.
        options = ("-Dspark.port.maxRetries=0", "-Dspark.master.rest.enabled=false")
        self.master.launch(self._environment(self.master, *options))
        self.url = self.master.wait_until(_MASTER_READY)

    def _launch_worker(
        self, name: str, options: tuple[str, ...], environment: Mapping[str, str]
    ) -> None:
        work = str(self.folder / name / "work")
        worker = self._node(
            name, "deploy.worker.Worker", *options, "--port", "0", "--work-dir", work, self.url
        )
        self.workers.append(worker)
        worker.launch({**self._environment(worker), **environment})

    def _node(self, name: str, program: str, *options: str) -> Node:
        folder = self.folder / name
        for own in ("work", "local", "home", "tmp", "cache", "conf"):
            (folder / own).mkdir(parents=True, exist_ok=True)
        launcher = str(_spark_home() / "bin" / "spark-class")
        command = [launcher, f"org.apache.spark.{program}", "--host", _HOST, "--webui-port", "0"]
        return Node(self._watchdog, name, folder, [*command, *options])

    def _environment(self, node: Node, *options: str) -> dict[str, str]:
        """Of this process, without what is Spark's, and with directories that no other node has."""
        inherited = {
            n: v for n, v in os.environ.items() if not n.startswith(("SPARK_", "PYSPARK_"))
        }
        java = find_java().home
        if java is not None:
            inherited["JAVA_HOME"] = str(java)
        temporary = str(node.folder / "tmp")
        return inherited | {
            "SPARK_HOME": str(_spark_home()),
            "SPARK_CONF_DIR": str(node.folder / "conf"),
            "SPARK_LOCAL_DIRS": str(node.folder / "local"),
            # Without these, Spark asks for the address of this machine's name, which may have none.
            "SPARK_LOCAL_IP": _HOST,
            "SPARK_PUBLIC_DNS": _HOST,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": " ".join((_DAEMON_OPTIONS, *options)),
            "JAVA_TOOL_OPTIONS": f"-Djava.io.tmpdir={temporary}",
            "TMPDIR": temporary,
            "HOME": str(node.folder / "home"),
            "XDG_CACHE_HOME": str(node.folder / "cache"),
            "EVENFLOW_CACHE_DIR": str(node.folder / "cache"),
        }


def _spark_home() -> Path:
    try:
        import pyspark
    except ImportError:
        raise InputError(
            "Spark is needed for this and pyspark is not installed; pip install 'evenflow[spark]'"
        ) from None
    return Path(pyspark.__file__).parent


def _command_line(pid: int) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""
