"""TW: words of tweets, as a stand-in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from evenflow_lab.workloads.published import PowerLawStandIn, Published


@dataclass(frozen=True)
class Twitter(PowerLawStandIn):
    """A stand-in for TW, the words of tweets of July 2012: 1.2 G words, 31 M different ones.

    Fitted: Zipf's law with s = 0.921 over 31.1 M ranks. The order of the real words is lost: keys
    are independent.

    Guarantee: p1 = 2.67 %, and 31 M different keys are expected in 1.2 G messages.

    Parameters:
        messages: length of the stream; a shorter one is the beginning of the whole.
        seed: another seed is another stream, with other keys.

    Example:
        >>> stream = Twitter(messages=10_000_000)
        >>> f"{stream.law.p1:.4f}, {stream.law.distinct(stream.messages) / 1e6:.1f} M keys"
        '0.0267, 3.6 M keys'

    Paper: Table I of "When two choices are not enough" and of "Consistent Grouping".
    """

    name: ClassVar[str] = "tw"
    published: ClassVar[Published] = Published(messages=1_200_000_000, keys=31_000_000, p1=0.0267)

    messages: int = published.messages
