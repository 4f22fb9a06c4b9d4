"""`evenflow consume`: a reference consumer that keeps each key's order."""

from __future__ import annotations

import logging
import signal
import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenflow.cli.terminal import note, print_json

if TYPE_CHECKING:
    from evenflow.kafka.consumer import OrderedConsumer

_TELL_EVERY = 5.0  # seconds
_STOPPED = 1


def consume(
    topic: Annotated[str, typer.Option(help="Written by `evenflow gateway`.")],
    bootstrap: Annotated[str, typer.Option(help="The broker's address, host:port.")],
    group: Annotated[str, typer.Option(help="Consumers of one group share the work.")] = "evenflow",
    output_topic: Annotated[
        str | None,
        typer.Option(help="Gets, for each message, its key's count so far and the message."),
    ] = None,
    service_time: Annotated[str, typer.Option(help="What a message takes: 2ms, 50us.")] = "0ms",
    instance: Annotated[
        str | None,
        typer.Option(
            help="A name that stays over restarts; partitions are then taken back at once."
        ),
    ] = None,
    buffer: Annotated[
        int, typer.Option(help="Messages of awaited keys held in a partition at most.")
    ] = 100_000,
    commit_interval: Annotated[
        str, typer.Option(help="Between two transactions, at most.")
    ] = "100ms",
    session_timeout: Annotated[
        str, typer.Option(help="After that, a silent consumer loses its partitions.")
    ] = "10s",
    seconds: Annotated[
        str | None, typer.Option("--for", help="Stop after this time: 30s, 5min.")
    ] = None,
    idle: Annotated[
        str | None,
        typer.Option(help="Stop when all was read, and nothing came or waited for this time: 5s."),
    ] = None,
    buffering: Annotated[bool, typer.Option("--buffering/--no-buffering", hidden=True)] = True,
    as_json: Annotated[bool, typer.Option("--json", help="JSON on standard output.")] = False,
) -> None:
    """Count each key's messages, in the order sent, exactly once, until Ctrl-C.

    Start as many as there are partitions, at most. Messages of a key that moved wait until the
    partition that it came from is done with it. Counts are the group's: whoever gets a partition
    goes on where the last one committed. Exit code 1 if the consumer cannot go on and should be
    started again.
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
        settings=(("log_level", 2),),  # what the client complains of, this program says itself
    )
    limit = None if seconds is None else in_seconds("--for", seconds)
    longest_idle = None if idle is None else in_seconds("--idle", idle)
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(message)s")
    handler = CountPerKey(in_seconds("--service-time", service_time, least=0))
    consumer = OrderedConsumer(config, handler, buffering=buffering)

    def stop(sign: int, frame: FrameType | None) -> None:
        consumer.stop()

    previous = {sign: signal.signal(sign, stop) for sign in (signal.SIGINT, signal.SIGTERM)}
    watch = _Watch(consumer, longest_idle, quiet=as_json)
    start = time.monotonic()
    try:
        consumer.run(limit, watch.look)
    except ConsumerStopped as error:
        note(str(error))
        raise typer.Exit(_STOPPED) from None
    finally:
        for sign, before in previous.items():
            signal.signal(sign, before)
    taken = time.monotonic() - start
    if as_json:
        print_json({"topic": topic, "group": group, "seconds": taken, **vars(consumer.counts)})
    else:
        print(_line(consumer.counts, taken))


class _Watch:
    """Tells how it goes every few seconds, and whether nothing has come for too long."""

    def __init__(
        self,
        consumer: OrderedConsumer,
        longest_idle: float | None,
        quiet: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._consumer, self._longest_idle, self._quiet = consumer, longest_idle, quiet
        self._clock = clock
        self._told = self._last = clock()
        self._processed = 0

    def look(self) -> bool:
        now, counts = self._clock(), self._consumer.counts
        if not self._quiet and now - self._told >= _TELL_EVERY:
            note(
                f"partitions {self._consumer.owned}: {_line(counts, None)}, {self._consumer.held} "
                "waiting"
            )
            self._told = now
        if counts.processed != self._processed or not self._consumer.at_end:
            self._processed, self._last = counts.processed, now
        return self._longest_idle is not None and now - self._last >= self._longest_idle


def _line(counts: Any, taken: float | None) -> str:
    rate = "" if not taken else f" in {taken:.1f} s"
    return (
        f"{counts.processed:,} messages{rate}, {counts.keys_received:,} keys came and "
        f"{counts.keys_sent:,} went, {counts.duplicates:,} records read twice and dropped"
    )


def in_seconds(option: str, text: str, least: int = 1) -> float:
    """A duration given to an option: 2ms, 10s, "1 minute"."""
    from evenflow.model.durations import microseconds

    return microseconds(option, _spelled(text), least) / 1e6


def _spelled(text: str) -> str:
    """Short units as people type them, in the words that Spark knows.

    Example:
        >>> _spelled("2ms"), _spelled("10 s"), _spelled("1 minute")
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
