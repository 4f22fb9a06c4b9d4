"""Output to the terminal: strict JSON, safe text, tables, progress."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

_WIDTH_OF_A_PIPE = 200  # a file or a pipe has no width; do not fold tables at 80


def print_json(value: Any) -> None:
    """Prints one JSON document; a value that strict JSON does not have is an error."""
    print(json.dumps(value, indent=2, allow_nan=False))


def safe(text: str) -> str:
    """`text` on one line, with control characters escaped.

    Example:
        >>> print(safe("red \\x1b[31m key\\n"))
        red \\x1b[31m key\\n
    """
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text
    )


def cell(text: object, style: str = "") -> Text:
    """Text for a table, without rich's markup."""
    from rich.text import Text

    return Text(safe(str(text)), style=style)


def stdout() -> Console:
    """The console for tables: as wide as the terminal, or wide enough for a pipe."""
    from rich.console import Console

    width = None if sys.stdout.isatty() else _WIDTH_OF_A_PIPE
    return Console(width=width, highlight=False, markup=False, emoji=False)


def say(console: Console, text: str, style: str = "") -> None:
    """Prints a paragraph, folded only on a terminal."""
    console.print(cell(text, style), soft_wrap=not console.is_terminal)


def new_table() -> Table:
    """An empty table in this program's style."""
    from rich import box
    from rich.table import Table

    return Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold")


def table_of(first: str, *others: str) -> Table:
    """An empty table: names first, then right-justified numbers; remarks have no heading."""
    table = new_table()
    table.add_column(first, overflow="fold", max_width=60)
    for heading in others:
        table.add_column(heading, justify="right" if heading else "left", no_wrap=True)
    return table


def note(text: str) -> None:
    """Prints one line on standard error, beside the output proper."""
    print(safe(text), file=sys.stderr)


Report = Callable[[str, int, int | None], None]  #: (step, done, total)


@contextmanager
def progress(title: str, quiet: bool = False) -> Iterator[Report]:
    """A progress bar on a terminal; elsewhere a line per step, unless `quiet`. On standard error."""
    if sys.stderr.isatty():
        with _bar(title) as report:
            yield report
        return
    last = ""

    def say(what: str, done: int, total: int | None) -> None:
        nonlocal last
        if what != last and not quiet:
            note(f"{title}: {what}")
        last = what

    yield say


@contextmanager
def _bar(title: str) -> Iterator[Report]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
    )

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(safe(title), total=None)

        def show(what: str, done: int, total: int | None) -> None:
            bar.update(task, description=safe(f"{title}: {what}"), completed=done, total=total)

        yield show
