"""One transaction: outputs, `done` messages, changelog and offsets, all or nothing."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from evenflow.model import InputError

_LOG = logging.getLogger(__name__)

_CALL = 10.0  # seconds that one call may wait before it is made again
_NO_GROUP = frozenset(
    {
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.FENCED_INSTANCE_ID,
    }
)


class Aborted(Exception):
    """The transaction had no effect and may be tried again.

    `surely`: the broker was never asked to commit it. Else, look at what is committed first.
    """

    def __init__(self, reason: str, surely: bool = True) -> None:
        super().__init__(reason)
        self.surely = surely


class ConsumerStopped(RuntimeError):
    """This consumer cannot go on; nothing is lost, and a new one can be started.

    `fenced`: another one has its place, or the broker has ended its transaction.
    """

    def __init__(self, reason: str, fenced: bool) -> None:
        super().__init__(reason)
        self.fenced = fenced


class Transactions:
    """A producer whose records, with the offsets read, become visible together or not at all.

    Parameters:
        settings: of the producer, with `transactional.id`.
        patience: seconds for which a broker that does not answer is waited for.
    """

    def __init__(self, settings: dict[str, Any], patience: float) -> None:
        self._settings, self._patience = settings, patience
        self._producer = self._started()

    def commit(
        self,
        records: Iterable[dict[str, Any]],
        offsets: list[TopicPartition],
        group: Any,
    ) -> None:
        """Everything in one transaction.

        Raises:
            Aborted: nothing happened.
            ConsumerStopped: and nothing will happen any more.
        """
        producer, asked = self._producer, False
        try:
            producer.begin_transaction()
            for record in records:
                self._produce(producer, record)
            # The changelog must be in the log before the offsets are taken: then whoever gets the
            # partition next finds there what this transaction may still commit, and waits for it.
            self._flush(producer)
            self._until_done(producer.send_offsets_to_transaction, offsets, group, _CALL)
            asked = True
            self._until_done(producer.commit_transaction, _CALL)
        except KafkaException as error:
            self._give_up(error.args[0], asked)

    def restart(self) -> None:
        """A new producer in the place of one that the broker has given up."""
        try:
            self._producer = self._started()
        except KafkaException as error:
            self._stop(error.args[0].str(), fenced=False)

    def close(self) -> None:
        """Drops what is not committed."""
        self._producer.purge()

    def _started(self) -> Producer:
        producer = Producer(self._settings)
        self._until_done(producer.init_transactions, _CALL)
        return producer

    def _produce(self, producer: Producer, record: dict[str, Any]) -> None:
        while True:
            try:
                producer.produce(**record)
                return
            except BufferError:
                producer.poll(0.05)

    def _flush(self, producer: Producer) -> None:
        deadline = time.monotonic() + self._patience
        while producer.flush(_CALL):
            if time.monotonic() > deadline:
                self._stop("the broker did not take its records", fenced=False)

    def _until_done(self, call: Callable[..., Any], *arguments: Any) -> None:
        deadline = time.monotonic() + self._patience
        while True:
            try:
                call(*arguments)
                return
            except KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() > deadline:
                    raise
                time.sleep(0.02)

    def _give_up(self, error: KafkaError, asked: bool) -> None:
        if error.fatal():
            raise ConsumerStopped(
                f"the broker refuses this consumer's transactions ({error.str()}): another process "
                "has the same instance name, or the broker was away for longer than a transaction "
                "may last; nothing was lost, start the consumer again",
                fenced=True,
            ) from None
        if error.txn_requires_abort() or error.code() in _NO_GROUP:
            try:
                self._until_done(self._producer.abort_transaction, _CALL)
            except KafkaException as second:
                self._stop(second.args[0].str(), second.args[0].fatal())
            raise Aborted(error.str(), surely=not asked) from None
        self._stop(error.str(), error.fatal())

    def _stop(self, reason: str, fenced: bool) -> None:
        raise ConsumerStopped(
            f"a transaction could be neither committed nor aborted ({reason}); nothing was lost, "
            "start the consumer again once the broker answers",
            fenced,
        ) from None


def is_end(error: KafkaError) -> bool:
    """Not an error at all: the partition has no more records for now. It is said once."""
    return bool(error.code() == KafkaError._PARTITION_EOF)


def complain(error: KafkaError) -> None:
    """Most of what a client reports passes by itself; what does not, stops."""
    if error.fatal():
        raise ConsumerStopped(
            f"this consumer was shut out of its group ({error.str()}): another process has the same "
            "instance name; nothing was lost, start the consumer again",
            fenced=True,
        )
    if error.code() == KafkaError._AUTO_OFFSET_RESET:
        raise InputError(
            f"the next message is not in the topic any more ({error.str()}): it was deleted before "
            "it was consumed; keep the topic for longer, and choose another group to begin anew"
        )
    _LOG.info("the broker's client says: %s", error.str())
