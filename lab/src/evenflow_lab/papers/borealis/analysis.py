"""The runs behind the figures: operator networks in virtual time, placed by the paper's algorithms.

Each function is given the figure's parameters and the fields of its grid, and returns rows. Times are
seconds; loads are parts of a node.
"""

from __future__ import annotations

from collections.abc import Mapping
from time import process_time
from typing import Any

import numpy as np

from evenflow.placement import make_placer
from evenflow.placement.protocol import Nodes, Observed, Placer
from evenflow_lab.benchmarks.placement_speed import placement_speeds
from evenflow_lab.simulators.input_streams import (
    InputStreams,
    at_level,
    on_off,
    periodic,
    spread_offsets,
)
from evenflow_lab.simulators.operator_networks import OperatorNetwork
from evenflow_lab.simulators.placed_network import NetworkResult, Schedule, run_network

Row = dict[str, Any]

CHAIN = 10  #: operators in a chain, Table 2
MINIMUM = "MINIMUM"


def two_plans(plan: str, level: float, duration: float, seed: int) -> Row:
    """Figure 1: two chains of two operators on two nodes, whose inputs burst in turn.

    Parameters:
        plan: `connected` or `cut`.
    """
    network = OperatorNetwork.chains(2, 2, cost=0.001, selectivity=(1.0, 1.0))
    schedule = Schedule(warm_up=20.0, duration=duration)
    streams = periodic([1.0, 1.0], [0.0, 0.5], period=10.0, ratio=2.0, until=schedule.end)
    streams = at_level(streams, network.cost @ network.gains(), 2, level, schedule.end)
    where = {"connected": [0, 0, 1, 1], "cut": [0, 1, 1, 0]}[plan]
    run = run_network(network, streams, Nodes(2), where, schedule=schedule, seed=seed)
    return {
        "grouping": f"{plan} plan",
        "latency_ms": None if run.latency is None else 1000 * run.latency,
        **run.to_dict(),
    }


def placed_once(
    algorithm: str, level: float, settle: float, duration: float, seed: int, **setting: Any
) -> Row:
    """Figures 3, 4 and Table 3: placed when the warm-up is over, and never moved again.

    Parameters:
        algorithm: a global one, or MINIMUM for the bound of Theorem 1 on the same streams.
        settle: seconds after the placement until latencies and loads count: what has queued in the
            warm-up is then gone.
    """
    bound = algorithm == MINIMUM
    run = _run(
        "LLF-GLB" if bound else algorithm, level, settle, duration, seed, connected=False, **setting
    )
    figures = run.to_dict()
    first = next(tick for tick in run.timeline if tick.time >= 0)
    row = {
        "grouping": algorithm,
        **figures,
        "window_deviation": first.deviation,
        "window_minimum": first.minimum,
        "window_correlation": first.correlation,
    }
    if bound:
        row |= {"deviation": run.minimum, "window_deviation": first.minimum}
        row |= {"latency": None, "latency_ratio": None, "correlation": None}
    return row


def after_increase(
    algorithm: str,
    m: int,
    rates: str,
    before: float,
    after: float,
    calm: float,
    duration: float,
    seed: int,
) -> Row:
    """Figure 5: placed at a low level; then the level rises, and LLF-BAL balances.

    Parameters:
        m: operators a node.
        rates: `redrawn` for the new level, or `scaled` from the old ones.
        before, after: the system load levels.
        calm: seconds between the placement and the rise.
    """
    nodes = 20
    network, chains = _network(nodes, m, seed)
    warm_up = 20.0
    rise = warm_up + calm
    schedule = Schedule(
        warm_up=warm_up, duration=calm + duration, pairwise_from=rise, measured_from=rise
    )
    work = network.cost @ network.gains()
    random = np.random.default_rng([seed, 1])
    offsets = spread_offsets(chains, seed)
    drawn = random.uniform(0.8, 1.2, chains)
    redrawn = random.uniform(0.8, 1.2, chains)

    def streams(each: np.ndarray, level: float) -> InputStreams:
        made = periodic(each, offsets, 10.0, 4.0, schedule.end)
        return at_level(made, work, nodes, level, schedule.end)

    later = streams(redrawn if rates == "redrawn" else drawn, after)
    run = run_network(
        network,
        streams(drawn, before).then(later, rise),
        Nodes(nodes),
        random.integers(0, nodes, len(network)),
        make_placer(algorithm.lower()),
        make_placer("llf-bal"),
        schedule,
        seed,
    )
    placed = sum(tick.load_moved for tick in run.timeline if 0 <= tick.time < 0.5)
    return {
        "grouping": algorithm,
        "rates": rates,
        "m": m,
        **run.to_dict(),
        "load_moved": run.load_moved - placed,
    }


def recovered(
    algorithm: str, level: float, duration: float, seed: int, timeline: bool = False
) -> Row:
    """Figures 6, 7 and 8: from a connected plan, each algorithm from the end of the warm-up on."""
    run = _run(algorithm, level, 0.0, duration, seed, connected=True)
    row = {"grouping": algorithm, **run.to_dict(timeline=timeline)}
    last = run.timeline[-20:]
    row["final_deviation"] = float(np.mean([tick.deviation for tick in last]))
    row["final_correlation"] = float(np.mean([tick.correlation for tick in last]))
    ratios = [tick.latency_ratio for tick in last if tick.latency_ratio is not None]
    row["final_latency_ratio"] = float(np.mean(ratios)) if ratios else None
    if timeline:
        row["timeline"] = [tick for tick in row["timeline"] if tick["time"] >= -5]
    return row


def varied(
    algorithm: str,
    setting: Mapping[str, Any],
    level: float,
    settle: float,
    duration: float,
    seed: int,
) -> Row:
    """Figure 9: one parameter differs from Table 2.

    Parameters:
        setting: `varied`, the name of the parameter, and its `value`.
    """
    name, value = setting["varied"], setting["value"]
    pairwise = not algorithm.endswith("GLB")
    run = _run(algorithm, level, settle, duration, seed, connected=pairwise, **{name: value})
    panels = {
        "n": "nodes n",
        "m": "operators a node m",
        "window": "statistics window (s)",
        "samples": "samples in a window k",
        "period": "fluctuation period (s)",
        "ratio": "fluctuation ratio",
    }
    return {
        "grouping": algorithm,
        "varied": name,
        "panel": panels[name],
        "value": value,
        **run.to_dict(),
    }


def bursty(algorithm: str, level: float, settle: float, duration: float, seed: int) -> Row:
    """Figure 10: on–off inputs; a global algorithm first, then its pair-wise companion."""
    initial, pairwise = {
        "COR-GLB-BAL": ("cor-glb", "cor-bal"),
        "COR-RE-GLB-IMP": ("cor-glb", "cor-re-imp"),
        "COR-SE-GLB-IMP": ("cor-glb", "cor-se-imp"),
        "LLF-GLB-BAL": ("llf-glb", "llf-bal"),
        "RAND-GLB-BAL": ("rand-glb", "rand-bal"),
    }[algorithm]
    nodes = 20
    network, chains = _network(nodes, 10, seed)
    schedule = Schedule(duration=settle + duration, measured_from=20.0 + settle)
    random = np.random.default_rng([seed, 1])
    streams = on_off(random.uniform(0.8, 1.2, chains), 5.0, 5.0, chains // 2, schedule.end, seed)
    streams = at_level(streams, network.cost @ network.gains(), nodes, level, schedule.end)
    run = run_network(
        network,
        streams,
        Nodes(nodes),
        random.integers(0, nodes, len(network)),
        make_placer(initial),
        make_placer(pairwise),
        schedule,
        seed,
    )
    return {"grouping": algorithm, **run.to_dict()}


def timed(size: Mapping[str, Any], seed: int) -> list[Row]:
    """Table 1: processor seconds of COR-GLB, ours and the paper's words one by one; and of one pair.

    Parameters:
        size: `nodes`, and whether the paper's words are timed, too, `literal`.
    """
    nodes, literal = size["nodes"], size["literal"]
    [cell] = placement_speeds((nodes,), literal_nodes=nodes if literal else 0, clock=process_time)
    common = {"nodes": nodes, "operators": cell.operators, "pair_ms": _pair_ms(seed)}
    rows = [{**common, "grouping": "evenflow", "seconds": cell.seconds}]
    if cell.literal_seconds is not None:
        rows.append({**common, "grouping": "transcription", "seconds": cell.literal_seconds})
    return rows


def _pair_ms(seed: int) -> float:
    """Milliseconds for the redistribution of two nodes with ten operators each, k = 10."""
    random = np.random.default_rng(seed)
    series = random.uniform(0, 0.2, (20, 10)) * np.repeat([[1.5], [0.5]], 10, axis=0)
    observed = Observed.of(series, node=np.repeat([0, 1], 10))
    placer = make_placer("cor-re")
    placer.propose(observed, Nodes(2))
    began = process_time()
    for _ in range(20):
        placer.propose(observed, Nodes(2))
    return 1000 * (process_time() - began) / 20


def _network(nodes: int, m: int, seed: int) -> tuple[OperatorNetwork, int]:
    """Table 2's queries: chains of ten operators of 1 ms, selectivities U(0.8, 1.2)."""
    chains = max(nodes * m // CHAIN, 1)
    return OperatorNetwork.chains(chains, CHAIN, 0.001, (0.8, 1.2), seed), chains


def _run(
    algorithm: str,
    level: float,
    settle: float,
    duration: float,
    seed: int,
    connected: bool,
    n: int = 20,
    m: int = 10,
    window: float = 10.0,
    samples: int = 10,
    period: float = 10.0,
    ratio: float = 4.0,
) -> NetworkResult:
    """One algorithm on Table 2's workload, after the warm-up: once if global, else every second."""
    network, chains = _network(n, m, seed)
    warm_up = 2 * max(window, 10.0)
    schedule = Schedule(
        warm_up=warm_up,
        duration=settle + duration,
        window=window,
        samples=samples,
        measured_from=warm_up + settle,
    )
    random = np.random.default_rng([seed, 1])
    rates = random.uniform(0.8, 1.2, chains)
    streams = periodic(rates, spread_offsets(chains, seed), period, ratio, schedule.end)
    streams = at_level(streams, network.cost @ network.gains(), n, level, schedule.end)
    where = network.queries() % n if connected else random.integers(0, n, len(network))
    placer: Placer = make_placer(algorithm.lower())
    if algorithm.startswith("RAND"):
        placer = make_placer(algorithm.lower(), seed=seed)
    initial, pairwise = (placer, None) if placer.from_scratch else (None, placer)
    return run_network(network, streams, Nodes(n), where, initial, pairwise, schedule, seed)
