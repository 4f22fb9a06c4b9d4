"""Rows of an older schema, read under a newer one."""

import pyarrow as pa
import pytest

from evenflow.state.evolution import evolved, obstacle, schema_of, schema_text

OLD = pa.schema(
    [
        ("value_v", pa.struct([("value", pa.struct([("id", pa.int32()), ("name", pa.string())]))])),
        ("list_l", pa.large_list(pa.struct([("n", pa.int32())]))),
        ("map_m", pa.map_(pa.string(), pa.struct([("n", pa.float32())]))),
        ("gone", pa.int64()),
    ]
)
NEW = pa.schema(
    [
        ("map_m", pa.map_(pa.string(), pa.struct([("more", pa.bool_()), ("n", pa.float64())]))),
        (
            "value_v",
            pa.struct(
                [
                    (
                        "value",
                        pa.struct(
                            [("name", pa.string()), ("score", pa.int8()), ("id", pa.int64())]
                        ),
                    )
                ]
            ),
        ),
        ("list_l", pa.large_list(pa.struct([("n", pa.int64()), ("m", pa.string())]))),
        ("value_new", pa.struct([("n", pa.int64())])),
    ]
)


def test_fields_are_added_dropped_reordered_and_widened():
    rows = pa.Table.from_pylist(
        [
            {
                "value_v": {"value": {"id": 1, "name": "a"}},
                "list_l": [{"n": 1}, None, {"n": 2}],
                "map_m": [("x", {"n": 0.5})],
                "gone": 7,
            },
            {"value_v": None, "list_l": None, "map_m": None, "gone": None},
            {"value_v": {"value": None}, "list_l": [], "map_m": [], "gone": 8},
        ],
        schema=OLD,
    )
    for some in (rows, rows.slice(1), pa.concat_tables([rows.slice(0, 1), rows.slice(1)])):
        assert (
            evolved(some, NEW).to_pylist()
            == [
                {
                    "map_m": [("x", {"more": None, "n": 0.5})],
                    "value_v": {"value": {"name": "a", "score": None, "id": 1}},
                    "list_l": [{"n": 1, "m": None}, None, {"n": 2, "m": None}],
                    "value_new": None,
                },
                {"map_m": None, "value_v": None, "list_l": None, "value_new": None},
                {"map_m": [], "value_v": {"value": None}, "list_l": [], "value_new": None},
            ][3 - some.num_rows :]
        )
    assert obstacle(OLD, NEW, ["gone"]) is None
    assert schema_of(schema_text(NEW)) == NEW


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (OLD, NEW, "gone is missing now"),
        (
            pa.schema({"n": pa.int64()}),
            pa.schema({"n": pa.int32()}),
            "n was int64 and is int32 now",
        ),
        (
            pa.schema({"n": pa.int64()}),
            pa.schema({"n": pa.string()}),
            "n was int64 and is string now",
        ),
        (
            pa.schema({"v": pa.struct([("a", pa.string())])}),
            pa.schema({"v": pa.struct([("a", pa.int8())])}),
            "v.a was string and is int8 now",
        ),
        (
            pa.schema({"m": pa.map_(pa.int32(), pa.int8())}),
            pa.schema({"m": pa.map_(pa.int64(), pa.int8())}),
            "m was map<int32, int8> and is map<int64, int8> now",
        ),
    ],
)
def test_what_would_lose_something_is_refused(old, new, why):
    assert obstacle(old, new) == why
