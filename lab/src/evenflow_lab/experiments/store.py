"""Finished cells on disk: what makes a run resumable."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import evenflow
import evenflow_lab
from evenflow.model import InputError
from evenflow_lab.experiments.declaration import paper_folders

# What can change a row; the command line and the pictures cannot.
# The parts of both packages that take part in a run.
_LAYERS = {
    evenflow: (
        "model", "kernels", "sketches", "grouping", "metrics", "operators", "planning", "placement",
        "storage", "state", "engine", "simulator", "ordering",
    ),
    evenflow_lab: ("experiments", "literal", "rivals", "simulators", "workloads"),
}  # fmt: skip


@cache
def _program() -> bytes:
    """A digest of the version and of every source file that takes part in a run.

    A row of an older program must not be taken for one of this.
    """
    digest = hashlib.blake2b(evenflow.__version__.encode(), digest_size=16)
    for package, layers in _LAYERS.items():
        root = Path(str(package.__file__)).resolve().parent
        for layer in layers:
            for path in sorted((root / layer).rglob("*.py")):
                digest.update(str(path.relative_to(root)).encode() + path.read_bytes())
    return digest.digest()


def digest(cell: Mapping[str, Any]) -> str:
    """The name under which a cell's rows are kept.

    Equal for equal cells; different once anything has changed that the rows depend on: the cell,
    the program, the paper's analysis, the file that the keys are read from.
    """
    seal = hashlib.blake2b(_program(), digest_size=16)
    seal.update(json.dumps(cell, sort_keys=True).encode())
    if cell["kind"] == "analysis":
        # All of the paper's Python but its claims, for the analysis may be in several files, and what
        # it may have measured elsewhere.
        for path in sorted(paper_folders().get(cell["paper"], Path()).glob("*")):
            if path.suffix in (".py", ".json") and not path.name.startswith("claims"):
                seal.update(path.name.encode() + path.read_bytes())
    elif cell["workload"].get("name") == "file":
        try:
            stat = os.stat(cell["workload"]["input"])
            seal.update(f"{stat.st_size} {stat.st_mtime_ns}".encode())
        except (OSError, KeyError):
            pass  # the run will say what is wrong with it
    return seal.hexdigest()


def changed_meanwhile(cell: Mapping[str, Any]) -> InputError:
    """What to say of a cell whose digest is another now than when its run was planned."""
    if cell["kind"] == "analysis":
        what = f"the Python or JSON files of {paper_folders().get(cell['paper'], cell['paper'])}"
    else:
        what = str(cell["workload"].get("input", "what the run depends on"))
    return InputError(
        f"{what} changed while the runs were under way, so that rows of before and after would be "
        "mixed; run the command again: what is finished and still true is kept"
    )


class CellStore:
    """A folder with one file per finished cell.

    Guarantee: a file is there whole or not at all, whenever the process is killed; one that cannot
    be read counts as not there.

    Parameters:
        folder: made when the first cell is kept.
        fresh: nothing that is there already is used.
    """

    def __init__(self, folder: Path, fresh: bool = False) -> None:
        self._folder = folder
        self._fresh = fresh
        self._kept: set[str] = set()

    def get(self, name: str) -> dict[str, Any] | None:
        """The outcome kept under that digest, if there is one."""
        if self._fresh and name not in self._kept:
            return None
        try:
            kept = json.loads(self._path(name).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return kept if isinstance(kept, dict) and {"rows", "seconds"} <= kept.keys() else None

    def put(self, name: str, cell: Mapping[str, Any], outcome: Mapping[str, Any]) -> None:
        """Keeps an outcome (`rows`, `seconds`), with the cell for people who look."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            unfinished = self._folder / f".{name}.{os.getpid()}"
            unfinished.write_text(json.dumps({"cell": cell, **outcome}), encoding="utf-8")
            unfinished.replace(self._path(name))
        except OSError as error:
            raise InputError(
                f"{self._folder} cannot be written to: {error.strerror or error}; what is finished "
                "is kept there"
            ) from None
        self._kept.add(name)

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.json"
