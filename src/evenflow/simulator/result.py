"""The result of a simulation."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from evenflow.grouping import GroupingScheme


@dataclass(frozen=True)
class Result:
    """The measurements of one scheme on one stream.

    Two results with the same parameters are equal: `==` ignores the time taken.

    Parameters:
        grouping: name of the scheme; `parameters` are its parameters.
        workload: the stream, as the workload describes itself.
        weights: the workers' weights, if they have any.
        messages: length of the stream; `keys`: distinct keys in it.
        imbalance: largest minus average load fraction at the end; `imbalance_mean`: its average
            over time, sampled every 20 000 messages.
        replicas: distinct (worker, key) pairs; `replication`: replicas per key.
        max_load: largest load fraction at the end.
        worst_window: largest load ÷ fair load in a tumbling window of 20 000 messages after the
            first; `worst_sliding_window`: in any such window. None for too short a stream.
        ns_per_message: time spent in `route`, and nowhere else.
        loads: messages of each worker, in the roster's order.
        timeline: (messages, imbalance) pairs.
        details: what the scheme reports about source 0's state at the end.
    """

    grouping: str
    parameters: Mapping[str, Any]
    workers: int
    weights: tuple[float, ...] | None
    sources: int
    seed: int
    workload: Mapping[str, Any]
    messages: int
    keys: int
    imbalance: float
    imbalance_mean: float
    replication: float
    replicas: int
    max_load: float
    worst_window: float | None
    worst_sliding_window: float | None
    loads: tuple[int, ...]
    timeline: tuple[tuple[int, float], ...]
    details: Mapping[str, Any]
    ns_per_message: float = field(compare=False)

    def to_dict(self, *, loads: bool = False, timeline: bool = False) -> dict[str, Any]:
        """Plain values that strict JSON can hold; the long `loads` and `timeline` on demand.

        Example:
            >>> from evenflow.simulator import simulate
            >>> from evenflow.simulator.workloads import Zipf
            >>> result = simulate("key", Zipf(keys=10, messages=100), workers=3).to_dict(loads=True)
            >>> result["grouping"], sum(result["loads"])
            ('key', 100)
        """
        left_out = {"workload", "loads", "timeline", "details", "weights"}
        answer = {
            f.name: getattr(self, f.name)
            for f in dataclasses.fields(self)
            if f.name not in left_out
        }
        answer.update(self.workload)
        if self.weights is not None:
            answer["weights"] = self.weights
        if self.details:
            answer["details"] = self.details
        if loads:
            answer["loads"] = self.loads
        if timeline:
            answer["timeline"] = self.timeline
        plain: dict[str, Any] = plain_values(answer)
        return plain


def plain_values(value: Any) -> Any:
    """`value` with NumPy's types converted to Python's, tuples to lists, and NaN and infinity to None.

    Example:
        >>> plain_values({"d": np.int64(3), "shares": np.array([0.5, np.nan])})
        {'d': 3, 'shares': [0.5, None]}
    """
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): plain_values(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_values(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def parameters_of(scheme: GroupingScheme) -> dict[str, Any]:
    """The parameters of a scheme, if it is a dataclass."""
    if not dataclasses.is_dataclass(scheme):
        return {}
    return {f.name: getattr(scheme, f.name) for f in dataclasses.fields(scheme)}
