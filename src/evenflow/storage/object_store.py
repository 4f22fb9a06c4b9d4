"""Objects in a bucket of S3, Google Cloud Storage or Azure, through obstore."""

from __future__ import annotations

import random
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from evenflow.storage.concurrent import together
from evenflow.storage.object_address import ObjectAddress
from evenflow.storage.object_clients import Options, client
from evenflow.storage.requests import count
from evenflow.storage.store_errors import Problem, StoreError, beyond_end, failure, store_error

if TYPE_CHECKING:
    from evenflow.storage.object_clients import Client

T = TypeVar("T")

_PART = 16 << 20  # bytes: more than that goes as several parts
_GAP = 256 << 10  # bytes between two ranges that are read rather than asked for separately
_PAGE = 1000  # names that one request lists
_DELETED = {"s3": 1000, "az": 256, "gs": 1}  # names that one request deletes
_PARTS_AT_ONCE = 4
_UPLOADS = 5  # attempts to upload one object in parts
_LONGEST_PAUSE = 5.0  # seconds between two attempts


@dataclass(frozen=True)
class ObjectStorage:
    """A `Storage` in a bucket or container, below a folder of it.

    Guarantee: that of the protocol, on a store with conditional writes (`If-None-Match: *`), as S3,
    Google and Azure have: `check_store` finds out. Faults that pass (5xx, throttling, time-outs,
    connections that break) are retried with growing pauses until `patience` is used up. An error is one
    line without credentials. Neither `repr` nor `where` has options; a pickle has them, because tasks
    on other machines need them.

    Parameters:
        url: the address, as the user wrote it.
        options: pairs of names and values, under obstore's names; see `storage_at`.
        patience: seconds after which a request that keeps failing is not made again.

    Example:
        >>> storage = ObjectStorage("s3://bucket/ckpt", (("secret_access_key", "hidden"),))
        >>> storage
        ObjectStorage(url='s3://bucket/ckpt')
        >>> storage.under("evenflow").where("manifests/0.json")
        's3://bucket/ckpt/evenflow/manifests/0.json'
    """

    url: str
    options: Options = field(default=(), repr=False)
    patience: float = field(default=60.0, repr=False)
    concurrency: ClassVar[int] = 16
    address: ObjectAddress = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        address = ObjectAddress.parse(self.url)
        object.__setattr__(self, "address", address)
        object.__setattr__(self, "url", self.url.rstrip("/"))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.url, self.options, self.patience)

    def where(self, name: str = "") -> str:
        """The full address of a name, with the scheme that the user wrote."""
        return f"{self.url}/{name}" if name else self.url

    def under(self, folder: str) -> ObjectStorage:
        """The storage in a folder of this one."""
        return ObjectStorage(self.where(folder.strip("/")), self.options, self.patience)

    def size(self, name: str) -> int:
        """How many bytes an object has, in one request."""
        import obstore

        found = self._request(name, partial(obstore.head, path=self._key(name)), reads=1)
        return int(found["size"])

    def read(self, name: str) -> bytes:
        """The whole object, in one request."""
        import obstore

        def read(store: Client) -> bytes:
            return bytes(obstore.get(store, self._key(name)).bytes())

        content = self._request(name, read, reads=1)
        count(read_bytes=len(content))
        return content

    def read_ranges(self, name: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Some (start, end) ranges of an object; near ones in one request, the others side by side."""
        if not ranges:
            return []
        try:
            return self._fetch(name, ranges)
        except _BeyondEnd:
            size = self.size(name)
            inside = [(min(start, size), min(end, size)) for start, end in ranges]
            return self._fetch(name, inside)

    def _fetch(self, name: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        import obstore

        wanted = _joined(ranges)
        starts = [start for start, _ in wanted]
        ends = [end for _, end in wanted]

        def fetch(store: Client) -> Sequence[memoryview]:
            found = obstore.get_ranges(store, self._key(name), starts=starts, ends=ends, coalesce=0)
            return [memoryview(one) for one in found]

        contents = self._request(name, fetch, reads=len(wanted)) if wanted else ()
        count(read_bytes=sum(map(len, contents)))
        cut = []
        for start, end in ranges:
            at = bisect_right(starts, start) - 1
            whole = contents[at] if start < end else b""
            cut.append(bytes(whole[start - starts[at] : end - starts[at]]) if whole else b"")
        return cut

    def put(self, name: str, parts: Iterable[bytes | memoryview]) -> None:
        """Write an object: up to 16 MiB in one request, more as parts that appear together."""
        import obstore

        chunks = _Chunks(parts)
        if chunks.only is not None:
            put = partial(obstore.put, path=self._key(name), file=chunks.only, use_multipart=False)
            self._request(name, put, writes=1, written_bytes=len(chunks.only))
            return
        for _ in range(_UPLOADS):
            try:
                self._request(name, partial(self._upload, name, chunks))
                return
            except FileNotFoundError:  # of the upload: it had ended, and the reply was lost
                if chunks.error is not None:
                    raise chunks.error from None
        raise failure(Problem.BUSY, self.where(name))

    def _upload(self, name: str, chunks: _Chunks, store: Client) -> None:
        import obstore

        obstore.put(
            store,
            self._key(name),
            iter(chunks),
            use_multipart=True,
            chunk_size=_PART,
            max_concurrency=_PARTS_AT_ONCE,
        )
        sizes = [len(chunk) for chunk in chunks]
        count(writes=len(sizes) + 2, written_bytes=sum(sizes))

    def create(self, name: str, content: bytes) -> bool:
        """Write an object unless one of that name is there. Returns whether it has this content now."""
        import obstore

        put = partial(
            obstore.put, path=self._key(name), file=content, mode="create", use_multipart=False
        )
        until = time.monotonic() + self.patience
        while True:
            try:
                self._request(name, put, writes=1, written_bytes=len(content))
                return True
            except _Taken:
                # By somebody else, or by an attempt of ours whose reply was lost.
                with suppress(FileNotFoundError):
                    return self.read(name) == content
            # S3 also says so while two are at it, and then it is not there.
            if time.monotonic() > until:
                raise failure(Problem.BUSY, self.where(name))
            time.sleep(0.05)

    def unfinished(self, prefix: str) -> list[str]:
        """Always empty: parts of an unfinished object have no name."""
        return []

    def list(self, prefix: str) -> list[str]:
        """The names that begin with `prefix`, sorted, 1000 in a request."""
        import obstore

        key = self._key(prefix)
        folder = key.rpartition("/")[0]

        def read(store: Client) -> list[str]:
            # obstore takes whole folders; what comes before the prefix in one is skipped.
            offset = key[:-1] if key and not key.endswith("/") else None
            found = obstore.list(store, folder or None, offset=offset, chunk_size=_PAGE).collect()
            return [one["path"] for one in found]

        keys = self._request(prefix, read)
        count(lists=len(keys) // _PAGE + 1)
        start = len(self.address.folder)
        return sorted(one[start:] for one in keys if one.startswith(key))

    def copy(self, name: str, to: str) -> None:
        """Write an object with the content of another; the store copies it, in one request."""
        import obstore

        copy = partial(obstore.copy, from_=self._key(name), to=self._key(to))
        self._request(name, copy, writes=1)

    def delete(self, *names: str) -> None:
        """Remove objects, on S3 1000 in a request; those that are not there are fine."""
        size = _DELETED[self.address.kind]
        size = max(size, self.concurrency)
        for first in range(0, len(names), size):
            self._delete(names[first : first + size])

    # --- requests --------------------------------------------------------------------------------

    def _key(self, name: str) -> str:
        return self.address.folder + name

    def _request(
        self,
        name: str,
        call: Callable[[Client], T],
        options: Options = (),
        **counts: int,
    ) -> T:
        """What a call gives; again while it fails for a reason that passes and there is patience.

        obstore retries by itself what it knows to be harmless to repeat. All calls of a storage are.
        """
        import obstore

        until = time.monotonic() + self.patience
        pause = 0.1
        while True:
            try:
                count(**counts)
                return call(client(self.address, (*self.options, *options), self.patience))
            except obstore.exceptions.AlreadyExistsError:
                raise _Taken from None
            except (obstore.exceptions.BaseError, FileNotFoundError) as error:
                if beyond_end(error):
                    raise _BeyondEnd from None
                failed = store_error(error, self.where(name))
            passes = isinstance(failed, StoreError) and failed.problem.passes
            if not passes or time.monotonic() + pause > until:
                raise failed
            time.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _delete(self, names: Sequence[str]) -> None:
        import obstore

        keys = [self._key(name) for name in names]
        try:
            self._request(names[0], partial(obstore.delete, paths=keys), deletes=1)
        except FileNotFoundError:
            pass  # one of them; Google and Azure then leave the others
        except StoreError as error:
            if error.problem not in (Problem.CONDITIONAL, Problem.OTHER):
                raise  # the others say that it does not know how to delete several
        else:
            return
        together(self, [partial(self._delete_one, name) for name in names])

    def _delete_one(self, name: str) -> None:
        import obstore

        single: Options = (("disable_bulk_delete", "true"),) if self.address.kind == "s3" else ()
        with suppress(FileNotFoundError):
            delete = partial(obstore.delete, paths=self._key(name))
            self._request(name, delete, options=single, deletes=1)


class _Taken(Exception):
    """There is an object of that name."""


class _BeyondEnd(Exception):
    """A range begins after the end of the object."""


class _Chunks:
    """A content in chunks of the size of a part, which can be iterated over again.

    They are made while they are sent, and kept until the object is there: a second attempt needs them.
    """

    def __init__(self, parts: Iterable[bytes | memoryview]) -> None:
        self._coming = _chunks(parts)
        self._kept = list(islice(self._coming, 2))
        self.error: BaseException | None = None  #: of whoever makes the content

    @property
    def only(self) -> bytes | None:
        """The whole content, if it is one chunk."""
        return b"".join(self._kept) if len(self._kept) < 2 else None

    def __iter__(self) -> Iterator[bytes]:
        yield from self._kept
        if self.error is not None:  # or what has come so far would pass for all of it
            raise self.error
        try:
            for chunk in self._coming:
                self._kept.append(chunk)
                yield chunk
        except Exception as error:
            self.error = error
            raise


def _chunks(parts: Iterable[bytes | memoryview]) -> Iterator[bytes]:
    """The content in chunks of the size of a part; the last one is smaller."""
    kept, size = list[bytes | memoryview](), 0
    for part in parts:
        kept.append(part)
        size += memoryview(part).nbytes
        if size >= _PART:
            joined = memoryview(b"".join(kept))
            for start in range(0, size - _PART + 1, _PART):
                yield bytes(joined[start : start + _PART])
            kept, size = [joined[size - size % _PART :]], size % _PART
    if size:
        yield b"".join(kept)


def _joined(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ranges that cover all of these that are not empty, with small gaps filled."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(one for one in ranges if one[0] < one[1]):
        if joined and start <= joined[-1][1] + _GAP:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((start, end))
    return joined
