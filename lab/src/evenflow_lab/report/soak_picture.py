"""The picture of a long run: what must stay flat, over its batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evenflow.report.style import BLUE, house_style, new_figure, save_figure

_PANELS = (
    ("memory", 1e-6, "memory, MB"),
    ("files", 1.0, "open files"),
    ("objects", 1.0, "objects in the checkpoint"),
    ("bytes", 1e-6, "checkpoint, MB"),
    ("metrics", 1e-6, "metrics, MB"),
    ("seconds", 1e3, "batch, ms"),
)


def draw_soak(samples: Sequence[Mapping[str, Any]], path: Path) -> Path:
    """One panel per figure, each from zero, with the number of the batch below."""
    with house_style():
        figure = new_figure(9.0, 4.6)
        panels = figure.subplots(2, 3, sharex=True).flat
        at = [sample["batch"] for sample in samples]
        for axes, (name, factor, label) in zip(panels, _PANELS, strict=True):
            axes.plot(at, [sample[name] * factor for sample in samples], color=BLUE, lw=1)
            axes.set_ylim(bottom=0)
            axes.set_title(label, fontsize=9)
        figure.supxlabel("batch", fontsize=9)
        return save_figure(figure, path)
