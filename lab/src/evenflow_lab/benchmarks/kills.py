"""A query whose driver is killed with SIGKILL, over and over.

The driver is killed at every moment of a batch (plan fixed, segment written, output delivered, …) and
at random ones, and started again each time. In the end the output of every batch, the latest output
and the state of every key are compared with plain Python over all rows. On a cluster, executors are
killed as well, with the shuffled rows that they hold.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

from evenflow_lab.benchmarks.outcome import Progress, Result, say_nothing
from evenflow_lab.checking.exactly_once.ground import ground
from evenflow_lab.checking.exactly_once.kills import run_and_kill


def run(
    kills: Annotated[int, "How often."] = 50,
    scheme: Annotated[
        list[str] | None, "A grouping scheme; repeatable: each driver has another."
    ] = None,
    s3: Annotated[bool, "Checkpoint and output on an S3 server that writes to disk."] = False,
    cluster: Annotated[bool, "A standalone cluster; executors are killed, too."] = False,
    executors: Annotated[float, "Share of the kills that take one, on a cluster."] = 1 / 3,
    faults: Annotated[float, "Share of requests to the S3 server that fail."] = 0.0,
    seed: Annotated[int, "Of the data and of the moments."] = 0,
    progress: Progress = say_nothing,
) -> Result:
    schemes = scheme or ["table", "auto", "d-choices", "table", "key"]
    done = 0

    def say(line: str) -> None:
        nonlocal done
        done += 1
        progress(line, done, kills)

    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        with ground(folder, s3, cluster, faults, seed) as place:
            found = run_and_kill(
                folder, kills, schemes, seed, say, ground=place, executors=executors
            )
    setting = {"s3": s3, "cluster": cluster, "faults": faults}
    return Result(
        {"schemes": schemes, "seed": seed, **setting, **found.to_dict()},
        lines=(f"{' and '.join(schemes)}: {found}",),
    )
