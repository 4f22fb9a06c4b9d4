"""`evenflow consume`: a reference consumer that keeps each key's order."""

from __future__ import annotations

import logging
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenflow.cli.terminal import note, print_json

if TYPE_CHECKING:
    from evenflow.kafka.consumer import OrderedConsumer

_REPORT_INTERVAL = 5.0  # seconds
_STOPPED = 1


def consume(
    topic: Annotated[str, typer.Option(help="Written by `evenflow gateway`.")],
    bootstrap: Annotated[str, typer.Option(help="The broker's address, host:port.")],
    group: Annotated[str, typer.Option(help="Consumers of one group share the work.")] = "evenflow",
    output_topic: Annotated[
        str | None,
        typer.Option(help="Receives, for each message, its key's count so far and the message."),
    ] = None,
    service_time: Annotated[str, typer.Option(help="Time per message: 2ms, 50us.")] = "0ms",
    instance: Annotated[
        str | None,
        typer.Option(help="A name kept over restarts; the partitions are then taken back at once."),
    ] = None,
    buffer: Annotated[int, typer.Option(help="Maximum waiting messages per partition.")] = 100_000,
    commit_interval: Annotated[
        str, typer.Option(help="Maximum time between two transactions.")
    ] = "100ms",
    session_timeout: Annotated[
        str, typer.Option(help="A consumer silent for this long loses its partitions.")
    ] = "10s",
    seconds: Annotated[
        str | None, typer.Option("--for", help="Stop after this time: 30s, 5min.")
    ] = None,
    idle: Annotated[
        str | None,
        typer.Option(help="Stop when everything was read and nothing arrived for this time: 5s."),
    ] = None,
    buffering: Annotated[bool, typer.Option("--buffering/--no-buffering", hidden=True)] = True,
    as_json: Annotated[bool, typer.Option("--json", help="JSON on standard output.")] = False,
) -> None:
    """Count each key's messages, in the order sent, exactly once, until Ctrl-C.

    Start at most as many consumers as there are partitions. Messages of a key that moved wait until
    its old partition is done with it. Counts belong to the group: a partition's new owner continues
    where the last one committed. Exit code 1 if the consumer cannot continue and should be restarted.
    """
    from evenflow.kafka.consumer import ConsumerConfig, ConsumerStopped, OrderedConsumer
    from evenflow.kafka.consumer_reference import CountPerKey

    config = ConsumerConfig(
        bootstrap=bootstrap,
        topic=topic,
        group=group,
        output_topic=output_topic,
        instance=instance,
        commit_interval=in_seconds("--commit-interval", commit_interval),
        buffer=buffer,
        session_timeout=in_seconds("--session-timeout", session_timeout),
        settings=(("log_level", 2),),  # this program reports the client's errors itself
    )
    limit = None if seconds is None else in_seconds("--for", seconds)
    longest_idle = None if idle is None else in_seconds("--idle", idle)
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(message)s")
    handler = CountPerKey(in_seconds("--service-time", service_time, least=0))
    consumer = OrderedConsumer(config, handler, buffering=buffering)
    watch = _Watch(consumer, longest_idle, quiet=as_json)
    start = time.monotonic()
    try:
        with interrupts() as interrupted:
            consumer.run(limit, lambda: interrupted.is_set() or watch.look())
    except ConsumerStopped as error:
        note(str(error))
        raise typer.Exit(_STOPPED) from None
    taken = time.monotonic() - start
    if as_json:
        print_json({"topic": topic, "group": group, "seconds": taken, **vars(consumer.counts)})
    else:
        print(_line(consumer.counts, taken))


class _Watch:
    """Reports progress every few seconds, and whether nothing has arrived for too long."""

    def __init__(
        self,
        consumer: OrderedConsumer,
        longest_idle: float | None,
        quiet: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._consumer, self._longest_idle, self._quiet = consumer, longest_idle, quiet
        self._clock = clock
        self._reported = self._last = clock()
        self._processed = 0

    def look(self) -> bool:
        now, counts = self._clock(), self._consumer.counts
        if not self._quiet and now - self._reported >= _REPORT_INTERVAL:
            note(
                f"partitions {self._consumer.owned}: {_line(counts, None)}, {self._consumer.held} "
                "waiting"
            )
            self._reported = now
        if counts.processed != self._processed or not self._consumer.at_end:
            self._processed, self._last = counts.processed, now
        return self._longest_idle is not None and now - self._last >= self._longest_idle


def _line(counts: Any, taken: float | None) -> str:
    rate = "" if not taken else f" in {taken:.1f} s"
    return (
        f"{counts.processed:,} messages{rate}, {counts.keys_received:,} keys received and "
        f"{counts.keys_sent:,} sent, {counts.duplicates:,} duplicates dropped"
    )


@contextmanager
def interrupts() -> Iterator[threading.Event]:
    """An event that Ctrl-C and SIGTERM set; a second Ctrl-C raises KeyboardInterrupt."""
    pressed = threading.Event()

    def press(*_: object) -> None:
        if pressed.is_set():
            raise KeyboardInterrupt
        pressed.set()

    if threading.current_thread() is not threading.main_thread():
        yield pressed
        return
    before = {sign: signal.signal(sign, press) for sign in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield pressed
    finally:
        for sign, handler in before.items():
            signal.signal(sign, handler)


def in_seconds(option: str, text: str, least: int = 1) -> float:
    """The seconds of a duration option: 2ms, 10s, "1 minute"."""
    from evenflow.model.durations import microseconds

    return microseconds(option, _spell_out(text), least) / 1e6


def _spell_out(text: str) -> str:
    """Spell out short units in the words that Spark knows.

    Example:
        >>> _spell_out("2ms"), _spell_out("10 s"), _spell_out("1 minute")
        ('2 milliseconds', '10 seconds', '1 minute')
    """
    units = {
        "us": "microseconds",
        "µs": "microseconds",
        "ms": "milliseconds",
        "s": "seconds",
        "min": "minutes",
        "h": "hours",
    }
    stripped = text.strip()
    number = stripped.rstrip("abcdefghijklmnopqrstuvwxyzµ")
    unit = stripped[len(number) :]
    return f"{number.strip()} {units[unit]}" if unit in units else text
