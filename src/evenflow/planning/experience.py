"""What a query under `auto` has learned: prices, and what another scheme would have saved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from evenflow.model import InputError, shapes
from evenflow.planning.batch_costs import ROUTE, UNKNOWN_ROW, Observed, Prices, usual_stage
from evenflow.planning.protocol import F64

_KEPT = 5  # measurements of a price
_USUAL = (
    0.02  # by how much an old price goes back to the usual one with every batch that pays no such
)
_CALMER = 0.95  # what is left of the patience of one batch in the next
_AGED = 0.8  # weight of the batches before in how long a partition takes
_SLOW = 1.3  # times what its rows explain, that a partition must take to count as slow
_CLIPPED = 2.0  # times at most, that one batch counts for: disturbances are short and large
_SURE = 3  # batches until a slow partition is taken for more than chance

_NUMBER = shapes.number(0)
_SHAPE = shapes.fields(
    {
        "prices": shapes.mapping(shapes.a_list(_NUMBER)),
        "saved": shapes.mapping(_NUMBER),
        "patience": _NUMBER,
        "since": shapes.whole(0),
        "uneven": shapes.a_list(_NUMBER),
    }
)


@dataclass(frozen=True)
class Experience:
    """Prices that were measured, and how much better other schemes would have done lately.

    Guarantee: `from_json(to_json())` is the same again, so a restarted driver decides as the one before
    it would have decided. One disturbed batch changes no price much: a price is the median of the last
    measurements, or lower where a disturbance can only make it larger.

    Parameters:
        prices: name → the last measurements.
        saved: scheme → what it would have saved lately, as a part of a batch.
        patience: how much more than usual must be saved, because the scheme changed not long ago.
        since: batches since the scheme has changed.
        uneven: how long each partition took over what its rows explain, averaged over batches.
    """

    prices: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    saved: Mapping[str, float] = field(default_factory=dict)
    patience: float = 1.0
    since: int = 0
    uneven: tuple[float, ...] = ()

    def known(self, row: float | None, partitions: int) -> Prices:
        """The prices; the usual ones where nothing was measured.

        Parameters:
            row: the usual price of a row of this work; None if there is none.
            partitions: as many tasks run at once, unless fewer were seen.
        """
        usual = UNKNOWN_ROW if row is None else row
        slots = max(self.prices.get("slots", (float(partitions),)))
        return Prices(
            row=self._median("row", usual),
            slots=min(slots, float(partitions)),
            fixed=self._quantile(0.25, "fixed"),
            route=self._quantile(0.5, "route", ROUTE),
            merge=self._median("merge", Prices.merge),
            stage=self._quantile(0.5, "stage", usual_stage(partitions)),
        )

    def slow(self) -> float:
        """How much longer the slowest partition takes than its rows explain; 1 while that may be
        chance."""
        if self.since < _SURE or not self.uneven:
            return 1.0
        worst = max(self.uneven)
        return worst if worst > _SLOW else 1.0

    def after(self, seen: Observed, row: float | None, partitions: int) -> Experience:
        """What is known after another batch under the same scheme.

        The first batch under a scheme pays for starting what it needs, so it says nothing of the prices
        that only that scheme pays.
        """
        if not seen.load.rows:
            return self
        new = self._with(row=seen.row(), slots=seen.slots)
        if seen.load.parts:
            new = new._with(merge=seen.merge())
        now = new.known(row, partitions)
        left = seen.seconds - now.work(seen.load)
        if "fixed" not in new.prices:
            # Of one kind of batch alone nobody can tell what is fixed; the rest has its usual price.
            new = new._with(fixed=max(0.0, left - now.extra(seen.load)))
        elif self.since == 0:
            pass
        elif seen.load.parts is not None:
            spent = now.extra(seen.load) - now.stage
            new = new._with(stage=max(0.0, left - now.fixed - spent))
        elif seen.load.in_python:
            each = (left - now.fixed) * now.slots / seen.load.rows
            new = new._with(route=max(0.0, each))
        else:
            new = new._with(fixed=max(0.0, left))
        if seen.load.parts is None and "stage" in new.prices:
            usual = usual_stage(partitions)
            faded = tuple(one ** (1 - _USUAL) * usual**_USUAL for one in new.prices["stage"])
            new = replace(new, prices={**new.prices, "stage": faded})
        return replace(
            new,
            since=self.since + 1,
            patience=max(1.0, self.patience * _CALMER),
            uneven=_uneven(self.uneven, seen.rows, seen.work),
        )

    def to_json(self) -> dict[str, Any]:
        """As plain JSON."""
        return {
            "prices": {name: list(kept) for name, kept in self.prices.items()},
            "saved": dict(self.saved),
            "patience": self.patience,
            "since": self.since,
            "uneven": list(self.uneven),
        }

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Experience:
        """From the result of `to_json`; from nothing, nothing is known."""
        if not plain:
            return cls()
        if wrong := _SHAPE(plain, "it"):
            raise InputError(
                f"this is not what `auto` has learned: {wrong}; read this checkpoint with the version "
                "of evenflow that wrote it"
            )
        return cls(
            {name: tuple(map(float, kept)) for name, kept in plain["prices"].items()},
            {name: float(one) for name, one in plain["saved"].items()},
            float(plain["patience"]),
            plain["since"],
            tuple(map(float, plain["uneven"])),
        )

    def _with(self, **measured: float) -> Experience:
        new = {name: (*self.prices.get(name, ()), one)[-_KEPT:] for name, one in measured.items()}
        return replace(self, prices={**self.prices, **new})

    def _median(self, name: str, usual: float) -> float:
        return float(np.median(self.prices[name])) if name in self.prices else usual

    def _quantile(self, share: float, name: str, *usual: float) -> float:
        """Of the measurements, with the usual price as one more: what is left of a batch's time when
        the rest is accounted for is disturbed most, and one batch says little of it."""
        known = (*usual, *self.prices.get(name, ()))
        return float(np.quantile(known, share, method="lower")) if known else 0.0


def _uneven(before: tuple[float, ...], rows: F64, work: F64) -> tuple[float, ...]:
    """How long each partition took over what its rows explain, with the batches before."""
    if not rows.sum() or not work.sum():
        return before
    explained = np.maximum(rows / rows.sum(), 1e-9) * work.sum()
    # A partition with few rows takes its time anyway.
    explained = np.maximum(explained, work.sum() / len(work))
    now = np.minimum(work / explained, _CLIPPED)
    if len(before) == len(now):
        now = _AGED * np.array(before) + (1 - _AGED) * now
    return tuple(np.round(now, 4).tolist())
