"""The load: keys of the paper's power law, due at random moments, and where Kafka hashes them to."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

KEYS, S, V = 28_000_000, 1.1, 2.72  # the paper's
SENT = struct.Struct(">d")
_KNOWN = 20_000  # keys whose partition is worked out to find a rate


@dataclass(frozen=True)
class Run:
    """What is run.

    Parameters:
        saturation: how busy the busiest partition is under Kafka's key hashing; sets the rate.
        service: seconds per message.
        shift: keys by which the generator is shifted every minute; 0 for the static load.
        threshold: the share of the messages that makes a key hot.
        coverage: if not 0, the heaviest keys that together have that share are hot instead.
        warm_up: seconds at the beginning that are left out.
    """

    partitions: int = 8
    saturation: float = 0.95
    service: float = 0.003
    seconds: float = 90.0
    shift: int = 0
    window: float = 10.0
    interval: float = 10.0
    threshold: float = 0.001
    coverage: float = 0.0
    commit_interval: float = 1.0
    warm_up: float = 12.0
    seed: int = 1


def murmur2(data: bytes) -> int:
    """The hash of Java's Kafka clients, made positive."""
    m, mask = 0x5BD1E995, 0xFFFFFFFF
    h = 0x9747B28C ^ len(data)
    whole = len(data) // 4 * 4
    for i in range(0, whole, 4):
        k = int.from_bytes(data[i : i + 4], "little") * m & mask
        k = (k ^ k >> 24) * m & mask
        h = h * m & mask ^ k
    tail = data[whole:]
    if tail:
        h = (h ^ int.from_bytes(tail, "little")) * m & mask
    h = (h ^ h >> 13) * m & mask
    return (h ^ h >> 15) & 0x7FFFFFFF


def name(fingerprint: int) -> bytes:
    """A key as messages carry it."""
    return b"%016x" % fingerprint


@lru_cache(1 << 20)
def home(fingerprint: int, partitions: int) -> int:
    """Where Kafka's own partitioner sends a key."""
    return murmur2(name(fingerprint)) % partitions


def hottest_share(
    settings: Run, homes_of: Callable[[list[int]], Sequence[int] | np.ndarray] | None = None
) -> float:
    """The busiest partition's part of the messages in the first minute, by Kafka's hash or another."""
    from evenflow.kernels.mixing import salt
    from evenflow.simulator.workloads.drawing import IDENTITY, named_keys, power_law_weights
    from evenflow_lab.workloads import Smalops

    shares = power_law_weights(S, V - 1, _KNOWN) / Smalops(shift=0).law.total
    keys = named_keys(np.uint64(int(salt(settings.seed, IDENTITY)) % 2**64), _KNOWN).tolist()
    homes = homes_of(keys) if homes_of else [home(key, settings.partitions) for key in keys]
    loads = np.bincount(homes, shares, settings.partitions)
    return float(loads.max() + (1 - shares.sum()) / settings.partitions)


def arrivals(settings: Run, rate: float) -> Iterator[tuple[float, list[int]]]:
    """(seconds since the beginning, keys) of bunches of messages that are due, a millisecond or more
    apart: Poisson, whatever the consumers do."""
    from evenflow_lab.workloads import Smalops

    messages = int(rate * settings.seconds)
    stream = Smalops(messages, KEYS, settings.seed, S, V, int(60 * rate), settings.shift)
    times = np.cumsum(np.random.default_rng(settings.seed).exponential(1 / rate, messages))
    done = 0
    for keys in stream.chunks(1 << 16):
        named = keys.tolist()
        own = times[done : done + len(named)]
        first = 0
        while first < len(named):
            last = int(np.searchsorted(own, own[first] + 1e-3, side="right"))
            yield float(own[last - 1]), named[first:last]
            first = last
        done += len(named)
