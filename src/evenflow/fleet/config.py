"""The configuration of a fleet, read from a TOML file."""

from __future__ import annotations

import math
import os
import re
import tomllib
from dataclasses import MISSING, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from evenflow.model import InputError
from evenflow.model.durations import microseconds

_NAME = "letters, digits, '-', '_' and '.'"
_URI = re.compile(r"(?!file:)[A-Za-z][A-Za-z0-9+.-]+:/")  # of a store, and not a path


@dataclass(frozen=True)
class NodeSpec:
    """A node: one Spark application.

    Parameters:
        name: unique in the fleet.
        master: the application's Spark master.
        capacity: the cores that queries can keep busy.
        conf: Spark settings.
    """

    name: str
    master: str = "local[1]"
    capacity: float = 1.0
    conf: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class QuerySpec:
    """An operator: a streaming query.

    Parameters:
        name: unique in the fleet.
        function: "module:name" of a function that takes the Spark session, `checkpoint` and
            `arguments`, starts the query and returns it: Spark's StreamingQuery, or Evenflow's.
        checkpoint: a location of its own that every node can reach, a path or the URI of a store.
        arguments: keyword arguments of the function.
        node: where it starts; None for any node.
        movable: False to keep it on `node`.
    """

    name: str
    function: str
    checkpoint: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)
    node: str | None = None
    movable: bool = True


@dataclass(frozen=True)
class Fleet:
    """A fleet: its nodes, its queries and how they are placed.

    Parameters:
        folder: a directory that the coordinator and all nodes share: assignment, reports, logs.
        nodes, queries: the nodes and queries.
        path: directories from which the queries' functions are imported.
        sample: seconds over which a load is averaged.
        samples: k, the number of samples a placement is based on.
        every: samples between two decisions; after moves, at least k new ones.
        initial: the algorithm of the first placement, once there are k samples; "none" for none.
        algorithm: the algorithm of all later placements; "none" for none.
        most_moves: the maximum per decision, except for the first placement.
        least_gain: the share by which moves must lower the unevenness of nodes' loads.
        dead_after: seconds without a report after which a node counts as dead.
        fence: "kill": a dead node is killed first, if its process is on this machine;
            "wait": its queries wait until it releases them.
        restart: whether a dead node is restarted.
        executor_grace: seconds for which executors on a cluster may outlive a driver that was killed;
            a query that is not Evenflow's waits for so long. Spark's network timeout by default.
    """

    folder: Path
    nodes: tuple[NodeSpec, ...]
    queries: tuple[QuerySpec, ...]
    path: tuple[Path, ...] = ()
    sample: float = 1.0
    samples: int = 20
    every: int = 10
    initial: str = "cor-glb"
    algorithm: str = "cor-se-imp"
    most_moves: int = 4
    least_gain: float = 0.1
    dead_after: float = 15.0
    fence: str = "kill"
    restart: bool = True
    executor_grace: float = 120.0

    def node(self, name: str) -> NodeSpec:
        found: NodeSpec = _named("node", self.nodes, name)
        return found

    def locks(self, name: str) -> Path:
        """The directory of the locks of a query's lease: its checkpoint, or one in the fleet's folder
        if the checkpoint is on a store, which has no locks."""
        checkpoint = self.query(name).checkpoint
        return self.folder / "leases" / name if _URI.match(checkpoint) else Path(checkpoint)

    def query(self, name: str) -> QuerySpec:
        found: QuerySpec = _named("query", self.queries, name)
        return found


def read_config(file: str | os.PathLike[str]) -> Fleet:
    """Read a fleet from a TOML file; its paths are relative to the file.

    Example:
        >>> import tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> file = Path(folder.name) / "fleet.toml"
        >>> _ = file.write_text('''
        ... [[nodes]]
        ... name = "a"
        ... [[queries]]
        ... name = "clicks"
        ... function = "jobs:clicks"
        ... ''')
        >>> fleet = read_config(file)
        >>> fleet.queries[0].checkpoint == str(fleet.folder / "checkpoints" / "clicks")
        True
        >>> folder.cleanup()
    """
    path = Path(file).resolve()
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read {file}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{file} is not valid TOML: {error}") from None
    except RecursionError:
        raise InputError(f"{file} is not valid TOML: it is nested too deeply") from None
    unknown = set(content) - {"fleet", "nodes", "queries"}
    if unknown:
        raise InputError(
            f"{file}: unknown table {sorted(unknown)[0]!r}; the tables are [fleet], [[nodes]] and "
            "[[queries]]"
        )
    for name, kind, shown in (
        ("fleet", dict, "[fleet]"),
        ("nodes", list, "[[nodes]]"),
        ("queries", list, "[[queries]]"),
    ):
        given = content.get(name, kind())
        parts = given if kind is list and isinstance(given, list) else []
        if not isinstance(given, kind) or not all(isinstance(one, dict) for one in parts):
            raise InputError(
                f"{file}: {name} must be a table, written as {shown}, got {given!r}"[:300]
            )
    base, general = path.parent, dict(content.get("fleet", {}))
    folder = base / str(general.pop("folder", "fleet"))
    nodes = tuple(_build(NodeSpec, one, f"{file}, [[nodes]]") for one in content.get("nodes", []))
    queries = tuple(
        _with_checkpoint(_build(QuerySpec, one, f"{file}, [[queries]]"), base, folder)
        for one in content.get("queries", [])
    )
    given = general.pop("path", ["."])
    if not isinstance(given, list):
        raise InputError(f"{file}, [fleet]: path must be a list of directories, got {given!r}")
    paths = tuple(base / str(one) for one in given)
    for name in ("sample", "dead_after", "executor_grace"):
        if isinstance(general.get(name), str):
            general[name] = microseconds(name, general[name]) / 1e6
    fleet: Fleet = _build(
        Fleet,
        {"folder": folder, "nodes": nodes, "queries": queries, "path": paths, **general},
        f"{file}, [fleet]",
    )
    _check(fleet, str(file))
    return fleet


def _with_checkpoint(query: QuerySpec, base: Path, folder: Path) -> QuerySpec:
    given = query.checkpoint
    if _URI.match(given):
        return replace(query, checkpoint=given)
    checkpoint = base / given if given else folder / "checkpoints" / query.name
    return replace(query, checkpoint=str(checkpoint))


def _build(kind: Any, settings: dict[str, Any], where: str) -> Any:
    known = {one.name: one for one in fields(kind)}
    for name in settings:
        if name not in known:
            raise InputError(
                f"{where}: unknown setting {name!r}; the settings are {', '.join(known)}"
            )
    for name, one in known.items():
        needed = one.default is MISSING and one.default_factory is MISSING
        if needed and name not in settings:
            raise InputError(f"{where}: {name!r} is missing")
    types = {name: str(one.type) for name, one in known.items()}
    return kind(**{k: _check_type(k, value, types[k], where) for k, value in settings.items()})


def _check_type(name: str, value: Any, kind: str, where: str) -> Any:
    wanted: tuple[type, ...] | None = {
        "str": (str,), "str | None": (str,), "float": (int, float), "int": (int,), "bool": (bool,),
    }.get(kind)  # fmt: skip
    if wanted is None:
        if kind.startswith("dict") and not isinstance(value, dict):
            raise InputError(f"{where}: {name} must be a table, got {value!r}")
        return {k: str(v) for k, v in value.items()} if kind == "dict[str, str]" else value
    if not isinstance(value, wanted) or (isinstance(value, bool) and bool not in wanted):
        raise InputError(f"{where}: {name} must be of type {kind}, got {value!r}")
    if kind == "float":
        assert isinstance(value, int | float)
        if not (math.isfinite(value) and value > 0):
            raise InputError(f"{where}: {name} must be above 0, got {value!r}")
        return float(value)
    if kind == "int" and isinstance(value, int) and value < 1:
        raise InputError(f"{where}: {name} must be at least 1, got {value!r}")
    return value


def _check(fleet: Fleet, file: str) -> None:
    from evenflow.placement import make_placer

    if not fleet.nodes:
        raise InputError(f"{file}: there is no node; add [[nodes]] with a name")
    for kind, specs in (("node", fleet.nodes), ("query", fleet.queries)):
        names = [spec.name for spec in specs]
        for name in names:
            if not name or not all(c.isalnum() or c in "-_." for c in name) or name[0] == ".":
                raise InputError(f"{file}: {kind} {name!r}: a name consists of {_NAME}")
            if names.count(name) > 1:
                plural = "nodes" if kind == "node" else "queries"
                raise InputError(f"{file}: there are two {plural} called {name!r}")
    checkpoints = [query.checkpoint for query in fleet.queries]
    for query in fleet.queries:
        if query.node is not None:
            fleet.node(query.node)
        elif not query.movable:
            raise InputError(
                f"{file}: query {query.name!r} is not movable; set the node it runs on"
            )
        if query.function.count(":") != 1:
            raise InputError(
                f"{file}: query {query.name!r}: function must be 'module:name', got {query.function!r}"
            )
        if checkpoints.count(query.checkpoint) > 1:
            raise InputError(f"{file}: two queries have the checkpoint {query.checkpoint}")
    for name in (fleet.initial, fleet.algorithm):
        if name != "none":
            make_placer(name)
    if fleet.fence not in ("kill", "wait"):
        raise InputError(f"{file}: fence must be 'kill' or 'wait', got {fleet.fence!r}")


def _named(kind: str, specs: tuple[Any, ...], name: str) -> Any:
    for spec in specs:
        if spec.name == name:
            return spec
    known = ", ".join(spec.name for spec in specs)
    raise InputError(f"there is no {kind} {name!r} in the fleet; the known ones are {known}")
