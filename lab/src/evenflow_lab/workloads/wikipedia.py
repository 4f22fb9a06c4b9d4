"""WP: page views of Wikipedia, as a stand-in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from evenflow_lab.workloads.published import PowerLawStandIn, Published


@dataclass(frozen=True)
class Wikipedia(PowerLawStandIn):
    """A stand-in for WP, the pages visited in a day of January 2008: 22 M visits, 2.9 M pages.

    Fitted: Zipf's law with s = 1.067 over 24.5 M ranks. The order of the real visits is lost: keys
    are independent.

    Guarantee: p1 = 9.32 %, and 2.9 M different keys are expected in 22 M messages.

    Parameters:
        messages: length of the stream; a shorter one is the beginning of the whole.
        seed: another seed is another stream, with other keys.

    Example:
        >>> stream = Wikipedia(messages=1_000_000)
        >>> f"{stream.law.p1:.4f}, {stream.law.distinct(stream.messages):,.0f} keys"
        '0.0932, 254,898 keys'

    Paper: Table I of "When two choices are not enough" and of "Consistent Grouping".
    """

    name: ClassVar[str] = "wp"
    published: ClassVar[Published] = Published(messages=22_000_000, keys=2_900_000, p1=0.0932)

    messages: int = published.messages
