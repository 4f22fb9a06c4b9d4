"""Real data: three million flights of 2001, in the order of their departure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from evenflow.model import InputError
from evenflow.model.validation import check_whole
from evenflow.simulator.workloads.files import KeyFile
from evenflow.simulator.workloads.protocol import U64
from evenflow_lab.workloads.packaged import PackagedData

_ROWS = 3_000_000
_COLUMNS = {"origin": ("origin",), "route": ("origin", "destination")}
_DATA = PackagedData(
    package="vega-datasets",
    version="3.2.1",
    members="package/data/flights-3m.parquet",
    file="flights-3m.parquet",
    sha256="dbeb920c90f59b6ccaff823dcc3d08f25a97fa1ce128d93f40be4e931f5900b0",
)


@dataclass(frozen=True)
class Flights:
    """The airports or the routes of 3 M flights in the USA, January to June 2001, by departure.

    By origin the stream has 229 keys, the top one with 5.54 %; by route 3399 keys, the top one with
    0.28 %. Both change with the hour and the day of the week. The data is flights-3m.parquet of the
    npm package vega-datasets (17 MB, fetched with npm when it is first read, and kept).

    Guarantee: the real keys in the real order; no stand-in.

    Parameters:
        key: `origin`, or `route`: origin and destination.
        messages: read only so many, from the first; None for all.

    Example:
        >>> Flights(key="route", messages=1_000).length()
        1000
    """

    name: ClassVar[str] = "flights"

    key: str = "origin"
    messages: int | None = None

    def __post_init__(self) -> None:
        if self.key not in _COLUMNS:
            raise InputError(f"flights have the keys 'origin' and 'route', got {self.key!r}")
        if self.messages is not None:
            check_whole("the number of messages", self.messages, 1)

    def chunks(self, size: int) -> Iterator[U64]:
        return KeyFile(_DATA.path(), _COLUMNS[self.key], self.messages).chunks(size)

    def length(self) -> int:
        return _ROWS if self.messages is None else min(_ROWS, self.messages)

    def describe(self) -> dict[str, Any]:
        return {"name": self.name, "key": self.key, "drift": None, "stand_in": False}
