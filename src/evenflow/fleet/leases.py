"""Who may run a query: one process at a time, whatever became of the one before.

A query is held by two locks on files in its checkpoint: one that the Python driver holds and one that
its Java holds. A lock is bound to the process: it goes when the process ends, however it ends, and it
stays while the process is merely slow or stopped. Java writes Spark's own progress and sinks, Python
the state of Evenflow's queries; either may outlive the other by some moments after a SIGKILL, so a
query is free only when both are gone.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Lease:
    """The right to run a query, held until `release` or the end of both processes.

    Guarantee: at any moment at most one Spark application has the lease of a checkpoint, on a file
    system with POSIX locks (local disks, NFS 4).
    """

    def __init__(self, python: int, java: Any) -> None:
        self._python, self._java = python, java

    @classmethod
    def acquire(cls, checkpoint: str | os.PathLike[str], spark: SparkSession) -> Lease | None:
        """The lease, or None while another application has it."""
        folder = Path(checkpoint)
        folder.mkdir(parents=True, exist_ok=True)
        python = os.open(folder / "lease.python", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(python, fcntl.LOCK_EX | fcntl.LOCK_NB)
            java = _java_lock(spark, folder / "lease.java")
        except OSError:
            os.close(python)
            return None
        except BaseException:
            os.close(python)
            raise
        if java is None:
            os.close(python)
            return None
        return cls(python, java)

    def release(self) -> None:
        """Let others have it. The query must have ended."""
        if self._java is not None:
            self._java.close()
            os.close(self._python)
            self._java = None


def _java_lock(spark: SparkSession, file: Path) -> Any:
    """Java's channel with a lock on the file; None if another process has it."""
    # The engine keeps away from `_jvm`; but whether this Java lives, only a lock of its own tells.
    jvm: Any = spark.sparkContext._jvm
    channel = jvm.java.io.RandomAccessFile(str(file), "rw").getChannel()
    if channel.tryLock() is None:
        channel.close()
        return None
    return channel
