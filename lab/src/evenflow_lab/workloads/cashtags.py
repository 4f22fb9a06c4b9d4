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

_DAYS, _DAYS_OF_A_WEEK = 30, 7  #: November
_WEEKS = -(-_DAYS // _DAYS_OF_A_WEEK)  #: the last one is not whole


@dataclass(frozen=True)
class Cashtags:
    """A stand-in for CT, the ticker symbols in tweets of November 2013, with strong drift.

    What is published: 690 k messages, 2.9 k keys, p1 = 3.29 %, and that the distribution of keys
    changes drastically throughout time. How is lost; here all messages follow a ranking of the keys
    that is drawn again every week. Then the most frequent key of the month is the top key of one week,
    and has 3.29 % of the month only if it has 30/7 times as much, 14.1 %, of that week. Each week has
    such a key; below it the ranking is Zipf's law.

    Guarantee: message i depends on the parameters and on i alone. The most frequent keys of the whole
    stream, one for each of the four whole weeks, have the published p1.

    Parameters:
        messages: length of the stream; a shorter one is the beginning of the whole.
        seed: another seed is another stream, with other keys.
        drift: messages of a week, after which other keys are popular.

    Example:
        >>> stream = Cashtags(seed=1)
        >>> [keys] = stream.chunks(stream.length())
        >>> _, counts = np.unique(keys, return_counts=True)
        >>> len(counts), f"{counts.max() / len(keys):.3f}"
        (2900, '0.033')
        >>> f"{np.unique(keys[:161_000], return_counts=True)[1].max() / 161_000:.3f}"
        '0.141'

    Paper: Table I of "When two choices are not enough", and §V for the drift.
    """

    name: ClassVar[str] = "ct"
    published: ClassVar[Published] = Published(messages=690_000, keys=2_900, p1=0.0329)

    messages: int = published.messages
    seed: int = 0
    drift: int = published.messages * _DAYS_OF_A_WEEK // _DAYS

    def __post_init__(self) -> None:
        check_whole("the number of messages", self.messages, 1)
        check_whole("drift, in messages,", self.drift, 1)

    def probabilities(self) -> F64:
        """The probability of each rank of a week."""
        ranks = self.published.keys - _WEEKS + 1
        law = with_top_share(self.published.p1 * _DAYS / _DAYS_OF_A_WEEK, ranks)
        weights = power_law_weights(law.exponent, 0.0, ranks)
        probabilities: F64 = weights / weights.sum()
        return probabilities

    def keys_of_week(self, week: int) -> U64:
        """The ranking of a week.

        The top keys of the weeks have no place in the rankings of others: so their shares of the
        whole stream are what they have in their week.
        """
        keys = named_keys(salt(self.seed, IDENTITY), self.published.keys)
        others = keys[_WEEKS:].copy()
        shuffle(salt(self.seed, PERMUTE, week), others)
        return np.concatenate([keys[[week % _WEEKS]], others])

    def chunks(self, size: int) -> Iterator[U64]:
        tables = (self.keys_of_week(week) for week in count())
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
