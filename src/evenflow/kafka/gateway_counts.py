"""A batch's most frequent keys, counted by Spark while it writes the rows to Kafka."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from evenflow.kafka.gateway_query import Selection
from evenflow.kafka.gateway_state import Counted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation

LONGEST_TRACKED = 512  #: bytes of a key; longer keys are always routed by hash

ENOUGH = 16  #: the expected occurrences of a key at the threshold in a batch's sample

_NO_TEXT = "\0"
_LISTED_PART = 15  # a key is listed from this part of the threshold's share
_MOST_COUNTED = 1 << 19  # keys in Spark's sketch

# The column `key` as text, because Spark's sketch does not take bytes; null where it is not counted.
# Valid text stays as it is. Anything else, or text that begins with the escape character, is base64.
_PLAIN = "is_valid_utf8(key) and not startswith(key, chr(0))"
_CODED = "concat(chr(0), base64(binary(key)))"
_COUNTABLE = f"if(octet_length(key) <= {LONGEST_TRACKED}, if({_PLAIN}, key, {_CODED}), null)"


def sampling(expected: int, threshold: float) -> int:
    """The sampling step for a batch of about `expected` rows: one row in so many is counted.

    Counting takes time, and a sample of a large batch is enough to see the keys worth moving: each is
    expected at least `ENOUGH` times, a standard deviation of a quarter. Small batches are counted
    completely. Steps are powers of two, so that they do not change with every batch.

    Example:
        >>> sampling(1_000_000, 1e-3), sampling(50_000, 1e-3), sampling(0, 1e-3)
        (32, 2, 1)
    """
    return 1 << max(0, int(expected * threshold / ENOUGH).bit_length() - 1)


def countable(rows: Selection, every: int = 1) -> Selection:
    """The rows with a column `counted`, for `observed`: the key as text, null where it is not counted.
    It is a column because Spark compiles columns but interprets the expressions of `observe`.

    Parameters:
        rows: with a column `key`, and optionally one of 64 random bits, `chance`.
        every: one row in so many is counted, at random.
    """
    item = _COUNTABLE
    if every > 1:
        chance = "chance" if "chance" in rows.columns else "xxhash64(rand(0))"
        item = f"if({chance} < {(1 << 64) // every - (1 << 63)}L, {item}, null)"
    return rows.select(rows.columns, counted=item)


def observed(rows: DataFrame, threshold: float, every: int = 1) -> tuple[DataFrame, Observation]:
    """The rows, and an observation that holds the counts once they are written, for `counts`.

    Guarantee: among the counted rows, a key of up to 512 bytes with a seventh of the threshold's share
    is listed, and no count is off by more than a fifteenth of that share. A key below a fifteenth of
    that share of all rows is not listed.

    Parameters:
        rows: from `countable`.
        threshold: the share of a batch that makes a key hot.
        every: one row in so many is counted.
    """
    from pyspark.sql import Observation
    from pyspark.sql import functions as F

    listed, tracked = sketch_sizes(threshold)
    seen = Observation()
    # Without this filter, Python would have to read a long list of rare keys.
    least = f"count(1) * {threshold / every / _LISTED_PART!r}D"
    top = f"filter(approx_top_k(counted, {listed}, {tracked}), one -> one.count >= {least})"
    # Two lists, which Python reads faster than a list of rows.
    top = f"transform(array({top}), them -> struct(them.item, them.count))[0]"
    return rows.observe(seen, F.expr("count(1) as rows"), F.expr(f"{top} as top")), seen


def counts(seen: Observation, every: int = 1) -> Counted:
    """The counts, the most frequent keys first; one row in `every` was counted."""
    listed = zip(*seen.get["top"], strict=True)
    found = [(_key(item), n) for item, n in listed if item is not None]
    found.sort(key=lambda one: (-one[1], one[0]))
    return Counted([key for key, _ in found], [n * every for _, n in found], int(seen.get["rows"]))


def sketch_sizes(threshold: float) -> tuple[int, int]:
    """How many keys of a batch are listed, and how many its sketch tracks.

    A sketch that tracks m keys has room for at least 4/3·m, and errs by at most 3.5/(4/3·m) of the rows
    (Anderson et al., "A high-performance algorithm for identifying frequent items in data streams").
    With 40 tracked keys per possible hot key, that is a fifteenth of the threshold; keys with twice as
    much are listed.
    """
    if threshold <= 0:
        return _MOST_COUNTED, _MOST_COUNTED
    listed = min(max(1024, int(10 / threshold)), _MOST_COUNTED)
    return listed, min(4 * listed, _MOST_COUNTED)


def _key(item: str) -> bytes:
    """The key of a counted text."""
    return base64.b64decode(item[1:]) if item.startswith(_NO_TEXT) else item.encode()
