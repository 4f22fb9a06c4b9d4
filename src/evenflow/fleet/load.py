"""Loads of queries: how many cores each would keep busy in each second, from the batches it reports.

They are ideal loads: the rows that arrived in a second, times what a row takes. How many cores a
query did keep busy depends on its neighbours: on a node that is full it never exceeds the node's,
however much arrives.

Paper: "Dynamic Load Distribution in the Borealis Stream Processor", §2.2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt


def arrived(began: float, seconds: float, rows: int, rows_per_second: float) -> tuple[float, float]:
    """From when until when the rows of a batch arrived: from the trigger before it until its own.

    Where Spark does not know a trigger before, the batch's own time.

    Parameters:
        began, seconds: of the batch.
        rows, rows_per_second: `numInputRows` and `inputRowsPerSecond` of its progress; the latter is
            the rows over the time since the last trigger.

    Example:
        >>> arrived(100.0, 3.0, rows=80, rows_per_second=10.0)
        (92.0, 100.0)
        >>> arrived(100.0, 3.0, rows=80, rows_per_second=0.0)
        (100.0, 103.0)
    """
    if rows <= 0 or not 0 < rows_per_second < float("inf"):
        return began, began + seconds
    return began - rows / rows_per_second, began


class BusyTime:
    """Busy seconds in bins of equal length, aligned to the clock, so that bins of several nodes match.

    Guarantee: the bins of a batch add up to its busy seconds, whether it is long or short, while its
    bins are kept.

    Parameters:
        sample: seconds per bin.
        keep: the number of bins.

    Example:
        >>> busy = BusyTime(1.0, keep=4)
        >>> busy.add(10.5, 12.5, 1.0)  # tasks worked for one of these two seconds
        >>> {at: round(share, 2) for at, share in busy.bins.items()}
        {10: 0.25, 11: 0.5, 12: 0.25}
    """

    def __init__(self, sample: float, keep: int) -> None:
        self.sample, self.keep = sample, keep
        self.bins: dict[int, float] = {}  #: bin → cores busy in it

    def add(self, began: float, ended: float, busy: float) -> None:
        """Add busy seconds, spread evenly from one moment to another, in seconds since 1970.

        For ideal loads those between which the rows of a batch `arrived`.
        """
        ended = max(ended, began + 1e-3)
        cores = busy / (ended - began)
        first, last = int(began // self.sample), int(ended // self.sample)
        for number in range(max(first, last - self.keep + 1), last + 1):
            begin = max(began, number * self.sample)
            end = min(ended, (number + 1) * self.sample)
            share = cores * max(0.0, end - begin) / self.sample
            self.bins[number] = self.bins.get(number, 0.0) + share
        for number in [n for n in self.bins if n <= last - self.keep]:
            del self.bins[number]


def reported_bins(reports: Mapping[str, Mapping[str, Any]]) -> dict[str, list[dict[int, float]]]:
    """Query → the bins that each node reported for it, from the nodes' latest reports.

    Example:
        >>> reported_bins({"a": {"queries": {"q": {"busy": {"7": 0.5}}}}, "b": {"queries": {}}})
        {'q': [{7: 0.5}]}
    """
    found: dict[str, list[dict[int, float]]] = {}
    for report in reports.values():
        for query, seen in report["queries"].items():
            bins = {int(at): float(share) for at, share in seen["busy"].items()}
            found.setdefault(query, []).append(bins)
    return found


def load_series(
    reports: Mapping[str, Sequence[Mapping[int, float]]],
    queries: list[str],
    last: int,
    samples: int,
) -> npt.NDArray[np.float64]:
    """The loads of all queries in the `samples` bins up to `last`: one row per query.

    Parameters:
        reports: query → the bins each node reported for it; several for a query that has moved.

    Example:
        >>> load_series({"q": [{7: 0.5}, {8: 0.25, 9: 1.0}]}, ["q", "idle"], last=9, samples=3).tolist()
        [[0.5, 0.25, 1.0], [0.0, 0.0, 0.0]]
    """
    series = np.zeros((len(queries), samples))
    for row, query in enumerate(queries):
        for bins in reports.get(query, []):
            for number, share in bins.items():
                place = number - (last - samples + 1)
                if 0 <= place < samples:
                    series[row, place] += share
    return series
