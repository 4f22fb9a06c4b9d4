"""Busy time: how many cores a query kept busy in each second, from the batches it has reported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt


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
        """Add a batch: its start and end in seconds since 1970, and its busy seconds.

        They are spread over the batch evenly: when its tasks waited and when they ran is not known.
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
