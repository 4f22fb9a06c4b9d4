"""A gateway as a model: two source topics, keys that move, and batches that are written again."""

from __future__ import annotations

import random
from collections import defaultdict

import evenflow.kafka.gateway_source as gateway_source
from evenflow.kafka.gateway_rows import MARKERS, SORTED, lane_of
from evenflow.ordering import FIRST, LAST, MESSAGE, Header, pack
from evenflow.ordering.headers import NO_SET, set_number
from evenflow_lab.checking.simulation.broker_model import BrokerModel
from evenflow_lab.checking.simulation.oracle import MODULUS

_WRITER = 3
_TOPICS, _SOURCE_PARTITIONS = 2, 2
_PER_EPOCH = 6  # messages at most

Written = tuple[
    int, bytes, bytes | None, list[tuple[str, bytes]]
]  #: partition, key, value, headers


class GatewayModel:
    """Writes all messages, epoch by epoch, each with the headers that a gateway gives it.

    Parameters:
        broker: with the data topic.
        topic: the data topic.
        messages: how many.
        seed: of keys and moves.
    """

    def __init__(self, broker: BrokerModel, topic: str, messages: int, seed: int) -> None:
        self._broker, self._topic = broker, topic
        self._chance = random.Random(f"gateway {seed}")
        self._partitions = len(broker.topics[topic].logs)
        self._left = messages
        self._places: dict[bytes, tuple[int, int]] = {}
        self._offsets: defaultdict[tuple[int, int], int] = defaultdict(int)
        self._epoch = 0
        self._last: list[Written] = []
        self.sent: defaultdict[bytes, list[int]] = defaultdict(list)
        self.again = 0  #: how often the newest epoch is to be written again

    @property
    def done(self) -> bool:
        return not self._left and not self.again

    def run(self) -> None:
        """Write everything."""
        while not self.done:
            if self.again and self._last:
                self.again -= 1
                # It died on the way, and the batch is run again from its beginning.
                self._write(self._last[: self._chance.randint(1, len(self._last))])
                self._write(self._last)
            elif self._left:
                self._last = self._next_epoch()
                self._write(self._last)
            else:
                self.again = 0
            self._broker.world.sleep(self._chance.random())

    def expected(self) -> dict[bytes, list[bytes]]:
        """Key → what a consumer must put out for its messages, in order."""
        outputs = {}
        for key, values in self.sent.items():
            n = digest = 0
            made = []
            for value in values:
                n, digest = n + 1, (digest * 31 + value) % MODULUS
                made.append(b"%d %d" % (n, digest))
            outputs[key] = made
        return outputs

    def _write(self, records: list[Written]) -> None:
        for partition, key, value, headers in records:
            self._broker.call(f"write {partition}")
            self._broker.log(self._topic, partition).append(key=key, value=value, headers=headers)

    def _next_epoch(self) -> list[Written]:
        self._epoch += 1
        counts: defaultdict[int, int] = defaultdict(int)
        records: list[Written] = []
        moves = [key for key in sorted(self.sent) if self._chance.random() < 0.25]
        for number, key in enumerate(moves):
            source, previous = self._place(key)
            target = self._chance.randrange(self._partitions)
            if source == target:
                continue
            new = set_number(self._epoch, number)
            for partition, kind, other in ((source, LAST, target), (target, FIRST, source)):
                lane = lane_of(_WRITER, MARKERS)
                header = Header(kind, lane, self._epoch, counts[partition], new, other, previous)
                counts[partition] += 1
                records.append((partition, key, None, pack(header)))
            self._places[key] = (target, new)
        for _ in range(min(self._left, self._chance.randint(1, _PER_EPOCH))):
            self._left -= 1
            records.append(self._message(self._chance.randrange(9)))
        return records

    def _message(self, value: int) -> Written:
        key = b"key %d" % min(self._chance.randrange(6), self._chance.randrange(6))
        topic, at = int(key[4:]) % _TOPICS, int(key[4:]) // _TOPICS % _SOURCE_PARTITIONS
        offset = self._offsets[topic, at]
        self._offsets[topic, at] += 1
        lane = lane_of(_WRITER, gateway_source.source_number(topic, at) + SORTED + 1)
        partition, set_id = self._place(key)
        header = Header(MESSAGE, lane, self._epoch, offset, set_id)
        self.sent[key].append(value)
        return partition, key, b"%d" % value, pack(header)

    def _place(self, key: bytes) -> tuple[int, int]:
        return self._places.get(key, (int(key[4:]) % self._partitions, NO_SET))
