"""Who may run a query: one application at a time, even if an earlier one was killed.

A lease is two locks on files in the query's checkpoint: one held by the Python driver, one by its JVM.
The operating system releases a lock when its process ends, however it ends, and keeps it while the
process is merely slow or stopped. The JVM writes Spark's own progress and sinks, Python the state of
Evenflow's queries. After a SIGKILL either may outlive the other for a moment, so a query is free only
when both are gone.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Lease:
    """The right to run a query, held until `release` or until both processes end.

    Guarantee: at most one Spark application holds the lease of a checkpoint at a time, on a file
    system with POSIX locks (local disks, NFS 4).
    """

    def __init__(self, python: int, java: Any) -> None:
        self._python, self._java = python, java

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
        return cls(python, java)

    def release(self) -> None:
        """Give the lease up. The query must have ended."""
        if self._java is not None:
            self._java.close()
            os.close(self._python)
            self._java = None


def _java_lock(spark: SparkSession, file: Path) -> Any:
    """A Java channel that holds a lock on the file; None if another process holds it."""
    # Evenflow avoids `_jvm` elsewhere, but only a lock of the JVM shows whether that JVM is alive.
    jvm: Any = spark.sparkContext._jvm
    channel = jvm.java.io.RandomAccessFile(str(file), "rw").getChannel()
    if channel.tryLock() is None:
        channel.close()
        return None
    return channel
