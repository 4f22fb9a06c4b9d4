"""The picture of a query whose partitions follow its load: load, partitions and lag over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evenflow.report.style import BLUE, house_style, new_figure, save_figure


def draw_scaling(
    points: Sequence[Mapping[str, Any]], offered: Sequence[tuple[float, float]], path: Path
) -> Path:
    """Three panels on one time axis, each from zero.

    Parameters:
        points: of the batches, by `benchmarks.scaling.points_of`.
        offered: (second, rows per second) of every change of the load, and of its end.
    """
    with house_style():
        figure = new_figure(7.5, 5.6)
        load, size, lag = figure.subplots(3, 1, sharex=True)
        at = [point["seconds"] for point in points]
        load.step(*zip(*offered, strict=True), where="post", color="0.6", lw=2, label="offered")
        load.plot(
            at, [p["arriving"] for p in points], ".", color=BLUE, ms=4, label="seen by the query"
        )
        load.legend(loc="upper right")
        size.step(at, [point["partitions"] for point in points], where="post", color=BLUE)
        lag.plot(at, [point["lag"] for point in points], ".-", color=BLUE, lw=1, ms=4)
        for axes, title in (
            (load, "load, rows per second"),
            (size, "partitions"),
            (lag, "lag of a batch's oldest row, seconds"),
        ):
            axes.set_ylim(bottom=0)
            axes.set_title(title, loc="left", fontsize=9)
        lag.set_xlabel("seconds", fontsize=9)
        return save_figure(figure, path)
