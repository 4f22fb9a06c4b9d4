"""Columns, values, streams and schemes in the words of a reader."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import PurePath
from typing import Any

from evenflow.grouping import schemes
from evenflow.report.style import printable

Row = Mapping[str, Any]

_COLUMNS = {
    "distinct_keys": "distinct keys",
    "generation_ms": "planning time (ms)",
    "grouping": "scheme",
    "imbalance": "imbalance at the end",
    "imbalance_mean": "imbalance, average over time",
    "latency_difference": "latency, largest − smallest",
    "latency_max": "largest latency",
    "latency_mean": "mean latency",
    "latency_min": "smallest latency",
    "latency_p50": "median latency",
    "latency_p95": "95th percentile of latency",
    "latency_p99": "99th percentile of latency",
    "load_error_max": "largest error of a load (%)",
    "max_load": "largest load fraction",
    "migration_cost": "migration cost (%)",
    "moves": "virtual workers moved",
    "ns_per_message": "ns a message",
    "original_ms": "planning time without vectors (ms)",
    "queue_difference": "queue, longest − shortest",
    "queue_max": "longest queue",
    "queue_mean": "mean queue",
    "queue_min": "shortest queue",
    "replicas": "replicas (worker, key)",
    "replication": "replicas per key",
    "skewness_expected": "largest load ÷ average, as planned",
    "table_size": "entries of the routing table",
    "utilisation_difference": "utilisation, largest − smallest",
    "utilisation_imbalance": "imbalance of utilisation",
    "utilisation_max": "largest utilisation",
    "utilisation_mean": "mean utilisation",
    "utilisation_min": "smallest utilisation",
    "worst_sliding_window": "worst sliding window",
    "worst_window": "worst window (× fair load)",
    "workload_name": "stream",
    "zipf": "skew z",
}
_SYMBOLS = {"epsilon": "ε", "fluctuation": "f", "theta": "θ", "window": "w", "zipf": "z"}
_AFTER = {"arrivals": " arrivals"}  #: what a word alone would not say
_COUNTED = ("keys", "messages", "sources", "virtual_workers", "workers")
_STREAMS = {"ct": "CT", "smalops": "SMALOPS", "tw": "TW", "wp": "WP", "zipf": "Zipf"}
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def column_label(column: str, over_time: bool = False) -> str:
    """A column's name as an axis or a table heading bears it; of a timeline, `over_time`.

    Example:
        >>> column_label("queue_max"), column_label("head_cardinality")
        ('longest queue', 'head cardinality')
    """
    if over_time and column == "imbalance":
        return "imbalance"
    return _COLUMNS.get(column) or printable(column.replace("_", " "), 60)


def number(value: float) -> str:
    """A number that can be read at a glance.

    Example:
        >>> [number(v) for v in (0, 0.25, 0.00002, 1234, 12_000, 2_500_000)]
        ['0', '0.25', '2×10⁻⁵', '1,234', '12,000', '2,500,000']
    """
    if value == 0:
        return "0"
    if 1e-3 <= abs(value) < 1e9:
        if abs(value) >= 1_000:
            return f"{value:,.0f}"
        return f"{value:.4g}"
    mantissa, _, exponent = f"{value:.2e}".partition("e")
    power = f"10{str(int(exponent)).translate(_SUPERSCRIPTS)}"
    mantissa = mantissa.rstrip("0").rstrip(".")
    return power if mantissa == "1" else f"{mantissa}×{power}"


def short_number(value: float) -> str:
    """A number for a tick of an axis, where there is little room.

    Example:
        >>> [short_number(v) for v in (0.1, 5_000, 20_000, 1_500_000, 1e-5)]
        ['0.1', '5,000', '20k', '1.5M', '10⁻⁵']
    """
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= max(size, 1e4):
            return f"{value / size:.4g}{letter}"
    return number(value)


def value_label(value: Any) -> str:
    """A parameter's value.

    Example:
        >>> value_label([3, 5]), value_label(10_000), value_label(None), value_label("WP")
        ('{3, 5}', '10,000', 'none', 'WP')
    """
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if is_number(value):
        return number(value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "{" + ", ".join(value_label(item) for item in value) + "}"
    if isinstance(value, Mapping):
        return ", ".join(f"{printable(str(k))} = {value_label(v)}" for k, v in value.items())
    return printable(str(value), 60)


def parameter_label(column: str, row: Row) -> str:
    """What tells a series or a panel from the others.

    Example:
        >>> row = {"zipf": 1.4, "workers": 50, "grouping": "partial-key", "symbol": "PKG"}
        >>> [parameter_label(column, row) for column in ("zipf", "workers", "grouping")]
        ['z = 1.4', '50 workers', 'PKG (partial-key)']
    """
    if column == "grouping":
        return scheme_label(row)
    if column == "workload_name":
        return stream_label(row)
    value = row.get(column)
    if isinstance(value, str):
        return f"{value_label(value)}{_AFTER.get(column, '')}"
    if column in _COUNTED and isinstance(value, int | float):
        things = column_label(column)
        return f"{number(value)} {things[:-1] if value == 1 else things}"
    return f"{_SYMBOLS.get(column, column_label(column))} = {value_label(value)}"


def scheme_label(row: Row) -> str:
    """The paper's symbol and the scheme's name.

    Example:
        >>> scheme_label({"grouping": "partial-key"}), scheme_label({"grouping": "x"})
        ('PKG (partial-key)', 'x')
    """
    grouping = printable(str(row.get("grouping", "")), 60)
    symbol = row.get("symbol") or _symbol(grouping.partition(":")[0])
    return f"{printable(str(symbol), 20)} ({grouping})" if symbol else grouping


@cache
def _symbol(name: str) -> str:
    return str(getattr(schemes().get(name), "symbol", ""))


def stream_label(row: Row) -> str:
    """What the messages were.

    Example:
        >>> stream_label({"workload_name": "flights", "key": "origin"})
        'flights by origin'
        >>> stream_label({"workload_name": "wp", "stand_in": True})
        'WP stand-in'
        >>> stream_label({"workload_name": "file", "input": "/data/x.parquet", "key": ["k"]})
        'x.parquet by k'
    """
    name = str(row.get("workload_name") or "")
    shown = _STREAMS.get(name, name)
    if name == "file" and row.get("input"):
        shown = PurePath(str(row["input"])).name
    key = row.get("key")
    if key and name in {"file", "flights"}:
        keys = [key] if isinstance(key, str) else list(key)
        shown += f" by {', '.join(map(str, keys))}"
    return printable(shown, 60) + (" stand-in" if row.get("stand_in") else "")


def is_number(value: Any) -> bool:
    """A number that has a place on an axis."""
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value
