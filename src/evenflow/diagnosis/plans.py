"""Spark's physical plans, as events and the REST interface describe them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_HASHED = re.compile(r"(hash|range)partitioning\((.*), (\d+)\)")
_SUFFIX = re.compile(r"#\d+L?")
_ORDER = re.compile(r" (ASC|DESC) NULLS (FIRST|LAST)")
_OUTER = re.compile(r"\b(LeftOuter|RightOuter|FullOuter|LeftAnti|ExistenceJoin)")
_READ = "records read"

#: What users call the operators, by the beginning of Spark's name.
OPERATORS = {
    "SortMergeJoin": "join",
    "ShuffledHashJoin": "join",
    "BroadcastHashJoin": "join",
    "FlatMapGroupsInPandas": "applyInPandas",
    "FlatMapGroupsInArrow": "applyInArrow",
    "FlatMapCoGroupsIn": "cogroup.apply",
    "TransformWithState": "transformWithState",
    "FlatMapGroupsWithState": "applyInPandasWithState",
    "AggregateInPandas": "a pandas aggregate",
    "ArrowAggregatePython": "a pandas aggregate",
    "WindowInPandas": "a window function",
    "ArrowWindowPython": "a window function",
    "HashAggregate": "groupBy.agg",
    "ObjectHashAggregate": "groupBy.agg",
    "SortAggregate": "groupBy.agg",
    "StateStoreSave": "groupBy.agg",
    "Window": "a window function",
    "MapInPandas": "mapInPandas",
    "MapInArrow": "mapInArrow",
    "Sort": "sort",
}
_PASSED = ("Sort", "MapInPandas", "MapInArrow")  #: named only where nothing else is


@dataclass(frozen=True)
class Node:
    """An operator of a plan.

    Parameters:
        name: Spark's name.
        text: its description, with columns.
        metrics: name → accumulator.
        parent: index of the operator that takes its rows; −1 for the last.
    """

    name: str
    text: str
    metrics: Mapping[str, int]
    parent: int

    @property
    def is_exchange(self) -> bool:
        return "Exchange" in self.name and "Broadcast" not in self.name

    @property
    def word(self) -> str | None:
        """What users call it; None for what only passes rows on."""
        longest = max((n for n in OPERATORS if self.name.startswith(n)), key=len, default=None)
        return None if longest is None else OPERATORS[longest]


@dataclass(frozen=True)
class Shuffle:
    """What shuffled a stage's input, and what for.

    Parameters:
        keys: the columns by which rows were partitioned.
        partitions: how many partitions they were sent to.
        operator: what users call the operator that asked for it: "join".
        node: Spark's name of that operator.
        outer: whether it is a join that keeps rows without a partner, and so rows with a null key.
        by_range: whether the partitions are ranges, as for a sort.
        reads: the accumulator that counts the rows read from it.
        emits: the accumulator that counts the operator's rows.
    """

    keys: tuple[str, ...]
    partitions: int
    operator: str
    node: str
    outer: bool = False
    by_range: bool = False
    reads: int | None = None
    emits: int | None = None


def nodes_of(plan: Mapping[str, Any]) -> tuple[Node, ...]:
    """The operators of a `sparkPlanInfo`, each after the one that takes its rows."""
    found: list[Node] = []
    waiting: list[tuple[Mapping[str, Any], int]] = [(plan, -1)]
    while waiting:
        one, parent = waiting.pop()
        metrics = {
            str(metric.get("name")): int(metric["accumulatorId"])
            for metric in one.get("metrics") or ()
            if "accumulatorId" in metric
        }
        text = str(one.get("simpleString") or "")
        found.append(Node(str(one.get("nodeName") or ""), text, metrics, parent))
        here = len(found) - 1
        waiting += [(child, here) for child in one.get("children") or ()]
    return tuple(found)


def shuffles_into(nodes: tuple[Node, ...], counted: frozenset[int]) -> Iterator[Shuffle]:
    """The hash and range shuffles from which a stage read.

    Parameters:
        nodes: a plan.
        counted: the accumulators that the stage's tasks updated.
    """
    for node in nodes:
        reads = node.metrics.get(_READ)
        if node.is_exchange and reads in counted:
            keys, partitions, by_range = partitioning(node.text)
            if keys:
                user = _user_of(nodes, node)
                yield Shuffle(
                    keys,
                    partitions,
                    _word(user, node),
                    node.name if user is None else user.name,
                    user is not None and bool(_OUTER.search(user.text)),
                    by_range,
                    reads,
                    None if user is None else user.metrics.get("number of output rows"),
                )


def partitioning(text: str) -> tuple[tuple[str, ...], int, bool]:
    """Key columns, number of partitions, and whether these are ranges.

    Example:
        >>> partitioning("Exchange hashpartitioning(page#7, coalesce(a#1L, 0), 16), ENSURE_REQ")
        (('page', 'coalesce(a, 0)'), 16, False)
        >>> partitioning("Exchange SinglePartition")
        ((), 0, False)
    """
    match = _HASHED.search(text)
    if match is None:
        return (), 0, False
    columns = _ORDER.sub("", _SUFFIX.sub("", match[2]))
    keys: list[str] = []
    depth = 0
    for part in columns.split(","):
        if depth:
            keys[-1] += "," + part
        else:
            keys.append(part)
        depth += part.count("(") + part.count("[") - part.count(")") - part.count("]")
    return tuple(key.strip() for key in keys), int(match[3]), match[1] == "range"


def _user_of(nodes: tuple[Node, ...], exchange: Node) -> Node | None:
    """The operator that an exchange was made for: the next one above that is not mere plumbing."""
    above, last = exchange.parent, None
    while above >= 0:
        node = nodes[above]
        if node.is_exchange:
            break
        if node.word is not None:
            last = last or node
            if node.name not in _PASSED:
                last = node
                break
        above = node.parent
    return last


def _word(user: Node | None, exchange: Node) -> str:
    if user is not None and user.word is not None and "REPARTITION" not in exchange.text:
        return user.word
    return "repartition" if "REPARTITION" in exchange.text else "a shuffle"
