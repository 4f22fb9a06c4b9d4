"""The per-key work of `per_key`: the same few lines of Python under three frameworks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

_WEIGHT = 0.1

STATE = {"n": "int64", "average": "float64"}
OUTPUT = "key bigint, n bigint, average double"


def smoothed(
    values: npt.NDArray[np.float64], n: int = 0, average: float = 0.0
) -> tuple[int, float]:
    """An exponentially weighted average, value by value: its order matters, so it has no merge.

    Example:
        >>> smoothed(np.array([10.0, 10.0]))
        (2, 1.9)
    """
    for value in values.tolist():
        average += _WEIGHT * (value - average)
    return n + len(values), average


def per_key(key: Any, rows: dict[str, npt.NDArray[Any]], state: dict[str, Any] | None) -> Any:
    """For `evenflow.PerKey`."""
    known = (state["n"], state["average"]) if state else ()
    n, average = smoothed(rows["value"], *known)
    return {"n": n, "average": average}


def in_pandas(key: tuple[Any, ...], rows: Any) -> Any:
    """For `groupBy(key).applyInPandas`, which has no state."""
    import pandas as pd  # type: ignore[import-untyped]

    n, average = smoothed(rows["value"].to_numpy())
    return pd.DataFrame({"key": [key[0]], "n": [n], "average": [average]})


def processor() -> Any:
    """For `transformWithStateInPandas`."""
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    class Smoothing(StatefulProcessor):  # type: ignore[misc]
        def init(self, handle: Any) -> None:
            self.state = handle.getValueState("smoothed", "n bigint, average double")

        def handleInputRows(self, key: Any, rows: Iterator[Any], timers: Any) -> Iterator[Any]:
            import pandas as pd  # type: ignore[import-untyped]

            known = tuple(self.state.get()) if self.state.exists() else (0, 0.0)
            for part in rows:
                known = smoothed(part["value"].to_numpy(), *known)
            self.state.update(known)
            yield pd.DataFrame({"key": [key[0]], "n": [known[0]], "average": [known[1]]})

        def close(self) -> None:
            pass

    return Smoothing()
