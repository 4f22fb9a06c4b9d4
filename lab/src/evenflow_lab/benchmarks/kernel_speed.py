"""How long every scheme takes to route one message, as a ratio to key grouping in the same run.

And how fast fingerprints are, in MB/s.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Annotated, Any

import numpy as np

from evenflow.grouping import GroupingScheme, make, schemes
from evenflow.model import InputError
from evenflow.simulator.workloads.protocol import U64
from evenflow.simulator.workloads.zipf import Zipf
from evenflow_lab.benchmarks.outcome import Progress, Result, Table, say_nothing

WORKERS = (10, 100, 1000)
REFERENCE = "key"
ZIPF, KEYS = 1.4, 10_000
STRING_BYTES = 20

HOW = (
    "one source; each scheme first routes the first half of the stream twenty times, untimed, so that "
    "neither compiling nor a young stream is measured (capacities are tight, and routing by them is "
    "slow, until each virtual worker has had some hundred messages); the second half is then timed, "
    "from a copy of that state, in rounds that take all schemes in turn; the best round counts"
)
_WARM_UP_PASSES = 20

_BATCH = 1 << 16  # messages a call of `route`, of the order of an Arrow batch


@dataclass(frozen=True)
class KernelSpeeds:
    """The measurements of `kernel_speeds`.

    Parameters:
        messages: length of the stream, warm-up included; `rounds`: how often its second half was
            timed.
        nanoseconds: scheme → nanoseconds per message for each of `WORKERS`.
        not_started: scheme → why it could not be measured.
        fingerprint_mb_per_s: megabytes of 20-byte strings fingerprinted a second.
    """

    messages: int
    rounds: int
    nanoseconds: dict[str, tuple[float, ...]]
    not_started: dict[str, str]
    fingerprint_mb_per_s: float

    def ratios(self, scheme: str) -> tuple[float, ...]:
        """Times as long as key grouping, for each of `WORKERS`."""
        reference = self.nanoseconds[REFERENCE]
        return tuple(a / b for a, b in zip(self.nanoseconds[scheme], reference, strict=True))

    def growth(self, scheme: str) -> float:
        """Times as long with 1000 workers as with 100."""
        at = dict(zip(WORKERS, self.nanoseconds[scheme], strict=True))
        return at[1000] / at[100]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; the numbers of workers are keys, as text."""
        return {
            "zipf": ZIPF,
            "keys": KEYS,
            "messages": self.messages,
            "rounds": self.rounds,
            "how": HOW,
            "reference": REFERENCE,
            "schemes": {
                name: {
                    "ns_per_message": dict(zip(map(str, WORKERS), times, strict=True)),
                    "ratio": dict(zip(map(str, WORKERS), self.ratios(name), strict=True)),
                    "growth_100_to_1000": self.growth(name),
                }
                for name, times in self.nanoseconds.items()
            },
            "not_started": self.not_started,
            "fingerprints": {"bytes": STRING_BYTES, "mb_per_s": self.fingerprint_mb_per_s},
        }


def kernel_speeds(
    messages: int = 2_000_000,
    rounds: int = 5,
    progress: Callable[[int, int], object] | None = None,
) -> KernelSpeeds:
    """Times every discovered scheme with its default parameters on one skewed stream.

    Rounds are interleaved, so that a disturbance of the machine hits all schemes alike, and the
    best round counts, because a disturbance only ever adds time.

    Parameters:
        messages: length of the stream; its first half only warms up, twenty times over.
        rounds: how often each scheme is timed.
        progress: called with (steps done, steps in all).

    Example:
        >>> speeds = kernel_speeds(messages=2_000, rounds=1)
        >>> speeds.ratios("key")
        (1.0, 1.0, 1.0)
    """
    if messages < 2:
        raise InputError(f"the number of messages must be at least 2, got {messages}")
    if rounds < 1:
        raise InputError(f"the number of rounds must be at least 1, got {rounds}")
    stream = np.concatenate(list(Zipf(ZIPF, KEYS, messages, seed=1).chunks(messages)))
    first, second = stream[: messages // 2], stream[messages // 2 :]

    ready: dict[tuple[str, int], tuple[GroupingScheme, Any]] = {}
    not_started: dict[str, str] = {}
    done, steps = 0, (rounds + 1) * len(WORKERS) * len(schemes())

    def advance(by: int = 1) -> None:
        nonlocal done
        done += by
        if progress is not None:
            progress(done, steps)

    for name in schemes():
        try:
            for n in WORKERS:
                scheme = make(name)
                state = scheme.start(n, seed=1)
                for _ in range(_WARM_UP_PASSES):
                    _timed_route(scheme, state, first)
                ready[name, n] = scheme, state
                advance()
        except InputError as error:
            not_started[name] = str(error)
    ready = {which: pair for which, pair in ready.items() if which[0] not in not_started}

    best = dict.fromkeys(ready, float("inf"))
    for _ in range(rounds):
        for which, (scheme, state) in ready.items():
            elapsed = _timed_route(scheme, copy.deepcopy(state), second)
            best[which] = min(best[which], elapsed / len(second))
            advance()

    names = dict.fromkeys(name for name, _ in ready)
    return KernelSpeeds(
        messages=messages,
        rounds=rounds,
        nanoseconds={name: tuple(best[name, n] for n in WORKERS) for name in names},
        not_started=not_started,
        fingerprint_mb_per_s=fingerprint_mb_per_s(rounds=rounds),
    )


def _timed_route(scheme: GroupingScheme, state: Any, keys: U64) -> int:
    """Routes all keys, batch by batch as in a real source; nanoseconds spent in `route`."""
    out = np.empty(_BATCH, np.int32)
    elapsed = 0
    for start in range(0, len(keys), _BATCH):
        batch = keys[start : start + _BATCH]
        target = out[: len(batch)]
        began = perf_counter_ns()
        scheme.route(state, batch, target)
        elapsed += perf_counter_ns() - began
    return elapsed


def fingerprint_mb_per_s(strings: int = 500_000, rounds: int = 5) -> float:
    """Megabytes of 20-byte strings turned into fingerprints a second, on one core; best round."""
    import pyarrow as pa

    from evenflow.kernels.fingerprints import fingerprint

    letters = np.random.default_rng(1).integers(97, 123, strings * STRING_BYTES, np.uint8)
    offsets = np.arange(strings + 1, dtype=np.int32) * STRING_BYTES
    array = pa.StringArray.from_buffers(strings, pa.py_buffer(offsets), pa.py_buffer(letters))
    fingerprint(array)
    best = float("inf")
    for _ in range(rounds):
        began = perf_counter_ns()
        fingerprint(array)
        best = min(best, perf_counter_ns() - began)
    return len(letters) / best * 1_000


def run(
    messages: Annotated[int, "Length of the stream; half of it warms up."] = 2_000_000,
    rounds: Annotated[int, "Times that each scheme is timed; the best counts."] = 5,
    progress: Progress = say_nothing,
) -> Result:
    speeds = kernel_speeds(
        messages, rounds, progress=lambda done, steps: progress("timing", done, steps)
    )
    shown = [
        {
            "grouping": name,
            **{
                f"ns\nn={n}": f"{ns:.1f}"
                for n, ns in zip(WORKERS, speeds.nanoseconds[name], strict=True)
            },
            **{
                f"× key\nn={n}": f"{ratio:.1f}"
                for n, ratio in zip(WORKERS, speeds.ratios(name), strict=True)
            },
            "growth\n100→1000": f"{speeds.growth(name):.2f}",
        }
        for name in sorted(speeds.nanoseconds, key=lambda name: speeds.nanoseconds[name][1])
    ]
    title = f"z = {ZIPF}, {KEYS:,} keys, {messages:,} messages, best of {rounds} rounds"
    return Result(
        speeds.to_dict(),
        (Table(shown, title),),
        (
            *(f"not measured: {name}: {why}" for name, why in speeds.not_started.items()),
            f"Fingerprints of {STRING_BYTES}-byte strings: {speeds.fingerprint_mb_per_s:,.0f} MB/s on "
            "one core.",
            f"How: {HOW}.",
        ),
    )
