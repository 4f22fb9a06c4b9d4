"""Transactions: outputs, `done` messages, changelog and offsets, all or nothing."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from evenflow.model.errors import EvenflowError, InputError

_LOG = logging.getLogger(__name__)

_CALL = 10.0  # seconds that one call may wait before it is repeated
_NO_GROUP = frozenset(
    {
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.FENCED_INSTANCE_ID,
    }
)


class Aborted(EvenflowError):
    """The transaction had no effect and may be retried.

    `surely`: the broker was never asked to commit it. Otherwise, check what is committed first.
    """

    def __init__(self, reason: str, surely: bool = True) -> None:
        super().__init__(reason)
        self.surely = surely


class ConsumerStopped(EvenflowError):
    """This consumer cannot continue; nothing is lost, and a new one can be started.

    `fenced`: another consumer took its place, or the broker ended its transaction.
    """

    def __init__(self, reason: str, fenced: bool) -> None:
        super().__init__(reason)
        self.fenced = fenced


class Transactions:
    """A producer whose records become visible together with the offsets read, or not at all.

    Parameters:
        settings: of the producer, with `transactional.id`.
        patience: seconds to wait for a broker that does not answer.
    """

    def __init__(self, settings: dict[str, Any], patience: float) -> None:
        self._settings, self._patience = settings, patience
        self._producer = self._start()

    def commit(
        self,
        records: Iterable[dict[str, Any]],
        offsets: list[TopicPartition],
        group: Any,
    ) -> None:
        """Commit everything in one transaction.

        Raises:
            Aborted: it had no effect.
            ConsumerStopped: it had no effect, and no later one can succeed.
        """
        producer, asked = self._producer, False
        try:
            producer.begin_transaction()
            for record in records:
                self._produce(producer, record)
            # The changelog must be written before the offsets are sent: then the partition's next
            # owner sees that this transaction is open, and waits for it.
            self._flush(producer)
            self._retry(producer.send_offsets_to_transaction, offsets, group, _CALL)
            asked = True
            self._retry(producer.commit_transaction, _CALL)
        except KafkaException as error:
            self._abort(error.args[0], asked)

    def restart(self) -> None:
        """Replace a producer that the broker has fenced."""
        try:
            self._producer = self._start()
        except KafkaException as error:
            self._stop(error.args[0].str(), fenced=False)

    def close(self) -> None:
        """Drop what is not committed."""
        self._producer.purge()

    def _start(self) -> Producer:
        producer = Producer(self._settings)
        self._retry(producer.init_transactions, _CALL)
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
                self._stop("the broker did not accept its records", fenced=False)

    def _retry(self, call: Callable[..., Any], *arguments: Any) -> None:
        deadline = time.monotonic() + self._patience
        while True:
            try:
                call(*arguments)
                return
            except KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() > deadline:
                    raise
                time.sleep(0.02)

    def _abort(self, error: KafkaError, asked: bool) -> None:
        if error.fatal():
            raise ConsumerStopped(
                f"the broker refuses this consumer's transactions ({error.str()}): another process "
                "has the same instance name, or the broker was unavailable for longer than a "
                "transaction may last; nothing was lost, start the consumer again",
                fenced=True,
            ) from None
        if error.txn_requires_abort() or error.code() in _NO_GROUP:
            try:
                self._retry(self._producer.abort_transaction, _CALL)
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
    """Whether this only means that the partition has no more records for now; reported once."""
    return bool(error.code() == KafkaError._PARTITION_EOF)


def raise_if_permanent(error: KafkaError) -> None:
    """Raise errors that need action; only log those that the client recovers from by itself."""
    if error.fatal():
        raise ConsumerStopped(
            f"this consumer was shut out of its group ({error.str()}): another process has the same "
            "instance name; nothing was lost, start the consumer again",
            fenced=True,
        )
    if error.code() == KafkaError._AUTO_OFFSET_RESET:
        raise InputError(
            f"the next message is no longer in the topic ({error.str()}): it was deleted before it was "
            "consumed; increase the topic's retention, and use another group to start over"
        )
    _LOG.info("the Kafka client reports: %s", error.str())
