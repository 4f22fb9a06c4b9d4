"""`evenflow gateway`: a stream to a Kafka topic, with hot keys spread over its partitions."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from evenflow.cli.terminal import note, progress
from evenflow.model.errors import InputError

# What Spark would log, stack traces and all, is told in one line where it is a user's mistake.
# Without a broker a batch would otherwise not let itself be stopped for many minutes.
_SETTINGS = {
    "spark.log.level": "FATAL",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stopTimeout": "20s",
}
_POLL = 0.2  # seconds between two looks whether it is time to stop
_FAILED = 1


def gateway(
    source: Annotated[
        str, typer.Option("--from", help="A topic, or a directory of Parquet, JSON or CSV files.")
    ],
    topic: Annotated[str, typer.Option("--to", help="The topic to write to.")],
    bootstrap: Annotated[str, typer.Option(help="The broker's address, host:port.")],
    checkpoint: Annotated[
        Path, typer.Option(help="Directory of the state; a second run goes on there.")
    ],
    partitions: Annotated[
        int | None, typer.Option(min=1, help="Of --to, which is made if it is not there.")
    ] = None,
    threshold: Annotated[
        float, typer.Option(help="The share of a window's messages that makes a key hot.")
    ] = 0.001,
    least: Annotated[
        int, typer.Option(min=1, help="Messages in a window that a hot key has at least.")
    ] = 1,
    cooling: Annotated[
        float, typer.Option(help="A hot key stays hot above this part of the threshold.")
    ] = 1.0,
    decision_interval: Annotated[
        str, typer.Option(help="Between two decisions on which keys move: 10s, 1min.")
    ] = "10s",
    window: Annotated[
        str | None,
        typer.Option(help="In which keys are counted; the decision interval if not given."),
    ] = None,
    gateways: Annotated[
        int, typer.Option(min=1, help="How many gateways share the stream, each with its keys.")
    ] = 1,
    gateway_index: Annotated[int, typer.Option(min=0, help="Which of them this is, from 0.")] = 0,
    key: Annotated[str | None, typer.Option(metavar="COLUMN", help="Files: the key.")] = None,
    value: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Files: the value; the row as JSON if not given."),
    ] = None,
    order: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Files: what rows are ordered by. May be repeated."),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Take what there is and end.")] = False,
    seconds: Annotated[
        str | None, typer.Option("--for", help="Stop after this time: 30s, 5min.")
    ] = None,
    most_per_batch: Annotated[
        int | None, typer.Option(min=1, help="Messages, or files, in a batch.")
    ] = None,
    compression: Annotated[
        str | None, typer.Option(help="Of what is written: lz4, snappy, gzip, zstd.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the hash functions.")] = 0,
    master: Annotated[
        str | None, typer.Option(help="Spark's master; this machine's cores if not given.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="A line of JSON for each batch on standard output.")
    ] = False,
) -> None:
    """Write a stream to a Kafka topic: hot keys where they balance, all others by hash.

    Keys that have become hot, and that the load makes move, are announced by markers, so that
    `evenflow consume` restores every key's order. A gateway that is killed goes on from its
    checkpoint; what it then writes twice is known by its position and dropped by the consumer.

    Runs until Ctrl-C, or as --once and --for say. Exit code 1 if it stopped by an error.

    \b
    Examples:
      evenflow gateway --from clicks --to balanced --partitions 12 --bootstrap localhost:9092 \\
          --checkpoint state/gateway
      evenflow gateway --from files/ --key page --order time --to balanced --once \\
          --bootstrap localhost:9092 --checkpoint state/files
    """
    if once and seconds is not None:
        raise InputError("give --once or --for, not both")
    interval = _seconds("--decision-interval", decision_interval)
    counting = None if window is None else _seconds("--window", window)
    limit = None if seconds is None else _seconds("--for", seconds)
    from evenflow.kafka.gateway_job import GatewayJob, connected_session, make_gateway, stopped
    from evenflow.spark.query import QueryFailed

    job = GatewayJob(
        source, bootstrap, topic, partitions, key, value, tuple(order or ()), most_per_batch
    )
    found = job.ready()
    made = make_gateway(
        job,
        found,
        threshold=threshold,
        interval=interval,
        window=counting,
        gateways=gateways,
        index=gateway_index,
        seed=seed,
        cooling=cooling,
        least=least,
        options={} if compression is None else {"kafka.compression.type": compression},
    )
    with progress("gateway", quiet=as_json) as report:
        report("starting Spark", 0, None)
        opened = connected_session(master, _SETTINGS)
        spark = opened.__enter__()
    try:
        with _interrupts() as interrupted:
            end = None if limit is None else time.monotonic() + limit
            query = job.start(
                spark,
                made,
                checkpoint,
                once=once,
                on_batch=_tell_json if as_json else _tell,
            )
            while not query.awaitTermination(_POLL):
                if interrupted.is_set() or (end is not None and time.monotonic() > end):
                    if not stopped(query):
                        note("the batch under way did not end; the next run does it again")
                    break
    except QueryFailed as error:
        note(f"error: the gateway has stopped: {error}")
        raise typer.Exit(_FAILED) from None
    finally:
        opened.__exit__(None, None, None)


def _tell_json(metrics: Mapping[str, Any]) -> None:
    print(json.dumps(metrics, allow_nan=False), flush=True)


def _tell(metrics: Mapping[str, Any]) -> None:
    print(batch_line(metrics), flush=True)


def batch_line(metrics: Mapping[str, Any]) -> str:
    """One batch in one line.

    Example:
        >>> print(batch_line({"batch": 3, "rows": 1000, "moves": 2, "hot_keys": 7,
        ...                   "durations": {"messages": 0.5}, "sizes": [30.0, 10.0]}))
        batch 3: 1,000 messages in 0.5 s (2,000 a second); 7 hot keys, 2 moved; fullest 1.50 × average
    """
    seconds = sum(metrics["durations"].values())
    rate = metrics["rows"] / seconds if seconds else 0
    told = (
        f"batch {metrics['batch']}: {metrics['rows']:,} messages in {seconds:.1f} s ({rate:,.0f} a "
        f"second); {metrics['hot_keys']} hot keys, {metrics['moves']} moved"
    )
    sizes = metrics["sizes"]
    if not sum(sizes):
        return told
    return f"{told}; fullest {max(sizes) * len(sizes) / sum(sizes):.2f} × average"


@contextmanager
def _interrupts() -> Iterator[threading.Event]:
    """An event that Ctrl-C and SIGTERM set; a second Ctrl-C is an exception."""
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


def _seconds(option: str, text: str) -> float:
    from evenflow.cli.consume import _spelled
    from evenflow.model.durations import microseconds

    return microseconds(option, _spelled(text)) / 1e6
