"""Python files by path: those of papers and schemes, installed or the user's own."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from evenflow.model import InputError


def load_module(path: Path) -> ModuleType:
    """The Python file at `path`.

    A file of an installed package is imported under its name. Any other file, such as those of a
    paper of the user's own, is run once per process and content.

    A mistake in the file is an `InputError` that names it.
    """
    installed = _installed_name(path)
    if installed is not None:
        with _mistakes_of(path):
            return import_module(installed)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from None
    digest = hashlib.blake2b(str(path).encode() + b"\0" + content, digest_size=8).hexdigest()
    name = f"evenflow_file_{path.stem}_{digest}"
    if name in sys.modules:
        return sys.modules[name]
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InputError(f"{path} is not a Python file; its name must end in .py")
    module = module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up while it is being run
    try:
        with _mistakes_of(path):
            # Not by the loader: its bytecode is stale for a file changed within the same second.
            exec(compile(content, path, "exec"), vars(module))
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _installed_name(path: Path) -> str | None:
    """`package.module`, if that is what importing it would give; else None."""
    names, folder = [path.stem], path.resolve().parent
    while (folder / "__init__.py").is_file():
        names.insert(0, folder.name)
        folder = folder.parent
    if len(names) == 1:
        return None
    name = ".".join(names)
    try:
        spec = find_spec(name)
    except (ImportError, ValueError):
        return None
    origin = None if spec is None else spec.origin
    return name if origin is not None and Path(origin).resolve() == path.resolve() else None


@contextmanager
def _mistakes_of(path: Path) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise InputError(f"{path} cannot be loaded: {type(error).__name__}: {error}") from error
