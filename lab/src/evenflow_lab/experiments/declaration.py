"""An experiment as data: papers and their figures, read from `papers/<name>/paper.toml`."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import evenflow_lab
from evenflow.model import InputError
from evenflow_lab.experiments.fields import Table

KINDS = ("routing", "queueing", "analysis")
STYLES = ("lines", "points", "bars", "stacked")


@dataclass(frozen=True)
class Plot:
    """How the rows of a figure become a picture.

    Parameters:
        x: the column on the horizontal axis; `time`: each row's timeline is drawn.
        y: the column on the vertical axis; several are one row of panels each.
        series: the column (or columns) that colours and markers tell apart.
        panels: the columns whose values get a panel each.
        style: `lines`, `points`, `bars` or `stacked` bars.
        log_x, log_y: logarithmic axes.
        lines: reference lines, `{ y = 5e-4, label = "s·ε" }` or `{ x = …, label = … }`.
        x_label, y_label: what the axes are called; as many y labels as y columns, or one.
        x_limits, y_limits: the ends of the axes, where they are not left to the data.
        panel_columns: panels beside each other; None for as many as fit.
    """

    x: str
    y: tuple[str, ...]
    series: tuple[str, ...] = ("grouping",)
    panels: tuple[str, ...] = ()
    style: str = "lines"
    log_x: bool = False
    log_y: bool = False
    lines: tuple[Mapping[str, Any], ...] = ()
    x_label: str = ""
    y_label: tuple[str, ...] = ()
    x_limits: tuple[float, float] | None = None
    y_limits: tuple[float, float] | None = None
    panel_columns: int | None = None


@dataclass(frozen=True)
class Figure:
    """One figure of a paper: what is run for it and how it is drawn.

    Every combination of the values in `grid`, for each scheme and each seed, is one run. A name in
    the grid is a field of the run (`workers`, `sources`, `timeline`), a field of the cluster where
    the kind is `queueing`, a name in braces in a scheme, or else a field of the workload. `workload`
    and `cluster` may be in the grid themselves, with whole tables as values.

    Parameters:
        id: `fig10`; the figure is called `PAPER/fig10`.
        title, shows: its name, and what it shows, in one or two sentences.
        kind: `routing` (no time), `queueing` (virtual time) or `analysis` (a formula).
        schemes: grouping schemes with parameters after a colon. What stands in braces is worked out
            for each run from the grid's fields and `n`, the workers: `w-choices:theta={share/n}`.
        workload: the stream, as `make_workload` takes it.
        workers, sources: how many, where the grid does not say.
        seeds: of hash functions, and of synthetic streams that have no seed of their own.
        grid: field → values.
        cluster: capacities, arrivals and queues, for `queueing`.
        function, parameters: the function of the paper's `analysis.py`, and what it is given beside
            the grid's fields, for `analysis`.
        timeline: measurements over time are kept; so they are where `plot.x` is `time`.
        quick: what `--quick` changes: any of these fields. Tables are merged field by field.
        extra: further runs in the same picture, on other workloads: `workload`, and `schemes`,
            `grid`, `cluster`, … where they differ. Without a grid of its own it has this one's,
            without the fields of the workload.
    """

    id: str
    title: str
    shows: str
    kind: str
    plot: Plot
    schemes: tuple[str, ...] = ()
    workload: Mapping[str, Any] = field(default_factory=dict)
    workers: int | None = None
    sources: int = 1
    seeds: tuple[int, ...] = (1,)
    grid: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    cluster: Mapping[str, Any] = field(default_factory=dict)
    function: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    timeline: bool = False
    quick: Mapping[str, Any] = field(default_factory=dict)
    extra: tuple[Mapping[str, Any], ...] = ()
    paper: str = ""  #: name of the paper it belongs to
    scheme_files: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  #: a user's own


@dataclass(frozen=True)
class Paper:
    """A paper: its figures as declared in `folder/paper.toml`.

    Parameters:
        name: the folder's name.
        title, reference: what the paper is called and where it appeared.
        note: what a reader of the reproduction should know, such as which data stand in for which.
    """

    name: str
    title: str
    reference: str
    note: str
    figures: tuple[Figure, ...]
    folder: Path

    def figure(self, id: str) -> Figure:
        """The figure of that id."""
        for figure in self.figures:
            if figure.id == id:
                return figure
        known = ", ".join(figure.id for figure in self.figures)
        raise InputError(f"{self.name!r} has no figure {id!r}; it has {known}")


def paper_folders() -> dict[str, Path]:
    """Name → folder of every paper, without reading them.

    They lie in `EVENFLOW_PAPERS`, where that is set, else in this package.
    """
    given = os.environ.get("EVENFLOW_PAPERS")
    place = Path(given) if given else Path(evenflow_lab.__file__).resolve().parent / "papers"
    found = {path.parent.name: path.parent for path in sorted(place.glob("*/paper.toml"))}
    if not found:
        raise InputError(
            f"no papers in {place}; set EVENFLOW_PAPERS to a folder that holds NAME/paper.toml"
        )
    return found


def papers() -> dict[str, Paper]:
    """Name → paper, for all of them."""
    return {name: load_paper(folder) for name, folder in paper_folders().items()}


def load_paper(folder: Path | str) -> Paper:
    """Reads `folder/paper.toml`; a mistake in it is named with its figure and field.

    Example:
        >>> import tempfile
        >>> scratch = tempfile.TemporaryDirectory()
        >>> folder = Path(scratch.name) / "example"
        >>> folder.mkdir()
        >>> _ = (folder / "paper.toml").write_text('''
        ... title = "An example"
        ... [[figure]]
        ... id = "fig1"
        ... title = "Imbalance and skew"
        ... kind = "routing"
        ... schemes = ["key", "partial-key"]
        ... workload = { name = "zipf", messages = 1000 }
        ... grid = { zipf = [0.5, 1.0], workers = [5] }
        ... plot = { x = "zipf", y = "imbalance" }
        ... ''')
        >>> paper = load_paper(folder)
        >>> paper.name, paper.figures[0].schemes
        ('example', ('key', 'partial-key'))
        >>> scratch.cleanup()
    """
    folder = Path(folder).resolve()
    path = folder / "paper.toml"
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not TOML: {error}") from None
    except RecursionError:
        raise InputError(f"{path} is not TOML: it is nested too deeply") from None
    table = Table(str(path), content)
    declared = table.tables("figure")
    figures: list[Figure] = []
    for number, one in enumerate(declared, start=1):
        figure = _figure(one, f"{path}: figure {one.get('id', number)!r}", folder.name)
        if any(figure.id == other.id for other in figures):
            raise InputError(f"{path}: two figures have the id {figure.id!r}; rename one")
        figures.append(figure)
    paper = Paper(
        name=folder.name,
        title=table.text("title"),
        reference=table.text("reference", ""),
        note=table.text("note", ""),
        figures=tuple(figures),
        folder=folder,
    )
    table.finish()
    if not figures:
        raise InputError(f"{path} declares no [[figure]]; add one")
    return paper


def _figure(content: Mapping[str, Any], where: str, paper: str) -> Figure:
    table = Table(where, content)
    figure = Figure(
        id=table.text("id"),
        title=table.text("title"),
        shows=table.text("shows", ""),
        kind=table.one_of("kind", KINDS, "routing"),
        plot=_plot(table.table("plot"), f"{where}: plot"),
        schemes=table.texts("schemes"),
        workload=table.table("workload", {}),
        workers=table.whole("workers", None),
        sources=table.whole("sources", 1) or 1,
        seeds=table.wholes("seeds", (1,)),
        grid=table.grid("grid"),
        cluster=table.table("cluster", {}),
        function=table.text("function", ""),
        parameters=table.table("parameters", {}),
        timeline=table.truth("timeline", False),
        quick=table.table("quick", {}),
        extra=tuple(table.tables("extra")),
        paper=paper,
    )
    table.finish()
    if "/" in figure.id or figure.id in {"", ".", ".."}:
        raise InputError(f"{where}: field 'id': a file name is needed, got {figure.id!r}")
    needs = ["function"] if figure.kind == "analysis" else ["schemes", "workload"]
    for name in needs:
        if not getattr(figure, name):
            raise InputError(f"{where}: field {name!r} is missing; {figure.kind!r} needs it")
    has_workers = figure.workers is not None or "workers" in figure.grid
    if figure.kind != "analysis" and not has_workers:
        raise InputError(f"{where}: field 'workers' is missing; put it into the grid")
    for name, changed in (("quick", [figure.quick]), ("extra", figure.extra)):
        for change in changed:
            check_change(change, f"{where}: {name}", quick_too=name == "extra")
    return figure


def check_change(change: Mapping[str, Any], where: str, quick_too: bool) -> None:
    """Refuses what `quick` and `extra` cannot change, and values of the wrong type."""
    table = Table(where, change)
    read_change(table)
    if quick_too:
        check_change(table.table("quick", {}), f"{where}: quick", quick_too=False)
    table.finish()


def read_change(table: Table) -> dict[str, Any]:
    """The fields of `Figure` that a `quick` or `extra` table sets."""
    readers: dict[str, Callable[[str], Any]] = {
        "schemes": table.texts,
        "workload": table.table,
        "workers": table.whole,
        "sources": table.whole,
        "seeds": table.wholes,
        "grid": table.grid,
        "cluster": table.table,
        "parameters": table.table,
        "timeline": table.truth,
    }
    return {name: read(name) for name, read in readers.items() if name in table}


def _plot(content: Mapping[str, Any], where: str) -> Plot:
    table = Table(where, content)
    plot = Plot(
        x=table.text("x"),
        y=table.texts("y", needed=True),
        series=table.texts("series") or ("grouping",),
        panels=table.texts("panels"),
        style=table.one_of("style", STYLES, "lines"),
        log_x=table.truth("log_x", False),
        log_y=table.truth("log_y", False),
        lines=tuple(table.tables("lines")),
        x_label=table.text("x_label", ""),
        y_label=table.texts("y_label"),
        x_limits=table.pair("x_limits"),
        y_limits=table.pair("y_limits"),
        panel_columns=table.whole("panel_columns", None),
    )
    table.finish()
    for line in plot.lines:
        if not ({"x", "y"} & line.keys()):
            raise InputError(f"{where}: field 'lines': each needs an x or a y, got {dict(line)}")
    return plot
