"""§VI-B of the paper: its bounds on memory, beside what is measured.

Each function is given the figure's parameters and the fields of its grid, and returns rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from evenflow.grouping import make
from evenflow.simulator import simulate
from evenflow.simulator.workloads import Zipf

Row = dict[str, Any]
I64 = npt.NDArray[np.int64]

SG_BOUND, SG, PORC_BOUND, PORC, PORC_DEFAULT = (
    "SG: equation 1 (upper bound)",
    "SG",
    "PoRC: equation 2 (lower bound)",
    "PoRC (literal form)",
    "PoRC",
)
_CHUNK = 1 << 20


def memory_and_bounds(
    zipf: float, workers: int, keys: int, messages: int, epsilon: float, seed: int
) -> list[Row]:
    """Replicas per key of SG and PoRC, and what equations 1 and 2 say of them.

    The equations' p are taken as shares of the stream itself: only keys that come need a place.
    """
    stream = Zipf(zipf, keys, messages, seed)
    counts = _counts(stream)
    bounds = {
        SG_BOUND: int(np.minimum(counts, workers).sum()),
        PORC_BOUND: int(np.ceil(counts * workers / (messages * (1 + epsilon))).sum()),
    }
    measured = {
        label: simulate(scheme, stream, workers, 1, seed).replicas
        for label, scheme in {
            SG: "shuffle",
            PORC: f"random-choices:literal=true,epsilon={epsilon}",
            PORC_DEFAULT: f"random-choices:epsilon={epsilon}",
        }.items()
    }
    return [
        {
            "what": what,
            "literal": {PORC: True, PORC_DEFAULT: False}.get(what),
            "replicas": replicas,
            "distinct_keys": len(counts),
            "replication": replicas / len(counts),
        }
        for what, replicas in {**bounds, **measured}.items()
    ]


def widest_key(
    workers: int, slack: float, grouping: str, zipf: float, keys: int, messages: int, seed: int
) -> Row:
    """On how many workers PoRC has put the key with the most of them, for ε = slack ÷ (n − 1).

    `keys_on_all` counts the keys that are on all workers.
    """
    epsilon = slack / (workers - 1)
    stream = Zipf(zipf, keys, messages, seed)
    scheme = make(grouping, epsilon=epsilon)
    state = scheme.start(workers, seed)
    seen = np.empty(0, np.uint64)  # pairs of key and worker, in one word each
    names = np.unique(np.concatenate([np.unique(part) for part in stream.chunks(_CHUNK)]))
    for part in stream.chunks(_CHUNK):
        out = np.empty(len(part), np.int32)
        scheme.route(state, part, out)
        numbers = np.searchsorted(names, part).astype(np.uint64)
        pairs = np.unique(numbers * np.uint64(workers) + out.astype(np.uint64))
        seen = np.union1d(seen, pairs)
    spread = np.bincount((seen // np.uint64(workers)).astype(np.int64))
    return {
        "epsilon": epsilon,
        "widest": int(spread.max()),
        "widest_share": float(spread.max()) / workers,
        "keys_on_all": int((spread == workers).sum()),
    }


def _counts(stream: Zipf) -> I64:
    """Messages of each key that comes in the stream."""
    names, counts = np.empty(0, np.uint64), np.empty(0, np.int64)
    for part in stream.chunks(_CHUNK):
        both, where = np.unique(np.concatenate((names, part)), return_inverse=True)
        weights = np.concatenate((counts, np.ones(len(part), np.int64)))
        counts = np.bincount(where, weights).astype(np.int64)
        names = both
    return counts
