"""What figures 3 to 6, 8 and 9 need beyond plain runs: the paper's formulas, and runs within runs.

Each function is given the figure's parameters and the fields of its grid, and returns rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, sqrt
from typing import Any

import numpy as np

from evenflow.grouping import make
from evenflow.grouping.d_choices import DChoices
from evenflow.grouping.optimal_choices import find_optimal_choices
from evenflow.grouping.w_choices import WChoices
from evenflow.model import Workers
from evenflow.simulator import simulate
from evenflow.simulator.engine import chunk_for
from evenflow.simulator.sources import Sources
from evenflow.simulator.workloads import Zipf

Row = dict[str, Any]

FORMULA, SIMULATED = "formula", "simulated"
FORMS = {True: "simulated, literal form", False: "simulated, ours"}


def head_size(
    zipf: float, workers: int, keys: int, messages: int, sources: int, seed: int
) -> list[Row]:
    """Figure 3: how many keys are hot, for both ends of the range of θ.

    Beside the number that the probabilities give stands the one that the sketch of a source has
    found at the end of a stream, in either form of W-C.
    """
    stream = Zipf(zipf, keys, messages, seed)
    shares = stream.probabilities()
    rows: list[Row] = []
    for label, theta in (("θ = 2/n", 2 / workers), ("θ = 1/(5n)", 1 / (5 * workers))):
        head = shares[shares >= theta]
        common = {"theta": label, "p1": shares[0], "head_share": head.sum()}
        rows.append({**common, "how": FORMULA, "which": FORMULA, "hot_keys": len(head)})
        for literal, which in FORMS.items():
            scheme = WChoices(theta=theta, literal=literal)
            found = simulate(scheme, stream, workers, sources, seed).details["hot_keys"]
            form = {"how": SIMULATED, "literal": literal, "which": which}
            rows.append({**common, **form, "hot_keys": found})
    return rows


def needed_choices(zipf: float, workers: int, keys: int, epsilon: float) -> Row:
    """Figure 4: the d that Proposition 4.1 asks for, as a share of the workers.

    `d_two_prefixes` is the d that satisfies the constraints of the hottest key and of the whole head
    only, which the paper calls the tight ones.
    """
    head = _head(zipf, workers, keys)
    d = find_optimal_choices(head, workers, epsilon)
    return {
        "d": d,
        "fraction": d / workers,
        "d_two_prefixes": _fewest_for_prefixes(head, workers, epsilon, {1, len(head)}),
        "d_all_prefixes": _fewest_for_prefixes(head, workers, epsilon, range(1, len(head) + 1)),
        "hot_keys": len(head),
    }


def memory(
    zipf: float,
    workers: int,
    keys: int,
    messages: int,
    formula_messages: int,
    epsilon: float,
    sources: int,
    seed: int,
) -> list[Row]:
    """Figures 5 and 6: replicas of D-C and W-C beside those of PKG and SG.

    By the paper's formulas, expected over streams of `formula_messages`; and counted in the
    simulator, on a stream of `messages`, for either form of D-C and W-C.
    """
    stream = Zipf(zipf, keys, messages, seed)
    expected = stream.probabilities() * formula_messages
    hot = len(_head(zipf, workers, keys))
    d = find_optimal_choices(stream.probabilities()[:hot], workers, epsilon)
    two = _expected_least(expected, 2)

    def with_head(choices: int) -> float:
        return float(_expected_least(expected[:hot], choices).sum() + two[hot:].sum())

    by_formula = {
        "partial-key": float(two.sum()),
        "shuffle": float(_expected_least(expected, workers).sum()),
        "d-choices": with_head(d),
        "w-choices": with_head(workers),
    }
    counted = {
        literal: {
            scheme: simulate(spec, stream, workers, sources, seed).replicas
            for scheme in by_formula
            for spec in (f"{scheme}:literal=true" if literal and "-choices" in scheme else scheme,)
        }
        for literal in FORMS
    }
    kinds: list[tuple[str, bool | None, dict[str, Any]]] = [(FORMULA, None, by_formula)]
    kinds += [(SIMULATED, literal, replicas) for literal, replicas in counted.items()]
    return [
        {
            "grouping": scheme,
            "symbol": _symbol(scheme),
            "how": how,
            "literal": literal,
            "which": how if literal is None else FORMS[literal],
            "memory": replicas[scheme],
            "memory_pkg": replicas["partial-key"],
            "memory_sg": replicas["shuffle"],
            "more_than_pkg": 100 * (replicas[scheme] / replicas["partial-key"] - 1),
            "less_than_sg": 100 * (1 - replicas[scheme] / replicas["shuffle"]),
        }
        for how, literal, replicas in kinds
        for scheme in ("d-choices", "w-choices")
    ]


def head_and_tail(
    grouping: str, zipf: float, workers: int, keys: int, messages: int, sources: int, seed: int
) -> list[Row]:
    """Figure 8: how much of each worker's load the head brings and how much the tail, at θ = 1/8n.

    Workers are numbered by their load, the busiest first: their hashes have no meaning.
    """
    theta = 1 / (8 * workers)
    stream = Zipf(zipf, keys, messages, seed)
    hot = np.sort(stream.key_of_rank()[stream.probabilities() >= theta])
    scheme = make(grouping) if grouping == "partial-key" else make(grouping, theta=theta)
    routers = Sources(scheme, Workers.of(workers), sources, seed)
    counts = np.zeros((2, workers), np.int64)
    for chunk in stream.chunks(chunk_for(sources)):
        routed = routers.route(chunk)
        place = np.minimum(np.searchsorted(hot, chunk), len(hot) - 1)
        is_hot = hot[place] == chunk
        counts[0] += np.bincount(routed[is_hot], minlength=workers)
        counts[1] += np.bincount(routed[~is_hot], minlength=workers)
    counts = counts[:, np.argsort(-counts.sum(axis=0), kind="stable")]
    return [
        {
            "symbol": _symbol(grouping),
            "worker": worker + 1,
            "part": part,
            "load": counts[number, worker] / messages,
        }
        for number, part in enumerate(("head", "tail"))
        for worker in range(workers)
    ]


def compared_choices(
    zipf: float, workers: int, keys: int, messages: int, epsilon: float, sources: int, seed: int,
    literal: bool,
) -> list[Row]:  # fmt: skip
    """Figure 9: the d of D-C beside the smallest one, as rows of a picture."""
    found = smallest_choices(zipf, workers, keys, messages, epsilon, sources, seed, literal)
    names = {"formula": "D-C, formula", "picked": "D-C, running", "smallest": "Min-d"}
    return [{**found, "which": label, "d": found[name]} for name, label in names.items()]


def smallest_choices(
    zipf: float, workers: int, keys: int, messages: int, epsilon: float, sources: int, seed: int,
    literal: bool = False,
) -> Row:  # fmt: skip
    """The d of d-choices, and the smallest d with which hot keys reach the balance of w-choices.

    "Reach" is an imbalance of at most s·ε above that of w-choices: the s·ε that d-choices aims at.
    `formula` is d for the exact probabilities, `picked` the one that source 0 has at the end; what is
    measured is d-choices with the d that it picks itself.
    """
    stream = Zipf(zipf, keys, messages, seed)
    even = simulate(WChoices(literal=literal), stream, workers, sources, seed)
    goal = even.imbalance + sources * epsilon
    found = simulate(DChoices(epsilon=epsilon, literal=literal), stream, workers, sources, seed)

    def suffices(d: int) -> bool:
        fixed = DChoices(choices=d, literal=literal)
        return simulate(fixed, stream, workers, sources, seed).imbalance <= goal

    smallest = next(d for d in _promising(stream, workers, goal) if d == workers or suffices(d))
    return {
        "formula": find_optimal_choices(_head(zipf, workers, keys), workers, epsilon),
        "picked": found.details["d"] if found.details["hot_keys"] else 2,
        "smallest": smallest,
        "imbalance": found.imbalance,
        "worst_window": found.worst_window,
        "replicas": found.replicas,
        "imbalance_goal": goal,
    }


def _promising(stream: Zipf, workers: int, goal: float) -> Iterator[int]:
    """2 … n without those that cannot do: on d workers the top key alone puts p1/d on one of them."""
    p1 = stream.probabilities()[0]
    surely = p1 - 5 * sqrt(p1 / stream.messages)  # of the messages, in this stream
    return (d for d in range(2, workers + 1) if d == workers or surely / d - 1 / workers <= goal)


def _symbol(grouping: str) -> str:
    """What the paper calls the scheme."""
    return type(make(grouping)).symbol


def _head(zipf: float, workers: int, keys: int) -> np.ndarray:
    """The probabilities of the hot keys at the default θ = 1/(5n)."""
    shares = Zipf(zipf, keys).probabilities()
    return shares[shares >= 1 / (5 * workers)]


def _fewest_for_prefixes(head: np.ndarray, n: int, epsilon: float, prefixes: Any) -> int:
    """The smallest d from ⌈p1·n⌉ on with which equation 3 holds for these prefixes of the head."""
    if len(head) == 0:
        return 2
    h = np.array(sorted(prefixes))
    upto = np.cumsum(head)[h - 1]
    total = min(head.sum(), 1.0)
    for d in range(max(2, ceil(head[0] * n)), n):
        filled = 1 - ((n - 1) / n) ** (h * d)  # b_h / n
        load = upto + filled**d * (total - upto) + filled**2 * (1 - total)
        if np.all(load <= filled * (1 + n * epsilon)):
            return d
    return n


def _expected_least(frequencies: np.ndarray, choices: int) -> np.ndarray:
    """E min(f, c) for each key, where f is how often it comes (Poisson) and c is `choices`."""
    result = np.full(len(frequencies), float(choices))
    probability = np.exp(-frequencies)  # of f = 0; then of 1, 2, …
    for f in range(choices):
        result -= (choices - f) * probability
        probability = probability * frequencies / (f + 1)
    return result
