"""Pages of objects in sparse files of a private directory, shared by the processes of one user.

One file per object: 4 bytes for every page first, then the pages. The 4 bytes are 0 for a page that is
not there, else 1 + the number of its bytes, which is less than a page where the object ends. They are
written after the page, and no object ever changes, so several processes may write the same page at
once. Nothing here raises an error: what goes wrong with the disk is a page that is not there.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from threading import Lock

import numpy as np

from evenflow.model.private_directories import open_private

PAGE = 64 << 10
_MARKS = 4 << 20  # bytes before the first page: enough for objects of 64 GiB
_GAP = 4  # pages that are read again rather than making another request
_MOST = 128  # pages of one request: larger ones are faster in parts, side by side
_PAUSE = 60.0  # seconds without a cache after its disk has failed

_log = logging.getLogger("evenflow")

Ranges = Sequence[tuple[int, int]]


class _Descriptor:
    """A file descriptor that is closed with its last user: no thread meets one that means another."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __del__(self) -> None:
        with suppress(OSError):
            os.close(self.number)


class PageDirectory:
    """A directory of page files, bounded; those that were not used for longest go first.

    Guarantee: the directory and all files in it belong to this user and nobody else may read or write
    them; where that is not so, or the disk fails, there is no cache. All processes together keep at
    most about `limit` bytes, and at most a tenth of what is free without them.

    Parameters:
        path: the directory; it is made, and those above it.
        limit: in bytes.
    """

    def __init__(self, path: str, limit: int) -> None:
        self._path, self._limit = path, limit
        self._guard = Lock()
        self._directory: _Descriptor | None = None
        self._paused_until = 0.0
        self._unchecked = limit  # bytes written since the last look at the whole

    def file(self, key: str) -> PageFile | None:
        """The file of an object, made if need be; None where there is no cache."""
        if time.monotonic() < self._paused_until:
            return None
        try:
            directory = self._opened()
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            file = _Descriptor(os.open(key, flags, 0o600, dir_fd=directory.number))
            os.utime(file.number)
            return PageFile(self, key, file)
        except OSError as error:
            self.failed(error)
            return None

    def drop(self, key: str) -> bool:
        """Remove the file of an object; whether there was one."""
        directory = self._directory
        if directory is not None:
            with suppress(OSError):
                os.unlink(key, dir_fd=directory.number)
                return True
        return False

    def failed(self, error: OSError) -> None:
        """Do without for a while, because of this."""
        _log.warning(
            "the cache of state in %s is not used for the next %.0f s: %s; set EVENFLOW_CACHE_DIR to "
            "a directory on a local disk with room",
            self._path,
            _PAUSE,
            error.strerror or error,
        )
        self._paused_until = time.monotonic() + _PAUSE
        self._directory = None

    def added(self, size: int) -> None:
        """Count what was written, and look now and then whether all processes keep too much."""
        with self._guard:
            self._unchecked += size
            # Several processes may each have written as much since they looked.
            if self._unchecked < self._limit // 64:
                return
            self._unchecked = 0
        try:
            self._evict()
        except OSError as error:
            self.failed(error)

    def _opened(self) -> _Descriptor:
        directory = self._directory
        if directory is None:
            directory = self._directory = _Descriptor(open_private(self._path))
        return directory

    def _evict(self) -> None:
        directory = self._opened()
        found = []
        with os.scandir(directory.number) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):  # another process is at it, too
                    stat = entry.stat(follow_symlinks=False)
                    found.append((stat.st_mtime_ns, entry.name, stat.st_blocks * 512))
        used = sum(size for _, _, size in found)
        disk = os.fstatvfs(directory.number)
        limit = min(self._limit, (disk.f_bavail * disk.f_frsize + used) // 10)
        if used <= limit:
            return
        for _, name, size in sorted(found):
            if used <= limit // 8 * 7:
                break
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=directory.number)
            used -= size


class PageFile:
    """What a cache holds of one object."""

    def __init__(self, directory: PageDirectory, key: str, file: _Descriptor) -> None:
        self._directory, self._key, self._file = directory, key, file

    def read(self, ranges: Ranges) -> list[bytes] | None:
        """Some (start, end) ranges, short where the object ends; None if a page is missing."""
        try:
            marks, first = self._marks(ranges)
            if not _pages(ranges, marks == 0, first):
                return [self._range(start, end, marks, first) for start, end in ranges]
        except OSError as error:
            self._directory.failed(error)
        return None

    def missing(self, ranges: Ranges) -> list[tuple[int, int]]:
        """The ranges of bytes to fetch so that `read` has all: whole pages, in few requests."""
        try:
            marks, first = self._marks(ranges)
        except OSError as error:
            self._directory.failed(error)
            return []
        runs: list[list[int]] = []
        for page in _pages(ranges, marks == 0, first):
            if runs and page <= runs[-1][1] + _GAP and page < runs[-1][0] + _MOST:
                runs[-1][1] = page + 1
            else:
                runs.append([page, page + 1])
        return [(start * PAGE, end * PAGE) for start, end in runs]

    def write(self, start: int, end: int, content: bytes) -> None:
        """Keep what was fetched: `content` is shorter than whole pages where the object ends."""
        try:
            self._pwrite(content, _MARKS + start)
            self._mark(start // PAGE, end // PAGE, len(content))
        except OSError as error:
            self._directory.failed(error)
        self._directory.added(len(content))

    def copied(self, parts: Iterable[bytes | memoryview]) -> Iterator[bytes | memoryview]:
        """The parts of a new object, kept while somebody takes them. They count once all is taken and
        whoever takes them asks for more: an object that is written half is not there."""
        at, fine = 0, True
        for part in parts:
            if fine:
                try:
                    self._pwrite(part, _MARKS + at)
                except OSError as error:
                    self._directory.failed(error)
                    fine = False
            at += len(part)
            yield part
        self._written = at if fine else None

    _written: int | None = None

    def finish(self) -> None:
        """Make what `copied` has kept count, now that the object is in the store."""
        if self._written is not None:
            try:
                self._mark(0, -(-self._written // PAGE), self._written)
            except OSError as error:
                self._directory.failed(error)
            self._directory.added(self._written)

    # --- bytes -----------------------------------------------------------------------------------

    def _marks(self, ranges: Ranges) -> tuple[np.ndarray, int]:
        """What is known of the pages of these ranges, and the number of the first of them."""
        first = min(start for start, _ in ranges) // PAGE
        after = -(-max(end for _, end in ranges) // PAGE)
        if 4 * after > _MARKS:
            raise OSError("an object is too large for the cache")
        content = os.pread(self._file.number, 4 * (after - first), 4 * first)
        marks = np.zeros(max(after - first, 0), np.uint32)
        known = np.frombuffer(content, np.uint32, len(content) // 4)
        marks[: len(known)] = known
        return marks, first

    def _range(self, start: int, end: int, marks: np.ndarray, first: int) -> bytes:
        if end <= start:
            return b""
        pages = marks[start // PAGE - first : -(-end // PAGE) - first]
        (short,) = np.nonzero(pages <= PAGE)
        if len(short):  # the object ends there
            end = min(end, (start // PAGE + int(short[0])) * PAGE + int(pages[short[0]]) - 1)
        content = os.pread(self._file.number, max(end - start, 0), _MARKS + start)
        while len(content) < end - start:
            more = os.pread(
                self._file.number, end - start - len(content), _MARKS + start + len(content)
            )
            if not more:
                self._directory.drop(self._key)
                raise OSError("a file of the cache was cut short")
            content += more
        return content

    def _pwrite(self, content: bytes | memoryview, at: int) -> None:
        view = memoryview(content)
        while len(view):
            written = os.pwrite(self._file.number, view, at)
            view, at = view[written:], at + written

    def _mark(self, first: int, after: int, size: int) -> None:
        ends = size - PAGE * np.arange(after - first)
        marks = (np.clip(ends, 0, PAGE) + 1).astype(np.uint32)
        self._pwrite(marks.tobytes(), 4 * first)


def _pages(ranges: Ranges, among: np.ndarray, first: int) -> list[int]:
    """The pages of these ranges that are `among` some, in order."""
    edges = np.zeros(len(among) + 1, np.int64)
    for start, end in ranges:
        if start < end:
            edges[start // PAGE - first] += 1
            edges[-(-end // PAGE) - first] -= 1
    (pages,) = np.nonzero((np.cumsum(edges)[:-1] > 0) & among)
    return (pages + first).tolist()
