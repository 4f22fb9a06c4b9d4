"""One run: a pure function from a cell to its rows, so that it may run anywhere and be kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import perf_counter
from typing import Any

from evenflow.grouping import GroupingScheme
from evenflow.model import InputError
from evenflow.simulator.engine import simulate
from evenflow.simulator.queueing import Cluster, simulate_queues
from evenflow.simulator.result import plain_values
from evenflow.simulator.schemes import make_scheme
from evenflow.simulator.workloads import Workload
from evenflow_lab.experiments.declaration import paper_folders
from evenflow_lab.experiments.expansion import Cell
from evenflow_lab.experiments.modules import load_module
from evenflow_lab.experiments.scheme_files import scheme_from_file
from evenflow_lab.workloads.declaration import make_workload

Row = dict[str, Any]

_UNKNOWN_LENGTH = 1_000_000
_FORMULA = 1_000  #: messages that an analysis without a stream is as much work as
# Of a message, roughly. An analysis may run its stream several times, and is better begun early.
_COST = {"routing": 1.0, "queueing": 3.0, "analysis": 3.0}


def run_cell(cell: Mapping[str, Any]) -> list[Row]:
    """Runs one cell. A routing or queueing cell has one row, an analysis one or several.

    Guarantee: the rows, apart from `ns_per_message`, depend on the cell alone, and are plain JSON.

    Parameters:
        cell: as `expand` makes them.

    Example:
        >>> [row] = run_cell({
        ...     "kind": "routing", "grouping": "key", "workers": 5, "sources": 1, "seed": 1,
        ...     "workload": {"name": "zipf", "zipf": 2.0, "keys": 100, "messages": 1000, "seed": 1},
        ... })
        >>> row["grouping"], row["workload_name"], row["zipf"], row["replication"]
        ('key', 'zipf', 2.0, 1.0)
    """
    kinds: dict[str, Callable[[Mapping[str, Any]], list[Row]]] = {
        "routing": _routing,
        "queueing": _queueing,
        "analysis": _analysis,
    }
    kind = cell.get("kind")
    if kind not in kinds:
        raise InputError(f"a cell's kind is one of {', '.join(kinds)}, got {kind!r}")
    rows: list[Row] = plain_values(kinds[kind](cell))
    return rows


def run_and_time(cell: Mapping[str, Any]) -> dict[str, Any]:
    """`run_cell`, with the seconds it took: `{"rows": …, "seconds": …}`.

    What the user did wrong is reported with the cell it happened in; and so is anything at all that
    goes wrong in a scheme of the user's own.
    """
    began = perf_counter()
    try:
        rows = run_cell(cell)
    except InputError as error:
        raise InputError(f"{describe(cell)}: {error}") from None
    except Exception as error:
        if "scheme" not in cell:
            raise
        raise InputError(
            f"{cell['scheme']['file']}: {describe(cell)}: {type(error).__name__}: {error}"
        ) from error
    return {"rows": rows, "seconds": perf_counter() - began}


def describe(cell: Mapping[str, Any]) -> str:
    """The cell in a few words.

    Example:
        >>> describe({"kind": "analysis", "paper": "x", "function": "head", "parameters": {}})
        'head of x'
        >>> describe({"kind": "routing", "grouping": "key", "workload": {"name": "wp"}, "workers": 9})
        'key on wp, 9 workers'
    """
    if cell["kind"] == "analysis":
        return f"{cell['function']} of {cell['paper']}"
    return f"{cell['grouping']} on {cell['workload'].get('name')}, {cell['workers']} workers"


def cost(cell: Mapping[str, Any]) -> float:
    """About how much work a cell is, in routed messages: to begin with the longest."""
    if cell["kind"] == "analysis":
        messages = cell["parameters"].get("messages", _keys_looked_at(cell["parameters"]))
    else:
        messages = cell["workload"].get("messages", _UNKNOWN_LENGTH)
    # A declaration's mistake is for the run to name.
    return _COST[cell["kind"]] * (messages if isinstance(messages, int | float) else 1)


def _keys_looked_at(parameters: Mapping[str, Any]) -> float:
    """Of an analysis without messages: all keys in each interval, where it has such."""
    within = [v for v in parameters.values() if isinstance(v, Mapping)]
    given = {name: v for table in (parameters, *within) for name, v in table.items()}
    sizes = [given.get("keys"), given.get("intervals", given.get("plans"))]
    keys, intervals = (size if isinstance(size, int | float) else None for size in sizes)
    return keys * intervals if keys and intervals else _FORMULA


def _routing(cell: Mapping[str, Any]) -> list[Row]:
    scheme, workload = scheme_of(cell), make_workload(cell["workload"])
    result = simulate(scheme, workload, cell["workers"], cell["sources"], cell["seed"])
    measured = result.to_dict()
    if cell.get("timeline"):
        measured["timeline"] = [{"time": at, "imbalance": value} for at, value in result.timeline]
    return [_row(cell, scheme, workload, measured)]


def _queueing(cell: Mapping[str, Any]) -> list[Row]:
    scheme, workload = scheme_of(cell), make_workload(cell["workload"])
    cluster = Cluster.from_dict(cell["cluster"], cell["workers"])
    result = simulate_queues(scheme, workload, cluster, cell["sources"], cell["seed"])
    measured = result.to_dict()
    return [_row(cell, scheme, workload, {**measured.pop("cluster"), **measured})]


def _analysis(cell: Mapping[str, Any]) -> list[Row]:
    folders = paper_folders()
    if cell["paper"] not in folders:
        raise InputError(f"no paper is called {cell['paper']!r}; known: {', '.join(folders)}")
    path = folders[cell["paper"]] / "analysis.py"
    function = getattr(load_module(path), cell["function"], None)
    if not callable(function):
        raise InputError(f"{path} has no function {cell['function']!r}")
    answer = function(**cell["parameters"])
    rows = answer if isinstance(answer, list) else [answer]
    if not all(isinstance(row, Mapping) for row in rows):
        raise InputError(f"{path}: {cell['function']} must return a dict or a list of dicts")
    return [{**cell["parameters"], **row} for row in rows]


def scheme_of(cell: Mapping[str, Any]) -> GroupingScheme:
    """The cell's scheme: of this package, or of the user's file that the cell carries."""
    if "scheme" in cell:
        return scheme_from_file(cell["grouping"], cell["scheme"])
    return make_scheme(cell["grouping"])


def _row(cell: Mapping[str, Any], scheme: GroupingScheme, workload: Workload, measured: Row) -> Row:
    """Parameters first, then what was measured."""
    spec = dict(cell["workload"])
    described = {name: value for name, value in workload.describe().items() if name != "name"}
    measured = {name: value for name, value in measured.items() if name != "name"}
    parameters = {
        "grouping": cell["grouping"],
        "scheme": type(scheme).name,
        "symbol": getattr(type(scheme), "symbol", ""),
        "workload_name": spec.pop("name", None),
        "stand_in": bool(described.get("stand_in", False)),
        "workers": cell["workers"],
        "sources": cell["sources"],
        "seed": cell["seed"],
        **{name: value for name, value in spec.items() if name != "seed"},
    }
    row = {**parameters, **described, **measured, **parameters}
    # Relative to the average load: what can be compared between numbers of workers.
    row["normalised_imbalance"] = measured["imbalance"] * cell["workers"]
    if "keys" in measured:
        row["distinct_keys"] = measured["keys"]  # `keys` may be what the workload was asked for
    return row


__all__ = ["Cell", "Row", "cost", "describe", "run_and_time", "run_cell", "scheme_of"]
