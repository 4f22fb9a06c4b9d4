"""What is computed of a batch's rows, as one query that Spark is given as a whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Selection:
    """A query over rows that grows step by step, as text.

    Each DataFrame on the way would be analysed by Spark by itself, in every batch. Its names are all
    our own: what a user has named is renamed before. Numbers may be cast to bytes, which Spark's ANSI
    mode refuses.

    Parameters:
        frames: what the text names in braces: `rows`, and whatever steps have joined.
        columns: of the answer.
        source: the text, as it stands behind `from`.
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
        """Some of the columns, and more by their expressions."""
        kept = tuple(kept)
        chosen = [f"`{name}`" for name in kept]
        chosen += [f"{expression} as `{name}`" for name, expression in more.items()]
        source = f"(select {', '.join(chosen)} from {self.source})"
        return Selection(self.frames, (*kept, *more), source)

    def where(self, condition: str) -> Selection:
        """The rows of which it is true."""
        source = f"(select * from {self.source} where {condition})"
        return Selection(self.frames, self.columns, source)

    def naming(self, **frames: DataFrame) -> Selection:
        """The same, with names for its expressions: `{table}` of `naming(table=…)`."""
        return Selection({**self.frames, **frames}, self.columns, self.source)

    def df(self) -> DataFrame:
        """The answer."""
        with _without_ansi(self.session):
            return self.session.sql(f"select * from {self.source}", args=None, **self.frames)


@contextmanager
def _without_ansi(session: SparkSession) -> Iterator[None]:
    """Without ANSI mode, which counts when an expression is put into a DataFrame."""
    ansi = session.conf.get("spark.sql.ansi.enabled") or "true"
    session.conf.set("spark.sql.ansi.enabled", "false")
    try:
        yield
    finally:
        session.conf.set("spark.sql.ansi.enabled", ansi)
