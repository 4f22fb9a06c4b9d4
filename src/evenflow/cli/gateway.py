"""`evenflow gateway`: a stream to a Kafka topic, with hot keys spread over its partitions."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from evenflow.cli.consume import in_seconds, interrupts
from evenflow.cli.options import StorageOptions, storage_options_in
from evenflow.cli.terminal import note, progress
from evenflow.model.errors import InputError

# Errors of the user are reported in one line instead of Spark's log with its stack traces.
# Without a stop timeout, a batch that waits for a broker could not be stopped for many minutes.
_SETTINGS = {
    "spark.log.level": "FATAL",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stopTimeout": "20s",
}
_POLL = 0.2  # seconds between two checks whether to stop
_FAILED = 1


def gateway(
    source: Annotated[
        str,
        typer.Option(
            "--from",
            help="A topic, several separated by commas, or a directory of Parquet, JSON or CSV files.",
        ),
    ],
    topic: Annotated[str, typer.Option("--to", help="The topic to write to.")],
    bootstrap: Annotated[str, typer.Option(help="The broker's address, host:port.")],
    checkpoint: Annotated[
        str, typer.Option(help="Where the state is kept; a second run continues from it.")
    ],
    partitions: Annotated[
        int | None, typer.Option(min=1, help="Of --to, which is created if it does not exist.")
    ] = None,
    threshold: Annotated[
        float, typer.Option(help="The share of a window's messages that makes a key hot.")
    ] = 0.001,
    least: Annotated[
        int, typer.Option(min=1, help="Minimum messages of a hot key per window.")
    ] = 1,
    cooling: Annotated[
        float, typer.Option(help="A hot key stays hot above this part of the threshold.")
    ] = 1.0,
    decision_interval: Annotated[
        str, typer.Option(help="Time between two decisions on moves: 10s, 1min.")
    ] = "10s",
    window: Annotated[
        str | None,
        typer.Option(help="Time in which keys are counted; the decision interval by default."),
    ] = None,
    gateways: Annotated[
        int, typer.Option(min=1, help="Number of gateways that share the stream.")
    ] = 1,
    gateway_index: Annotated[
        int, typer.Option(min=0, help="The number of this gateway, from 0.")
    ] = 0,
    key: Annotated[str | None, typer.Option(metavar="COLUMN", help="Files: the key.")] = None,
    value: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Files: the value; the row as JSON by default."),
    ] = None,
    order: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Files: orders the rows. May be repeated."),
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="Process the available data and exit.")
    ] = False,
    seconds: Annotated[
        str | None, typer.Option("--for", help="Stop after this time: 30s, 5min.")
    ] = None,
    most_per_batch: Annotated[
        int | None, typer.Option(min=1, help="Maximum messages, or files, per batch.")
    ] = None,
    compression: Annotated[
        str | None, typer.Option(help="Of the messages: lz4, snappy, gzip, zstd.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the hash functions.")] = 0,
    master: Annotated[
        str | None, typer.Option(help="Spark's master; this machine's cores by default.")
    ] = None,
    storage_option: StorageOptions = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One line of JSON per batch on standard output.")
    ] = False,
) -> None:
    """Write a stream to a Kafka topic: balance hot keys over partitions, hash all others.

    Markers announce every move of a hot key, so that `evenflow consume` restores the order of each key.
    A killed gateway continues from its checkpoint; the consumer drops what is then written twice.

    Runs until Ctrl-C, or as --once and --for say. Exit code 1 if it stopped with an error.

    \b
    Examples:
      evenflow gateway --from clicks --to balanced --partitions 12 --bootstrap localhost:9092 \\
          --checkpoint state/gateway
      evenflow gateway --from files/ --key page --order time --to balanced --once \\
          --bootstrap localhost:9092 --checkpoint state/files
    """
    if once and seconds is not None:
        raise InputError("give --once or --for, not both")
    interval = in_seconds("--decision-interval", decision_interval)
    counting = None if window is None else in_seconds("--window", window)
    limit = None if seconds is None else in_seconds("--for", seconds)
    store = storage_options_in(storage_option)
    from evenflow.kafka.gateway import Gateway
    from evenflow.kafka.gateway_job import GatewayJob, connected_session, stop_query
    from evenflow.planning.hot_keys import HotKeys
    from evenflow.spark.query import QueryFailed

    job = GatewayJob(
        source, bootstrap, topic, partitions, key, value, tuple(order or ()), most_per_batch
    )
    policy = HotKeys(
        job.prepare(),
        threshold=threshold,
        least=least,
        cooling=cooling,
        window_seconds=interval if counting is None else counting,
        seed=seed,
    )
    options = {} if compression is None else {"kafka.compression.type": compression}
    writer = Gateway(bootstrap, topic, policy, interval, counting, gateways, gateway_index, options)
    with progress("gateway", quiet=as_json) as report:
        report("starting Spark", 0, None)
        opened = connected_session(master, _SETTINGS)
        spark = opened.__enter__()
    try:
        with interrupts() as interrupted:
            end = None if limit is None else time.monotonic() + limit
            report_batch = _print_json if as_json else _print_line
            query = job.start(
                spark,
                writer,
                checkpoint,
                once=once,
                on_batch=report_batch,
                storage_options=store,
            )
            while not query.awaitTermination(_POLL):
                if interrupted.is_set() or (end is not None and time.monotonic() > end):
                    if not stop_query(query):
                        note("the current batch did not end; the next run repeats it")
                    break
    except QueryFailed as error:
        note(f"error: the gateway has stopped: {error}")
        raise typer.Exit(_FAILED) from None
    finally:
        opened.__exit__(None, None, None)


def _print_json(metrics: Mapping[str, Any]) -> None:
    print(json.dumps(metrics, allow_nan=False), flush=True)


def _print_line(metrics: Mapping[str, Any]) -> None:
    print(batch_line(metrics), flush=True)


def batch_line(metrics: Mapping[str, Any]) -> str:
    """One batch in one line.

    Example:
        >>> print(batch_line({"batch": 3, "rows": 1000, "moves": 2, "hot_keys": 7,
        ...                   "durations": {"messages": 0.5}, "sizes": [30.0, 10.0]}))
        batch 3: 1,000 messages in 0.5 s (2,000 per second); 7 hot keys, 2 moved; fullest 1.50 × average
    """
    seconds = sum(metrics["durations"].values())
    rate = metrics["rows"] / seconds if seconds else 0
    line = (
        f"batch {metrics['batch']}: {metrics['rows']:,} messages in {seconds:.1f} s ({rate:,.0f} per "
        f"second); {metrics['hot_keys']} hot keys, {metrics['moves']} moved"
    )
    sizes = metrics["sizes"]
    if not sum(sizes):
        return line
    return f"{line}; fullest {max(sizes) * len(sizes) / sum(sizes):.2f} × average"
