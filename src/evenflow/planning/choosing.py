"""`auto`: the scheme under which a batch should take least time, and when that is worth a change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from evenflow.planning.batch_costs import LOOK, Load, Prices
from evenflow.planning.experience import Experience
from evenflow.planning.key_loads import KeyLoads

#: A scheme that saves no more than this part of a batch is not worth a change.
MARGIN = 0.1
#: What must be saved beyond the margin, added up over batches, before the scheme changes.
ENOUGH = 0.1
#: Seconds of a batch for which nobody changes anything.
LEAST = 0.02
_PATIENT = 3.0  # times as much must be saved for the next change, and less with every batch
_MOST_PATIENT = 27.0
_MOST_SAVED = 1000.0  # batches


class Choice(NamedTuple):
    """A scheme, and the reason for it."""

    scheme: str
    reason: str


def loads_of(keys: KeyLoads, mergeable: bool) -> dict[str, Load]:
    """What each scheme that fits would make of the keys.

    Parameters:
        mergeable: whether keys may be split.
    """
    loads = {"key": keys.hashed(), "table": keys.planned()}
    if mergeable:
        loads |= {"partial-key": keys.split(2), "d-choices": keys.split(None)}
    return loads


def pays(prices: Prices) -> bool:
    """Whether any keys could be so uneven that another scheme than `key` saves time.

    At worst all rows have the same key. With cheap work on few slots, looking at the rows and routing
    them takes longer than that costs, however many they are.

    Example:
        >>> pays(Prices(row=3e-7, slots=2)), pays(Prices(row=1e-4, slots=2))
        (False, True)
    """
    return prices.row * (prices.slots - 1) > prices.route + LOOK


def choose_first(loads: Mapping[str, Load], prices: Prices, partitions: int) -> Choice:
    """The scheme of a batch of whose work nothing was measured yet.

    Parameters:
        loads: scheme → what it would make of the batch.
        prices: the usual ones.
        partitions: how many share the work.

    Example:
        >>> loads = {"key": Load(1e6, 5e5), "d-choices": Load(1e6, 1e5, parts=2000, in_python=True)}
        >>> choose_first(loads, Prices(row=1e-4, slots=10), 10).scheme
        'd-choices'
        >>> choose_first(loads, Prices(row=1e-7, slots=10), 10).scheme
        'key'
    """
    seconds = {scheme: prices.seconds(load) for scheme, load in loads.items()}
    best = min(seconds, key=lambda scheme: seconds[scheme])
    if seconds["key"] - seconds[best] < max(LEAST, MARGIN * seconds["key"]):
        best = "key"
    finding = _finding(loads["key"], prices, partitions)
    return Choice(best, f"{finding}; {_predicted(best, seconds)}")


def choose(
    current: str, loads: Mapping[str, Load], prices: Prices, partitions: int, known: Experience
) -> tuple[Choice, Experience]:
    """The scheme of the next batch, from what this one has shown.

    Guarantee: a pure function. The scheme changes only if another one is predicted to save more than
    `MARGIN` of a batch, and more than `LEAST`, by so much or for so many batches that it adds up to
    `ENOUGH` beyond that, and to the time in which states move; a larger saving changes it sooner. Each
    change makes the next one harder for a while, so the scheme does not go back and forth, whatever the
    noise.

    Parameters:
        current: the scheme of this batch.
        loads: scheme → what it would make of such a batch; of the current one, what it has made.
        prices: measured as far as possible.
        partitions: how many share the work.
        known: what was learned so far.

    Example:
        >>> loads = {"key": Load(1e6, 5e5), "d-choices": Load(1e6, 1e5, parts=2000, in_python=True)}
        >>> choice, known = choose("key", loads, Prices(row=1e-4, slots=10), 10, Experience())
        >>> choice.scheme, known.patience
        ('d-choices', 3.0)
    """
    seconds = {scheme: prices.seconds(load) for scheme, load in loads.items()}
    now = seconds.get(current, 0.0)
    if now <= 0:
        return Choice(current, "nothing is known of the keys yet"), known
    saved = {}
    for scheme in seconds:
        if scheme != current:
            worth = now - seconds[scheme] > LEAST
            gain = (1 - seconds[scheme] / now if worth else 0.0) - MARGIN
            total = known.saved.get(scheme, 0.0) + gain
            if total > 0:
                saved[scheme] = round(min(total, _MOST_SAVED), 6)
    finding = _finding(loads[current], prices, partitions)
    stays = f"{finding}; {_predicted(current, seconds)}"
    best = min(seconds, key=lambda scheme: seconds[scheme])
    if best == current or best not in saved:
        best_gain = 0.0 if best == current else 1 - seconds[best] / now
        why = "" if best_gain <= 0 else f"; {best_gain:.0%} is not worth a change"
        return Choice(current, stays + why), replace(known, saved=saved)
    if saved[best] <= ENOUGH * known.patience + prices.moving(loads[best]) / now:
        why = f"{best} would save {1 - seconds[best] / now:.0%}, not yet for long enough"
        return Choice(current, f"{stays}; {why}"), replace(known, saved=saved)
    reason = f"{finding}; {_predicted(best, seconds, current)}"
    patience = min(known.patience * _PATIENT, _MOST_PATIENT)
    return Choice(best, reason), replace(known, saved={}, patience=patience, since=0, uneven=())


def _finding(load: Load, prices: Prices, partitions: int) -> str:
    times = load.fullest * partitions / max(load.rows, 1)
    return f"the fullest partition has {times:.2f} times its share, a row costs {_time(prices.row)}"


def _predicted(scheme: str, seconds: Mapping[str, float], instead: str | None = None) -> str:
    others = [one for one in seconds if one != scheme]
    text = f"{scheme} should take {_time(seconds[scheme])} a batch"
    if not others:
        return text
    other = instead or min(others, key=lambda one: seconds[one])
    return f"{text}, {other} {_time(seconds[other])}"


def _time(seconds: float) -> str:
    """Seconds with a unit that fits.

    Example:
        >>> _time(1.5), _time(0.0123), _time(4e-6)
        ('1.50 s', '12.3 ms', '4.0 µs')
    """
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1e3:.1f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.1f} µs"
