"""Batches of a query as they are committed: bars on a terminal, a line per batch elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from evenflow.cli.terminal import cell, note, safe

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.text import Text

_BLOCKS = " ▏▎▍▌▋▊▉█"
_SPARKS = "▁▂▃▄▅▆▇█"
_FULL, _EVEN = "dark_orange3", "deep_sky_blue4"
_MUCH = 1.3  #: × average, from which a partition is drawn as overloaded
_LEAST_SCALE = 2.0  #: × average, the shortest scale of the bars
_OTHER_LINES = 9  #: of the view, besides a line for each partition


class BatchesView:
    """Shows the metrics of committed batches; this one shows nothing."""

    def begin(self, label: str, batches: int | None = None) -> None:
        """Start a new run; `batches` is their number, if known."""

    def doing(self, what: str) -> None:
        """Show a step before, between or after the runs."""

    def show(self, metrics: Mapping[str, Any]) -> None:
        """Show a batch that has been committed."""


@contextmanager
def batches_view(quiet: bool = False) -> Iterator[BatchesView]:
    """A live view on a terminal, a line per batch elsewhere, nothing if `quiet`; on standard error."""
    if quiet:
        yield BatchesView()
    elif sys.stderr.isatty():
        from rich.console import Console
        from rich.live import Live

        view = _Bars()
        console = Console(stderr=True, highlight=False, markup=False, emoji=False)
        with Live(view, console=console, refresh_per_second=4, transient=True):
            yield view
    else:
        yield _Lines()


def batch_line(metrics: Mapping[str, Any]) -> str:
    """One batch on one line.

    Example:
        >>> print(batch_line({"batch": 3, "scheme": "key", "rows": 100, "durations": {"tasks": 0.5},
        ...     "max_over_average": 5.2, "replication": 1.0,
        ...     "hot_keys": [{"key": '["home"]', "lower": 32, "upper": 32}]}))
        batch 3, key: 100 rows in 0.5 s (200 per second); fullest 5.20 × average; hottest key home, 32 %
    """
    seconds = sum(metrics["durations"].values())
    line = (
        f"batch {metrics['batch']}, {metrics['scheme']}: {metrics['rows']:,} rows in {seconds:.1f} s "
        f"({metrics['rows'] / seconds if seconds else 0:,.0f} per second)"
    )
    if not metrics["rows"]:
        return line
    line += f"; fullest {metrics['max_over_average']:.2f} × average"
    if metrics["hot_keys"]:
        hottest = metrics["hot_keys"][0]
        share = hottest["lower"] / metrics["rows"]
        line += f"; hottest key {key_name(hottest['key'])}, {100 * share:.0f} %"
    return line


def key_name(text: str, longest: int = 28) -> str:
    """A key of the metrics (a JSON list of its columns), for people.

    Example:
        >>> key_name('["home", 7]'), key_name('[null]')
        ('home, 7', 'null')
    """
    import json

    try:
        parts = [part if isinstance(part, str) else json.dumps(part) for part in json.loads(text)]
    except ValueError:
        parts = [text]
    name = safe(", ".join(parts))
    return name if len(name) <= longest else name[: longest - 1] + "…"


class _Lines(BatchesView):
    def __init__(self) -> None:
        self._label = ""

    def begin(self, label: str, batches: int | None = None) -> None:
        self._label = f"{label}: "
        if batches is not None:
            note(f"{label}: {batches} batches")

    def doing(self, what: str) -> None:
        note(what)

    def show(self, metrics: Mapping[str, Any]) -> None:
        note(self._label + batch_line(metrics))


class _Run:
    """The batches of one run so far."""

    def __init__(self, label: str, batches: int | None) -> None:
        self.label, self.batches = label, batches
        self.done = self.rows = 0
        self.seconds = 0.0
        self.rates: list[float] = []
        self.last: Mapping[str, Any] | None = None
        self.since = time.monotonic()

    def take(self, metrics: Mapping[str, Any]) -> None:
        seconds = sum(metrics["durations"].values())
        self.done += 1
        self.rows += metrics["rows"]
        self.seconds += seconds
        self.rates.append(metrics["rows"] / seconds if seconds else 0.0)
        self.last = metrics
        self.since = time.monotonic()

    @property
    def title(self) -> str:
        of = "" if self.batches is None else f" of {self.batches}"
        return f"{self.label} · {self.done}{of} batches · {self.rows:,} rows"


class _Bars(BatchesView):
    """The view on a terminal. Rich redraws it a few times per second, from another thread."""

    def __init__(self) -> None:
        self._before: list[_Run] = []
        self._run: _Run | None = None
        self._doing = ""
        self._since = time.monotonic()
        self._scale = _LEAST_SCALE

    def begin(self, label: str, batches: int | None = None) -> None:
        if self._run is not None:
            self._before = [*self._before, self._run]
        self._doing, self._run = "", _Run(label, batches)

    def doing(self, what: str) -> None:
        self._doing, self._since = what, time.monotonic()

    def show(self, metrics: Mapping[str, Any]) -> None:
        if self._run is not None:
            # One scale for all batches and runs, or an even run would look as full as an uneven one.
            self._scale = max(self._scale, metrics["max_over_average"])
            self._run.take(metrics)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for old in self._before:
            rate = old.rows / max(old.seconds, 1e-9)
            yield cell(f"{old.title} · {rate:,.0f} rows per second", "dim")
        run = self._run
        if self._doing or run is None:
            seconds = time.monotonic() - self._since
            yield cell(f"{self._doing or 'starting'} … {seconds:.0f} s", "bold")
            return
        waited = time.monotonic() - run.since
        title = run.title
        if run.batches is None or run.done < run.batches:
            title += f" · {waited:.0f} s since the last batch" if run.done else f" · {waited:.0f} s"
        yield cell(title, "bold")
        if run.last is None or not run.last["rows"]:
            return
        lines = max(4, options.height or console.height) - _OTHER_LINES - len(self._before)
        from rich.table import Table

        grid = Table.grid(padding=(0, 3, 0, 0))
        bars = _partitions(run.last, self._scale, max(20, console.width - 46), max(4, lines))
        grid.add_row(bars, _figures(run.last, run.rates))
        yield grid


def _partitions(metrics: Mapping[str, Any], scale: float, width: int, most: int) -> Text:
    """A bar per partition with a mark at the average; the fullest `most` partitions only."""
    loads = {p["partition"]: p["rows"] for p in metrics["partitions"]}
    average = max(loads.values()) / metrics["max_over_average"]
    loads = {p: loads.get(p, 0) for p in range(round(metrics["rows"] / average))}
    shown = sorted(loads, key=lambda p: (-loads[p], p))[:most]
    width = min(width - 14, 60)
    text = cell(f"partition, rows in batch {metrics['batch']}; ┊ average", "dim")
    for partition in sorted(shown):
        share = loads[partition] / average
        text.append(f"\n{partition:>4} ", "default")
        text.append_text(_bar(share / scale, 1 / scale, width, share >= _MUCH))
        text.append(f" {loads[partition]:,}")
    if len(shown) < len(loads):
        text.append(f"\n     the {len(shown)} fullest of {len(loads)}", "dim")
    return text


def _bar(share: float, mark: float, width: int, much: bool) -> Text:
    from rich.text import Text

    eighths = round(min(share, 1.0) * width * 8)
    bar = (_BLOCKS[8] * (eighths // 8) + _BLOCKS[eighths % 8]).ljust(width)[:width]
    at = min(width - 1, int(mark * width))
    if bar[at] == " ":
        bar = bar[:at] + "┊" + bar[at + 1 :]
    return Text(bar, _FULL if much else _EVEN)


def _figures(metrics: Mapping[str, Any], rates: list[float]) -> Text:
    """Throughput, imbalance, scheme and hot keys."""
    text = cell("rows per second", "dim")
    text.append(f"\n{rates[-1]:>9,.0f} {_spark(rates[-16:])}", "bold")
    text.append("\nfullest ÷ average", "dim")
    ratio = metrics["max_over_average"]
    text.append(f"\n{ratio:>9.2f}×", f"bold {_FULL if ratio >= _MUCH else _EVEN}")
    text.append("\npartitions per key", "dim")
    text.append(f"\n{metrics['replication']:>9.2f}")
    text.append("\nscheme", "dim")
    text.append(f"\n{metrics['scheme']:>9}")
    text.append("\nhot keys", "dim")
    for hot in metrics["hot_keys"][:5]:
        share = 100 * hot["lower"] / metrics["rows"]
        text.append(f"\n{share:>7.1f} % {key_name(hot['key'], 18)}")
    return text


def _spark(values: list[float]) -> str:
    """Values as a line of small bars.

    Example:
        >>> _spark([0.0, 5.0, 10.0])
        '▁▅█'
    """
    most = max(values, default=0.0)
    return "".join(_SPARKS[round(v / most * 7) if most else 0] for v in values)
