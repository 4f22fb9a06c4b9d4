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
        rows: their key columns have names of our own: the user's have no place in SQL.
        key: the key columns, for whose types `can_route`.
        workers: how many owners there are.
        seed: of the hash function.
        table: fingerprint → owner, of keys that do not go by hash.
    """
    rows = _with_fingerprint(rows, key)
    return rows.selectExpr(f"{owner_sql(FINGERPRINT, workers, seed, table)} AS {PARTITION}", "*")


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

    Parameters:
        rows, key, workers, seed, table: as in `routed_by_owner`.
        fingerprints: whether they are asked for.
    """
    from pyspark.sql import functions as F

    fingerprint = FINGERPRINT if fingerprints else _fingerprint(rows, key)
    rows = _with_fingerprint(rows, key) if fingerprints else rows
    return rows.repartitionById(workers, F.expr(owner_sql(fingerprint, workers, seed, table)))


def owner_sql(fingerprint: str, n: int, seed: int, table: Mapping[int, int] = NO_TABLE) -> str:
    """The owner of a key, 0 … n − 1: `model.owners.owner_of` of its fingerprint, unless the table has
    another. As text, which one call hands to Spark; an expression built from Python takes a hundred.

    Parameters:
        fingerprint: an expression, in which only names of our own stand. The user's have no place in
            SQL.
        n, seed: as in `model.owners.owner_of`.
        table: as in `routed_by_owner`.
    """
    upper = f"shiftrightunsigned(xxhash64({_signed(seed)}L, {fingerprint}), 32)"
    # 32 bits times at most 31: ANSI mode has no overflow to complain of.
    home = f"int(shiftright({upper} * {n}L, 32))"
    if not table:
        return home
    maps = _maps(table)
    entries = f"get(array({', '.join(maps)}), int({fingerprint} & {len(maps) - 1}L))"
    return f"coalesce(try_element_at({entries}, {fingerprint}), {home})"


def _maps(table: Mapping[int, int]) -> list[str]:
    """A routing table as maps, a few entries in each, by the last bits of the fingerprints: Spark
    looks into a map one entry after the other."""
    parts: list[list[str]] = [[] for _ in range(1 << max(0, len(table).bit_length() - 3))]
    for one, owner in table.items():
        parts[one & (len(parts) - 1)].append(f"{_signed(one)}L, {owner}")
    filler = next(part for part in parts if part)[:1]  # an empty map would be one of nothing
    return [f"map({', '.join(part or filler)})" for part in parts]


def fingerprint_column(column: Column) -> Column:
    """The fingerprint of a column of strings, as in `kernels.fingerprints`.

    For columns with the user's names; `_fingerprint` has it as text.
    """
    from pyspark.sql import functions as F

    return F.when(column.isNull(), F.lit(_NULL)).otherwise(F.xxhash64(F.lit(_FROM_ZERO), column))


def _with_fingerprint(rows: DataFrame, key: Sequence[str]) -> DataFrame:
    return rows.selectExpr(f"{_fingerprint(rows, key)} AS {FINGERPRINT}", "*")


def _fingerprint(rows: DataFrame, key: Sequence[str]) -> str:
    """The fingerprint of the key, as an expression."""
    kinds = {field.name: field.dataType.simpleString() for field in rows.schema.fields}
    ones = []
    for name in key:
        column = quoted(name)
        hashed = column if kinds[name] in _BYTES else f"bigint({column})"
        ones.append(f"if({column} IS NULL, {_NULL}L, xxhash64({_FROM_ZERO}L, {hashed}))")
    return ones[0] if len(ones) == 1 else f"xxhash64({_FROM_ZERO}L, {', '.join(ones)})"


def _signed(word: int) -> int:
    """The whole number of 64 bits that has these bits."""
    return ((word + (1 << 63)) & ((1 << 64) - 1)) - (1 << 63)
