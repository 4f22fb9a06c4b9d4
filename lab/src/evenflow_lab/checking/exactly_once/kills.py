"""A driver killed over and over, and started again each time, until all files are worked on."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from evenflow.state.metrics import read_metrics
from evenflow_lab.checking.exactly_once.processes import Driver, names_in, wait_for
from evenflow_lab.checking.exactly_once.stream import add_files, check_all

#: Moments of a batch at which to kill, in their order: where a new file of the moment appears.
MOMENTS: dict[str, str] = {
    "batch begun": "ckpt/spark/offsets",
    "plan fixed": "ckpt/evenflow/plans",
    "segment written": "ckpt/evenflow/segments",
    "output staged": "out/_evenflow/staging",
    "output delivered": "out",
    "manifest committed": "ckpt/evenflow/manifests",
    "batch ended": "ckpt/spark/commits",
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
) -> Killing:
    """Run a query over a stream and kill its driver so many times; then let it end and check all.

    Every second kill takes the Python driver alone: the JVM goes on for a moment, and so do tasks.

    Parameters:
        directory: an empty one, for input, checkpoint and output.
        kills: how many.
        schemes: the grouping schemes; each driver has one of them, and other partitions than the last.
        seed: of the data and of the moments.
        say: called with a line for every kill.
        batches: how many files, each a micro-batch, there are at first, and more whenever a driver
            has read them all.
    """
    rng = random.Random(seed)
    files, checkpoint, output = (directory / name for name in ("in", "ckpt", "out"))
    result = Killing()
    began = time.monotonic()

    def another() -> Driver:
        settings = ("--scheme", rng.choice(schemes), "--partitions", rng.randint(1, 4))
        lingering.append(Driver(files, checkpoint, output, *settings))
        return lingering[-1]

    def more_files() -> None:
        add_files(files, result.files, result.files + batches, seed)
        result.files += batches

    lingering: list[Driver] = []
    more_files()
    try:
        while result.kills.total() < kills:
            driver = another()
            moment = _pick(rng, result.kills.total())
            if not _reached(rng, moment, directory, driver):
                code, said = driver.wait()
                assert code == 0, said
                more_files()
                continue
            alone = result.kills.total() % 2 == 1
            driver.kill(everybody=not alone)
            driver.wait_until_gone()
            result.kills[moment] += 1
            say(f"kill {result.kills.total()}: {moment}{', the driver alone' * alone}")
        code, said = another().wait()
        assert code == 0, said
    finally:
        for driver in lingering:
            driver.__exit__()
    result.batches = check_all(files, checkpoint, output)
    metrics = read_metrics(checkpoint)
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


def _reached(rng: random.Random, moment: str, directory: Path, driver: Driver) -> bool:
    """Wait for a moment; False if the driver ends before it."""
    if moment == "any moment":
        # Three times of ten while it starts, else from its first batch to some batches later.
        first = directory / MOMENTS["batch begun"]
        before = names_in(first)
        starting = rng.random() < 0.3
        if not starting and not wait_for(lambda: bool(names_in(first) - before), driver):
            return False
        end = time.monotonic() + rng.uniform(0, 8 if starting else 3)
        return wait_for(lambda: time.monotonic() >= end, driver)
    watched = directory / MOMENTS[moment]
    before, wanted = names_in(watched), rng.randint(1, 2)
    if moment == "manifest committed":
        wanted += 1  # the first record of a driver says that it has taken over
    if not wait_for(lambda: len(names_in(watched) - before) >= wanted, driver):
        return False
    time.sleep(rng.choice([0, 0, 0.001, 0.01]))
    return driver.running
