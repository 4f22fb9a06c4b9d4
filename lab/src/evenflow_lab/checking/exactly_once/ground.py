"""Where a query runs that is killed, and where it keeps its state and output."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from evenflow.model import InputError
from evenflow.spark.standalone_cluster import StandaloneCluster
from evenflow.storage import Storage, storage_at
from evenflow_lab.checking.disk_s3 import DiskS3
from evenflow_lab.checking.store_jars import s3a_jars
from evenflow_lab.checking.store_proxy import Faults, StoreProxy


@dataclass(frozen=True)
class Ground:
    """Where a query runs.

    Parameters:
        checkpoint, output: of the query, as whoever watches it reaches them.
        options: of the driver.
        executors: gives the processes of the executors, where they are not the driver's own.
    """

    checkpoint: Storage
    output: Storage
    options: tuple[str, ...] = ()
    executors: Callable[[], list[int]] = list

    def kill_executor(self, rng: random.Random) -> bool:
        """SIGKILL to one executor; False if there is none."""
        found = self.executors()
        if found:
            with suppress(ProcessLookupError):
                os.kill(rng.choice(found), signal.SIGKILL)
        return bool(found)


def local_ground(directory: Path) -> Ground:
    """Everything in one directory, and Spark in local mode."""
    return Ground(storage_at(directory / "ckpt"), storage_at(directory / "out"))


@contextmanager
def ground(directory: Path, s3: bool, cluster: bool, faults: float, seed: int) -> Iterator[Ground]:
    """The same on other ground, for a while.

    Parameters:
        directory: for everything that is local.
        s3: checkpoint and output are on an S3 server that writes to disk.
        cluster: a standalone cluster of two workers with one core each.
        faults: the share of requests to the S3 server that fail, by all kinds of faults.
        seed: of the faults.
    """
    if faults and not s3:
        raise InputError("--faults are those of the S3 server; add --s3")
    with ExitStack() as stack:
        settings: dict[str, str] = {}
        options: list[str] = []
        places = local_ground(directory)
        checkpoint, output = places.checkpoint, places.output
        executors: Callable[[], list[int]] = list
        if s3:
            real = stack.enter_context(DiskS3.start()).endpoint
            place = real
            if faults:
                harm = Faults.evenly(faults, seed=seed)
                place = real.through(stack.enter_context(StoreProxy.start(real.url, harm)).url)
            settings = {**place.spark_settings, "spark.jars": ",".join(map(str, s3a_jars()))}
            # Whoever watches is not harmed by faults.
            checkpoint = storage_at(real.uri("kills/ckpt"), real.storage_options)
            output = storage_at(real.uri("kills/out"), real.storage_options)
        if cluster:
            started = stack.enter_context(StandaloneCluster.start(2, cores=1))
            options += ["--master", started.url]
            executors = lambda: [  # noqa: E731
                pid for pids in started.executor_pids().values() for pid in pids
            ]
        for name, value in settings.items():
            options += ["--conf", f"{name}={value}"]
        yield Ground(checkpoint, output, tuple(options), executors)
