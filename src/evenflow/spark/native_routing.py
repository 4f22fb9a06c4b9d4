"""Key grouping without Python: fingerprints and owners as Spark's own expressions.

Where a key always goes to its owner, by hash or by a routing table, nothing has to be learnt on the
way, and the rows need not visit a Python process to be routed. The expressions give the very numbers of
`kernels.fingerprints` and of `model.owners`; tests compare them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from evenflow.engine.layout import FINGERPRINT, PARTITION
from evenflow.spark.columns import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

# Spark's xxhash64 begins with the seed 42, our fingerprints with 0. It goes on from column to column
# with the hash so far as the seed, and the hash of this number is 0.
_FROM_ZERO = -365884300664092260
_NULL = -5196783011329398166  # `fingerprints.NULL`, signed

_BYTES = ("string", "binary")
_WHOLE = ("tinyint", "smallint", "int", "bigint")


def can_route(types: Sequence[DataType]) -> bool:
    """Whether Spark's expressions give the fingerprints of keys of these types."""
    return all(one.simpleString() in (*_BYTES, *_WHOLE) for one in types)


NO_TABLE: Mapping[int, int] = MappingProxyType({})


def routed_by_owner(
    rows: DataFrame,
    key: Sequence[str],
    workers: int,
    seed: int,
    table: Mapping[int, int] = NO_TABLE,
) -> DataFrame:
    """The rows, with the owner and the fingerprint of their keys before their columns.

    Guarantee: the same numbers as `Route` gives with the scheme `key`, or `table` and its entries.

    Parameters:
        rows: any DataFrame.
        key: its key columns, for whose types `can_route`.
        workers: how many owners there are.
        seed: of the hash function.
        table: fingerprint → owner, of keys that do not go by hash.
    """
    rows = _with_fingerprint(rows, key)
    owner = owner_column(rows[FINGERPRINT], workers, seed, table)
    return rows.select(owner.alias(PARTITION), "*")


def shuffled_by_owner(
    rows: DataFrame,
    key: Sequence[str],
    workers: int,
    seed: int,
    fingerprints: bool,
    table: Mapping[int, int] = NO_TABLE,
) -> DataFrame:
    """The rows, each with its owner, and with the fingerprints before their columns where asked for.

    The owner's number is computed for the shuffle and not sent along.
    """
    if fingerprints:
        rows = _with_fingerprint(rows, key)
        fingerprint = rows[FINGERPRINT]
    else:
        fingerprint = _fingerprint(rows, key)
    return rows.repartitionById(workers, owner_column(fingerprint, workers, seed, table))


def owner_column(
    fingerprint: Column, n: int, seed: int, table: Mapping[int, int] = NO_TABLE
) -> Column:
    """The owner of a key, 0 … n − 1: `model.owners.owner_of` of its fingerprint, unless the table has
    another."""
    from pyspark.sql import functions as F

    upper = F.shiftrightunsigned(F.xxhash64(_long(_signed(seed)), fingerprint), 32)
    # 32 bits times at most 31: ANSI mode has no overflow to complain of.
    home = F.shiftright(upper * _long(n), 32).cast("int")
    if not table:
        return home
    maps = _maps(table)
    slot = fingerprint.bitwiseAND(_long(len(maps) - 1)).cast("int")
    # One text is parsed much faster than thousands of literals are sent one by one.
    entries = F.get(F.expr(f"array({', '.join(maps)})"), slot)
    return F.coalesce(F.try_element_at(entries, fingerprint), home)


def _maps(table: Mapping[int, int]) -> list[str]:
    """A routing table as maps, a few entries in each, by the last bits of the fingerprints: Spark
    looks into a map one entry after the other."""
    parts: list[list[str]] = [[] for _ in range(1 << max(0, len(table).bit_length() - 3))]
    for one, owner in table.items():
        parts[one & (len(parts) - 1)].append(f"{_signed(one)}L, {owner}")
    filler = next(part for part in parts if part)[:1]  # an empty map would be one of nothing
    return [f"map({', '.join(part or filler)})" for part in parts]


def owner_sql(fingerprint: str, n: int, seed: int) -> str:
    """`owner_column` as text, for queries that Spark is given as a whole.

    Parameters:
        fingerprint: a column's name of our own. The user's have no place in SQL.
        n, seed: as in `model.owners.owner_of`.
    """
    upper = f"shiftrightunsigned(xxhash64({_signed(seed)}L, {fingerprint}), 32)"
    return f"int(shiftright({upper} * {n}L, 32))"


def fingerprint_column(column: Column, kind: str) -> Column:
    """The fingerprint of one column, as in `kernels.fingerprints`.

    Parameters:
        column: of a type for which `can_route`.
        kind: the type's simple name.
    """
    from pyspark.sql import functions as F

    hashed = column if kind in _BYTES else column.cast("bigint")
    return F.when(column.isNull(), _long(_NULL)).otherwise(F.xxhash64(_long(_FROM_ZERO), hashed))


def _with_fingerprint(rows: DataFrame, key: Sequence[str]) -> DataFrame:
    return rows.select(_fingerprint(rows, key).alias(FINGERPRINT), "*")


def _fingerprint(rows: DataFrame, key: Sequence[str]) -> Column:
    from pyspark.sql import functions as F

    kinds = {field.name: field.dataType.simpleString() for field in rows.schema.fields}
    ones = [fingerprint_column(rows[quoted(name)], kinds[name]) for name in key]
    return ones[0] if len(ones) == 1 else F.xxhash64(_long(_FROM_ZERO), *ones)


def _long(number: int) -> Column:
    """A whole number of 64 bits; `lit` alone makes a smaller type of a small number, and another
    hash of it."""
    from pyspark.sql import functions as F

    return F.lit(number).cast("bigint")


def _signed(word: int) -> int:
    """The whole number of 64 bits that has these bits."""
    return ((word + (1 << 63)) & ((1 << 64) - 1)) - (1 << 63)
