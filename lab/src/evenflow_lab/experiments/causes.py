"""Why a claim does not hold: the paper, our reading of it, a stand-in for its data, or our machine."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from enum import StrEnum

from evenflow.model import InputError
from evenflow_lab.experiments.declaration import Paper


class Cause(StrEnum):
    """What a verdict of "not held" is due to.

    - `PAPER`: the statement, or the paper's own rule, does not do what the text says.
    - `READING`: what the paper leaves open was filled in by us, or this package does it otherwise.
    - `STAND_IN`: the authors' data or clients are not available; others were used.
    - `MACHINE`: the hardware, or software that takes the place of the authors'.
    """

    PAPER = "the paper"
    READING = "our reading"
    STAND_IN = "a stand-in"
    MACHINE = "our machine"


_NAMES = {cause.name.lower().replace("_", "-"): cause for cause in Cause}


def causes_of(paper: Paper) -> Mapping[str, Cause]:
    """Claim → cause, from the `causes.toml` beside a paper's `claims.py`; empty if there is none.

    Thresholds are code and older than a run. Causes are what was found out after it, so they are kept
    apart: a table for each cause, with the claims' ids in a list. A claim that holds again may stay in
    the file; its cause is then not shown.
    """
    path = paper.folder / "causes.toml"
    if not path.is_file():
        return {}
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not TOML: {error}") from None
    found: dict[str, Cause] = {}
    for name, ids in content.items():
        if name not in _NAMES:
            raise InputError(f"{path}: {name!r} is no cause; known: {', '.join(_NAMES)}")
        if not isinstance(ids, list) or not all(isinstance(id, str) for id in ids):
            raise InputError(f"{path}: {name!r} must be a list of claims' ids, got {ids!r}")
        for id in ids:
            if id in found:
                raise InputError(f"{path}: claim {id!r} has two causes; keep the one that decides")
            found[id] = _NAMES[name]
    return found
