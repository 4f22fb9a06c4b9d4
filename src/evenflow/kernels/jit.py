"""The one place where numba is imported and its flags are set."""

from __future__ import annotations

import hashlib
import logging
import os
import tempfile
from collections.abc import Callable
from functools import cache, update_wrapper
from pathlib import Path
from threading import RLock
from typing import Any

from evenflow.kernels.compiled_code import Cache, called
from evenflow.model.private_directories import check_unmovable, open_private

__all__ = ["Kernel", "cache_directory", "inlined", "kernel", "trailing_zeros"]

_log = logging.getLogger("evenflow")

_PACKAGE = Path(__file__).resolve().parent.parent
_building = RLock()


@cache
def sources_digest(package: Path = _PACKAGE) -> str:
    """A digest of every file of the package that holds kernels, and of numba's version.

    A change to a kernel changes the code of those that call it, too: all compiled code goes by this.
    """
    import numba

    digest = hashlib.blake2b(numba.__version__.encode(), digest_size=8)
    for path in sorted(package.rglob("*.py")):
        source = path.read_bytes()
        if b"kernels.jit" in source:
            digest.update(source)
    return digest.hexdigest()


@cache
def cache_directory() -> Path | None:
    """The directory for compiled code: in `EVENFLOW_CACHE_DIR`, else in the user's cache, else in the
    temporary directory; None if there is none (kernels then compile in every process).

    Guarantee: it is this user's alone (`model/private_directories.py`). What lies there is unpickled,
    which runs whatever somebody else has put there.
    """
    user = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    temporary = os.path.join(tempfile.gettempdir(), f"evenflow-{os.geteuid()}")
    given = os.environ.get("EVENFLOW_CACHE_DIR")
    for base in (given, os.path.join(user, "evenflow"), temporary):
        if not base:
            continue
        directory = Path(base).absolute() / "kernels" / sources_digest()
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


class Kernel:
    """A function over arrays that is compiled when it is first called.

    Guarantee: numba is imported at the first call, not before; the compiled code of a call is taken
    from what the process was given (`compiled_code.install`), else from the cache on disk, else made.

    Parameters:
        function: plain Python.
        flags: for the compiler, besides those of all kernels.
    """

    def __init__(self, function: Callable[..., Any], **flags: bool) -> None:
        update_wrapper(self, function)
        self.py_func = function
        self._flags = flags
        self._dispatcher: Any = None

    def __call__(self, *arguments: Any) -> Any:
        dispatcher = self._dispatcher or self.dispatcher()
        calls = called.get()
        if calls is not None:
            calls.append((dispatcher, arguments))
        return dispatcher(*arguments)

    def dispatcher(self) -> Any:
        """Numba's own object for this function, which its compiled callers are linked with."""
        with _building:
            if self._dispatcher is None:
                self._dispatcher = self._new_dispatcher()
            return self._dispatcher

    @property
    def _numba_type_(self) -> Any:
        """What the compiler asks a name in a kernel for that is neither a number nor a function."""
        import numba

        return numba.typeof(self.dispatcher())

    def __reduce__(self) -> Any:
        return self.dispatcher().__reduce__()

    def _new_dispatcher(self) -> Any:
        import numba

        made = numba.njit(nogil=True, error_model="numpy", _nrt=False, **self._flags)(self.py_func)
        if isinstance(made, numba.core.dispatcher.Dispatcher):  # with NUMBA_DISABLE_JIT it is not
            made._cache = Cache(self.py_func, cache_directory(), sources_digest(), _Pickling())
        return made


class _Pickling:
    """Compiled functions as bytes, by the means that numba's own cache has for it."""

    def to_bytes(self, result: Any) -> bytes:
        from numba.core.serialize import dumps

        library, function, environment, signature, in_python, lifted, _, *rest = result._reduce()
        notes = ""  # on types, for people
        return bytes(
            dumps((library, function, environment, signature, in_python, lifted, notes, *rest))
        )

    def from_bytes(self, body: bytes, target: Any) -> Any:
        import pickle

        from numba.core.compiler import CompileResult

        return CompileResult._rebuild(target, *pickle.loads(body))


class _Intrinsic:
    """A function of numba's that kernels call, known by name until one of them is compiled."""

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def _numba_type_(self) -> Any:
        from numba.core.registry import cpu_target
        from numba.cpython.unsafe import numbers

        return cpu_target.typing_context.resolve_value_type(getattr(numbers, self._name))


trailing_zeros: Any = _Intrinsic("trailing_zeros")


def kernel(function: Callable[..., Any]) -> Any:
    """Compile `function` on first call, without the GIL, cached on disk.

    No fast-math: results must not depend on the machine's vector width. Division follows NumPy (no
    check for zero in the loop): the public function around a kernel checks its input.

    A kernel does not allocate; it fills the arrays it is given. So reference counting can be switched
    off (`_nrt=False`), which otherwise costs several times the work itself in loops that pass arrays to
    other kernels (docs/decisions/0001).
    """
    return Kernel(function)


def inlined(function: Callable[..., Any]) -> Any:
    """A kernel that becomes part of its callers: for steps of a hot loop that take many arrays."""
    return Kernel(function, forceinline=True)
