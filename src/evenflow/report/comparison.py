"""One picture that compares schemes: imbalance, and what avoiding it costs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from evenflow.grouping import schemes
from evenflow.metrics.roster import F64, fair_shares
from evenflow.model import InputError, Workers
from evenflow.report.labels import place_labels
from evenflow.report.style import (
    BLUE,
    FAINT,
    GRID,
    INK,
    VERMILLION,
    house_style,
    name_round_numbers,
    new_figure,
    plain,
    save_figure,
)
from evenflow.simulator import Result

_SPLITS, _KEEPS = BLUE, VERMILLION


def draw_comparison(results: Mapping[str, Result], path: Path) -> Path:
    """Draws the load of every worker, and imbalance against memory, as a PNG.

    Parameters:
        results: label → result, best first; all of the same stream and roster.
        path: the file to write.

    Example:
        >>> import tempfile
        >>> from evenflow.simulator import simulate
        >>> from evenflow.simulator.workloads import Zipf
        >>> result = simulate("key", Zipf(messages=1_000), workers=3)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     draw_comparison({"key": result}, Path(folder) / "compare.png").name
        'compare.png'
    """
    if not results:
        raise InputError("nothing to draw: no scheme has a result")
    with house_style():
        figure = new_figure(13.5, 2.7 + 0.36 * max(len(results), 8))
        figure.set_layout_engine("constrained", w_pad=0.12, h_pad=0.1, wspace=0.06)
        left, right = figure.subplots(1, 2, width_ratios=(1.15, 1))
        for axes in (left, right):
            axes.tick_params(labelsize=10)
        figure.suptitle(_title(next(iter(results.values()))), x=0.01, ha="left", fontsize=12)
        _draw_loads(left, results)
        _draw_trade(right, results)
        return save_figure(figure, path)


def _title(result: Result) -> str:
    stream = result.workload
    words = [f"{result.messages:,} messages", f"{result.keys:,} keys"]
    if "zipf" in stream:
        words.append(f"Zipf z = {stream['zipf']:g}")
    if "input" in stream:
        words.append(plain(Path(stream["input"]).name))
    if stream.get("drift"):
        words.append(f"hot keys change every {stream['drift']:,}")
    return ", ".join(words) + f"  →  {result.workers} workers, {result.sources} sources"


def _draw_loads(axes: Any, results: Mapping[str, Result]) -> None:
    """Every worker's load as one tick; the busiest one's worst window as a mark."""
    for row, result in enumerate(results.values()):
        relative = _relative_loads(result)
        colour, _ = _style(result)
        axes.plot(
            [relative.min(), relative.max()], [row, row], color=colour, alpha=0.25, lw=6,
            solid_capstyle="butt",
        )  # fmt: skip
        axes.plot(
            relative, np.full(len(relative), row), "|", ms=13, mew=1.1, color=colour, alpha=0.7
        )
        if result.worst_sliding_window is not None:
            worst = result.worst_sliding_window
            axes.plot(worst, row, "D", ms=6, mfc="white", mec=INK, mew=1.2, zorder=3)
            axes.annotate(
                f"{worst:.2f}×" if worst < 10 else f"{worst:.0f}×",
                (worst, row), xytext=(9, 0), textcoords="offset points",
                va="center", fontsize=9, color=INK,
            )  # fmt: skip
    axes.axvline(1.0, color=INK, lw=0.9, zorder=0)
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    axes.set_xlim(min(low, 0.5), max(high, 2.0) * 1.6)  # room for the number beside the last mark
    name_round_numbers(axes.xaxis)
    axes.set_yticks(range(len(results)), [plain(label) for label in results], fontsize=11)
    axes.set_ylim(len(results) - 0.4, -0.6)
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color=GRID, lw=0.8)
    axes.set_axisbelow(True)
    axes.set_xlabel("load of a worker ÷ fair load (1 is perfect)", fontsize=10.5, color=INK)
    axes.set_title(
        "How even: each tick is a worker, ◇ the worst 20,000 messages",
        loc="left", fontsize=11, color=INK,
    )  # fmt: skip


def _draw_trade(axes: Any, results: Mapping[str, Result]) -> None:
    """Imbalance against replication, both on logarithmic axes, with the names beside the marks."""
    values = np.array([r.imbalance_mean for r in results.values()])
    # A perfect scheme has no logarithm: it is drawn on the floor, below all others.
    floor = 10.0 ** np.floor(np.log10(max(min(values[values > 0], default=1e-6), 1e-9)))
    spots = [(r.replication, max(v, floor)) for r, v in zip(results.values(), values, strict=True)]
    for result, (x, y) in zip(results.values(), spots, strict=True):
        colour, marker = _style(result)
        axes.plot(x, y, marker, ms=9, color=colour, mec="white", mew=0.8, zorder=3)
    axes.set_xscale("log")
    axes.set_yscale("log")
    most = max(x for x, _ in spots)
    axes.set_xlim(0.85, max(most, 2.0) * 1.9)  # room for names right of the last mark
    axes.set_ylim(floor / 2.5, max(y for _, y in spots) * 3)
    name_round_numbers(axes.xaxis)
    axes.grid(color=GRID, lw=0.8)
    axes.set_axisbelow(True)
    axes.set_xlabel("replication: workers that hold a key, on average", fontsize=10.5, color=INK)
    axes.set_ylabel("imbalance, average over time", fontsize=10.5, color=INK)
    axes.set_title(
        "At what price: even and cheap is at the bottom left", loc="left", fontsize=11, color=INK
    )
    for colour, marker, meaning in (
        (_SPLITS, "o", "may split a key"),
        (_KEEPS, "s", "one worker per key"),
    ):
        axes.plot([], [], marker, color=colour, ms=8, mec="white", label=meaning)
    axes.legend(loc="upper right", frameon=False, fontsize=10, handletextpad=0.2)
    names = [
        plain(label) + ("" if v > 0 else " (0)") for label, v in zip(results, values, strict=True)
    ]
    place_labels(axes, spots, names, colour=INK, line=FAINT)


def _relative_loads(result: Result) -> F64:
    """Load ÷ fair load of each worker; an idle one is drawn at 0.01, so that it is visible."""
    fair = result.messages * fair_shares(Workers.numbered(result.workers, result.weights))
    relative: F64 = np.maximum(np.array(result.loads) / fair, 0.01)
    return relative


def _style(result: Result) -> tuple[str, str]:
    """Colour and shape: whether the scheme splits keys."""
    scheme = schemes().get(result.grouping)
    return (_SPLITS, "o") if getattr(scheme, "splits_keys", True) else (_KEEPS, "s")
