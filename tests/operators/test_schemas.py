"""Schemas in all the ways in which users write them."""

import pyarrow as pa
import pytest

from evenflow.model import InputError
from evenflow.operators.schemas import schema_of

TEXT = (
    "n bigint, `a b` array<string> not null, d decimal(10,2), m map<string,int>, "
    "s struct<x:double,`y z`:timestamp_ntz>, t timestamp, f float"
)
ARROW = pa.schema(
    [
        ("n", pa.int64()),
        ("a b", pa.list_(pa.string())),
        ("d", pa.decimal128(10, 2)),
        ("m", pa.map_(pa.string(), pa.int32())),
        ("s", pa.struct([("x", pa.float64()), ("y z", pa.timestamp("us"))])),
        ("t", pa.timestamp("us", "UTC")),
        ("f", pa.float32()),
    ]
)


def test_text_is_read_as_spark_reads_it():
    assert schema_of(TEXT, "state") == ARROW
    assert schema_of(ARROW, "state") is ARROW


def test_a_struct_type_is_taken():
    types = pytest.importorskip("pyspark.sql.types")
    struct = types.StructType(
        [
            types.StructField("n", types.LongType()),
            types.StructField("a b", types.ArrayType(types.StringType())),
            types.StructField("d", types.DecimalType(10, 2)),
        ]
    )
    assert schema_of(struct, "state") == pa.schema(list(ARROW)[:3])
    assert schema_of({"n": types.LongType()}, "state") == pa.schema([("n", pa.int64())])


def test_names_of_arrow_and_of_spark_go_in_a_mapping():
    given = {"a": "int64", "b": "bigint", "c": pa.string(), "d": "array<int>"}
    types = [pa.int64(), pa.int64(), pa.string(), pa.list_(pa.int32())]
    assert schema_of(given, "state").types == types


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("", "cannot read ''"),
        ("n", "cannot read 'n'"),
        ("n bigint,", "cannot read"),
        ("n bigint; drop", "cannot read"),
        ("n whole", "unknown type 'whole'"),
        ({"n": "whole"}, "unknown type 'whole'"),
        ({"n": int}, "unknown type <class 'int'>"),
        ({}, "must be names and types"),
        (["n"], "must be names and types"),
        (None, "must be names and types"),
    ],
)
def test_what_cannot_be_read_is_refused_in_a_sentence(given, message):
    with pytest.raises(InputError, match=message):
        schema_of(given, "state")
