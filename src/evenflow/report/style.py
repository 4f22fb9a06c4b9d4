"""What all pictures share: colours, marks, text, and writing the file."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenflow.model import InputError

INK, QUIET, FAINT, GRID = "#222222", "#5c5c5c", "#b8b8b8", "#ececec"

# Okabe and Ito's colours, which people of all kinds of colour vision can distinguish; marks and
# dashes repeat the distinction.
BLUE, VERMILLION, GREEN, ORANGE = "#0072B2", "#D55E00", "#009E73", "#E69F00"

Dash = str | tuple[int, tuple[float, ...]]


@dataclass(frozen=True)
class Look:
    """How one series is drawn.

    Parameters:
        colour, marker, dash: as matplotlib takes them.
        fill: how much of a mark is filled: `full`, `left` half, or `none`.
    """

    colour: str
    marker: str
    dash: Dash
    fill: str = "full"

    @property
    def mark(self) -> dict[str, Any]:
        """The mark alone, as matplotlib's `plot` takes it."""
        full = self.fill == "full"
        return {
            "marker": self.marker or None,
            "ls": "none",
            "color": self.colour,
            "fillstyle": "left" if self.fill == "left" else "full",
            "mfc": "white" if self.fill == "none" else self.colour,
            "markerfacecoloralt": "white",
            "mec": "white" if full else self.colour,
            "mew": 0.6 if full else 1.3,
            "ms": 9 if self.marker == "*" else 6,
        }

    @property
    def line(self) -> dict[str, Any]:
        """The line alone."""
        return {"color": self.colour, "ls": self.dash, "lw": 1.8}


@contextmanager
def house_style() -> Iterator[None]:
    """matplotlib's defaults with ours on top, so that the user's matplotlibrc changes nothing."""
    from matplotlib import style

    ours = {
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.axisbelow": True,
        "text.color": INK,
        "axes.edgecolor": INK,
        "axes.labelcolor": INK,
        "xtick.color": INK,
        "ytick.color": INK,
        "hatch.linewidth": 0.8,
    }
    with style.context(["default", ours]):
        yield


def new_figure(width: float, height: float) -> Any:
    """A figure without pyplot: no window system, no global state."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=150)
    FigureCanvasAgg(figure)
    return figure


def save_figure(figure: Any, path: Path) -> Path:
    """Writes a PNG, or an SVG where the name says so; the same figure gives the same bytes."""
    from matplotlib import rc_context

    dated = "Date" if path.suffix.lower() == ".svg" else "Software"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with warnings.catch_warnings(), rc_context({"svg.hashsalt": "evenflow"}):
            # Characters that the font lacks are drawn as boxes; a warning for each would be noise.
            warnings.filterwarnings("ignore", message=r"Glyph \d+")
            figure.savefig(path, metadata={dated: None})
    except OSError as error:
        raise InputError(f"{str(path)!r} cannot be written: {error.strerror or error}") from None
    return path


def name_round_numbers(axis: Any) -> None:
    """1, 2, 5, 10 rather than powers of ten."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(base=10, subs=(1, 2, 5)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def plain(text: str, longest: int = 80) -> str:
    r"""Text for a picture, with dollar signs escaped: they would start a formula.

    Example:
        >>> plain("cost in $\x07")
        'cost in \\$?'
    """
    return printable(text, longest).replace("$", r"\$")


def printable(text: str, longest: int | None = None) -> str:
    """`text` without control characters and marks of writing direction.

    Example:
        >>> printable("a\\x00b"), printable("abcdef", 4)
        ('a?b', 'abc…')
    """
    shown = "".join(c if c.isprintable() else "?" for c in text)
    return shown if longest is None or len(shown) <= longest else shown[: longest - 1] + "…"
