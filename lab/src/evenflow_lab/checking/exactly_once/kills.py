"""A driver killed over and over, and started again each time, until all files are worked on."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from evenflow.state.checkpoint import FOLDER
from evenflow.state.metrics import read_metrics
from evenflow_lab.checking.exactly_once.ground import Ground, local_ground
from evenflow_lab.checking.exactly_once.processes import Driver, wait_for
from evenflow_lab.checking.exactly_once.stream import add_files, check_all
from evenflow_lab.checking.exactly_once.timed import check_timed

AGGREGATES = "aggregates"

#: Moments of a batch at which to kill, in their order: where a new object of the moment appears.
MOMENTS: dict[str, tuple[str, str]] = {
    "batch begun": ("checkpoint", "spark/offsets/"),
    "plan fixed": ("checkpoint", "evenflow/plans/"),
    "segment written": ("checkpoint", "evenflow/segments/"),
    "output staged": ("output", "_evenflow/staging/"),
    "output delivered": ("output", "batch="),
    "manifest committed": ("checkpoint", "evenflow/manifests/"),
    "batch ended": ("checkpoint", "spark/commits/"),
}


@dataclass
class Killing:
    """What happened."""

    kills: Counter[str] = field(default_factory=Counter)
    batches: int = 0
    files: int = 0
    moved: int = 0  #: keys that came to a new owner with their state
    planned: int = 0  #: changes of the routing table
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """For JSON. `dataclasses.asdict` would count the pairs of the counter instead of copying them.

        Example:
            >>> Killing(Counter({"plan fixed": 2}), batches=3).to_dict()["kills"]
            {'plan fixed': 2}
        """
        return {**vars(self), "kills": dict(self.kills)}

    def __str__(self) -> str:
        moments = ", ".join(f"{count} {moment}" for moment, count in sorted(self.kills.items()))
        return (
            f"{self.kills.total()} kills ({moments}) in {self.seconds:.0f} s: {self.files} files in "
            f"{self.batches} batches, {self.planned} new routing tables, {self.moved} keys moved with "
            "their state, nothing lost, nothing twice"
        )


def run_and_kill(
    directory: Path,
    kills: int,
    schemes: Sequence[str],
    seed: int = 0,
    say: Callable[[str], object] = lambda _: None,
    batches: int = 12,
    ground: Ground | None = None,
    executors: float = 1 / 3,
    kind: str = AGGREGATES,
) -> Killing:
    """Run a query over a stream and kill its driver so many times; then let it end, and check all.

    Every second kill takes the Python driver alone: the JVM goes on for a moment, and so do tasks. On a
    cluster, some kills take an executor instead, with the shuffled rows that it has: the driver goes
    on.

    Parameters:
        directory: an empty one, for input, checkpoint and output.
        kills: how many.
        schemes: the grouping schemes; each driver has one of them, and other partitions than the last.
            The last driver, which is not killed, has the first.
        seed: of the data and of the moments.
        say: called with a line for every kill.
        batches: how many files, each a micro-batch, there are at first, and more whenever a driver
            has read them all.
        ground: where it runs; None for local mode, with everything in the directory.
        executors: the share of the kills that take an executor, on a cluster.
        kind: of the query: aggregates, or one of `timed.CHECKS`.
    """
    rng = random.Random(seed)
    files, place = directory / "in", ground or local_ground(directory)
    result = Killing()
    began = time.monotonic()

    def another(scheme: str | None = None, partitions: int | None = None) -> Driver:
        scheme, partitions = scheme or rng.choice(schemes), partitions or rng.randint(1, 4)
        settings = ("--kind", kind, "--scheme", scheme, "--partitions", partitions)
        here = (files, place.checkpoint.where(), place.output.where())
        lingering.append(Driver(*here, *settings, *place.options))
        return lingering[-1]

    def more_files() -> None:
        add_files(files, result.files, result.files + batches, seed)
        result.files += batches

    lingering: list[Driver] = []
    driver: Driver | None = None
    more_files()
    try:
        while result.kills.total() < kills:
            driver = driver or another()
            number = result.kills.total()
            moment = _pick(rng, number)
            if not _reached(rng, moment, place, driver):
                code, said = driver.wait()
                assert code == 0, said
                driver = None
                more_files()
                continue
            # The multiples of the share, so that any number of kills has about that share.
            wanted = int((number + 1) * executors) > int(number * executors)
            if wanted and place.kill_executor(rng):
                result.kills[f"executor, {moment}"] += 1
                say(f"kill {number + 1}: {moment}, an executor")
                continue
            alone = number % 2 == 1
            driver.kill(everybody=not alone)  # the next driver waits for what this one leaves
            driver = None
            result.kills[moment] += 1
            say(f"kill {number + 1}: {moment}{', the driver alone' * alone}")
        if driver is not None:  # an executor was killed last
            code, said = driver.wait()
            assert code == 0, said
        # However soon each driver was killed, the last one works on what they have left, and replans.
        more_files()
        code, said = another(schemes[0], 3).wait()
        assert code == 0, said
    finally:
        for driver in lingering:
            driver.__exit__()
    check = check_all if kind == AGGREGATES else partial(check_timed, kind)
    result.batches = check(files, place.checkpoint, place.output)
    metrics = read_metrics(place.checkpoint.under(FOLDER))
    result.moved = sum(batch["migrated_keys"] for batch in metrics)
    result.planned = sum(
        bool(batch["planning"] and batch["planning"]["changed"]) for batch in metrics
    )
    result.seconds = time.monotonic() - began
    return result


def _pick(rng: random.Random, number: int) -> str:
    """Each moment in turn, and every fourth time any moment at all."""
    moments = list(MOMENTS)
    return "any moment" if number % 4 == 3 else moments[(number * 3 + number // 8) % len(moments)]


def _reached(rng: random.Random, moment: str, place: Ground, driver: Driver) -> bool:
    """Wait for a moment; False if the driver ends before it."""
    every = 0.0005 if place.checkpoint.concurrency == 1 else 0.02  # a look may be a request

    def names(of: str) -> set[str]:
        part, prefix = MOMENTS[of]
        storage = place.checkpoint if part == "checkpoint" else place.output
        return {*storage.list(prefix), *storage.unfinished(prefix)}

    if moment == "any moment":
        # Three times of ten while it starts, else from its first batch to some batches later.
        before = names("batch begun")
        starting = rng.random() < 0.3
        begun = lambda: bool(names("batch begun") - before)  # noqa: E731
        if not starting and not wait_for(begun, driver, every=every):
            return False
        end = time.monotonic() + rng.uniform(0, 8 if starting else 3)
        return wait_for(lambda: time.monotonic() >= end, driver)
    before, wanted = names(moment), rng.randint(1, 2)
    if moment == "manifest committed":
        wanted += 1  # the first record of a driver says that it has taken over
    if not wait_for(lambda: len(names(moment) - before) >= wanted, driver, every=every):
        return False
    time.sleep(rng.choice([0, 0, 0.001, 0.01]))
    return driver.running
