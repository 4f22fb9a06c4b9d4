"""CT: cashtags in tweets, as a stand-in whose hot keys change."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any, ClassVar

import numpy as np

from evenflow.kernels.mixing import salt
from evenflow.model.validation import check_whole
from evenflow.simulator.workloads.drawing import (
    DRAW,
    F64,
    IDENTITY,
    PERMUTE,
    from_tables,
    named_keys,
    power_law_weights,
    shuffle,
)
from evenflow.simulator.workloads.protocol import U64
from evenflow_lab.workloads.power_law import with_top_share
from evenflow_lab.workloads.published import Published

_OF_THE_DAY = 0.5  #: the share of messages about what is popular today


@dataclass(frozen=True)
class Cashtags:
    """A stand-in for CT, the ticker symbols in tweets of November 2013, with strong drift.

    What is published: 690 k messages, 2.9 k keys, p1 = 3.29 %, and that the popular keys change. How
    they change is lost; here it is made up: half of the messages follow one ranking of the keys that
    stays, the other half a ranking that is dealt 30 times, once for each day of the month. Both
    are finite Zipf laws whose top key has 6.58 %, so that the key of the day is for its day as
    frequent as the most frequent of all.

    Guarantee: message i depends on the parameters and on i alone. The most frequent key of the whole
    stream has the published p1, on every day.

    Parameters:
        messages: length of the stream; a shorter one is the beginning of the whole.
        seed: another seed is another stream, with other keys.
        drift: messages of a day, after which other keys are popular.

    Example:
        >>> stream = Cashtags(seed=1)
        >>> [keys] = stream.chunks(stream.length())
        >>> _, counts = np.unique(keys, return_counts=True)
        >>> len(counts), f"{counts.max() / len(keys):.4f}"
        (2900, '0.0330')

    Paper: Table I of "When two choices are not enough", and §V-A for the drift.
    """

    name: ClassVar[str] = "ct"
    published: ClassVar[Published] = Published(messages=690_000, keys=2_900, p1=0.0329)

    messages: int = published.messages
    seed: int = 0
    drift: int = published.messages // 30

    def __post_init__(self) -> None:
        check_whole("the number of messages", self.messages, 1)
        check_whole("drift, in messages,", self.drift, 1)

    def probabilities(self) -> F64:
        """The probability of each cell of `keys_of_day`."""
        steady, today = (
            power_law_weights(with_top_share(top, ranks).exponent, 0.0, ranks)
            for top, ranks in (
                (self.published.p1 / (1 - _OF_THE_DAY), self.published.keys),
                (self.published.p1 / _OF_THE_DAY, self.published.keys - 1),
            )
        )
        return np.concatenate(
            [(1 - _OF_THE_DAY) * steady / steady.sum(), _OF_THE_DAY * today / today.sum()]
        )

    def keys_of_day(self, day: int) -> U64:
        """First all keys in the ranking that stays, then all but its top one in that of the day.

        The top key has no place in the days' rankings: so its share is the published one exactly.
        """
        keys = named_keys(salt(self.seed, IDENTITY), self.published.keys)
        today = keys[1:].copy()
        shuffle(salt(self.seed, PERMUTE, day), today)
        return np.concatenate([keys, today])

    def chunks(self, size: int) -> Iterator[U64]:
        tables = (self.keys_of_day(day) for day in count())
        draws = salt(self.seed, DRAW)
        return from_tables(self.probabilities(), tables, draws, self.messages, self.drift, size)

    def length(self) -> int:
        return self.messages

    def describe(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "key_space": self.published.keys,
            "p1": self.published.p1,
            "drift": self.drift,
            "stand_in": True,
        }
