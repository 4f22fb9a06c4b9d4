"""A schedule: one stream, and everything that happens to it, as a small value that can be repeated."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from evenflow.model import InputError
from evenflow_lab.checking.simulation.kinds import ENGINE, LIGHT, MOVING

CONSUMERS = "consumers"
KINDS = (LIGHT, CONSUMERS, *ENGINE)

#: What may go wrong with a checkpointed query, and how often of a hundred.
QUERY_FAULTS = {
    "error": 12,  # a request fails without effect
    "lost reply": 12,  # it takes effect, and nobody is told
    "delayed": 8,  # it takes effect later, when the caller has given up
    "doubled": 6,  # it takes effect twice
    "partial write": 5,  # half of an object is written under another name
    "crash": 16,  # the driver dies
    "power loss": 8,  # the whole cluster dies, and the last files of Spark's log are gone
    "freeze": 9,  # the driver stands still, and goes on later
    "frozen clock": 5,  # and so does its clock
    "clock jump": 4,  # its clock goes forward
    "second driver": 8,
    "reader": 6,  # somebody reads the committed state meanwhile
    "restore": 4,  # the checkpoint is restored from a backup
    "task retry": 6,  # a task is run again after all of its effects
    "speculation": 6,  # a task runs twice, and both write
    "task failure": 4,  # a task fails for good, after all of its effects
    "resize": 6,  # somebody asks for another number of partitions
}
#: What may go wrong with ordered consumers.
CONSUMER_FAULTS = {
    "crash": 20,  # a consumer dies, and another is started
    "stall": 14,  # a consumer stands still until the group goes on without it
    "rebalance": 14,  # a consumer joins or leaves
    "broker error": 16,  # a request fails for now
    "lost commit": 10,  # a transaction is committed, and its owner is told that it failed
    "rewrite": 12,  # the writer writes a part of its log again
    "weeks": 8,  # so much time passes that records without retention of their own expire
    "compaction": 6,  # the changelog is compacted
}


@dataclass(frozen=True)
class Fault:
    """Something that goes wrong.

    Parameters:
        at: the call, of all actors together, before which it happens.
        what: its name.
        length: how long or how much, where that means something.
    """

    at: int
    what: str
    length: int = 0


@dataclass(frozen=True)
class Schedule:
    """A stream and what happens to it. The same schedule, the same run.

    Parameters:
        seed: of rows, turns and names.
        kind: of work.
        rows: how many rows the stream has, or messages.
        faults: what goes wrong.
        switching: how likely it is that another actor goes on after a call.
        orphans: whether tasks outlive their driver; of consumers, whether transactions time out soon.

    Example:
        >>> schedule = Schedule.of(7)
        >>> Schedule.from_json(schedule.to_json()) == schedule
        True
    """

    seed: int
    kind: str
    rows: int
    faults: tuple[Fault, ...] = ()
    switching: float = 0.3
    orphans: bool = False

    @classmethod
    def of(
        cls, seed: int, kinds: Sequence[str] | None = None, only: Sequence[str] | None = None
    ) -> Schedule:
        """The schedule of a seed.

        Parameters:
            seed: decides everything.
            kinds: the kinds of work to choose from; by default half are consumers, some run the
                whole engine and the others what surrounds it.
            only: the faults to choose from; all by default.
        """
        chance = random.Random(f"schedule {seed}")
        if kinds is None:
            group = chance.choices([CONSUMERS, LIGHT, "engine"], [52, 41, 7])[0]
            kind = chance.choice(ENGINE) if group == "engine" else group
        else:
            kind = chance.choice(kinds)
        consumers = kind == CONSUMERS
        known = CONSUMER_FAULTS if consumers else QUERY_FAULTS
        if only is not None:
            known = {what: known[what] for what in only}
        if consumers:
            rows, horizon = chance.randint(6, 40), 500
        else:
            fewest, most = (150, 450) if kind in MOVING else (2, 16 if kind in ENGINE else 30)
            rows, horizon = chance.randint(fewest, most), 330
        number = chance.choices(range(8), [4, 14, 20, 20, 16, 12, 8, 6])[0]
        faults = []
        for what in chance.choices(list(known), list(known.values()), k=number):
            faults.append(Fault(chance.randrange(horizon), what, chance.randint(1, 12)))
        faults.sort(key=lambda fault: (fault.at, fault.what))
        switching = chance.choice([0.05, 0.3, 0.6])
        return cls(seed, kind, rows, tuple(faults), switching, chance.random() < 0.3)

    def to_json(self) -> str:
        """For the command line."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Schedule:
        """The inverse of `to_json`."""
        try:
            fields = json.loads(text)
            faults = tuple(Fault(**fault) for fault in fields.pop("faults"))
            schedule = cls(**fields, faults=faults)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise InputError(
                f"this is not a schedule ({error}); give the text that a failing one has printed"
            ) from None
        if schedule.kind not in KINDS:
            raise InputError(f"there is no kind {schedule.kind!r}; there are {', '.join(KINDS)}")
        return schedule
