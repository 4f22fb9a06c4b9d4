"""All computation on a batch's rows, built as one SQL query."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Selection:
    """A SQL query over rows, built step by step.

    Spark would analyse each intermediate DataFrame separately, in every batch. All names are our own:
    users' columns are renamed before. Numbers may be cast to bytes, which Spark's ANSI mode refuses.

    Parameters:
        frames: the DataFrames that the query names in braces: `rows`, and those of `naming`.
        columns: of the result.
        source: the text after `from`.
    """

    frames: Mapping[str, DataFrame]
    columns: tuple[str, ...]
    source: str = "{rows}"

    @classmethod
    def of(cls, rows: DataFrame) -> Selection:
        """The rows as they are."""
        return cls({"rows": rows}, tuple(rows.columns))

    @property
    def session(self) -> SparkSession:
        return self.frames["rows"].sparkSession

    def select(self, kept: Iterable[str], **more: str) -> Selection:
        """Keep these columns, and add others by their expressions."""
        kept = tuple(kept)
        chosen = [f"`{name}`" for name in kept]
        chosen += [f"{expression} as `{name}`" for name, expression in more.items()]
        source = f"(select {', '.join(chosen)} from {self.source})"
        return Selection(self.frames, (*kept, *more), source)

    def where(self, condition: str) -> Selection:
        """Keep the rows that meet the condition."""
        source = f"(select * from {self.source} where {condition})"
        return Selection(self.frames, self.columns, source)

    def naming(self, **frames: DataFrame) -> Selection:
        """Add DataFrames that expressions may name: `{table}` after `naming(table=…)`."""
        return Selection({**self.frames, **frames}, self.columns, self.source)

    def df(self) -> DataFrame:
        """The result."""
        with _without_ansi(self.session):
            return self.session.sql(f"select * from {self.source}", args=None, **self.frames)


@contextmanager
def _without_ansi(session: SparkSession) -> Iterator[None]:
    """Turn ANSI mode off; it matters when an expression becomes part of a DataFrame."""
    ansi = session.conf.get("spark.sql.ansi.enabled") or "true"
    session.conf.set("spark.sql.ansi.enabled", "false")
    try:
        yield
    finally:
        session.conf.set("spark.sql.ansi.enabled", ansi)
