"""One picture of runs of a stream under several schemes: throughput, latency, imbalance."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from evenflow.metrics.measured_run import MeasuredRun, batch_seconds
from evenflow.model import InputError
from evenflow.report.style import (
    BLUE,
    FAINT,
    GREEN,
    GRID,
    INK,
    ORANGE,
    QUIET,
    VERMILLION,
    Look,
    house_style,
    new_figure,
    plain,
    save_figure,
)

_LOOKS = (
    Look(VERMILLION, "s", "--"),
    Look(BLUE, "o", "-"),
    Look(GREEN, "^", "-."),
    Look(ORANGE, "D", ":"),
)
_POINTS = 400  #: of a curve over all messages


def draw_runs(
    runs: Sequence[MeasuredRun], path: Path, title: str = "", changes_at: int | None = None
) -> Path:
    """Draws throughput and imbalance by batch, latencies, and each partition's load, as a PNG.

    Parameters:
        runs: of the same stream; the first is the baseline.
        path: the file to write.
        title: one line.
        changes_at: the batch at which the stream changed.
    """
    if not runs or not any(run.rows for run in runs):
        raise InputError("nothing to draw: no run has a batch with rows")
    drawn = [(run, _LOOKS[i % len(_LOOKS)]) for i, run in enumerate(runs)]
    with house_style():
        figure = new_figure(12.5, 8.2)
        figure.set_layout_engine("constrained", w_pad=0.14, h_pad=0.12, hspace=0.04, wspace=0.04)
        figure.suptitle(plain(title, 160), x=0.01, ha="left", fontsize=12.5)
        (speed, latency), (even, loads) = figure.subplots(2, 2)
        _draw_speed(speed, drawn, changes_at)
        _draw_latencies(latency, drawn)
        _draw_imbalance(even, drawn, changes_at)
        _draw_loads(loads, drawn)
        for axes in (speed, latency, even, loads):
            axes.tick_params(labelsize=9.5)
            axes.set_axisbelow(True)
        figure.legend(
            *_legend(drawn), loc="outside lower left", ncols=len(runs), frameon=False, fontsize=11,
            handlelength=2.6,
        )  # fmt: skip
        return save_figure(figure, path)


Drawn = Sequence[tuple[MeasuredRun, Look]]


def _draw_speed(axes: Any, drawn: Drawn, changes_at: int | None) -> None:
    """Rows per second, batch by batch."""
    for run, look in drawn:
        rates = [b["rows"] / batch_seconds(b) for b in run.batches]
        axes.plot(_numbers(run), rates, **_line_and_mark(look))
    axes.set_ylim(0, None)
    _name(axes, "Messages per second, by batch: more is better", "batch", "messages per second")
    _batches(axes, drawn)
    _mark_change(axes, changes_at)


def _draw_imbalance(axes: Any, drawn: Drawn, changes_at: int | None) -> None:
    """The fullest partition of each batch."""
    for run, look in drawn:
        axes.plot(
            _numbers(run), [b["max_over_average"] for b in run.batches], **_line_and_mark(look)
        )
    axes.axhline(1.0, color=INK, lw=0.9)
    axes.set_ylim(0, None)
    _name(axes, "Imbalance, by batch: 1 is perfect", "batch", "fullest partition ÷ average")
    _batches(axes, drawn)
    _mark_change(axes, changes_at)


def _draw_latencies(axes: Any, drawn: Drawn) -> None:
    """The share of messages done after each latency."""
    shares = np.linspace(0, 1, _POINTS)
    longest = 0.0
    for i, (run, look) in enumerate(drawn):
        if not len(run.latencies):
            continue
        longest = max(longest, float(run.latencies.max()))
        axes.plot(np.quantile(run.latencies, shares), 100 * shares, **look.line)
        marks = []
        for q in (0.5, 0.99):
            value = float(np.quantile(run.latencies, q, method="inverted_cdf"))
            axes.plot(value, 100 * q, **look.mark)
            marks.append(f"p{100 * q:.0f} {value:.2f} s")
        # There is always room below the curves, but not beside the marks of two close ones.
        axes.annotate(
            f"{plain(run.label)}: {', '.join(marks)}", (1, 0), xycoords="axes fraction", ha="right",
            xytext=(-4, 8 + 16 * (len(drawn) - 1 - i)), textcoords="offset points", fontsize=10,
            color=look.colour,
        )  # fmt: skip
    axes.set_xlim(0, 1.04 * longest)
    axes.set_ylim(0, 105)
    _name(
        axes, "Latency of messages: further left is better",
        "seconds from the start of the batch until it was processed", "messages done (%)",
    )  # fmt: skip


def _draw_loads(axes: Any, drawn: Drawn) -> None:
    """The load of each partition over the whole run, fullest first."""
    highest = 1.0
    for i, (run, look) in enumerate(drawn):
        busy = _relative_loads(run)
        width = 0.8 / len(drawn)
        places = np.arange(len(busy)) + (i - (len(drawn) - 1) / 2) * width
        axes.bar(
            places, busy, width, color=look.colour, hatch="///" if i == 0 else None,
            edgecolor="white", lw=0.4,
        )  # fmt: skip
        highest = max(highest, float(busy.max(initial=0)))
    axes.axhline(1.0, color=INK, lw=0.9)
    axes.set_ylim(0, highest * 1.12)
    axes.set_xticks([])
    _name(
        axes, "Load of each partition in the average batch, fullest first",
        "partitions", "messages ÷ average",
    )  # fmt: skip


def _relative_loads(run: MeasuredRun) -> Any:
    """The fullest, second fullest, … partition ÷ the average, as a mean over batches.

    Not of sums over batches: a partition that is overloaded in one half of the stream and idle in the
    other would look evenly loaded.
    """
    sums: Any = np.zeros(0)
    for batch in run.batches:
        if not batch["rows"]:
            continue
        rows = np.array([task["rows"] for task in batch["partitions"]], np.float64)
        tasks = round(batch["max_over_average"] * batch["rows"] / rows.max())
        ordered = np.zeros(max(tasks, len(rows)))
        ordered[: len(rows)] = np.sort(rows)[::-1] * tasks / batch["rows"]
        wide = np.zeros(max(len(sums), len(ordered)))
        wide[: len(sums)] += sums
        wide[: len(ordered)] += ordered
        sums = wide
    return sums / max(1, sum(1 for batch in run.batches if batch["rows"]))


def _legend(drawn: Drawn) -> tuple[list[Any], list[str]]:
    from matplotlib.lines import Line2D

    handles, labels = [], []
    for run, look in drawn:
        handles.append(Line2D([], [], **_line_and_mark(look)))
        labels.append(
            plain(
                f"{run.label}: {run.throughput:,.0f} messages per second, "
                f"{run.replication:.2f} partitions per key",
                120,
            )
        )
    return handles, labels


def _line_and_mark(look: Look) -> dict[str, Any]:
    return {**look.mark, **look.line}


def _numbers(run: MeasuredRun) -> list[int]:
    return [batch["batch"] for batch in run.batches]


def _batches(axes: Any, drawn: Drawn) -> None:
    from matplotlib.ticker import MaxNLocator

    last = max(max(_numbers(run), default=0) for run, _ in drawn)
    axes.set_xlim(-0.5, last + 0.5)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def _mark_change(axes: Any, batch: int | None) -> None:
    if batch is None:
        return
    axes.axvline(batch - 0.5, color=QUIET, lw=1, ls=":")
    axes.annotate(
        "hot keys change", (batch - 0.5, 0), xytext=(4, 4), textcoords="offset points",
        fontsize=9, color=QUIET,
    )  # fmt: skip


def _name(axes: Any, title: str, x: str, y: str) -> None:
    axes.grid(color=GRID, lw=0.8, axis="y")
    axes.spines["bottom"].set_color(FAINT)
    axes.set_title(title, loc="left", fontsize=11, color=INK)
    axes.set_xlabel(x, fontsize=10)
    axes.set_ylabel(y, fontsize=10)
