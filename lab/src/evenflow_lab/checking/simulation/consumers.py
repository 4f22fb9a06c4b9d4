"""Ordered consumers under a schedule: a group on a model of a broker, and all that goes wrong."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import evenflow.kafka.consumer
import evenflow.kafka.consumer_changelog
import evenflow.kafka.consumer_loading
import evenflow.kafka.consumer_topics
import evenflow.kafka.consumer_transaction
from evenflow.kafka.consumer import ConsumerConfig, ConsumerStopped, OrderedConsumer
from evenflow.model.errors import EvenflowError
from evenflow_lab.checking.simulation.broker_admin import AdminModel
from evenflow_lab.checking.simulation.broker_clients import (
    ConsumerModel,
    ProducerModel,
)
from evenflow_lab.checking.simulation.broker_model import BrokerModel
from evenflow_lab.checking.simulation.gateway_model import GatewayModel
from evenflow_lab.checking.simulation.history import Violation
from evenflow_lab.checking.simulation.oracle import MODULUS
from evenflow_lab.checking.simulation.schedule import Fault, Schedule
from evenflow_lab.checking.simulation.world import Actor, Stopwatch, World

_PARTITIONS = 3
_FEWEST, _MOST = 2, 3  # consumers
_LONGEST = 900.0  # seconds, after which a group that has not read everything never will
_AFTERWARDS = 4.0  # seconds that it goes on: whoever wakes up late has its say
_DATA, _OUTPUT = "data", "output"
_MODULES = (
    evenflow.kafka.consumer,
    evenflow.kafka.consumer_changelog,
    evenflow.kafka.consumer_loading,
    evenflow.kafka.consumer_topics,
    evenflow.kafka.consumer_transaction,
)
_FROM_OUTSIDE = Stopwatch(*_MODULES)


class Digests:
    """A handler whose outputs tell how many messages came before, and in which order."""

    def handle(self, key: bytes, value: bytes | None, state: Any) -> tuple[Any, list[bytes]]:
        n, digest = state or (0, 0)
        n, digest = n + 1, (digest * 31 + int(value or b"0")) % MODULUS
        return [n, digest], [b"%d %d" % (n, digest)]


class Group:
    """One schedule of ordered consumers.

    Parameters:
        schedule: what happens.
    """

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.world = World(schedule.seed, schedule.switching)
        self.broker = BrokerModel(self.world)
        self.broker.add_topic(_DATA, _PARTITIONS, {"retention.ms": "-1"})
        self.broker.add_topic(_OUTPUT, 2, {"retention.ms": "-1"})
        self.gateway = GatewayModel(self.broker, _DATA, schedule.rows, schedule.seed)
        self.refused: EvenflowError | None = None
        self._faults = list(schedule.faults)
        self._consumers: dict[Actor, OrderedConsumer | None] = {}
        self._wanted = _FEWEST
        self._stopping = False
        self._clients: list[ConsumerModel] = []
        self._stalls: list[float] = []

    def run(self) -> World:
        """Run it and check what has come of it; a `Violation` says what is wrong."""
        with _substituted(self):
            self.world.before_call = self._before_call
            self.world.spawn("gateway", self.gateway.run)
            self.world.spawn("cluster", self._keep_running)
            self.world.run()
        self._check()
        return self.world

    def new_client(self, settings: dict[str, Any]) -> ConsumerModel:
        client = ConsumerModel(self.broker, settings)
        self._clients.append(client)
        return client

    # --- the cluster -----------------------------------------------------------------------------

    def _keep_running(self) -> None:
        me = self.world.current
        assert me is not None
        began, finished = self.world.now, None
        while self.refused is None:
            living = [actor for actor in self._consumers if not actor.ended and not actor.dead]
            for _ in range(len(living), self._wanted):
                self._start()
            for actor in living[self._wanted :]:
                consumer = self._consumers[actor]
                if consumer is not None:
                    consumer.stop()
            now = self.world.now
            if finished is None and self.gateway.done and self._handled() >= self.schedule.rows:
                finished = now
            if finished is not None and now > finished + _AFTERWARDS:
                break
            if now - began > _LONGEST:
                break
            me.sleep(1.0)
        self._stopping = True
        for consumer in self._consumers.values():
            if consumer is not None:
                consumer.stop()

    def _start(self) -> None:
        name = f"consumer {len(self._consumers)}"
        actor = self.world.spawn(name, lambda: self._consume(actor))
        self._consumers[actor] = None

    def _consume(self, actor: Actor) -> None:
        config = ConsumerConfig(
            "model",
            _DATA,
            "group",
            _OUTPUT,
            commit_interval=0.2,
            buffer=8,
            session_timeout=3.0,
            transaction_timeout=4.0 if self.schedule.orphans else 40.0,
            patience=100.0,
        )
        try:
            consumer = OrderedConsumer(config, Digests(), clock=actor.clock)
            self._consumers[actor] = consumer
            if self._stopping:
                consumer.stop()
            consumer.run()
        except ConsumerStopped:
            self.world.happened["ended: ConsumerStopped"] += 1
        except EvenflowError as error:
            self.refused = error
        finally:
            self._consumers[actor] = None

    def _handled(self) -> int:
        return sum(len(values) for values in self._outputs().values())

    def _outputs(self) -> dict[bytes, list[bytes]]:
        found: defaultdict[bytes, list[bytes]] = defaultdict(list)
        for log in self.broker.topics[_OUTPUT].logs:
            for entry in log.entries:
                if log.visible(entry):
                    found[entry.key or b""].append(entry.value or b"")
        return dict(found)

    # --- what goes wrong -------------------------------------------------------------------------

    def _before_call(self, what: str) -> None:
        me = self.world.current
        assert me is not None
        while self._faults and self._faults[0].at < self.world.calls:
            self._happen(self._faults.pop(0), me)
        if what == "commit_transaction" and self._stalls:
            self._stall(me, self._stalls.pop())

    def _stall(self, victim: Actor, seconds: float) -> None:
        """It stands still, with its heartbeats."""
        victim.wakes_at = self.world.now + seconds
        for client in self._clients:
            if client.actor is victim:
                client.stalled_until = victim.wakes_at

    def _happen(self, fault: Fault, me: Actor) -> None:
        what, length = fault.what, fault.length
        if what in ("broker error", "lost commit"):
            self.broker.fault = what
            return
        living = [actor for actor in self._consumers if not actor.ended and not actor.dead]
        victim = me if me in living else (living[length % len(living)] if living else None)
        if what == "rewrite":
            self.gateway.again += not self.gateway.done
        elif what == "weeks":
            self.broker.expire()
        elif what == "compaction":
            self.broker.compact()
        elif what == "rebalance":
            self._wanted = _MOST if self._wanted == _FEWEST else _FEWEST
        elif victim is None:
            return
        elif what == "crash":
            victim.dead = True
        elif what == "stall":
            if length % 2:
                self._stalls.append(2.0 * length)  # between the last records and their commit
            else:
                self._stall(victim, 2.0 * length)
        self.world.happened[what] += 1

    # --- what must hold --------------------------------------------------------------------------

    def _check(self) -> None:
        for actor in self.world.actors:
            if isinstance(actor.error, Exception):
                raise actor.error
        if self.refused is not None:
            raise Violation(f"stuck: {self.refused}")
        expected, found = self.gateway.expected(), self._outputs()
        for key in sorted({*expected, *found}):
            wanted, got = expected.get(key, []), found.get(key, [])
            if got != wanted:
                pairs = enumerate(zip(got, wanted, strict=False))
                at = next((i for i, (a, b) in pairs if a != b), None)
                where = "" if at is None else f", the first difference at message {at}"
                raise Violation(
                    f"{key!r}: {len(got)} outputs, {len(wanted)} messages were sent{where}"
                )


@contextmanager
def _substituted(group: Group) -> Iterator[None]:
    """Clients, clock and names, for as long as a schedule runs."""
    models = {
        "Consumer": group.new_client,
        "Producer": partial(ProducerModel, group.broker),
        "AdminClient": partial(AdminModel, group.broker),
    }
    kept = [(m, n, getattr(m, n)) for m in _MODULES for n in models if hasattr(m, n)]
    logger = logging.getLogger("evenflow.kafka")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    for module, name, _ in kept:
        setattr(module, name, models[name])
    _FROM_OUTSIDE.install(group.world)
    try:
        yield
    finally:
        _FROM_OUTSIDE.remove()
        for module, name, client in kept:
            setattr(module, name, client)
        logger.setLevel(level)
