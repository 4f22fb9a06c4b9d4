"""What evenflow needs of a machine, checked one by one: behind `evenflow doctor`."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from evenflow.model import EvenflowError, InputError
from evenflow.spark.java import find_java
from evenflow.spark.locations import storage_for
from evenflow.spark.preflight import preflight, try_store
from evenflow.spark.session import check_session, check_version, has_evenflow, running_session

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

Verdict = Literal["ok", "warning", "problem"]

_OLDEST_PYTHON = (3, 11)
_GIB = 2**30
_LITTLE_DISK = 5 * _GIB  # shuffles and Spark's own unpacked files
_LITTLE_MEMORY = 4 * _GIB  # Spark's driver takes one, each Python worker a quarter
_REQUIREMENT = re.compile(
    r"""(?P<name>[\w.-]+)(\[.*?\])?\s*(?P<bounds>[^;]*?)\s*(;.*extra\s*==\s*["'](?P<extra>.*?)["'].*)?$"""
)
_NOT_FOR_EVERYONE = {"connect", "dev", "docs", "java", "kafka", "report"}


@dataclass(frozen=True)
class Check:
    """One thing that was looked at.

    Parameters:
        name: what.
        verdict: ok; warning: it works, with a drawback; problem: it does not work.
        found: what is there.
        advice: what to do about it; empty where nothing is.
    """

    name: str
    verdict: Verdict
    found: str
    advice: str = ""


def usable(checks: list[Check]) -> bool:
    """Whether evenflow can be used: no check is a problem.

    Example:
        >>> usable([Check("Java", "ok", "21"), Check("cores", "warning", "1", "take two")])
        True
    """
    return all(check.verdict != "problem" for check in checks)


def examine(
    master: str | None = None,
    location: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Iterator[Check]:
    """Every check, as it is finished; the last ones start Spark and run small jobs on it.

    Parameters:
        master: of the cluster to check; None for Spark on this machine.
        location: a checkpoint location that the driver and all executors are to reach.
        storage_options: for its store, as in `storage_for`.
    """
    yield python_version()
    yield from packages()
    yield java()
    yield worker_python()
    yield kernel_cache()
    yield temporary_space()
    yield memory()
    yield cores()
    yield from spark_checks(master, location, storage_options)


def python_version() -> Check:
    found = f"{platform.python_version()}, {sys.executable}"
    if sys.version_info < _OLDEST_PYTHON:
        return Check("Python", "problem", found, "install Python 3.11 or newer")
    return Check("Python", "ok", found)


def packages() -> Iterator[Check]:
    """Each package that evenflow's own metadata names: there, and within its bounds."""
    for requirement in metadata.requires("evenflow") or []:
        parts = _REQUIREMENT.match(requirement)
        extra = None if parts is None else parts["extra"]
        if parts is not None and extra not in _NOT_FOR_EVERYONE:
            install = "evenflow" if extra is None else f"evenflow[{extra}]"
            yield _package(parts["name"], parts["bounds"], f"pip install --upgrade '{install}'")


def _package(name: str, bounds: str, advice: str) -> Check:
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return Check(name, "problem", "not installed", advice)
    if not within(version, bounds):
        return Check(name, "problem", f"{version}, where {bounds} is needed", advice)
    return Check(name, "ok", version)


def within(version: str, bounds: str) -> bool:
    """Whether a version keeps to bounds of the kind `>=4.1.1,<4.4`.

    Example:
        >>> within("4.3.0", ">=4.1.1,<4.4"), within("4.10", ">=4.1.1,<4.4"), within("2", ">=2.0")
        (True, False, True)
    """
    kept: dict[str, Callable[[Any, Any], bool]] = {
        ">=": lambda a, b: a >= b,
        "<": lambda a, b: a < b,
    }
    return all(
        kept[sign](_numbers(version), _numbers(bound))
        for sign, bound in re.findall(r"(>=|<)\s*([\w.]+)", bounds)
    )


def _numbers(version: str) -> tuple[int, ...]:
    """4.3.0 → (4, 3): trailing zeros say nothing, and what follows the numbers is left out."""
    numbers = [int(part) for part in re.findall(r"\d+", re.split(r"[^\d.]", version)[0])]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def java() -> Check:
    try:
        found = find_java()
    except InputError as error:
        problem, _, advice = str(error).rpartition("; ")
        return Check("Java", "problem", problem, advice)
    java_found = f"{found.version}; {found.origin}"
    home = os.environ.get("JAVA_HOME")
    if home and str(found.home) != home:
        return Check(
            "Java",
            "warning",
            f"{java_found}; JAVA_HOME is {home!r}, which will not do",
            "unset JAVA_HOME, or set it to a Java 17 or newer: Spark without evenflow would use it",
        )
    return Check("Java", "ok", java_found)


def worker_python() -> Check:
    """Which Python runs the tasks."""
    chosen = os.environ.get("PYSPARK_PYTHON")
    if not chosen:
        return _unchosen_python()
    path = shutil.which(chosen)
    if path is None:
        return Check(
            "PYSPARK_PYTHON", "problem", f"{chosen!r}, which does not exist", "unset PYSPARK_PYTHON"
        )
    if not has_evenflow(path):
        # Its link's target may be that of this very Python, whose environment it is not in.
        return Check(
            "PYSPARK_PYTHON",
            "problem",
            f"{chosen!r}, which does not have evenflow: tasks under it fail",
            f"unset it, or set it to {sys.executable}",
        )
    if Path(path).parent != Path(sys.executable).parent:
        return Check(
            "PYSPARK_PYTHON",
            "warning",
            f"{chosen!r}, another than this one",
            f"it must have the same versions; unset it, or set it to {sys.executable}",
        )
    return Check("PYSPARK_PYTHON", "ok", chosen)


def _unchosen_python() -> Check:
    """What runs the tasks of a session that somebody starts as PySpark's pages say: the `python3` of
    the PATH, which is not this one where an environment was not activated."""
    name, found = "PYSPARK_PYTHON", shutil.which("python3")
    own = f"not set: the tasks of evenflow's own commands run under {sys.executable}"
    if found is not None and Path(found).parent == Path(sys.executable).parent:
        return Check(name, "ok", "not set: this Python runs the tasks")
    if found is not None and has_evenflow(found):
        return Check(name, "ok", f"{own}; other sessions' under {found}, which has evenflow, too")
    other = (
        "no python3 is on the PATH" if found is None else f"{found}, which does not have evenflow"
    )
    return Check(
        name,
        "warning",
        f"{own}; tasks of other sessions fail: {other}",
        f"activate the environment, or export PYSPARK_PYTHON={sys.executable}",
    )


def kernel_cache() -> Check:
    from evenflow.kernels.jit import cache_directory

    directory = cache_directory()
    if directory is None:
        return Check(
            "kernel cache",
            "warning",
            "no writable directory: every process compiles again, for seconds",
            "set EVENFLOW_CACHE_DIR to a writable one",
        )
    return Check("kernel cache", "ok", str(directory.parent))


def temporary_space() -> Check:
    """Where Spark puts shuffles and what it spills."""
    directory = Path(os.environ.get("SPARK_LOCAL_DIRS", tempfile.gettempdir()).split(",")[0])
    try:
        with tempfile.TemporaryFile(dir=directory) as file:
            file.write(b"evenflow")
        free = shutil.disk_usage(directory).free
    except OSError as error:
        return Check(
            "temporary space",
            "problem",
            f"{directory} cannot be written: {error.strerror}",
            "set TMPDIR and SPARK_LOCAL_DIRS to a directory that can be",
        )
    found = f"{free / _GIB:.1f} GiB free in {directory}"
    if free < _LITTLE_DISK:
        return Check("temporary space", "warning", found, "set SPARK_LOCAL_DIRS to a larger disk")
    return Check("temporary space", "ok", found)


def memory() -> Check:
    try:
        have = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return Check("memory", "ok", "not known")
    found = f"{have / _GIB:.1f} GiB"
    if have < _LITTLE_MEMORY:
        return Check(
            "memory",
            "warning",
            found,
            "run fewer tasks at a time: each has a Python of its own",
        )
    return Check("memory", "ok", found)


def cores() -> Check:
    n = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if n < 2:
        return Check("cores", "warning", "1", "tasks take turns; give it two to see balance pay")
    return Check("cores", "ok", str(n))


def spark_checks(
    master: str | None = None,
    location: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Iterator[Check]:
    """Starts Spark, and looks at what its tasks do, at the store and at every executor.

    A session that is running in this process is the one that is looked at.
    """
    checking = "Spark"
    try:
        check_version(metadata.version("pyspark"))
        with running_session(master or "local[2]", "evenflow doctor") as spark:
            check_session(spark)
            # First, because what it says about an executor is clearer than what a job would say.
            checking = "executors"
            storages = [storage_for(spark, location, storage_options)] if location else []
            executors = preflight(spark, storages)
            yield spark_job(spark)
            for executor in executors:
                found = f"{executor.versions_text()}; in {executor.directory}"
                yield Check(f"executor on {executor.host}", "ok", found)
            checking = "checkpoint location"
            for storage in storages:
                try_store(storage)
                seen = f", seen by {len(executors)} executors" if executors else ""
                yield Check(checking, "ok", f"{storage.where()}{seen}")
    except metadata.PackageNotFoundError:
        yield Check("Spark", "problem", "not installed", "pip install 'evenflow[spark]'")
    except EvenflowError as error:
        problem, _, advice = str(error).rpartition("; ")
        yield Check(checking, "problem", problem or advice, advice if problem else _LOOK_AT_SPARK)
    except Exception as error:
        yield Check(checking, "problem", " ".join(str(error).split())[:300], _LOOK_AT_SPARK)


def spark_job(spark: SparkSession) -> Check:
    """Sends rows through a map, a shuffle by worker and a map, as the engine does."""
    routed = spark.range(0, 8, 1, 2).mapInArrow(_route, "worker int")
    answer = routed.repartitionById(4, "worker").mapInArrow(_work, "worker int, task int")
    rows = [tuple(row) for row in answer.collect()]
    version = spark.version
    if sorted(rows) != sorted((i % 4, i % 4) for i in range(8)):
        return Check(
            "Spark",
            "problem",
            f"{version}; rows went to tasks other than their partition's: {rows}",
            "please report this with the versions above",
        )
    return Check("Spark", "ok", f"{version} starts; eight rows reached their partitions")


_LOOK_AT_SPARK = "look at Spark's own messages, which precede these lines"


def _route(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import numpy as np
    import pyarrow as pa

    for batch in batches:
        worker = (batch.column(0).to_numpy() % 4).astype(np.int32)
        yield pa.record_batch([pa.array(worker)], ["worker"])


def _work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa
    from pyspark import TaskContext

    here = TaskContext.get().partitionId()  # type: ignore[union-attr]
    for batch in batches:
        task = pa.array([here] * batch.num_rows, pa.int32())
        yield pa.record_batch([batch.column(0), task], ["worker", "task"])
