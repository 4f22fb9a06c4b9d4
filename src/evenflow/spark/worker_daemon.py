"""Spark's Python daemon with the heavy imports done: its workers are forked with them in memory.

Spark starts it as `python -m evenflow.spark.worker_daemon` when `spark.python.daemon.module` says so
(`local_session(preload=True)`). It is Spark's own daemon otherwise.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path

#: What a task of the engine imports first, which takes longer than many a task.
PRELOADED = ("numpy", "pyarrow", "pyarrow.compute", "pyspark.worker", "evenflow.grouping")


def preload() -> None:
    """Import what the workers will need, unless they could not safely be forked afterwards.

    A fork copies one thread only: a lock that another one holds would stay locked for ever in the
    workers. None of these imports starts a thread on Linux, if NumPy's linear algebra and Arrow's
    spare allocator are told not to; a version that did would be found out here, and Spark's plain
    daemon would take this one's place. On macOS the system's own libraries do not stand a fork.
    """
    if sys.platform != "linux":
        return
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("JE_ARROW_MALLOC_CONF", "background_thread:false")
    for module in PRELOADED:
        import_module(module)
    if len(list(Path("/proc/self/task").iterdir())) > 1:
        os.execv(sys.executable, [sys.executable, "-m", "pyspark.daemon", *sys.argv[1:]])


if __name__ == "__main__":
    preload()
    from pyspark.daemon import manager

    manager()
