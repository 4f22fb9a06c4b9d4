"""The streams of the checks: skewed and adversarial ones first.

Uniform keys prove little: a scheme that is wrong only for hot keys passes with them every time.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

U64 = npt.NDArray[np.uint64]

_KEYS = 10_000
_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # odd, so that multiplying by it loses no key


class Stream(NamedTuple):
    """A named sequence of key fingerprints."""

    name: str
    keys: U64

    def __str__(self) -> str:
        return f"stream {self.name!r}"


def zipf(messages: int, exponent: float, keys: int, rng: np.random.Generator) -> U64:
    """Keys 0 … keys − 1, key i with probability proportional to (i + 1)^−exponent.

    Example:
        >>> drawn = zipf(1000, 2.0, 50, np.random.default_rng(1))
        >>> bool((drawn == 0).sum() > 500)
        True
    """
    cumulated = np.cumsum(np.arange(1, keys + 1, dtype=np.float64) ** -exponent)
    ranks: U64 = np.searchsorted(cumulated, rng.random(messages) * cumulated[-1]).astype(np.uint64)
    return ranks


def fingerprints(ranks: U64) -> U64:
    """Distinct words over the 64-bit range, one per rank, like hashes of real keys."""
    return ranks * _SPREAD + np.uint64(0x1234567)


@cache
def standard_streams(messages: int = 20_000, seed: int = 1) -> tuple[Stream, ...]:
    """All streams, `messages` long each; equal arguments give equal streams.

    Example:
        >>> [s.name for s in standard_streams(100)][:3]
        ['zipf 1.4', 'zipf 2.0', 'zipf 0.8']
    """
    rng = np.random.default_rng(seed)
    half = messages // 2
    rest = messages - half
    order = rng.permutation(_KEYS).astype(np.uint64)
    early, late = zipf(half, 1.4, _KEYS, rng), zipf(rest, 1.4, _KEYS, rng)
    steps = np.arange(messages, dtype=np.uint64)
    level = rng.integers(1, 1000, messages, dtype=np.uint64)
    taken_over = (steps >= half) & (rng.random(messages) < 0.9)
    few = np.sort(zipf(messages, 1.0, 20, rng))
    ends = np.array([0, 2**64 - 1, 1, 2**63, 2**63 - 1, 2**64 - 2], np.uint64)
    return (
        *(
            Stream(f"zipf {z}", fingerprints(zipf(messages, z, _KEYS, rng)))
            for z in (1.4, 2.0, 0.8)
        ),
        # Rare or unknown keys become hot in the middle.
        Stream("drift", fingerprints(np.concatenate([early, order[late]]))),
        # Loads are even when one key takes over: what was learnt until then does not help.
        Stream("late heavy key", fingerprints(np.where(taken_over, np.uint64(0), level))),
        Stream("one key", np.full(messages, 42, np.uint64)),
        Stream("two keys in turn", np.where(steps % np.uint64(2), np.uint64(7), np.uint64(42))),
        Stream("sorted blocks", fingerprints(few)),
        # Most messages on two keys whose bits are all alike.
        Stream("smallest and largest", ends[zipf(messages, 1.0, len(ends), rng).astype(np.int64)]),
        Stream("equal low bits", zipf(messages, 0.8, 5000, rng) << np.uint64(40)),
        Stream("sequence", steps),
        Stream("distinct", fingerprints(steps)),
        uniform_stream(messages, seed),
    )


def uniform_stream(messages: int = 20_000, seed: int = 1) -> Stream:
    """The easy one: 1000 keys, equally likely."""
    rng = np.random.default_rng(seed)
    return Stream("uniform", fingerprints(rng.integers(0, 1000, messages, dtype=np.uint64)))
