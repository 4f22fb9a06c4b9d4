"""Compiled code of kernels: kept on disk, and carried from one process to others.

Compiling what routes a stream takes half a minute. An executor with an empty disk need not do that: the
process that plans the work has the code, and sends it along with the tasks.

`kernels.jit`, which has the compiler, uses this. As one of the sources by which compiled code goes, a
change to the format here leaves older files unread.
"""

from __future__ import annotations

import hashlib
import logging
import os
import pickle
import sys
import zlib
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from uuid import uuid4

_log = logging.getLogger("evenflow")

_DIGEST = 16  # bytes before the code in a file, which tell one that was cut short

#: What was called, while `code_of` looks on: (dispatcher, arguments).
called: ContextVar[list[tuple[Any, tuple[Any, ...]]] | None] = ContextVar("called", default=None)


class CompiledCode(NamedTuple):
    """The code of some kernels, for processes that may have neither a cache nor the time.

    Parameters:
        versions: of Python, numba and the kernels' sources that it was made with.
        architecture: of the machine that it runs on, as the compiler names it.
        features: what the processor must be able to do.
        bodies: (kernel, types of its arguments) → code, pickled and compressed.
    """

    versions: tuple[str, ...] = ()
    architecture: str = ""
    features: frozenset[str] = frozenset()
    bodies: bytes = b""


class Pickling(Protocol):
    """How the compiler's results become bytes."""

    def to_bytes(self, result: Any) -> bytes: ...

    def from_bytes(self, body: bytes, target: Any) -> Any: ...


class NotReady(Exception):
    """A kernel would have to be compiled, while that is not wanted."""


_Name = tuple[str, str]  # of a kernel, with its bytecode; types of arguments

_installed: dict[bytes, CompiledCode] = {}
_unpacked: dict[bytes, dict[_Name, bytes]] = {}
_ready_only: ContextVar[bool] = ContextVar("ready_only", default=False)


def install(code: CompiledCode) -> None:
    """Let kernels of this process run this code, where it fits versions and processor.

    It is unpickled when a kernel wants it, so it must come from where the program comes from: within a
    task, never from a file.
    """
    if code.bodies:
        _installed.setdefault(code.bodies, code)


def code_of(call: Callable[[], object]) -> CompiledCode:
    """The code of the kernels that a call runs, which are compiled if need be.

    Guarantee: a process with the same versions, on a processor that can do what this one can, and that
    has installed the code, makes such calls without compiling anything.
    """
    calls: list[tuple[Any, tuple[Any, ...]]] = []
    token = called.set(calls)
    try:
        call()
    finally:
        called.reset(token)
    bodies: dict[_Name, bytes] = {}
    cache: Any = None
    for dispatcher, arguments in calls:
        cache = getattr(dispatcher, "_cache", None)
        if not isinstance(cache, Cache):
            continue
        types = tuple(dispatcher.typeof_pyval(argument) for argument in arguments)
        name = (cache.name, str(types))
        body = cache.body_of(types)
        if body is not None:
            bodies[name] = body
    if not bodies:
        return CompiledCode()
    architecture, _, features = calls[0][0].targetctx.codegen().magic_tuple()
    packed = zlib.compress(pickle.dumps(bodies), 9)
    return CompiledCode(cache.versions, architecture, _able(features), packed)


def when_ready(call: Callable[[], object]) -> bool:
    """Make a call, unless a kernel would have to be compiled for it; whether it was made."""
    token = _ready_only.set(True)
    try:
        call()
        return True
    except NotReady:
        return False
    finally:
        _ready_only.reset(token)


class Cache:
    """Where numba finds the compiled code of one function: it asks before it compiles, and hands over
    what it has compiled.

    Parameters:
        function: as it was written.
        directory: of files with code, which only this user can write; None for none.
        sources: a digest of all kernels.
        pickling: how results become bytes.
    """

    def __init__(
        self, function: Callable[..., Any], directory: Path | None, sources: str, pickling: Pickling
    ) -> None:
        self.name = f"{function.__module__}.{function.__qualname__}-{_written_as(function)}"
        self.versions = (sources, ".".join(map(str, sys.version_info[:2])))
        self.cache_path = "" if directory is None else str(directory)
        self._directory = directory
        self._pickling = pickling
        self._bodies: dict[str, bytes] = {}

    def load_overload(self, types: Any, target: Any) -> Any:
        """The compiled function for these types of arguments; None if it must be compiled."""
        target.refresh()
        processor = target.codegen().magic_tuple()
        body = self._installed(str(types), processor) or self._stored(str(types), processor)
        if body is not None:
            self._bodies[str(types)] = body
            return self._pickling.from_bytes(body, target)
        if _ready_only.get():
            raise NotReady
        _log.debug("compiling %s for %s", self.name, types)
        return None

    def save_overload(self, types: Any, result: Any) -> None:
        """Keep what was compiled."""
        if result.library.has_dynamic_globals:  # addresses of this process
            return
        body = self._pickling.to_bytes(result)
        self._bodies[str(types)] = body
        if self._directory is None:
            return
        file = self._file(str(types), result.codegen.magic_tuple())
        beside = file.with_suffix(f".{uuid4().hex}")
        try:
            beside.write_bytes(_digest(body) + body)
            os.replace(beside, file)
        except OSError as error:
            _log.warning("compiled code is not kept in %s: %s", self._directory, error)
            beside.unlink(missing_ok=True)

    def body_of(self, types: Any) -> bytes | None:
        """The code for these types of arguments, if it was loaded or made here."""
        return self._bodies.get(str(types))

    def flush(self) -> None:
        """Nothing is buffered."""

    def _installed(self, types: str, processor: tuple[str, str, str]) -> bytes | None:
        architecture, _, features = processor
        for packed, code in list(_installed.items()):
            fits = code.versions == self.versions and code.architecture == architecture
            if not fits or not code.features <= _able(features):
                continue
            if packed not in _unpacked:
                _unpacked[packed] = pickle.loads(zlib.decompress(packed))
            body = _unpacked[packed].get((self.name, types))
            if body is not None:
                return body
        return None

    def _stored(self, types: str, processor: tuple[str, str, str]) -> bytes | None:
        if self._directory is None:
            return None
        try:
            content = self._file(types, processor).read_bytes()
        except OSError:
            return None
        digest, body = content[:_DIGEST], content[_DIGEST:]
        return body if digest == _digest(body) else None

    def _file(self, types: str, processor: tuple[str, str, str]) -> Path:
        assert self._directory is not None
        name = _digest("\0".join((self.name, types, *self.versions, *processor)).encode())
        return self._directory / f"{self.name.rpartition('-')[0]}-{name.hex()}.compiled"


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=_DIGEST).digest()


def _written_as(function: Callable[..., Any]) -> str:
    """A digest of the file that a function is in; where there is none, of its bytecode."""
    code = function.__code__  # type: ignore[attr-defined]
    try:
        source = Path(code.co_filename).read_bytes()
    except OSError:
        source = code.co_code + repr((code.co_consts, code.co_names)).encode()
    if function.__closure__:  # type: ignore[attr-defined]
        source += uuid4().bytes  # values that no file has: its code is for this process only
    return _digest(source).hex()


def _able(features: str) -> frozenset[str]:
    """What a processor can do, from the compiler's list of what it can and cannot."""
    return frozenset(name for name in features.split(",") if name.startswith("+"))
