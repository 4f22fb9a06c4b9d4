"""Who owned which key in the epochs of a manifest, written down once and not once per epoch.

From one epoch to the next, a routing table changes in a few entries. Of each epoch but the newest, a
manifest's object has those entries alone in which it differs from the epoch after it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evenflow.model import shapes

_TABLE, _DIFFERS = "table", "differs"


def packed(owners: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    """As plain JSON.

    Parameters:
        owners: epoch → who owned which key, by `Owners.to_json`.

    Example:
        >>> before, now = {"table": {"7": 1, "8": 2}}, {"table": {"7": 1, "8": 2, "9": 0}}
        >>> packed({3: before, 4: now})
        {'4': {'table': {'7': 1, '8': 2, '9': 0}}, '3': {'differs': {'9': None}}}
    """
    made: dict[str, Any] = {}
    after: Mapping[str, Any] = {}
    for epoch in sorted(owners, reverse=True):
        described = owners[epoch]
        table, newer = described.get(_TABLE), after.get(_TABLE)
        after = described
        if isinstance(table, Mapping) and isinstance(newer, Mapping):
            differs = {key: owner for key, owner in table.items() if newer.get(key) != owner}
            differs |= dict.fromkeys(newer.keys() - table.keys())
            if len(differs) < len(table):
                left = {name: one for name, one in described.items() if name != _TABLE}
                described = {**left, _DIFFERS: differs}
        made[str(epoch)] = described
    return made


def unpacked(owners: Mapping[str, Mapping[str, Any]]) -> dict[int, dict[str, Any]] | str:
    """What was packed, newest first; or what is wrong with it.

    Parameters:
        owners: the result of `packed`, its epochs whole numbers.

    Example:
        >>> unpacked({"4": {"table": {"8": 2}}, "3": {"differs": {"7": 1, "8": None}}})
        {4: {'table': {'8': 2}}, 3: {'table': {'7': 1}}}
    """
    found: dict[int, dict[str, Any]] = {}
    newer: Any = None
    for text in sorted(owners, key=int, reverse=True):
        described = dict(owners[text])
        if _DIFFERS in described:
            differs = described.pop(_DIFFERS)
            if wrong := _SHAPE(differs, _DIFFERS):
                return wrong
            if not isinstance(newer, Mapping) or _TABLE in described:
                return f"epoch {text} differs from no table"
            table = {**newer, **differs}
            described[_TABLE] = {key: owner for key, owner in table.items() if owner is not None}
        newer = described.get(_TABLE)
        found[int(text)] = described
    return found


def _owner(value: Any, what: str) -> str | None:
    return None if value is None else shapes.whole(0, 2**31 - 1)(value, what)


_SHAPE = shapes.mapping(_owner, shapes.fingerprint)
