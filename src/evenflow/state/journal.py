"""Small objects of a checkpoint beside the state: plans, before they are used, and requests."""

from __future__ import annotations

import re
from collections.abc import Iterable

from evenflow.model import shapes
from evenflow.model.plan import AUTO, Plan
from evenflow.state.checkpoint import content_of
from evenflow.state.errors import damaged, explained
from evenflow.state.manifest import seal, unseal
from evenflow.storage import Storage

PLANS = "plans/"
PARTITIONS = "partitions.json"
_NUMBER = re.compile(r"\d+")
_CLOSING = {"closing": True}  # beside the plan of a batch without rows, or before there is one


def fixed_plan(storage: Storage, batch: int, wanted: Plan) -> Plan:
    """The plan of a batch: the one written down when the batch was first tried, else `wanted`.

    A batch is tried again after an error or a crash, maybe by a driver that was started with other
    settings. Which rows went where, and who owns which key, must not depend on the try.

    Parameters:
        storage: the checkpoint's.
        batch: its number.
        wanted: what to write down if nothing is.
    """
    name = _plan_name(batch)
    with explained("write", storage.where(name)):
        ours = storage.create(name, seal(wanted.to_dict()))
    if ours:
        return wanted
    found = unseal(content_of(storage, name), storage.where(name))
    if found == _CLOSING:
        with explained("write", storage.where(name)):
            storage.put(name, [seal({**wanted.to_dict(), **_CLOSING})])
        return wanted
    return Plan.from_dict({one: value for one, value in found.items() if one not in _CLOSING})


def withdraw_plan(storage: Storage, batch: int) -> None:
    """Forget the plan of a batch whose tasks have failed and of which nothing was delivered.

    The next try may plan it again, with more partitions where the batch was too large for a task. A
    batch without rows stays one: an earlier try may have delivered it.
    """
    name = _plan_name(batch)
    if is_closing(storage, batch):
        with explained("write", storage.where(name)):
            storage.put(name, [seal(_CLOSING)])
        return
    with explained("delete", storage.where(name)):
        storage.delete(name)


def begin_closing(storage: Storage, batch: int) -> bool:
    """Write down that a batch has no rows and closes what event time has passed; whether it is so. It
    is not where the batch was begun with rows.

    From here on the batch is that and no other, also if it is cut: its output may have been delivered,
    and rows that come later must not be taken for a part of it.
    """
    name = _plan_name(batch)
    with explained("write", storage.where(name)):
        if storage.create(name, seal(_CLOSING)):
            return True
    return is_closing(storage, batch)


def is_closing(storage: Storage, batch: int) -> bool:
    """Whether `begin_closing` was called for a batch, and no rows came first."""
    name = _plan_name(batch)
    with explained("read", storage.where(name)):
        try:
            content = storage.read(name)
        except FileNotFoundError:
            return False
    return unseal(content, storage.where(name)).items() >= _CLOSING.items()


def _plan_name(batch: int) -> str:
    return f"{PLANS}{batch:010d}.json"


def forget_plans(storage: Storage, batch: int) -> None:
    """Drop the plans of batches before this one, which are committed."""
    with explained("clean up", storage.where(PLANS)):
        found = storage.list(PLANS) + storage.unfinished(PLANS)
        storage.delete(*of_batches(found, PLANS, batch - 1))


def of_batches(names: Iterable[str], folder: str, latest: int) -> list[str]:
    """The names that begin with the number of a batch up to the latest.

    Example:
        >>> of_batches(["plans/0000000003.json", "plans/0000000004.json"], "plans/", 3)
        ['plans/0000000003.json']
    """
    numbers = ((name, _NUMBER.match(name, len(folder))) for name in names)
    return [name for name, number in numbers if number and int(number[0]) <= latest]


def request_partitions(storage: Storage, partitions: int | str, instead_of: int | str) -> None:
    """Ask the query with this checkpoint for another number of partitions, from its next batch on.

    Parameters:
        storage: the checkpoint's.
        partitions: how many, or `auto` for as many as the load needs.
        instead_of: what it was started with. Once it is started with something else, that counts.
    """
    with explained("write", storage.where(PARTITIONS)):
        storage.put(PARTITIONS, [seal({"partitions": partitions, "instead_of": instead_of})])


def requested_partitions(storage: Storage, started_with: int | str) -> int | str:
    """How many partitions the next batch should have: a number, or `auto`."""
    with explained("read", storage.where(PARTITIONS)):
        try:
            content = storage.read(PARTITIONS)
        except FileNotFoundError:
            return started_with
    request = unseal(content, storage.where(PARTITIONS))
    if wrong := _REQUEST(request, "it"):
        raise damaged(storage.where(PARTITIONS), wrong)
    found: int | str = request["partitions"]
    return found if request["instead_of"] == started_with else started_with


def _number_or_auto(value: object, what: str) -> str | None:
    return None if value == AUTO else shapes.whole(1, 2**31 - 1)(value, what)


_REQUEST = shapes.fields({"partitions": _number_or_auto, "instead_of": _number_or_auto})
