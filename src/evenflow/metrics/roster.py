"""Worker ids → worker numbers, and the fair share of each worker."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from evenflow.model import InputError, Workers

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]


def fair_shares(workers: Workers | int) -> F64:
    """The part of the stream that each worker should get: its weight over the sum of weights.

    Example:
        >>> fair_shares(Workers.numbered(3, weights=[1, 1, 2])).tolist()
        [0.25, 0.25, 0.5]
    """
    roster = Workers.of(workers)
    weights = np.array(roster.weights or (1.0,) * len(roster))
    shares: F64 = weights / weights.sum()
    return shares


class WorkerNumbers:
    """Turns worker ids, which may have gaps, into numbers 0 … n − 1 in the roster's order.

    Guarantee: an id that is not in the roster is an error, never counted for another worker.

    Parameters:
        workers: the roster, or the number of workers.

    Example:
        >>> numbers = WorkerNumbers(Workers.numbered(4).without(1))
        >>> numbers.of(np.array([3, 0, 2], np.int32)).tolist()
        [2, 0, 1]
    """

    def __init__(self, workers: Workers | int) -> None:
        ids = np.array(Workers.of(workers).ids, np.int32)
        self._dense = bool((ids == np.arange(len(ids))).all())
        self._order = np.argsort(ids).astype(np.int32)
        self._sorted = ids[self._order]

    def of(self, ids: I32) -> I32:
        """The number of each id. The result may be `ids` itself."""
        if not len(ids):
            return ids
        if self._dense:
            if ids.min() < 0 or ids.max() >= len(self._sorted):
                raise self._unknown(ids, (ids < 0) | (ids >= len(self._sorted)))
            return ids
        places = np.searchsorted(self._sorted, ids).clip(max=len(self._sorted) - 1)
        wrong = self._sorted[places] != ids
        if wrong.any():
            raise self._unknown(ids, wrong)
        numbers: I32 = self._order[places]
        return numbers

    def _unknown(self, ids: I32, wrong: npt.NDArray[np.bool_]) -> InputError:
        return InputError(
            f"a message was sent to worker {int(ids[wrong][0])}, which is not one of the "
            f"{len(self._sorted)} live workers: the grouping scheme is at fault"
        )
