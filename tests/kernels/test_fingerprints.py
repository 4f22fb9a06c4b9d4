"""Fingerprints: equal to their twin for every type, cut and chunk; equal where values are equal."""

import math
import uuid
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from evenflow.kernels.fingerprints import NULL, fingerprint
from evenflow.model import InputError

TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
STRING_TYPES = [pa.string(), pa.large_string(), pa.string_view()]
BINARY_TYPES = [pa.binary(), pa.large_binary(), pa.binary_view()]
SIGNED = [pa.int8(), pa.int16(), pa.int32(), pa.int64()]
UNSIGNED = [pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
DECIMALS = [
    pa.decimal32(9, 2),
    pa.decimal64(18, 4),
    pa.decimal128(38, 10),
    pa.decimal128(20, -3),
    pa.decimal256(76, 30),
]
INSTANTS = [
    *(pa.timestamp(unit, zone) for unit in TICKS for zone in (None, "Asia/Tokyo")),
    *(pa.duration(unit) for unit in TICKS),
    *(pa.time32(unit) for unit in ("s", "ms")),
    *(pa.time64(unit) for unit in ("us", "ns")),
]


def signed(bits):
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def decimals(type_):
    largest = 10**type_.precision - 1
    return st.builds(
        # Now and then times a power of ten: trailing zeros are what a decimal is stripped of.
        lambda unscaled, zeros: int(math.fmod(unscaled * 10**zeros, largest)),
        st.integers(-largest, largest) | st.integers(-1000, 1000),
        st.integers(0, 8) | st.just(0),
    ).map(lambda unscaled: decimal(unscaled, type_.scale))


def decimal(unscaled, scale):
    return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))


def cases():
    """(type, strategy for what pyarrow takes, that → what the twin takes)"""
    for type_ in STRING_TYPES:
        yield type_, st.text(max_size=40), str
    for type_ in BINARY_TYPES:
        yield type_, st.binary(max_size=80), bytes
    for width in (0, 1, 16, 33):
        yield pa.binary(width), st.binary(min_size=width, max_size=width), bytes
    for type_ in SIGNED:
        yield type_, signed(type_.bit_width), int
    for type_ in UNSIGNED:
        yield type_, st.integers(0, 2**type_.bit_width - 1), int
    for bits, type_ in ((16, pa.float16()), (32, pa.float32()), (64, pa.float64())):
        yield type_, st.floats(width=bits).map(np.dtype(f"f{bits // 8}").type), float
    for type_ in DECIMALS:
        yield type_, decimals(type_), Decimal
    for type_ in INSTANTS:
        per_second = TICKS[type_.unit]
        yield type_, signed(type_.bit_width), lambda ticks, n=per_second: Fraction(ticks, n)
    yield pa.date32(), signed(32), int
    yield pa.date64(), signed(64), lambda milliseconds: milliseconds // 86_400_000
    yield pa.bool_(), st.booleans(), bool
    yield pa.null(), st.none(), str


CASES = list(cases())


def expected(made, to_twin):
    return [naive.fingerprint(None if value is None else to_twin(value)) for value in made]


@pytest.mark.parametrize(("type_", "strategy", "to_twin"), CASES, ids=[str(c[0]) for c in CASES])
def test_fingerprints_equal_their_twin_however_the_array_is_cut(type_, strategy, to_twin):
    @settings(max_examples=12)
    @given(st.lists(st.none() | strategy, max_size=40), st.data())
    def check(made, data):
        array = pa.array(made, type_)
        wanted = expected(made, to_twin)
        assert fingerprint(array).tolist() == wanted
        cuts = sorted(data.draw(st.lists(st.integers(0, len(made)), min_size=2, max_size=5)))
        first, *_, last = cuts
        assert fingerprint(array[first:last]).tolist() == wanted[first:last]
        chunks = [array[a:b] for a, b in pairwise(cuts)]
        assert fingerprint(pa.chunked_array(chunks, type_)).tolist() == wanted[first:last]

    check()


def test_null_has_its_own_fixed_fingerprint():
    for type_, _, _ in CASES:
        assert fingerprint(pa.nulls(3, type_)).tolist() == [int(NULL)] * 3
    assert int(NULL) == naive.fingerprint(None)
    assert int(NULL) not in fingerprint(pa.array(["", "null", "None"])).tolist()
    assert int(NULL) not in fingerprint(pa.array(range(-1000, 1000))).tolist()


def test_empty_arrays_of_every_type():
    for type_, _, _ in CASES:
        for empty in (pa.array([], type_), pa.nulls(2, type_)[2:], pa.chunked_array([], type_)):
            result = fingerprint(empty)
            assert result.dtype == np.uint64
            assert result.tolist() == []


@pytest.mark.parametrize(
    "types",
    [STRING_TYPES, BINARY_TYPES, SIGNED, UNSIGNED, [*SIGNED, *UNSIGNED]],
    ids=["string", "binary", "signed", "unsigned", "integers"],
)
def test_equal_values_are_equal_in_every_type_of_their_kind(types):
    if types == STRING_TYPES:
        made = ["", "a", None, "longer than a view holds itself", "ünïcödé", "漢字"]
    elif types == BINARY_TYPES:
        made = [b"", b"\xff", None, bytes(100)]
    else:
        made = [0, 5, None, 127] + ([-1, -128] if types == SIGNED else [])
    results = [fingerprint(pa.array(made, type_)).tolist() for type_ in types]
    dictionary = pa.array(made, types[0]).dictionary_encode()
    results.append(fingerprint(dictionary).tolist())
    assert all(result == results[0] for result in results)


def test_floats_are_equal_across_widths_zeros_and_nans():
    made = [0.5, -2.0, math.inf, None, 0.0, -0.0]
    wanted = fingerprint(pa.array(made)).tolist()
    assert fingerprint(pa.array(made, pa.float32())).tolist() == wanted
    assert fingerprint(pa.array(made, pa.float16())).tolist() == wanted
    assert wanted[4] == wanted[5]
    payloads = np.array([0x7FF8 << 48, 0xFFF8 << 48, 0x7FF0 << 48 | 1], np.uint64)
    nans = fingerprint(pa.array(payloads.view(np.float64))).tolist()
    signalling = fingerprint(pa.array(np.array([0x7F800001], np.uint32).view(np.float32))).tolist()
    assert set(nans) == set(signalling) == {naive.fingerprint(math.nan)}


def test_decimals_are_equal_across_widths_and_scales():
    made = [Decimal("1.50"), Decimal("-1.5"), Decimal("0.00"), Decimal(100), None]
    results = [
        fingerprint(pa.array(made, type_)).tolist()
        for type_ in (
            pa.decimal32(9, 2),
            pa.decimal64(18, 4),
            pa.decimal128(38, 20),
            pa.decimal256(70, 1),
        )
    ]
    assert all(result == results[0] for result in results)
    hundreds = pa.array([Decimal("1.5e6"), Decimal(0)], pa.decimal128(5, -3))
    assert (
        fingerprint(hundreds).tolist() == fingerprint(hundreds.cast(pa.decimal128(20, 9))).tolist()
    )


def test_decimals_beyond_one_word_are_equal_across_widths():
    for unscaled in (2**64, 10 * 2**64, -(2**64) - 1, 10**37, 5 * 10**36, -(10**38) + 1):
        value = decimal(unscaled, 5)
        narrow = pa.array([value], pa.decimal128(38, 5))
        wide = pa.array([value], pa.decimal256(60, 20))
        assert fingerprint(narrow) == fingerprint(wide) == naive.fingerprint(value)


def test_dates_instants_and_times_are_equal_across_units():
    days = pa.array([date(1969, 12, 31), date(2024, 2, 29), None])
    assert fingerprint(days).tolist() == fingerprint(days.cast(pa.date64())).tolist()
    python_values = {
        pa.timestamp: [datetime(1969, 12, 31, 23, 59, 59), datetime(2024, 2, 29), None],
        pa.duration: [timedelta(seconds=-1), timedelta(days=3), None],
    }
    for make, made in python_values.items():
        for unit in TICKS:
            assert fingerprint(pa.array(made, make(unit))).tolist() == expected(made, lambda v: v)
    clock = [time(0, 0, 0), time(23, 59, 59), None]
    for type_ in (pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")):
        assert fingerprint(pa.array(clock, type_)).tolist() == expected(clock, lambda v: v)
    zoned = pa.array([datetime(2024, 1, 1, tzinfo=UTC)], pa.timestamp("us", "Europe/Rome"))
    assert fingerprint(zoned) == fingerprint(zoned.cast(pa.timestamp("s", "UTC")))


def test_large_unsigned_integers_do_not_meet_negative_ones():
    values = np.array([2**63, 2**63 + 1, 2**64 - 1], np.uint64)
    unsigned, negative = fingerprint(pa.array(values)), fingerprint(pa.array(values.view(np.int64)))
    assert not set(unsigned.tolist()) & set(negative.tolist())


@pytest.mark.parametrize("index", [*SIGNED, *UNSIGNED], ids=str)
def test_dictionaries_are_as_their_values(index):
    words = pa.array([f"word {i}" for i in range(120)] + [None], pa.string())
    chosen = [0, 120, None, 119, 7, 7, 1]
    encoded = pa.DictionaryArray.from_arrays(pa.array(chosen, index), words)
    decoded = pa.array([None if i is None else words[i].as_py() for i in chosen])
    assert fingerprint(encoded).tolist() == fingerprint(decoded).tolist()  # long dictionary
    assert fingerprint(encoded[2:5]).tolist() == fingerprint(decoded[2:5]).tolist()
    many = pa.DictionaryArray.from_arrays(pa.array(chosen * 40, index), words)
    assert fingerprint(many).tolist() == fingerprint(decoded).tolist() * 40  # short dictionary


def test_unsigned_indices_beyond_127_are_not_negative():
    words = pa.array([f"word {i}" for i in range(256)])
    encoded = pa.DictionaryArray.from_arrays(pa.array(range(256), pa.uint8()), words)
    assert fingerprint(encoded).tolist() == fingerprint(words).tolist()


def test_dictionaries_without_values():
    empty = pa.DictionaryArray.from_arrays(
        pa.array([None, None], pa.int8()), pa.array([], pa.int8())
    )
    assert fingerprint(empty).tolist() == [int(NULL)] * 2


structs = st.tuples(st.none() | st.text(max_size=30), st.none() | st.tuples(st.none() | signed(64)))


def struct_array(made):
    def mask(values):
        return pa.array([value is None for value in values], pa.bool_())

    outer = [(None, None) if value is None else value for value in made]
    inner = [value[1] for value in outer]
    numbers = pa.array([None if value is None else value[0] for value in inner], pa.int64())
    return pa.StructArray.from_arrays(
        [
            pa.array([value[0] for value in outer], pa.string()),
            pa.StructArray.from_arrays([numbers], ["n"], mask=mask(inner)),
        ],
        ["s", "t"],
        mask=mask(made),
    )


@settings(max_examples=40)
@given(st.lists(st.none() | structs, max_size=30), st.integers(0, 30), st.integers(0, 30))
def test_nested_structs_equal_their_twin(made, start, length):
    array = struct_array(made)
    wanted = [naive.fingerprint(value) for value in made]
    assert fingerprint(array).tolist() == wanted
    assert fingerprint(array.slice(start, length)).tolist() == wanted[start : start + length]


def test_a_null_inside_a_struct_is_not_a_null_struct():
    made = [None, (None, None), (None, (None,)), ("", None)]
    assert len(set(fingerprint(struct_array(made)).tolist())) == len(made)


def test_what_a_null_struct_hides_does_not_count():
    fields = [pa.array([1, 2]), pa.array(["x", "y"])]
    hidden = pa.StructArray.from_arrays(fields, ["a", "b"], mask=pa.array([True, True]))
    assert fingerprint(hidden).tolist() == [int(NULL)] * 2


def test_a_table_is_a_struct_of_its_columns():
    page = pa.chunked_array([["a", None], ["b", "a", ""]])
    number = pa.chunked_array([[1], [2, None, None, 5]])
    table = pa.table({"page": page, "number": number})
    struct = pa.StructArray.from_arrays(
        [page.combine_chunks(), number.combine_chunks()], ["page", "number"]
    )
    assert fingerprint(table).tolist() == fingerprint(struct).tolist()
    assert (
        fingerprint(table.combine_chunks().to_batches()[0]).tolist() == fingerprint(struct).tolist()
    )
    assert fingerprint(table[1:4]).tolist() == fingerprint(struct[1:4]).tolist()
    swapped = table.select(["number", "page"])
    assert fingerprint(swapped).tolist() != fingerprint(table).tolist()
    one = pa.StructArray.from_arrays([page.combine_chunks()], ["any name"])
    assert fingerprint(table.select(["page"])).tolist() == fingerprint(one).tolist()


def test_extension_types_are_as_their_storage():
    made = [uuid.UUID(int=5).bytes, None]
    stored = pa.array(made, pa.binary(16))
    extended = pa.ExtensionArray.from_storage(pa.uuid(), stored)
    assert fingerprint(extended).tolist() == fingerprint(stored).tolist()


@pytest.mark.parametrize("type_", [*STRING_TYPES, *BINARY_TYPES, pa.binary(0)], ids=str)
def test_buffers_without_a_byte(type_):
    nothing = "" if type_ in STRING_TYPES else b""
    empty = pa.array([nothing, None, nothing], type_)
    assert fingerprint(empty).tolist() == [naive.xxh64(b""), int(NULL), naive.xxh64(b"")]


@pytest.mark.parametrize("type_", [pa.int64(), pa.bool_(), pa.decimal128(5, 2)], ids=str)
def test_absent_buffers(type_):
    absent = pa.Array.from_buffers(type_, 0, [None, None])
    assert fingerprint(absent).tolist() == []


def test_unaligned_buffers():
    numbers = np.arange(5, dtype=np.int64)
    shifted = pa.py_buffer(b"\x00" + numbers.tobytes()).slice(1)
    array = pa.Array.from_buffers(pa.int64(), 5, [None, shifted])
    assert fingerprint(array).tolist() == fingerprint(pa.array(numbers)).tolist()


def test_views_into_many_buffers_and_under_nulls():
    made = [f"{i} " + "x" * (i % 60) if i % 7 else None for i in range(3000)]
    views = pa.concat_arrays(
        [pa.array(made[i : i + 100], pa.string_view()) for i in range(0, 3000, 100)]
    )
    assert len(views.buffers()) > 10
    assert fingerprint(views).tolist() == fingerprint(pa.array(made)).tolist()
    assert fingerprint(views[1500:1700]).tolist() == fingerprint(pa.array(made[1500:1700])).tolist()
    wild = np.array([[100, 0, 99, 99], [1, ord("a"), 0, 0]], np.int32)  # the null names buffer 99
    array = pa.Array.from_buffers(
        pa.string_view(), 2, [pa.py_buffer(b"\x02"), pa.py_buffer(wild.tobytes())]
    )
    assert fingerprint(array).tolist() == [int(NULL), naive.xxh64(b"a")]


def test_wild_indices_under_nulls():
    indices = pa.Array.from_buffers(
        pa.int32(), 2, [pa.py_buffer(b"\x02"), pa.py_buffer(np.array([10**9, 1], np.int32))]
    )
    encoded = pa.DictionaryArray.from_arrays(indices, pa.array(["a", "b"]), safe=False)
    assert fingerprint(encoded).tolist() == [int(NULL), naive.xxh64(b"b")]


@pytest.mark.parametrize(
    "million",
    [
        pa.array(np.arange(1_000_000)),
        pa.array(np.arange(1_000_000) * 2**40),
        pa.array(np.arange(1_000_000)).cast(pa.string()),
        pa.array(np.arange(1_000_000) / 7),
        pa.array(np.arange(1_000_000), pa.timestamp("us")),
        pa.array(np.arange(1_000_000)).cast(pa.decimal128(22, 3)),
        pa.table({"a": np.arange(1_000_000) // 1000, "b": np.arange(1_000_000) % 1000}),
    ],
    ids=["ints", "spread ints", "strings", "floats", "timestamps", "decimals", "pairs"],
)
def test_a_million_distinct_keys_do_not_collide(million):
    hashes = np.sort(fingerprint(million))
    assert len(hashes) == 1_000_000
    assert (hashes[1:] != hashes[:-1]).all()


@pytest.mark.parametrize(
    ("data", "seed", "digest"),
    [
        (b"", 0, 0xEF46DB3751D8E999),
        (b"", 2654435761, 0xAC75FDA2929B17EF),
        (b"a", 0, 0xD24EC4F1A98C6E5B),
        (b"abc", 0, 0x44BC2CF5AD770999),
        (b"xxhash", 20141025, 0xB559B98D844E0635),
        (b"Nobody inspects the spammish repetition", 0, 0xFBCEA83C8A378BF1),
    ],
)
def test_xxh64_equals_published_values(data, seed, digest):
    assert naive.xxh64(data, seed) == digest
    if seed == 0:
        assert fingerprint(pa.array([data])) == digest


@pytest.mark.parametrize(
    "type_",
    [
        pa.list_(pa.int64()),
        pa.map_(pa.string(), pa.int64()),
        pa.sparse_union([pa.field("a", pa.int64())]),
        pa.struct([("a", pa.struct([("b", pa.list_(pa.int64()))]))]),
        pa.month_day_nano_interval(),
    ],
    ids=str,
)
def test_types_that_cannot_be_keys_are_refused_by_name(type_):
    with pytest.raises(
        InputError, match=r"a key cannot be of type .*keys can be strings"
    ) as refused:
        fingerprint(pa.chunked_array([], type_))
    inner = "list<" if "list<" in str(type_) else str(type_)
    assert inner in str(refused.value)


@pytest.mark.parametrize("keys", [[1, 2], np.arange(3), "page", None], ids=repr)
def test_what_is_not_arrow_is_refused(keys):
    with pytest.raises(InputError, match=f"got {type(keys).__name__}; make one with pyarrow.array"):
        fingerprint(keys)


def test_a_table_without_columns_is_refused():
    with pytest.raises(InputError, match="at least one column"):
        fingerprint(pa.table({}))
