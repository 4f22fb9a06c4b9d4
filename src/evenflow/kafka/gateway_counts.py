"""A batch's most frequent keys, counted by Spark on the rows' way to Kafka."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from evenflow.kafka.gateway_query import Selection
from evenflow.kafka.gateway_state import Counted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation

LONGEST_TRACKED = 512  #: bytes of a key; longer ones go by hash

ENOUGH = 16  #: how often a key at the threshold is expected in a batch's sample

_NO_TEXT = "\0"
_WORTH_TELLING = 15  # a key is listed with one part of so many of the threshold's share
_MOST_COUNTED = 1 << 19  # keys of Spark's sketch

# The column `key` as text, for Spark's sketch, which knows no bytes; null where it is not counted. Text
# stays as it is. What is none, or begins with the sign that says so, is written in base64.
_PLAIN = "is_valid_utf8(key) and not startswith(key, chr(0))"
_CODED = "concat(chr(0), base64(binary(key)))"
_COUNTABLE = f"if(octet_length(key) <= {LONGEST_TRACKED}, if({_PLAIN}, key, {_CODED}), null)"


def sampling(expected: int, threshold: float) -> int:
    """One row of how many is counted, of a batch that has about so many rows.

    Counting takes time, and a key that is worth moving shows in a part of a large batch as well: it is
    expected `ENOUGH` times or more, so that its count errs by a quarter (the standard deviation). Of
    small batches every row counts. Powers of two, lest estimates change with every batch.

    Example:
        >>> sampling(1_000_000, 1e-3), sampling(50_000, 1e-3), sampling(0, 1e-3)
        (32, 2, 1)
    """
    return 1 << max(0, int(expected * threshold / ENOUGH).bit_length() - 1)


def countable(rows: Selection, every: int = 1) -> Selection:
    """The rows with a column `counted` more, for `observed`: the key as text, null where it is not
    counted. It is a column because Spark compiles those; what `observe` computes itself, it interprets.

    Parameters:
        rows: with a column `key`, and with one of 64 bits by chance, if they have one: `chance`.
        every: one row of so many is counted, by chance.
    """
    item = _COUNTABLE
    if every > 1:
        chance = "chance" if "chance" in rows.columns else "xxhash64(rand(0))"
        item = f"if({chance} < {(1 << 64) // every - (1 << 63)}L, {item}, null)"
    return rows.select(rows.columns, counted=item)


def observed(rows: DataFrame, threshold: float, every: int = 1) -> tuple[DataFrame, Observation]:
    """The rows, and what tells the counts once they are written, for `counts`.

    Guarantee: of the rows that are counted, a key of up to 512 bytes with a seventh of the threshold's
    share is listed, and no count is wrong by more than a fifteenth of that share. A key that is counted
    less often than in a fifteenth of that share of all rows is not listed.

    Parameters:
        rows: of `countable`.
        threshold: the share of a batch that makes a key hot.
        every: one row of so many is counted.
    """
    from pyspark.sql import Observation
    from pyspark.sql import functions as F

    listed, tracked = sketch_sizes(threshold)
    seen = Observation()
    # A batch of many rare keys would be listed at length, and Python would have to read it.
    least = f"count(1) * {threshold / every / _WORTH_TELLING!r}D"
    top = f"filter(approx_top_k(counted, {listed}, {tracked}), one -> one.count >= {least})"
    # As two lists, which Python reads faster than a list of rows.
    top = f"transform(array({top}), them -> struct(them.item, them.count))[0]"
    told = rows.observe(seen, F.expr("count(1) as rows"), F.expr(f"{top} as top"))
    return told, seen


def counts(seen: Observation, every: int = 1) -> Counted:
    """What was counted, the most frequent keys first; one row of `every` was."""
    return _counted(seen.get, every)


def sketch_sizes(threshold: float) -> tuple[int, int]:
    """How many keys of a batch are listed, and how many its sketch follows.

    A sketch that follows m keys has a place for at least 4/3·m, and errs by at most 3.5/(4/3·m) of the
    rows (Anderson et al., "A high-performance algorithm for identifying frequent items in data
    streams"). With 40 keys for each that can be hot, that is a fifteenth of the threshold; what has
    twice as much is listed.
    """
    if threshold <= 0:
        return _MOST_COUNTED, _MOST_COUNTED
    listed = min(max(1024, int(10 / threshold)), _MOST_COUNTED)
    return listed, min(4 * listed, _MOST_COUNTED)


def _key(item: str) -> bytes:
    """The key of a countable text."""
    return base64.b64decode(item[1:]) if item.startswith(_NO_TEXT) else item.encode()


def _counted(told: Mapping[str, Any], every: int) -> Counted:
    listed = zip(*told["top"], strict=True)
    found = [(_key(item), n) for item, n in listed if item is not None]
    found.sort(key=lambda one: (-one[1], one[0]))
    return Counted([key for key, _ in found], [n * every for _, n in found], int(told["rows"]))
