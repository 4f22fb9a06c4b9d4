"""The columns of a DataFrame: are they there, and what does Arrow call their types."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from evenflow.model import InputError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def check_columns(df: DataFrame, names: Sequence[str], what: str) -> None:
    """Refuse names that no column has, or several have."""
    for name in names:
        if name not in df.columns:
            near = difflib.get_close_matches(name, df.columns, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(df.columns)}"
            raise InputError(f"{what}: no column is called {name!r}; {hint}")
        if df.columns.count(name) > 1:
            raise InputError(f"{what}: several columns are called {name!r}; rename all but one")


def arrow_schema(df: DataFrame) -> pa.Schema:
    """The schema, as Arrow has it. Timestamps are moments, whatever zone a session shows them in."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(df.schema, timezone="UTC")
