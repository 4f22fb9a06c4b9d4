"""The runs behind the figures: a partitioned log in virtual time, and the gateway's own counts.

Each function is given the figure's parameters and the fields of its grid, and returns rows. Delays are
queuing delays, from a message's arrival in the log until a consumer begins with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from evenflow.kernels.mixing import salt
from evenflow.planning.hot_keys import HotKeys, HotKeysState, Reason
from evenflow.simulator.workloads.drawing import IDENTITY, named_keys, power_law_weights
from evenflow.sketches.exact import Exact
from evenflow.sketches.tracked_keys import SIZE
from evenflow_lab.papers.smalops import broker as _broker
from evenflow_lab.simulators.partitioned_log import LogResult, PartitionedLog, simulate_log
from evenflow_lab.workloads import Smalops

broker_distribution = _broker.broker_distribution
broker_by_service = _broker.broker_by_service
broker_by_threshold = _broker.broker_by_threshold
broker_over_time = _broker.broker_over_time

Row = dict[str, Any]
U64 = npt.NDArray[np.uint64]
F64 = npt.NDArray[np.float64]

KEYS, S, V = 28_000_000, 1.1, 2.72  #: §III-A, and |K| of §II
NEAR = 50e-6  #: the service time at which the system is just not overloaded, §III-B
INTERVAL = 10.0  #: seconds between two decisions, §II; and of a counting window
HAND_OVER = 0.005  #: seconds
MICRO, MILLI = 1e6, 1e3
_KNOWN = 200_000  #: keys whose partition is looked up one by one; the rest is spread evenly


def hottest_share(seed: int, partitions: int, first: int = 0) -> float:
    """What part of all messages the busiest partition has, if keys go by hash.

    Parameters:
        seed: of the stream and of the hash.
        first: by how many keys the stream has been shifted.
    """
    identity = np.uint64((int(salt(seed, IDENTITY)) + first) % 2**64)
    shares = power_law_weights(S, V - 1, _KNOWN) / Smalops(shift=0).law.total
    homes = HotKeys(partitions, seed=seed).homes(named_keys(identity, _KNOWN))
    loads = np.bincount(homes, shares, partitions)
    return float(loads.max() + (1 - shares.sum()) / partitions)


HOT = "threshold=0,least=100,epsilon=1e-5"  #: 100 messages in a window make a key hot, §II
RULES = {
    "two choices alone": (HOT, False),
    "interval rule": (HOT, True),
    "equation 4, free state": (f"{HOT},message_seconds=5e-5", True),
    "equation 4, 1 ms of state": (f"{HOT},message_seconds=5e-5,state_seconds=1e-3", True),
    "cooling at one half": (f"{HOT},cooling=0.5", True),
    "θ = 5 %": (f"{HOT},theta=0.05", True),
    "other keys counted": (f"{HOT},others=1", True),
}  #: rule → options of the gateway, and whether it decides at all


def distribution(
    grouping: str,
    service_us: float,
    fixed_us: float,
    partitions: int,
    saturation: float,
    seconds: float,
    seed: int,
) -> list[Row]:
    """Figure 7: one row per percentile."""
    result = _static(grouping, service_us, fixed_us, partitions, saturation, seconds, seed)
    return [
        {"grouping": grouping, "symbol": result.symbol, "percentile": p, "delay": MICRO * delay}
        for p, delay in result.percentiles.items()
    ]


def beside_hashing(
    service_us: float,
    fixed_us: float,
    partitions: int,
    saturation: float,
    seconds: float,
    seed: int,
    schemes: Sequence[str] = ("key", "smalops"),
) -> list[Row]:
    """Several schemes, one row each; the first is key hashing.

    `reduction` is by how many percent the 99th percentile is below that of key hashing.
    """
    rows = [
        _to_row(_static(name, service_us, fixed_us, partitions, saturation, seconds, seed), MICRO)
        for name in schemes
    ]
    hashed = rows[0]["p99"]
    for row in rows:
        row["reduction"] = 100 * (1 - row["p99"] / hashed) if hashed else 0.0
        row["max_load_ratio"] = row["max_load"] * partitions
    return rows


def thresholds(
    setting: Mapping[str, Any],
    fixed_us: float,
    partitions: int,
    saturation: float,
    seconds: float,
    seed: int,
) -> Row:
    """Figure 9: the tail by the threshold, with that of key hashing beside it.

    Parameters:
        setting: `percent`, and what it `means`: `coverage`, the heaviest keys that together have so
            many percent of the messages are hot; `others`, the same, and a partition's size has the
            messages of the other keys too; `threshold`, each key is hot that has so many itself.
    """
    share = setting["percent"] / 100
    together = f"threshold=0,least=10,epsilon=1e-5,coverage={share!r}"
    options, reading = {
        "coverage": (together, "that hot keys have together"),
        "others": (f"{together},others=1", "the same; other keys' load counted (ours)"),
        "threshold": (f"threshold={share!r},epsilon={share / 10!r}", "that a hot key has itself"),
    }[setting["means"]]
    common = (NEAR * MICRO, fixed_us, partitions, saturation, seconds, seed)
    hashed = _to_row(_static("key", *common), MICRO)
    row = _to_row(_static("smalops", *common, options=options), MICRO)
    return {
        **row,
        "percent": setting["percent"],
        "means": setting["means"],
        "reading": reading,
        "hashed_p99": hashed["p99"],
        "tracked": row["hot_keys_most"],
    }


def ruled(
    rule: str,
    service_us: float,
    fixed_us: float,
    partitions: int,
    saturation: float,
    seconds: float,
    seed: int,
) -> Row:
    """The static load under one of the rules."""
    common = (service_us, fixed_us, partitions, saturation, seconds, seed)
    if rule == "key hashing":
        return {"rule": rule, **_to_row(_static("key", *common), MICRO)}
    options, decides = RULES[rule]
    interval = 10.0 if decides else 1e6
    return {
        "rule": rule,
        **_to_row(_static("smalops", *common, options=options, interval_s=interval), MICRO),
    }


def over_time(
    grouping: str,
    service_ms: float,
    shift: int,
    partitions: int,
    utilisation: float,
    minutes: int,
    seed: int,
) -> list[Row]:
    """Figure 10: the dynamic load, one row per slot of five seconds; `overall_…` is of all of it."""
    result = _dynamic(grouping, service_ms, shift, partitions, utilisation, minutes, seed)
    shares = [hottest_share(seed, partitions, j * shift) for j in range(minutes)]
    overall = {f"overall_{name}": value for name, value in _to_row(result, MILLI).items()}
    return [
        {
            **overall,
            "grouping": grouping,
            "symbol": result.symbol,
            "second": moment.time,
            "p50": MILLI * moment.p50,
            "p90": MILLI * moment.p90,
            "p99": MILLI * moment.p99,
            "hot_keys": moment.hot_keys,
            "moves": moment.moves,
            "hashed_busiest": max(shares) * partitions * utilisation,
        }
        for moment in result.timeline
        if moment.messages and moment.time <= 60 * minutes + 1e-9
    ]


def windows(
    window_s: float,
    hand_over_ms: float,
    service_ms: float,
    shift: int,
    partitions: int,
    utilisation: float,
    minutes: int,
    seed: int,
) -> Row:
    """The dynamic load by the length of window and interval, with key hashing beside it."""
    common = (service_ms, shift, partitions, utilisation, minutes, seed)
    hashed = _to_row(_dynamic("key", *common), MILLI)
    moved = _to_row(_dynamic("smalops", *common, window_s, hand_over_ms), MILLI)
    return {
        **{f"overall_{name}": value for name, value in moved.items()},
        "hashed_p99": hashed["p99"],
    }


def tracked(
    messages: int, minute: int, shift: int, least: int, partitions: int, seed: int
) -> list[Row]:
    """§II: what the gateway keeps, window by window, in the paper's long run. A window is a minute.

    `seen` are the keys that have come so far, `ever` those that have been hot, `in_the_whole_run` those
    that have as many messages in all as make a key hot in a window. Of best fit's moves: the share of
    the heaviest tenth of the hot keys that was moved, and of all others.
    """
    policy = HotKeys(
        partitions, threshold=0.0, least=least, epsilon=least / (20 * minute), seed=seed
    )
    stream = Smalops(messages, KEYS, seed, S, V, minute, shift)
    all_keys = Exact()
    state, counts, ever = policy.start(), all_keys.start(), np.zeros(0, np.uint64)
    rows: list[Row] = []
    for keys in stream.chunks(minute):
        counts = all_keys.update(counts, keys)
        state, _ = policy.detect(policy.count(state, keys))
        ever = np.union1d(ever, state.keys)
        moved, state = _decided(policy, state)
        seen = int(counts.numbers[SIZE])
        rows.append(
            {
                "window": len(rows) + 1,
                "tracked": len(state.keys),
                "seen": seen,
                "ever": len(ever),
                "hot_share": float(state.sizes.sum()) / len(keys),
                "tracked_percent": 100 * len(state.keys) / seen,
                **moved,
            }
        )
    whole = counts.counts[: counts.numbers[SIZE]]
    ends = {
        "messages_of_hot": int(all_keys.bounds(counts, ever)[0].sum()),
        "in_the_whole_run": int((whole >= least).sum()),
        "messages_of_those": int(whole[whole >= least].sum()),
        "most_tracked": max(row["tracked"] for row in rows),
    }
    return [
        {
            **row,
            **ends,
            "what": what,
            "count": row[name],
            "tracked_percent": row["tracked_percent"] if name == "tracked" else None,
        }
        for row in rows
        for what, name in (("seen so far", "seen"), ("hot so far", "ever"), ("hot now", "tracked"))
    ]


def _decided(policy: HotKeys, state: HotKeysState) -> tuple[dict[str, float], HotKeysState]:
    """Best fit: what part of the heaviest tenth of the hot keys it moves, and of the others; and the
    same of those that are on overloaded partitions."""
    after, moves = policy.decide(state)
    sizes = policy.sizes(state)
    moved = np.isin(state.keys, moves.keys[moves.reason == Reason.FIT])
    there = sizes[state.partition] > sizes.mean()
    heaviest = np.zeros(len(state.keys), bool)
    heaviest[np.argsort(-state.sizes)[: len(state.keys) // 10]] = True
    of = {
        "moved_heaviest": heaviest,
        "moved_others": ~heaviest,
        "moved_heaviest_there": heaviest & there,
        "moved_others_there": ~heaviest & there,
    }
    return {
        name: float(moved[rows].mean()) if rows.any() else 0.0 for name, rows in of.items()
    }, after


def _to_row(result: LogResult, unit: float) -> Row:
    """The numbers of a run, delays in the unit."""
    row = result.to_dict()
    for name in ("p50", "p90", "p95", "p99", "mean", "longest"):
        row[name] *= unit
    return row


@cache
def _static(
    grouping: str,
    service_us: float,
    fixed_us: float,
    partitions: int,
    saturation: float,
    seconds: float,
    seed: int,
    *,
    options: str = HOT,
    interval_s: float = INTERVAL,
) -> LogResult:
    """One scheme under the static load; what comes in the first window is not measured, in which no
    scheme knows a hot key yet.

    Parameters:
        fixed_us: what a message takes its consumer besides its processing.
        saturation: how busy the busiest partition is under key hashing and a service time of 50 µs;
            this sets the rate.
        options: of the gateway, if the scheme is `smalops`.
    """
    fixed = fixed_us / MICRO
    rate = saturation / (hottest_share(seed, partitions) * (NEAR + fixed))
    messages = int(rate * seconds)
    log = PartitionedLog(partitions, rate, service_us / MICRO, HAND_OVER, fixed)
    stream = Smalops(messages, KEYS, seed, S, V, minute=messages, shift=0)
    spec = _spec(grouping, rate, INTERVAL, interval_s, 0.1, options)
    return simulate_log(spec, stream, log, seed, since=INTERVAL)


@cache
def _dynamic(
    grouping: str,
    service_ms: float,
    shift: int,
    partitions: int,
    utilisation: float,
    minutes: int,
    seed: int,
    window_s: float = INTERVAL,
    hand_over_ms: float = HAND_OVER * MILLI,
) -> LogResult:
    """One scheme while keys are shifted every minute."""
    rate = utilisation * partitions * MILLI / service_ms
    minute = int(60 * rate)
    log = PartitionedLog(partitions, rate, service_ms / MILLI, hand_over_ms / MILLI)
    stream = Smalops(minute * minutes, KEYS, seed, S, V, minute, shift)
    spec = _spec(grouping, rate, window_s, window_s, 0.5, "threshold=0.001,least=5")
    return simulate_log(spec, stream, log, seed, slot=5.0)


def _spec(
    grouping: str, rate: float, window_s: float, interval_s: float, step_s: float, options: str
) -> str:
    """A scheme, with the gateway's times as messages."""
    if grouping != "smalops":
        return grouping
    window, interval, step = (max(1, round(rate * s)) for s in (window_s, interval_s, step_s))
    return f"smalops:window={window},interval={interval},step={step},{options}"
