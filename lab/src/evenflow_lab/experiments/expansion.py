"""From a figure to its runs: every combination of the grid, for each scheme and each seed."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from evenflow.model import InputError
from evenflow.model.discovery import look_up
from evenflow.simulator.cluster import Cluster
from evenflow_lab.experiments.arithmetic import evaluate, names_in
from evenflow_lab.experiments.declaration import Figure, read_change
from evenflow_lab.experiments.fields import Table
from evenflow_lab.workloads.declaration import workloads

Cell = dict[str, Any]  #: one run, as plain JSON

CELL_FIELDS = ("workers", "sources", "seed", "timeline")
CLUSTER_FIELDS = tuple(f.name for f in dataclasses.fields(Cluster) if f.name not in CELL_FIELDS)

_BRACES = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True)
class Run:
    """A cell, and what the figure calls it.

    Parameters:
        cell: what is run. Two figures may share it.
        labels: columns of the figure's rows that the cell itself does not know: the values of the
            grid, the scheme as the figure names it, and `extra` for runs on other workloads.
    """

    cell: Cell
    labels: Mapping[str, Any]


def expand(figure: Figure, quick: bool) -> list[Cell]:
    """The cells of a figure, in the order of the declaration.

    Parameters:
        figure: what is declared.
        quick: with the changes of its `quick` table.

    Example:
        >>> from evenflow_lab.experiments import Plot
        >>> plot = Plot(x="zipf", y=("imbalance",))
        >>> figure = Figure(
        ...     "fig1", "", "", "routing", plot, schemes=("w-choices:theta={share/n}",),
        ...     workload={"name": "zipf"}, grid={"zipf": (0.5,), "workers": (5,), "share": (2, 1)},
        ... )
        >>> [cell["grouping"] for cell in expand(figure, quick=False)]
        ['w-choices:theta=0.4', 'w-choices:theta=0.2']
        >>> expand(figure, quick=False)[0]["workload"]
        {'name': 'zipf', 'zipf': 0.5, 'seed': 1}
    """
    return [run.cell for run in plan(figure, quick)]


def plan(figure: Figure, quick: bool) -> list[Run]:
    """The runs of a figure: `expand`, with the labels that its rows bear."""
    where = f"{figure.paper}/{figure.id}" if figure.paper else figure.id
    base = _changed(figure, figure.quick, f"{where}: quick") if quick else figure
    runs = list(_runs(base, where, extra=False))
    for number, change in enumerate(figure.extra, start=1):
        runs += _runs(_extra(base, change, quick, where), f"{where}: extra {number}", extra=True)
    return runs


def with_schemes(figure: Figure, files: Mapping[str, Mapping[str, str]]) -> Figure:
    """The figure with a user's schemes beside its own, wherever it names any.

    Parameters:
        figure: a routing figure.
        files: name → file of each scheme, as `read_scheme_file` gives them.
    """

    def added(change: Mapping[str, Any]) -> dict[str, Any]:
        result = dict(change)
        if "schemes" in result:
            result["schemes"] = [*Table("", change).texts("schemes"), *files]
        if "quick" in result:
            result["quick"] = added(result["quick"])
        return result

    return dataclasses.replace(
        figure,
        schemes=(*figure.schemes, *files),
        quick=added(figure.quick),
        extra=tuple(added(change) for change in figure.extra),
        scheme_files=files,
    )


def on_file(figure: Figure, path: Path, key: Sequence[str]) -> Figure:
    """The figure with a file's keys in place of its workload, and a picture that suits them.

    The grid loses the fields of the old workload (a file has no skew to choose); an axis that showed
    one of them shows the number of workers.
    """
    if figure.kind == "analysis":
        raise InputError(
            f"{figure.paper}/{figure.id} is a formula and reads no stream; leave --input out"
        )
    workload = {"name": "file", "input": str(path.resolve()), "key": list(key)}

    def without_workload(change: Mapping[str, Any]) -> dict[str, Any]:
        kept = {name: value for name, value in change.items() if name not in {"workload", "grid"}}
        grid = {n: v for n, v in change.get("grid", {}).items() if not _of_workload(figure, n)}
        return {**kept, "grid": grid} if grid else kept

    grid = {n: values for n, values in figure.grid.items() if not _of_workload(figure, n)}
    plot, shown_apart = figure.plot, {"grouping", "scheme", *grid}
    panels = [name for name in plot.panels if name in shown_apart]
    series = [name for name in plot.series if name in shown_apart]
    plot = dataclasses.replace(plot, y_limits=None, series=tuple(series) or ("grouping",))
    if plot.x not in {"time", *shown_apart}:
        plot = dataclasses.replace(plot, x="workers", x_label="workers", x_limits=None, log_x=False)
    return dataclasses.replace(
        figure,
        title=f"As {figure.id}, on {path.name} by {', '.join(key)}",
        workload=workload,
        grid=grid,
        quick=without_workload(figure.quick),
        extra=(),
        plot=dataclasses.replace(plot, panels=tuple(n for n in panels if n != plot.x)),
    )


def _changed(figure: Figure, change: Mapping[str, Any], where: str) -> Figure:
    """The figure with a `quick` table's fields: tables merged, everything else replaced."""
    fields = read_change(Table(where, change))
    for name in ("grid", "cluster", "parameters"):
        if name in fields:
            fields[name] = {**getattr(figure, name), **fields[name]}
    if "workload" in fields:
        fields["workload"] = merged(figure.workload, fields["workload"])
    return dataclasses.replace(figure, **fields)


def _extra(base: Figure, change: Mapping[str, Any], quick: bool, where: str) -> Figure:
    fields = read_change(Table(f"{where}: extra", change))
    if "grid" not in fields:
        fields["grid"] = {n: v for n, v in base.grid.items() if not _of_workload(base, n)}
    if "workload" in fields:
        fields["workload"] = merged(base.workload, fields["workload"])
    if "cluster" in fields:
        fields["cluster"] = {**base.cluster, **fields["cluster"]}
    figure = dataclasses.replace(base, **fields)
    return _changed(figure, change.get("quick", {}), f"{where}: extra: quick") if quick else figure


def merged(workload: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """The workload with some fields changed; another one altogether where the name is another.

    Example:
        >>> merged({"name": "zipf", "zipf": 1.0}, {"messages": 10})
        {'name': 'zipf', 'zipf': 1.0, 'messages': 10}
        >>> merged({"name": "zipf", "zipf": 1.0}, {"name": "flights"})
        {'name': 'flights'}
    """
    if change.get("name", workload.get("name")) != workload.get("name"):
        return dict(change)
    return {**workload, **change}


def _runs(figure: Figure, where: str, extra: bool) -> Iterator[Run]:
    names = list(figure.grid)
    for values in product(*figure.grid.values()):
        point = dict(zip(names, values, strict=True))
        labels = {
            name.rpartition(".")[2]: value
            for name, value in point.items()
            if not isinstance(value, Mapping)
        }
        labels["extra"] = extra
        if figure.kind == "analysis":
            yield Run(_analysis(figure, point), labels)
            continue
        for scheme, seed in product(figure.schemes, figure.seeds):
            cell = _cell(figure, point, scheme, seed, where)
            yield Run(cell, {**labels, "grouping": _without_braces(scheme)})


def _analysis(figure: Figure, point: Mapping[str, Any]) -> Cell:
    return {
        "kind": "analysis",
        "paper": figure.paper,
        "function": figure.function,
        "parameters": {**figure.parameters, **point},
    }


def _cell(figure: Figure, point: Mapping[str, Any], scheme: str, seed: int, where: str) -> Cell:
    workload = merged(figure.workload, point.get("workload", {}))
    cluster = {**figure.cluster, **point.get("cluster", {})}
    cell: Cell = {
        "kind": figure.kind,
        "workers": figure.workers,
        "sources": figure.sources,
        "seed": seed,
        "timeline": figure.timeline or figure.plot.x == "time",
    }
    for name, value in point.items():
        place, plain = _place(figure, name)
        if place == "cell":
            cell[plain] = value
        elif place == "cluster":
            cluster[plain] = value
        elif place == "workload":
            workload[plain] = value
    if _has_seed(workload, where):
        workload.setdefault("seed", cell["seed"])
    cell["workload"] = workload
    cell["grouping"] = _filled(scheme, {**point, "n": cell["workers"]}, where)
    if figure.kind == "queueing":
        cell["cluster"] = cluster
    own = figure.scheme_files.get(scheme.partition(":")[0])
    if own is not None:
        cell["scheme"] = dict(own)
    return cell


def _has_seed(workload: Mapping[str, Any], where: str) -> bool:
    """Real data are what they are: a seed means nothing to them."""
    try:
        chosen: Any = look_up("workload", workloads(), str(workload.get("name")))
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    return dataclasses.is_dataclass(chosen) and "seed" in {
        field.name for field in dataclasses.fields(chosen)
    }


def _place(figure: Figure, name: str) -> tuple[str, str]:
    """Where a name of the grid belongs (`cell`, `cluster`, `workload`, or nowhere: `scheme`,
    `whole`), and its plain name."""
    prefix, dot, plain = name.partition(".")
    if dot and prefix in {"cluster", "workload"}:
        return prefix, plain
    if name in {"cluster", "workload"}:
        return "whole", name
    if name in CELL_FIELDS:
        return "cell", name
    if any(name in names_in(part) for scheme in figure.schemes for part in _BRACES.findall(scheme)):
        return "scheme", name
    if figure.kind == "queueing" and name in CLUSTER_FIELDS:
        return "cluster", name
    return "workload", name


def _of_workload(figure: Figure, name: str) -> bool:
    return name == "workload" or _place(figure, name)[0] == "workload"


def _filled(scheme: str, names: Mapping[str, Any], where: str) -> str:
    """`w-choices:theta={1/n}` with the value of what stands in braces."""

    def value(match: re.Match[str]) -> str:
        try:
            return f"{evaluate(match[1], names):.12g}"
        except InputError as error:
            raise InputError(f"{where}: scheme {scheme!r}: {error}") from None

    return _BRACES.sub(value, scheme)


def _without_braces(scheme: str) -> str:
    """The scheme as a figure's legend names it: parameters that the grid sets are the grid's."""
    name, _, parameters = scheme.partition(":")
    fixed = [item for item in parameters.split(",") if item and not _BRACES.search(item)]
    return f"{name}:{','.join(fixed)}" if fixed else name
