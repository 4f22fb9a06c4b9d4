"""Values of state variables: as PySpark's users write and read them, and as Arrow holds them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.types as types

from evenflow.model import InputError
from evenflow.spark.columns import arrow_types

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

Convert = Callable[[Any], Any]
_BITS = {"ByteType": 8, "ShortType": 16, "IntegerType": 32, "LongType": 64}


def struct_type(schema: StructType | str, what: str) -> StructType:
    """A schema, given as such or as DDL text ("count bigint").

    Parameters:
        what: the name of the argument, for messages.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql.types import DataType, StructType

    if isinstance(schema, str):
        try:
            parsed = DataType.fromDDL(schema)
        except PySparkException as error:
            raise InputError(
                f"{what}: {schema!r} is not a schema ({str(error).splitlines()[0]}); "
                'write names and types, as in "count bigint, name string"'
            ) from None
        schema = parsed if isinstance(parsed, StructType) else StructType().add("value", parsed)
    if not isinstance(schema, StructType):
        raise InputError(f"{what} takes a StructType or a DDL string, got {schema!r}")
    return schema


def arrow_struct(schema: StructType) -> pa.StructType:
    """A struct as state holds it: nulls are allowed everywhere."""
    return _nullable(pa.struct(list(arrow_types(schema))))


def _nullable(kind: pa.DataType) -> pa.DataType:
    if types.is_struct(kind):
        return pa.struct([pa.field(field.name, _nullable(field.type)) for field in kind])
    if types.is_list(kind):
        return pa.list_(pa.field("element", _nullable(kind.value_type)))
    if types.is_map(kind):
        return pa.map_(_nullable(kind.key_type), _nullable(kind.item_type))
    return kind


class Converter:
    """Converts the values of one state variable.

    Guarantee: what was written is read as if it had been stored meanwhile, also within a batch; and
    every value that is read is the reader's own, who may change it.

    Parameters:
        schema: of the values.
        name: of the state variable, for messages.
    """

    def __init__(self, schema: StructType, name: str) -> None:
        self._name = name
        self._names = schema.names
        self._writers = [_writer(field.dataType) for field in schema.fields]
        readers = [_reader(field.dataType) for field in schema.fields]
        self._readers = readers if any(one is not None for one in readers) else None

    def written(self, value: Any) -> tuple[Any, ...]:
        """A value as Arrow takes it, from the tuple that the user wrote."""
        if value is None:
            raise TypeError(f"the state {self._name!r} takes a tuple, got None")
        fields = tuple(value)
        if len(fields) != len(self._writers):
            raise ValueError(
                f"the state {self._name!r} has {len(self._writers)} fields "
                f"({', '.join(self._names)}), and was given {len(fields)}"
            )
        try:
            return tuple(
                None if one is None else write(one)
                for write, one in zip(self._writers, fields, strict=True)
            )
        except (TypeError, ValueError, ArithmeticError) as error:
            raise type(error)(f"the state {self._name!r}: {error}") from error

    def read(self, fields: tuple[Any, ...]) -> tuple[Any, ...]:
        """A value as the user gets it."""
        if self._readers is None:
            return fields
        return tuple(
            one if one is None or read is None else read(one)
            for read, one in zip(self._readers, fields, strict=True)
        )


def plain(value: Any) -> Any:
    """A value without NumPy's and pandas' own types.

    Example:
        >>> import numpy as np
        >>> plain(np.int64(3)), plain("x")
        (3, 'x')
    """
    for method in ("to_pydatetime", "to_pytimedelta"):
        if hasattr(value, method):
            return getattr(value, method)()
    return value.tolist() if type(value).__module__ == "numpy" else value


def _writer(kind: DataType) -> Convert:
    """From a value as a user writes it, not None."""
    from pyspark.sql import types as spark

    name = type(kind).__name__
    if name in _BITS:
        return _whole(name, _BITS[name])
    if isinstance(kind, spark.FloatType | spark.DoubleType):
        return _double if isinstance(kind, spark.DoubleType) else _single
    if isinstance(kind, spark.StringType | spark.CharType | spark.VarcharType):
        return lambda value: value if type(value) is str else str(plain(value))
    if isinstance(kind, spark.DecimalType):
        return _decimal(kind.precision, kind.scale)
    if isinstance(kind, spark.TimestampType):
        return _moment
    if isinstance(kind, spark.ArrayType):
        element = _or_none(_writer(kind.elementType))
        return lambda value: [element(one) for one in plain(value)]
    if isinstance(kind, spark.MapType):
        key, item = _writer(kind.keyType), _or_none(_writer(kind.valueType))
        return lambda value: [(key(k), item(v)) for k, v in value.items()]
    if isinstance(kind, spark.StructType):
        return _fields(kind.names, [_or_none(_writer(field.dataType)) for field in kind.fields])
    checked = {
        "BooleanType": bool,
        "BinaryType": (bytes, bytearray),
        "DateType": dt.date,
        "TimestampNTZType": dt.datetime,
        "DayTimeIntervalType": dt.timedelta,
        "NullType": type(None),
    }
    if name not in checked:
        raise InputError(f"a state cannot hold {kind.simpleString()}; cast it, or store it as text")
    return _instance(checked[name], kind.simpleString())


def _reader(kind: DataType) -> Convert | None:
    """To a value as a user reads it, not None; None where Arrow's own is that."""
    from pyspark.sql import types as spark

    if isinstance(kind, spark.TimestampType):
        return lambda value: value.astimezone().replace(tzinfo=None)
    if isinstance(kind, spark.ArrayType):
        element = _or_none(_reader(kind.elementType))
        return lambda value: [element(one) for one in value]
    if isinstance(kind, spark.MapType):
        key, item = _or_none(_reader(kind.keyType)), _or_none(_reader(kind.valueType))
        return lambda value: {key(k): item(v) for k, v in value}
    if isinstance(kind, spark.StructType):
        parts = [(field.name, _or_none(_reader(field.dataType))) for field in kind.fields]
        return lambda value: spark.Row(**{name: read(value[name]) for name, read in parts})
    return None


def _or_none(convert: Convert | None) -> Convert:
    if convert is None:
        return lambda value: value
    return lambda value: None if value is None else convert(value)


def _whole(name: str, bits: int) -> Convert:
    bound = 1 << (bits - 1)

    def write(value: Any) -> int:
        number = value if type(value) is int else plain(value)
        if not isinstance(number, int) or isinstance(number, bool):
            raise TypeError(f"{value!r} is not a whole number")
        if not -bound <= number < bound:
            raise ValueError(f"{number} does not fit in {bits} bits")
        return number

    return write


def _double(value: Any) -> float:
    number = plain(value)
    if isinstance(number, bool) or not isinstance(number, int | float | Decimal):
        raise TypeError(f"{value!r} is not a number")
    return float(number)


def _single(value: Any) -> float:
    import numpy as np

    return float(np.float32(_double(value)))


def _decimal(precision: int, scale: int) -> Convert:
    unit = Decimal(1).scaleb(-scale)

    def write(value: Any) -> Decimal:
        number = plain(value)
        if isinstance(number, bool) or not isinstance(number, int | Decimal):
            raise TypeError(f"{value!r} is not a decimal number")
        rounded = Decimal(number).quantize(unit, ROUND_HALF_UP)
        if abs(rounded.scaleb(scale)) >= 10**precision:
            raise ValueError(f"{number} does not fit in decimal({precision}, {scale})")
        return rounded

    return write


def _moment(value: Any) -> dt.datetime:
    moment = plain(value)
    if not isinstance(moment, dt.datetime):
        raise TypeError(f"{value!r} is not a datetime")
    return moment.astimezone(dt.UTC)  # without a zone it is local time, as everywhere in PySpark


def _instance(wanted: Any, kind: str) -> Convert:
    def write(value: Any) -> Any:
        found = plain(value)
        if not isinstance(found, wanted):
            raise TypeError(f"{value!r} is not of type {kind}")
        if wanted is dt.date and isinstance(found, dt.datetime):
            return found.date()
        return bytes(found) if isinstance(found, bytearray) else found

    return write


def _fields(names: Sequence[str], writers: Sequence[Convert]) -> Convert:
    def write(value: Any) -> dict[str, Any]:
        if isinstance(value, dict):
            parts: Sequence[Any] = [value.get(name) for name in names]
        else:
            parts = tuple(value)
            if len(parts) != len(names):
                raise ValueError(f"{value!r} has {len(parts)} fields, and the type {len(names)}")
        return {n: w(part) for n, w, part in zip(names, writers, parts, strict=True)}

    return write
