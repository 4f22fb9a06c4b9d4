"""The one place where numba is imported and its flags are set."""

from __future__ import annotations

import hashlib
import logging
import os
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba.cpython.unsafe.numbers import trailing_zeros

from evenflow.model.private_directories import check_unmovable, open_private

__all__ = ["cache_directory", "inlined", "kernel", "trailing_zeros"]

_log = logging.getLogger("evenflow")

_PACKAGE = Path(__file__).resolve().parent.parent


def _sources_digest() -> str:
    """A digest of every file of the package that holds kernels.

    Numba notices a change in a kernel's own file, not in the files of the kernels it calls: a cached
    caller would keep the old code of a changed callee. A folder per digest prevents that.
    """
    digest = hashlib.blake2b(numba.__version__.encode(), digest_size=8)
    for path in sorted(_PACKAGE.rglob("*.py")):
        source = path.read_bytes()
        if b"kernels.jit" in source:
            digest.update(source)
    return digest.hexdigest()


@cache
def cache_directory() -> Path | None:
    """The directory for compiled code: in `EVENFLOW_CACHE_DIR`, else in the user's cache, else in the
    temporary directory; None if there is none (kernels then compile in every process).

    Guarantee: it is this user's alone (`model/private_directories.py`). The compiler unpickles what
    lies there, which runs whatever somebody else has put there.
    """
    user = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    temporary = os.path.join(tempfile.gettempdir(), f"evenflow-{os.geteuid()}")
    given = os.environ.get("EVENFLOW_CACHE_DIR")
    for base in (given, os.path.join(user, "evenflow"), temporary):
        if not base:
            continue
        directory = Path(base).absolute() / "kernels" / _sources_digest()
        try:
            os.close(open_private(str(directory)))
            check_unmovable(str(directory))
        except OSError as error:
            if base == given or isinstance(error, PermissionError):
                _log.warning(
                    "compiled kernels are not kept in %s: %s; set EVENFLOW_CACHE_DIR to a directory "
                    "to which only this user can write",
                    base,
                    error.strerror or error,
                )
            continue
        if os.access(directory, os.W_OK):
            return directory
    return None


def _compiled(function: Callable[..., Any], **flags: bool) -> Any:
    directory = cache_directory()
    # Numba reads this setting when a function is decorated. It is restored at once, so that a user's
    # own numba functions keep their own cache.
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = "" if directory is None else str(directory)
    try:
        return numba.njit(
            nogil=True, error_model="numpy", cache=directory is not None, _nrt=False, **flags
        )(function)
    finally:
        numba.config.CACHE_DIR = before


def kernel(function: Callable[..., Any]) -> Any:
    """Compile `function` on first call, without the GIL, cached on disk.

    No fast-math: results must not depend on the machine's vector width. Division follows NumPy (no
    check for zero in the loop): the public function around a kernel checks its input.

    A kernel does not allocate; it fills the arrays it is given. So reference counting can be switched
    off (`_nrt=False`), which otherwise costs several times the work itself in loops that pass arrays to
    other kernels (docs/decisions/0001).
    """
    return _compiled(function)


def inlined(function: Callable[..., Any]) -> Any:
    """A kernel that becomes part of its callers: for steps of a hot loop that take many arrays."""
    return _compiled(function, forceinline=True)
