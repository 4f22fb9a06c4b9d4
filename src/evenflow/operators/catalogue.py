"""Finds every aggregate: the files of this folder, and other packages' entry points."""

from __future__ import annotations

from evenflow.model import InputError
from evenflow.model.discovery import Catalogue
from evenflow.operators.aggregate import Aggregate

_CATALOGUE = Catalogue[Aggregate]("aggregate", "evenflow.operators", base=Aggregate)
known_aggregates = _CATALOGUE.all


def parse_aggregate(spec: str) -> tuple[str, Aggregate]:
    """Parse an aggregate as written on the command line: the output column's name and the aggregate.

    `count`, `count:COL`, `sum:COL`, `mean:COL`, `min:COL`, `max:COL`, `distinct:COL`,
    `quantiles:COL:0.5,0.99`, `top_k:COL:3`, `approx_distinct:COL`, `approx_top_k:COL:3`,
    `min_by:COL:ORD`, and likewise every other aggregate by its name; with `NAME=` in front, the output
    column has that name.

    Example:
        >>> parse_aggregate("mean:ms")
        ('mean_ms', Mean(column='ms'))
        >>> parse_aggregate("slow=quantiles:ms:0.99")
        ('slow', Quantiles(column='ms', probabilities=(0.99,), k=200))
    """
    head, colon, text = spec.partition(":")
    output, equals, kind = head.rpartition("=")
    chosen = _CATALOGUE.get(kind.strip())
    if (equals and not output.strip()) or (colon and not text):
        raise InputError(f"{spec!r}: expected NAME={kind}:COLUMN or {kind}:COLUMN")
    aggregate = chosen.parse(text)
    return output.strip() or "_".join([aggregate.name, *aggregate.columns()]), aggregate
