"""What the stand-ins for published streams have in common."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from evenflow.kernels.mixing import salt
from evenflow.model.validation import check_whole
from evenflow.simulator.workloads.drawing import DRAW, IDENTITY, in_stretches
from evenflow.simulator.workloads.protocol import U64
from evenflow_lab.workloads.power_law import PowerLaw, draw, fitted


class Published(NamedTuple):
    """What a paper tells of a stream."""

    messages: int
    keys: int
    p1: float


@dataclass(frozen=True)
class PowerLawStandIn:
    """Independent keys after Zipf's law, fitted to the three numbers that were published.

    A published stream has seen so many different keys; the law has more ranks than that, most of
    which a stream of the published length never meets. A shorter stream is the beginning of the
    whole one: the law and p1 stay, and the keys seen are those that the beginning would show.

    Guarantee: message i depends on the seed and on i alone. The probability of the top key is the
    published p1; the expected number of different keys in the published number of messages is the
    published one.
    """

    name: ClassVar[str]
    published: ClassVar[Published]

    messages: int
    seed: int = 0

    def __post_init__(self) -> None:
        check_whole("the number of messages", self.messages, 1)

    @property
    def law(self) -> PowerLaw:
        """The probabilities of the ranks."""
        return fitted(self.published.p1, self.published.keys, self.published.messages)

    def chunks(self, size: int) -> Iterator[U64]:
        sampler = self.law.sampler()
        draws, identity = salt(self.seed, DRAW), salt(self.seed, IDENTITY)

        def fill(_: int, position: int, out: U64) -> None:
            draw(sampler, draws, identity, position, out)

        return in_stretches(self.messages, self.messages, size, fill)

    def length(self) -> int:
        return self.messages

    def describe(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "zipf": self.law.exponent,
            "key_space": self.law.ranks,
            "p1": self.published.p1,
            "drift": None,
            "stand_in": True,
        }
