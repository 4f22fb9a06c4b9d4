"""A long run on the terminal: cells done, and the time left."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from evenflow.cli.terminal import note, safe

if TYPE_CHECKING:
    from evenflow_lab.experiments import Progress

_EVERY = 5.0  #: seconds between lines where there is no terminal


@contextmanager
def countdown(title: str, quiet: bool = False) -> Iterator[Callable[[Progress], None]]:
    """A bar on a terminal; elsewhere a line every few seconds, and one at the end.

    It is written to standard error, so that standard output holds the answer alone.

    Parameters:
        title: what is going on.
        quiet: no lines where there is no terminal.
    """
    show = _bar(title) if sys.stderr.isatty() else _silence() if quiet else _lines(title)
    with show as tell:
        yield tell


def time_left(seconds: float | None) -> str:
    """The time left in words, no finer than it is known.

    Example:
        >>> time_left(None), time_left(4.2), time_left(100), time_left(4000)
        ('', 'about 5 s left', 'about 2 min left', 'about 1 h 7 min left')
    """
    if seconds is None:
        return ""
    if seconds < 60:
        return f"about {5 * (int(seconds) // 5 + 1)} s left"
    minutes = round(seconds / 60)
    return (
        f"about {minutes} min left"
        if minutes < 60
        else (f"about {minutes // 60} h {minutes % 60} min left")
    )


@contextmanager
def _silence() -> Iterator[Callable[[Progress], None]]:
    yield lambda progress: None


@contextmanager
def _lines(title: str) -> Iterator[Callable[[Progress], None]]:
    latest: list[Progress] = []
    finished = threading.Event()

    def line() -> None:
        if latest:
            state = latest[-1]
            parts = [f"{state.done} of {state.total} runs"]
            if state.done < state.total:
                parts += [time_left(state.seconds_left), state.what or "under way"]
            note(f"{title}: {', '.join(filter(None, parts))}")

    def every_few_seconds() -> None:
        while not finished.wait(_EVERY):
            line()

    ticker = threading.Thread(target=every_few_seconds, daemon=True)
    ticker.start()
    try:
        yield lambda progress: latest.__setitem__(slice(None), [progress])
    finally:
        finished.set()
        ticker.join()
        line()


@contextmanager
def _bar(title: str) -> Iterator[Callable[[Progress], None]]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
    )
    from rich.progress import Progress as Bar

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}", markup=False),
        TextColumn("{task.fields[what]}", markup=False, style="dim"),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(safe(title), total=None, left="", what="under way")

        def show(progress: Progress) -> None:
            bar.update(
                task,
                completed=progress.done,
                total=progress.total,
                left=time_left(progress.seconds_left) if progress.done < progress.total else "",
                what=safe(progress.what or "under way"),
            )

        yield show
