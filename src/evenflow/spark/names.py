"""Names of columns and queries: which ones Spark and a format can hold, and how the others travel."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from evenflow.engine.layout import RESERVED
from evenflow.model import InputError

if TYPE_CHECKING:
    from evenflow.engine.output import Sink

_OURS = "__evenflow"  # how names of our own columns begin
INITIAL = f"{_OURS}_initial"  #: holds the initial state of a processor
SIDE = f"{_OURS}_right"  #: is true for rows of the right side of a join
_BATCH = "batch"
_NUMBERED = ("parquet", "memory")  # formats whose rows have the batch's number beside them


def neutral(i: int) -> str:
    """The name under which column i travels through Spark, which looks into names for dots, backticks
    and stars."""
    return f"{_OURS}_{i}"


def with_neutral_names(schema: pa.Schema, own: int = 0) -> pa.Schema:
    """The schema with names that Spark does not look into, but for the first `own` columns.

    Example:
        >>> with_neutral_names(pa.schema([("a.b", pa.int8())])).names
        ['__evenflow_0']
    """
    named = [f if i < own else f.with_name(neutral(i - own)) for i, f in enumerate(schema)]
    return pa.schema(named)


def as_pattern(path: str) -> str:
    """The pattern that matches this path alone: Spark takes the paths that it reads for patterns.

    Example:
        >>> print(as_pattern("/data/a[b]"))
        /data/a\\[b\\]
    """
    return re.sub(r"([\\\[\]{}*?])", r"\\\1", path)


def check_names(names: Iterable[str]) -> None:
    """Refuse the names of our own columns, which travel beside the user's."""
    for name in names:
        if name.lower() in RESERVED or name.lower().startswith(_OURS):
            raise InputError(
                f"the column {name!r} has the name of one that evenflow adds itself; rename it with "
                'withColumnRenamed, or give a key an .alias("…")'
            )


def check_output(names: Sequence[str], format: str | Sink | None, query: str | None) -> None:
    """Refuse an output that would be read back as another one.

    Parameters:
        names: of the output's columns.
        format: of the output; None for Parquet.
        query: the name of the query, if it has one.
    """
    if (format or "parquet") in _NUMBERED:
        for name in names:
            if name.lower() == _BATCH:
                raise InputError(
                    f"the output column {name!r} would be read back as the number of the batch, "
                    f'which the format {format or "parquet"!r} keeps under "batch"; rename it: a key '
                    'with F.col("batch").alias("…"), an aggregate in agg(…)'
                )
    if format == "memory" and query is not None and "${" in query:
        raise InputError(
            f"queryName {query!r}: Spark would replace ${{…}} in the name of the view by what the "
            "variable holds; give the query another name"
        )
