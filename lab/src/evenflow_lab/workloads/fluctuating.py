"""The generator of the mixed-routing paper: the load of a task jumps in every interval."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from evenflow.kernels.jit import kernel
from evenflow.kernels.mixing import high_choice, low_choice, mix, salt
from evenflow.model import InputError
from evenflow.model.validation import check_not_negative, check_whole
from evenflow.simulator.workloads.drawing import (
    DRAW,
    F64,
    HOME,
    IDENTITY,
    SWAP,
    from_tables,
    named_keys,
    power_law_weights,
    random_word,
)
from evenflow.simulator.workloads.protocol import U64, called

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]

_TRIES = 200  #: pairs of keys looked at a key, before an interval is left as it is


@dataclass(frozen=True)
class Fluctuating:
    """Zipf frequencies that keys of different tasks swap, until a task's load has jumped.

    Every key belongs to one of the generator's own `tasks`, by hash. At the beginning of an interval
    one task is drawn; pairs of keys are drawn, and where a key of that task meets a more frequent key
    of another task, the two swap frequencies, until the task's load L has grown by f times the
    average load: |L_i(d) − L_{i−1}(d)| / L̄ ≥ f. The paper does not say which keys are swapped; pairs
    drawn blindly would all but never reach its default f = 1, because what one swap adds the next one
    takes away.

    Guarantee: the stream depends on the parameters alone, for every chunk size. In every interval but
    the first some task's load differs from the interval before by f of the average, unless no swaps
    can do that (all frequencies are equal, or f is beyond what the keys can give).

    Parameters:
        exponent: skew z ≥ 0. In a declaration: `zipf`.
        keys: size of the key domain K.
        fluctuation: f, as a multiple of the average load of a task.
        interval: messages of an interval.
        tasks: among how many tasks the keys are divided.
        messages: length of the stream.
        seed: another seed is another stream, with other keys.

    Example:
        >>> stream = Fluctuating(keys=5_000, interval=1_000, messages=2_000)
        >>> before, after = stream.loads(2)
        >>> bool((after - before).max() >= 1.0 / 15)
        True

    Paper: "Parallel stream processing against workload skewness and variance", §V "Synthetic Data"
    and Table II, whose defaults these are.
    """

    name: ClassVar[str] = "fluctuating"

    exponent: float = field(default=0.85, metadata=called("zipf"))
    keys: int = 10_000
    fluctuation: float = 1.0
    interval: int = 100_000
    tasks: int = 15
    messages: int = 1_000_000
    seed: int = 0

    def __post_init__(self) -> None:
        check_not_negative("the Zipf exponent", self.exponent)
        check_not_negative("the fluctuation rate", self.fluctuation)
        for what, value in (
            ("the number of keys", self.keys),
            ("the messages of an interval", self.interval),
            ("the number of tasks", self.tasks),
            ("the number of messages", self.messages),
        ):
            check_whole(what, value, 1)
        if self.keys >= 2**31:
            raise InputError(f"at most 2^31 - 1 keys can be tabled, got {self.keys}")

    def probabilities(self) -> F64:
        """The probability of each rank, most frequent first; which key has it changes."""
        weights = power_law_weights(self.exponent, 0.0, self.keys)
        probabilities: F64 = weights / weights.sum()
        return probabilities

    def intervals(self) -> Iterator[U64]:
        """The key of each rank, for one interval after another; one array, changed in between."""
        probabilities = self.probabilities()
        keys, home = named_keys(salt(self.seed, IDENTITY), self.keys), salt(self.seed, HOME)
        wanted, tries = self.fluctuation / self.tasks, _TRIES * self.keys
        tasks = np.uint64(self.tasks)
        number = 0
        while True:
            yield keys
            number += 1
            swaps = salt(self.seed, SWAP, number)
            task = np.uint64(int(swaps) % self.tasks)
            _raise_load(swaps, home, tasks, task, wanted, tries, probabilities, keys)

    def tasks_of(self, keys: U64) -> I32:
        """The generator's task of each of these keys."""
        owners = np.empty(len(keys), np.int32)
        _find_tasks(salt(self.seed, HOME), np.uint64(self.tasks), keys, owners)
        return owners

    def loads(self, intervals: int) -> F64:
        """The expected load of each task (column), as a share, in the first intervals (rows)."""
        probabilities = self.probabilities()
        loads = np.empty((intervals, self.tasks))
        for row, keys in zip(loads, self.intervals(), strict=False):
            row[:] = np.bincount(self.tasks_of(keys), probabilities, self.tasks)
        return loads

    def chunks(self, size: int) -> Iterator[U64]:
        draws = salt(self.seed, DRAW)
        return from_tables(
            self.probabilities(), self.intervals(), draws, self.messages, self.interval, size
        )

    def length(self) -> int:
        return self.messages

    def describe(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "zipf": float(self.exponent),
            "key_space": self.keys,
            "fluctuation": float(self.fluctuation),
            "drift": self.interval,
            "tasks": self.tasks,
            "stand_in": False,
        }


def snapshots(
    fluctuation: float,
    tasks: int,
    n: int,
    seed: int = 1,
    homes: Callable[[I64], I32] | None = None,
    **parameters: Any,
) -> tuple[list[I64], F64]:
    """The keys by rank in the first n intervals of the paper's stream, with its defaults for all other
    parameters, and the probabilities of the ranks: for those who draw messages themselves.

    Parameters:
        homes: the worker of each whole number, where the router hashes them otherwise than the
            generator does. Keys are then numbered so that a key's worker is its task: only so do the
            workers feel the jumps.

    Example:
        >>> keys, shares = snapshots(1.0, 4, 2, homes=lambda numbers: (numbers % 4).astype(np.int32))
        >>> before, after = (np.bincount(one % 4, shares) for one in keys)
        >>> bool((after - before).max() >= 1.0 / 4)
        True
    """
    stream = Fluctuating(fluctuation=fluctuation, tasks=tasks, seed=seed, **parameters)
    found = [one.copy() for one in islice(stream.intervals(), n)]
    if homes is None:
        return [one.view(np.int64) for one in found], stream.probabilities()
    keys = np.sort(found[0])
    numbers = _numbered(stream.tasks_of(keys), tasks, homes)
    return [numbers[np.searchsorted(keys, one)] for one in found], stream.probabilities()


def _numbered(task: I32, tasks: int, homes: Callable[[I64], I32]) -> I64:
    """For each key a whole number of its own, whose home is the key's task."""
    numbers = np.empty(len(task), np.int64)
    left = np.ones(len(task), np.bool_)
    begin = 0
    while left.any():
        offered = np.arange(begin, begin + 2 * len(task), dtype=np.int64)
        begin += len(offered)
        home = homes(offered)
        for one in range(tasks):
            wanting, fitting = np.flatnonzero(left & (task == one)), offered[home == one]
            taken = min(len(wanting), len(fitting))
            numbers[wanting[:taken]] = fitting[:taken]
            left[wanting[:taken]] = False
    return numbers


@kernel
def _task(home: np.uint64, tasks: np.uint64, key: np.uint64) -> np.uint64:
    task: np.uint64 = high_choice(mix(home ^ key), tasks)
    return task


@kernel
def _find_tasks(home: np.uint64, tasks: np.uint64, keys: U64, owners: I32) -> None:
    for rank in range(len(keys)):
        owners[rank] = _task(home, tasks, keys[rank])


@kernel
def _raise_load(
    swaps: np.uint64,
    home: np.uint64,
    tasks: np.uint64,
    task: np.uint64,
    wanted: float,
    tries: int,
    probabilities: F64,
    keys: U64,
) -> None:
    """Swap keys until `task` has at least `wanted` more of the stream."""
    n, gain = np.uint64(len(keys)), 0.0
    for attempt in range(tries):
        if gain >= wanted:
            return
        word = random_word(swaps, attempt)
        one, other = high_choice(word, n), low_choice(word, n)
        frequent, rare = min(one, other), max(one, other)
        if (
            _task(home, tasks, keys[rare]) == task
            and _task(home, tasks, keys[frequent]) != task
            and probabilities[frequent] > probabilities[rare]
        ):
            keys[frequent], keys[rare] = keys[rare], keys[frequent]
            gain += probabilities[frequent] - probabilities[rare]
