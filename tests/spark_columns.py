"""Columns of every type that Spark hashes, and their form in a JSON file."""

import math
import random
import struct
from decimal import Decimal

import pyarrow as pa

STRUCT = ["int", "string", ["decimal(38,10)", "double"]]

#: Spark's name of a type, or the list of a struct's fields → the type in Arrow
ARROW = {
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "decimal(9,2)": pa.decimal128(9, 2),
    "decimal(18,4)": pa.decimal128(18, 4),
    "decimal(38,10)": pa.decimal128(38, 10),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "time": pa.time64("ns"),
    "duration": pa.duration("us"),
    "string": pa.string(),
    "binary": pa.binary(),
    "null": pa.null(),
}


def _signed(bits):
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


_RANGES = {
    "byte": _signed(8),
    "short": _signed(16),
    "int": _signed(32),
    "long": _signed(64),
    "date": _signed(32),
    "timestamp": _signed(64),
    "timestamp_ntz": _signed(64),
    "time": (0, 86_400 * 10**9 - 1),
    "duration": _signed(64),
}
_ALPHABETS = ("abcdefghij", "äöüßéñçλЖ", "漢字仮名한글", "😀🚀🧪", "\x00\x7f\x80ÿ")
_NAN_WITH_PAYLOAD = struct.unpack("<d", bytes.fromhex("efbeadde0000f8ff"))[0]


def values(kind, rows, rng, nulls=0.1):
    """`rows` values of a kind, edges first, some of them null.

    Integers stand for dates (days), timestamps, durations (microseconds) and times (nanoseconds).
    """
    if isinstance(kind, list):
        made = list(zip(*(values(field, rows, rng, nulls) for field in kind), strict=True))
        edges = []
    elif kind == "null":
        return [None] * rows
    elif kind == "boolean":
        edges, made = [True, False], [rng.random() < 0.5 for _ in range(rows)]
    elif kind in _RANGES:
        lowest, highest = _RANGES[kind]
        edges = [0, 1, max(-1, lowest), lowest, highest]
        made = [rng.randint(lowest, highest) for _ in range(rows)]
    elif kind in ("float", "double"):
        edges = [0.0, -0.0, math.nan, _NAN_WITH_PAYLOAD, math.inf, -math.inf, 1.5, 5e-324, 1e-45]
        made = [rng.gauss(0, 1) * 10 ** rng.randint(-30, 30) for _ in range(rows)]
    elif kind.startswith("decimal"):
        precision, scale = map(int, kind[len("decimal(") : -1].split(","))
        largest = 10**precision - 1
        # The numbers around powers of 256 are where a shortest byte string grows by one.
        edges = [0, 1, -1, 127, 128, -128, -129, 255, 256, largest, -largest]
        edges += [2**63 - 1, 2**63, -(2**63), -(2**63) - 1] if precision > 20 else []
        made = [
            rng.randint(-largest, largest) // 10 ** rng.randrange(precision) for _ in range(rows)
        ]
        edges, made = (
            [Decimal((int(u < 0), tuple(map(int, str(abs(u)))), -scale)) for u in unscaled]
            for unscaled in (edges, made)
        )
    elif kind == "string":
        edges = [
            "",
            "a",
            "abc",
            "Spark",
            "naïve",
            "漢字",
            "😀",
            "x" * 31,
            "x" * 32,
            "x" * 33,
            "\x00",
        ]
        made = [_text(i % 41, rng) for i in range(rows)]
    elif kind == "binary":
        edges = [b"", b"\x00", b"\xff", b"\x80\x7f\xff", bytes(range(40)), b"\xff" * 37]
        made = [rng.randbytes(i % 41) for i in range(rows)]
    drawn = (edges + made)[:rows]
    return [None if i >= len(edges) and rng.random() < nulls else v for i, v in enumerate(drawn)]


def _text(length, rng):
    return "".join(rng.choice(rng.choice(_ALPHABETS)) for _ in range(length))


def column(kind, made):
    """The Arrow column of these values."""
    if isinstance(kind, list):
        fields = list(zip(*(value or (None,) * len(kind) for value in made), strict=True))
        return pa.StructArray.from_arrays(
            [column(k, list(field)) for k, field in zip(kind, fields, strict=True)],
            names=[f"f{i}" for i in range(len(kind))],
            mask=pa.array([value is None for value in made]),
        )
    return pa.array(made, ARROW[kind])


def seeded_columns(rows, seed):
    """[(kind, values)] of every kind, structs included."""
    rng = random.Random(seed)
    return [(kind, values(kind, rows, rng)) for kind in [*ARROW, STRUCT]]


def to_json(value):
    """A value as JSON has it: bytes as hex, decimals and floating point numbers as text."""
    if isinstance(value, tuple):
        return [to_json(field) for field in value]
    if isinstance(value, bytes):
        return value.hex()
    return str(value) if isinstance(value, float | Decimal) else value


def from_json(kind, value):
    """The value that `to_json` was given."""
    if value is None:
        return None
    if isinstance(kind, list):
        return tuple(from_json(k, field) for k, field in zip(kind, value, strict=True))
    if kind in ("float", "double"):
        return float(value)
    if kind == "binary":
        return bytes.fromhex(value)
    return Decimal(value) if kind.startswith("decimal") else value
