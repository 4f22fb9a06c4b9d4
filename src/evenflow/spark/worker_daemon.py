"""Spark's Python daemon with the heavy imports done: its workers are forked with them in memory.

Spark starts it as `python -m evenflow.spark.worker_daemon` when `spark.python.daemon.module` says so
(`local_session(preload=True)`). It is Spark's own daemon otherwise.
"""

from __future__ import annotations

import gc
import os
import sys
from importlib import import_module
from pathlib import Path

from evenflow.kernels.compiled_code import when_ready

#: What a task of the engine imports first, which takes longer than many a task.
PRELOADED = (
    "numpy",
    "pyarrow",
    "pyarrow.compute",
    "pyarrow.parquet",
    "pyspark.worker",
    "evenflow.grouping",
    "evenflow.engine.routing",
    "evenflow.engine.work",
)

#: Schemes whose compiled code is loaded as well, where this machine has it: a quarter of a second for
#: each process otherwise.
ROUTED = ("d-choices", "w-choices")


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
    when_ready(_load_kernels)
    if len(list(Path("/proc/self/task").iterdir())) > 1:
        os.execv(sys.executable, [sys.executable, "-m", "pyspark.daemon", *sys.argv[1:]])
    # Spark's daemon collects garbage after every task, for 60 ms with all of this in memory, which is
    # longer than many a task. What is imported stays anyway: the collector need not look at it.
    gc.collect()
    gc.freeze()


def _load_kernels() -> None:
    """Route two keys, so that the compiled code of what most streams need is in memory."""
    import pyarrow as pa

    from evenflow.engine.routing import Route, Router
    from evenflow.grouping import make
    from evenflow.model import KeyCounts

    for name in ROUTED:
        for key in (pa.array(["a"]), pa.array([1])):
            route = Route(make(name), 2, 0, ("key",), KeyCounts({1: 1}, 2))
            Router(route, 0).routed(pa.record_batch({"key": key}))


if __name__ == "__main__":
    preload()
    from pyspark.daemon import manager

    manager()
