"""Before the first batch: does every executor have what its tasks need, and see the same store?"""

from __future__ import annotations

import json
import logging
import pickle
import platform
import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from evenflow.model import InputError
from evenflow.spark.query import reason_of
from evenflow.state.errors import explained
from evenflow.storage import Storage
from evenflow.storage.check import PROBES, check_store
from evenflow.version import VERSION

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG = logging.getLogger("evenflow.preflight")
_YOUNG = 30.0  # seconds in which executors of a new session may still be on their way
_PATIENCE = 300.0  # seconds for the first of them: a cluster may have to start a machine
_STEADY = 1.0  # seconds without a new executor, after which a new session is taken to be complete
_ROUNDS = 3  # of tasks, while executors are left that got none
_ONE_PROCESS = re.compile(r"local(\[|$)")
_PLACE = re.compile(r"\(TID \d+\) \((\S+) executor \S+\)")
_SHARED = (
    "give a location that the driver and all executors share, on an object store or on a file system "
    "that all machines mount"
)
_GUIDE = "docs/clusters.md says how"


@dataclass(frozen=True)
class Executor:
    """What an executor said about itself.

    Parameters:
        host: the name of its machine.
        directory: where its tasks run, which tells several executors of one machine apart.
        process: of Spark's Python daemon.
        task: the number of the task that asked, which names its probe.
        executable: its Python.
        versions: of Python, evenflow and pyarrow; what could not be imported is not there.
        problem: what failed, empty if nothing: `import` and the module, or `missing`, `read` or
            `write` with the number of the storage and the reason.
    """

    host: str
    directory: str
    process: int
    task: int
    executable: str
    versions: dict[str, str]
    problem: list[Any]

    def __str__(self) -> str:
        return f"the executor on {self.host} (in {self.directory})"

    def versions_text(self) -> str:
        """Such as `Python 3.11.7, evenflow 0.2.0, pyarrow 25.0.0`."""
        return ", ".join(f"{name} {version}" for name, version in self.versions.items())


def preflight(spark: SparkSession, storages: Sequence[Storage] = ()) -> list[Executor]:
    """Let every executor read and write a probe on each storage, and say its versions.

    Guarantee: an executor that cannot do the work of a batch is refused with an `InputError` that names
    its host and the remedy: another version of Python, evenflow or Arrow than this process has, a
    storage that it cannot read or write, or one that is another place there than here. Executors that
    come later are not checked. In local mode, with everything in one process, only remote stores are.

    Parameters:
        spark: a session, classic or Connect.
        storages: where state and output go.

    Returns: what each executor said; empty in local mode.
    """
    storages = list(dict.fromkeys(storages))
    context = _context(spark)
    if context is not None and _ONE_PROCESS.match(str(context.master)):
        return []
    token = uuid4().hex
    folders = [storage.under(PROBES) for storage in storages]
    try:
        for folder in folders:
            with explained("write", folder.where(f"{token}-driver")):
                folder.put(f"{token}-driver", [token.encode()])
        executors = _ask_executors(spark, context, _probe(pickle.dumps(folders), token))
        _check(executors, storages)
        for executor in executors:
            for storage, folder in zip(storages, folders, strict=True):
                _check_written(executor, storage, folder, f"{token}-{executor.task}")
    finally:
        for folder in folders:
            with suppress(OSError):  # where it fails, there is an error on its way that says why
                folder.delete(*folder.list(token))
    for executor in executors:
        _LOG.info("%s: %s", executor, executor.versions_text())
    return executors


def try_store(storage: Storage) -> None:
    """Write, create, read, list and delete an object from this process, as a commit does.

    Guarantee: what a store refuses comes as one sentence; nothing stays there.
    """
    with explained("use", storage.where()):
        check_store(storage)


def own_versions() -> dict[str, str]:
    """The versions that executors must have, too."""
    import pyarrow

    return {
        "Python": platform.python_version(),
        "evenflow": VERSION,
        "pyarrow": pyarrow.__version__,
    }


def _probe(pickled: bytes, token: str) -> Callable[[int], str]:
    """What each task runs.

    It is sent by value, names nothing of this package, and unpickles the storages itself: so it also
    runs, and can tell, where the package is missing.
    """

    def probe(task: int) -> str:
        import importlib
        import json
        import os
        import pickle
        import platform
        import socket
        import sys

        versions = {"Python": platform.python_version()}
        problem: list[Any] = []
        try:
            for name in ("pyarrow", "evenflow"):
                versions[name] = importlib.import_module(name).__version__
            importlib.import_module("evenflow.engine.task")
            for i, folder in enumerate(pickle.loads(pickled)):
                problem = ["read", i]
                if folder.read(f"{token}-driver") != token.encode():
                    problem = ["missing", i]
                    break
                problem = ["write", i]
                folder.put(f"{token}-{task}", [f"{token}-{task}".encode()])
                problem = []
        except ImportError as error:
            problem = ["import", error.name or str(error)]
        except FileNotFoundError:
            problem[0] = "missing"
        except Exception as error:
            problem = [*problem, str(getattr(error, "strerror", None) or error)]
        return json.dumps(
            {
                "host": socket.gethostname(),
                "directory": os.getcwd(),
                "process": os.getppid(),
                "task": task,
                "executable": sys.executable,
                "versions": versions,
                "problem": problem,
            }
        )

    return probe


def _ask_executors(
    spark: SparkSession, context: Any, probe: Callable[[int], str]
) -> list[Executor]:
    """One report per executor. Spark deals tasks out in turn: an idle cluster needs one round."""
    from pyspark.sql import functions as F

    if context is not None:
        _wait_for_executors(context)
    asked = F.udf(probe, "string", useArrow=False)  # also runs where Arrow is missing
    tasks, seen = _slots(spark), dict[tuple[str, int, str], Executor]()
    for begin in range(_ROUNDS):
        tasks = max(tasks, 2 * _count(context))
        rows = spark.range(begin * tasks, (begin + 1) * tasks, 1, tasks)
        try:
            reports = rows.select(asked("id").alias("report")).collect()
        except Exception as error:
            raise _cannot_run(error) from error
        for row in reports:
            executor = Executor(**json.loads(row["report"]))
            seen.setdefault((executor.host, executor.process, executor.directory), executor)
        if len(seen) >= _count(context):
            break
        tasks *= 2
    return sorted(seen.values(), key=lambda one: (one.host, one.directory))


def _slots(spark: SparkSession) -> int:
    """How many tasks the cluster runs at a time: as many as Spark makes of a range by itself."""
    from pyspark.sql import functions as F

    numbers = spark.range(0, 1 << 16).select(F.spark_partition_id().alias("n"))
    return int(numbers.agg(F.max("n").alias("n")).collect()[0]["n"]) + 1


def _context(spark: SparkSession) -> Any:
    """The session's context; None on Spark Connect, which has none."""
    try:
        return spark.sparkContext
    except Exception:
        return None


def _count(context: Any) -> int:
    """How many executors there are; 0 where that cannot be known."""
    if context is None:
        return 0
    return len(context._jsc.sc().statusTracker().getExecutorInfos()) - 1  # one is the driver


def _wait_for_executors(context: Any) -> None:
    """Executors of a new session arrive one after the other: wait until no more do."""
    conf = context.getConf()
    if conf.get("spark.dynamicAllocation.enabled", "false") == "true":
        return  # they come when there is work
    expected = int(conf.get("spark.executor.instances", "0"))
    until = context.startTime / 1000 + _YOUNG
    known, since, warned = _count(context), time.time(), False
    while time.time() < until or not known:
        if known and (known >= expected > 0 or (not expected and time.time() > since + _STEADY)):
            return
        if not known and not warned and time.time() > since + _YOUNG:
            warned = True
            _LOG.warning("waiting for the first executor, for up to %g seconds", _PATIENCE)
        if not known and time.time() > since + _PATIENCE:
            raise InputError(
                f"no executor has come within {_PATIENCE:g} seconds; the cluster has no free cores or "
                "less memory than an executor asks for: look at its page, or lower "
                "spark.executor.memory and spark.executor.cores"
            )
        time.sleep(0.1)
        now = _count(context)
        if now != known:
            known, since = now, time.time()


def _check(executors: Sequence[Executor], storages: Sequence[Storage]) -> None:
    """Refuse executors with a problem or with other versions."""
    problems = [
        sentence
        for executor in executors
        if (sentence := _problem(executor, storages) or _other_version(executor))
    ]
    if problems:
        many = f" ({len(problems)} of {len(executors)} executors fail)" if problems[1:] else ""
        raise InputError(problems[0] + many)


def _problem(executor: Executor, storages: Sequence[Storage]) -> str:
    """What an executor could not do, in one sentence; empty if it could do everything."""
    if not executor.problem:
        return ""
    kind, what, *reason = executor.problem
    if kind == "import":
        version = own_versions()["evenflow"]
        return (
            f"{executor} runs {executor.executable}, which does not have {what}; install evenflow "
            f"{version} with its requirements there, or ship it with the job: {_GUIDE}"
        )
    where = storages[what].where()
    if kind == "missing":
        return f"{executor} does not see what the driver writes to {where}; {_SHARED}"
    return (
        f"{executor} cannot {kind} {where}: {reason[0] if reason else 'it failed'}; give that machine "
        "the mount, the rights and the network that the driver has, or choose another location"
    )


def _other_version(executor: Executor) -> str:
    """In what an executor differs from this process, in one sentence; empty if in nothing."""
    for name, parts in (("Python", 2), ("evenflow", None), ("pyarrow", 1)):
        here, there = own_versions()[name], executor.versions[name]
        if here.split(".")[:parts] != there.split(".")[:parts]:
            return (
                f"{executor} has {name} {there}, and the driver {here}; install the driver's version "
                f"there, or ship it with the job: {_GUIDE}"
            )
    return ""


def _check_written(executor: Executor, storage: Storage, folder: Storage, name: str) -> None:
    with explained("read", folder.where(name)):
        try:
            found = folder.read(name)
        except FileNotFoundError:
            found = b""
    if found != name.encode():
        raise InputError(
            f"the driver does not see what {executor} writes to {storage.where()}; {_SHARED}"
        )


def _cannot_run(error: Exception) -> InputError:
    """Spark's account of a Python that does not start on an executor, in one sentence."""
    text = str(getattr(error, "_origin", None) or error) + str(error)
    place = _PLACE.search(text)
    where = f"the executor on {place[1]}" if place else "an executor"
    mismatch = re.search(r"PYTHON_VERSION_MISMATCH\] (.*?)(\.\s|$)", text)
    if mismatch:
        return InputError(
            f"{where} runs another Python than the driver: {mismatch[1]}; set PYSPARK_PYTHON to the "
            f"same version on both, or ship it with the job: {_GUIDE}"
        )
    not_found = re.search(r"Cannot run program .*", text)
    if not_found:
        return InputError(
            f"{where} cannot start Python: {not_found[0]}; set PYSPARK_PYTHON to a Python that every "
            f"executor has, or ship it with the job: {_GUIDE}"
        )
    return InputError(f"{where} cannot run Python tasks: {reason_of(text)}; {_GUIDE}")
