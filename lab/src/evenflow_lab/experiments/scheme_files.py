"""A user's own scheme, from a Python file that need not be installed anywhere."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Mapping
from inspect import getmembers, isclass
from pathlib import Path
from typing import Any

import numpy as np

from evenflow.grouping import GroupingScheme, schemes
from evenflow.model import InputError
from evenflow.model.discovery import build
from evenflow_lab.experiments.modules import load_module

SchemeFile = dict[str, str]  #: `file`: where it lay; `source`: its text

_WORKERS, _KEYS = 3, 1_000


def read_scheme_file(path: Path | str) -> dict[str, SchemeFile]:
    """Name → file of every scheme that a Python file defines: its classes with a `name`.

    Guarantee: a scheme that is returned can be made without parameters, started, and has routed a
    thousand keys to live workers. Everything else is refused.

    Parameters:
        path: the file, as in docs/add_a_scheme.md.
    """
    path = Path(path)
    if path.suffix != ".py" or not path.is_file():
        raise InputError(f"--scheme {str(path)!r}: a Python file (.py) is needed")
    try:
        source = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"--scheme {str(path)!r} cannot be read: {error}") from None
    scheme_file = {"file": str(path.resolve()), "source": source}
    found = _classes(path.resolve())
    if not found:
        raise InputError(
            f"--scheme {str(path)!r} defines no scheme: a class with a name, as in "
            "docs/add_a_scheme.md"
        )
    for name in found:
        if name in schemes():
            raise InputError(
                f"--scheme {str(path)!r}: {name!r} is the name of a scheme that exists already; "
                "choose another one"
            )
        _try_out(name, scheme_file)
    return dict.fromkeys(found, scheme_file)


def scheme_from_file(spec: str, scheme_file: Mapping[str, str]) -> GroupingScheme:
    """The scheme `spec` of a file, also on a machine that does not have the file."""
    found = _classes(_on_this_machine(scheme_file))
    scheme: GroupingScheme = build("grouping scheme", found, spec, {})
    return scheme


def _classes(path: Path) -> dict[str, type[Any]]:
    module = load_module(path)
    own = [c for _, c in getmembers(module, isclass) if c.__module__ == module.__name__]
    return {c.__dict__["name"]: c for c in own if isinstance(c.__dict__.get("name"), str)}


def _on_this_machine(scheme_file: Mapping[str, str]) -> Path:
    """The file itself where it is here and unchanged, else a copy.

    A real file, because compiled code is cached by the file that it comes from.
    """
    path, source = Path(scheme_file["file"]), scheme_file["source"]
    try:
        if path.read_text(encoding="utf-8") == source:
            return path
    except (OSError, UnicodeDecodeError):
        pass
    digest = hashlib.blake2b(source.encode(), digest_size=8).hexdigest()
    folder = Path(tempfile.gettempdir()) / f"evenflow-{os.getuid()}" / "schemes" / digest
    folder.mkdir(parents=True, exist_ok=True)
    copy = folder / path.name
    if not copy.is_file():
        unfinished = folder / f"{path.name}.{os.getpid()}"
        unfinished.write_text(source, encoding="utf-8")
        unfinished.replace(copy)
    return copy


def _try_out(name: str, scheme_file: SchemeFile) -> None:
    """Routes a few keys, so that a mistake is found before hours of work, and in this process."""
    where = f"--scheme {scheme_file['file']!r}: {name!r}"
    keys = np.arange(_KEYS, dtype=np.uint64) % np.uint64(7)
    out = np.full(_KEYS, -1, np.int32)
    try:
        scheme = scheme_from_file(name, scheme_file)
        scheme.route(scheme.start(_WORKERS, 0, source=0), keys, out)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    except Exception as error:
        raise InputError(
            f"{where} failed on {_KEYS} keys for {_WORKERS} workers: {type(error).__name__}: "
            f"{error}"
        ) from error
    if out.min() < 0 or out.max() >= _WORKERS:
        wrong = int(out[(out < 0) | (out >= _WORKERS)][0])
        raise InputError(
            f"{where} sent a message to worker {wrong}, but the workers are 0 to {_WORKERS - 1}"
        )
