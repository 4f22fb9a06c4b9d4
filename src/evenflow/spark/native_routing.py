"""Key grouping without Python: fingerprints and workers as Spark's own expressions.

Where a key always goes to its owner, nothing has to be learnt on the way, and the rows need not visit
a Python process to be routed. The expressions give the very numbers of `kernels.fingerprints` and of
the scheme `key`; tests compare them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from evenflow.engine.job import FINGERPRINT, WORKER, quoted
from evenflow.model.owners import MULTIPLIER, salt

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

# Spark's xxhash64 begins with the seed 42, our fingerprints with 0. It goes on from column to column
# with the hash so far as the seed, and the hash of this number is 0.
_FROM_ZERO = "-365884300664092260L"
_NULL = "-5196783011329398166L"  # `fingerprints.NULL`

_BYTES = ("string", "binary")
_WHOLE = ("tinyint", "smallint", "int", "bigint")
_MASK = "4294967295L"


def can_route(types: Sequence[DataType]) -> bool:
    """Whether Spark's expressions give the fingerprints of keys of these types."""
    return all(one.simpleString() in (*_BYTES, *_WHOLE) for one in types)


def routed_by_owner(rows: DataFrame, key: Sequence[str], workers: int, seed: int) -> DataFrame:
    """The rows, with the owner and the fingerprint of their keys before their columns.

    Guarantee: the same numbers as `Route` gives with the scheme `key`.

    Parameters:
        rows: any DataFrame.
        key: its key columns, for whose types `can_route`.
        workers: how many owners there are.
        seed: of the hash function.
    """
    rows = _with_fingerprint(rows, key)
    return rows.selectExpr(f"{_owner(FINGERPRINT, workers, seed)} AS {WORKER}", "*")


def shuffled_by_owner(
    rows: DataFrame, key: Sequence[str], workers: int, seed: int, fingerprints: bool
) -> DataFrame:
    """The rows, each with its owner, and with the fingerprints before their columns where asked for.

    The owner's number is computed for the shuffle and not sent along.
    """
    from pyspark.sql import functions as F

    if fingerprints:
        rows = _with_fingerprint(rows, key)
    fingerprint = FINGERPRINT if fingerprints else _fingerprint(_kinds(rows, key))
    return rows.repartitionById(workers, F.expr(_owner(fingerprint, workers, seed)))


def _with_fingerprint(rows: DataFrame, key: Sequence[str]) -> DataFrame:
    return rows.selectExpr(f"{_fingerprint(_kinds(rows, key))} AS {FINGERPRINT}", "*")


def _kinds(rows: DataFrame, key: Sequence[str]) -> list[tuple[str, str]]:
    types = {field.name: field.dataType.simpleString() for field in rows.schema.fields}
    return [(name, types[name]) for name in key]


def _owner(fingerprint: str, workers: int, seed: int) -> str:
    """The owner of a key: `mix` and `high_choice` of `kernels.mixing`.

    What is used several times is written out as often, about a hundred times in the end; Spark finds
    that out and computes it once.
    """
    salted = f"({fingerprint} ^ {_signed(salt(seed))})"
    high, low = _high(salted), f"(({salted} & {_MASK}) ^ {_high(salted)})"
    high, low = _multiplied(high, low)
    high, low = _multiplied(high, f"({low} ^ {high})")
    return f"CAST({_high(f'{high} * {workers}L')} AS INT)"


def _fingerprint(key: Sequence[tuple[str, str]]) -> str:
    ones = [_of_column(quoted(name), kind) for name, kind in key]
    return ones[0] if len(ones) == 1 else f"xxhash64({_FROM_ZERO}, {', '.join(ones)})"


def _of_column(column: str, kind: str) -> str:
    hashed = column if kind in _BYTES else f"CAST({column} AS BIGINT)"
    return f"IF({column} IS NULL, {_NULL}, xxhash64({_FROM_ZERO}, {hashed}))"


def _multiplied(upper: str, lower: str) -> tuple[str, str]:
    """The two halves of a 64-bit number times MULTIPLIER, modulo 2⁶⁴.

    Spark refuses an overflow (its default since 4.0), so no product may have more than 63 bits: the
    halves are multiplied by quarters of the factor.
    """
    f0, f1, f2, f3 = (f"{MULTIPLIER >> 16 * i & 0xFFFF}L" for i in range(4))
    low = f"(({lower} * {f0} & {_MASK}) + {_quarter_up(f'{lower} * {f1}')})"
    high = " + ".join(
        [
            _high(f"{lower} * {f0}"),
            f"shiftrightunsigned({lower} * {f1}, 16)",
            _high(low),
            f"{lower} * {f2}",
            _quarter_up(f"{lower} * {f3}"),
            f"{upper} * {f0}",
            _quarter_up(f"{upper} * {f1}"),
        ]
    )
    return f"(({high}) & {_MASK})", f"({low} & {_MASK})"


def _high(number: str) -> str:
    """The upper 32 bits."""
    return f"shiftrightunsigned({number}, 32)"


def _quarter_up(number: str) -> str:
    """Times 2¹⁶, modulo 2³²."""
    return f"shiftleft({number} & 65535L, 16)"


def _signed(word: int) -> str:
    """A 64-bit word as SQL writes it."""
    number = word - (1 << 64) if word >> 63 else word
    return f"({number + 1}L - 1L)" if number == -(1 << 63) else f"({number}L)"
