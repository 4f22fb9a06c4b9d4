"""What the state needs of a place to keep bytes, and nothing more."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol


class Storage(Protocol):
    """Objects of bytes, each under a name such as `segments/00003-0000000005-0f9a.seg`.

    A storage is a frozen, picklable value: tasks on other machines get a copy of it. Names are
    relative, with `/` between their parts, and no name is also the folder of another. Nothing above
    this protocol knows which kind of store it is.

    Guarantee: an object is there whole or not at all, whoever reads it and whenever the writer dies,
    and it is durable once `put` or `create` has returned.

    Errors: `FileNotFoundError` for a name that is not there, any other `OSError` where the store fails.
    """

    @property
    def concurrency(self) -> int:
        """How many requests are worth making at once; 1 where a request is not waited for."""
        ...

    def where(self, name: str = "") -> str:
        """The full address of a name, for messages and for programs that read it themselves."""
        ...

    def under(self, folder: str) -> Storage:
        """The same store, with all names relative to a folder of this one."""
        ...

    def size(self, name: str) -> int:
        """How many bytes an object has."""
        ...

    def read(self, name: str) -> bytes:
        """The whole object."""
        ...

    def read_ranges(self, name: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Some (start, end) ranges of an object, in as few requests as the store allows.

        A range that goes past the end of the object comes back short; no other one does.
        """
        ...

    def put(self, name: str, parts: Iterable[bytes | memoryview]) -> None:
        """Write an object, replacing the one that may be there."""
        ...

    def create(self, name: str, content: bytes) -> bool:
        """Write an object unless one of that name is there. Returns whether it has this content now.

        Guarantee: of several callers with different contents, exactly one gets True. A create whose
        reply was lost is recognised as one's own: if the object has this very content, that is True.
        """
        ...

    def unfinished(self, prefix: str) -> list[str]:
        """The names of what writers left that died, or that are still at work, sorted.

        Such a name begins with that of the object it was to become. `delete` removes it. Always empty
        for a store that shows nothing of unfinished writes.
        """
        ...

    def list(self, prefix: str) -> list[str]:
        """The names that begin with `prefix`, sorted, however deep; no unfinished ones.

        A prefix that no name has gives an empty list: a store need not know folders.
        """
        ...

    def copy(self, name: str, to: str) -> None:
        """Write an object with the content of another, replacing the one that may be there."""
        ...

    def delete(self, *names: str) -> None:
        """Remove objects, in as few requests as the store allows; those that are not there are fine."""
        ...
