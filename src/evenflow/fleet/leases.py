"""Who may run a query: one application at a time, even if an earlier one was killed.

A lease is two locks on files in the query's checkpoint: one held by the Python driver, one by its JVM.
The operating system releases a lock when its process ends, however it ends, and keeps it while the
process is merely slow or stopped. The JVM writes Spark's own progress and sinks, Python the state of
Evenflow's queries. After a SIGKILL either may outlive the other for a moment, so a query is free only
when both are gone.

Executors hold no lock. Those of a local master end with the JVM; on a cluster they may work on for
a while after the driver was killed. What a query of Evenflow's writes is fenced by its checkpoint; for
any other, the next driver must wait for them. So the holder of a lease writes into its file which
application it is, and empties the file when it releases the lease: what is found there is of a driver
that was killed.
"""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Lease:
    """The right to run a query, held until `release` or until both processes end.

    Guarantee: at most one Spark application holds the lease of a checkpoint at a time, on a file
    system with POSIX locks (local disks, NFS 4).

    Parameters:
        python, java: the two locks.
        killed: the application on a cluster whose driver had the lease and was killed, if one was.
    """

    def __init__(self, python: int, java: Any, killed: str | None = None) -> None:
        self._python, self._java, self.killed = python, java, killed

    @classmethod
    def acquire(cls, checkpoint: str | os.PathLike[str], spark: SparkSession) -> Lease | None:
        """Return the lease, or None while another application holds it."""
        folder = Path(checkpoint)
        folder.mkdir(parents=True, exist_ok=True)
        python = os.open(folder / "lease.python", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(python, fcntl.LOCK_EX | fcntl.LOCK_NB)
            java = _java_lock(spark, folder / "lease.java")
        except OSError:
            java = None
        except BaseException:
            os.close(python)
            raise
        if java is None:
            os.close(python)
            return None
        return cls(python, java, _mark(python, spark))

    def own(self, spark: SparkSession) -> None:
        """Write this application down in place of the killed one, whose executors are gone."""
        os.ftruncate(self._python, 0)
        _mark(self._python, spark)
        self.killed = None

    def yield_unused(self) -> None:
        """Give the lease up before the killed one's executors are gone: the next holder waits, too."""
        self._java.close()
        os.close(self._python)
        self._java = None

    def release(self) -> None:
        """Give the lease up. The query must have ended."""
        if self._java is not None:
            os.ftruncate(self._python, 0)
            self._java.close()
            os.close(self._python)
            self._java = None


def is_evenflow(checkpoint: str) -> bool:
    """Whether a checkpoint is that of an Evenflow query, which fences executors itself."""
    from evenflow.state.checkpoint import FOLDER, IDENTITY
    from evenflow.storage import storage_at

    return bool(storage_at(checkpoint).under(FOLDER).list(IDENTITY))


def _mark(python: int, spark: SparkSession) -> str | None:
    """Write down whose lease this is; the killed application on a cluster that is written there."""
    found = os.pread(python, 4096, 0)
    killed = _application(found)
    # Until its executors are known to be gone, it must be found there again.
    context = spark.sparkContext
    own = json.dumps({"master": context.master, "application": context.applicationId}).encode()
    if killed is None:
        os.ftruncate(python, 0)
        os.pwrite(python, own, 0)
    return killed


def _application(content: bytes) -> str | None:
    """The application on a cluster that a lease's file names; None for none, or a local one.

    Example:
        >>> _application(b'{"master": "local[2]", "application": "local-1"}')
        >>> _application(b'{"master": "yarn", "application": "app-7"}')
        'app-7'
        >>> _application(b'{"mas')
        'an unknown application'
    """
    if not content:
        return None
    try:
        named = json.loads(content)
        if str(named["master"]).startswith("local"):
            return None
        return str(named["application"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return "an unknown application"


def _java_lock(spark: SparkSession, file: Path) -> Any:
    """A Java channel that holds a lock on the file; None if another process holds it."""
    # Evenflow avoids `_jvm` elsewhere, but only a lock of the JVM shows whether that JVM is alive.
    jvm: Any = spark.sparkContext._jvm
    channel = jvm.java.io.RandomAccessFile(str(file), "rw").getChannel()
    if channel.tryLock() is None:
        channel.close()
        return None
    return channel
