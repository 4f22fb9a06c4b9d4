"""`evenflow run`: keyed aggregates of your own files on Spark, as a batch or as a stream."""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenflow.cli.live_view import batches_view
from evenflow.cli.options import Json, StorageOptions, storage_options_in
from evenflow.cli.terminal import note, print_json, progress, say, stdout
from evenflow.model.errors import InputError
from evenflow.model.plan import AUTO

if TYPE_CHECKING:
    from evenflow.operators import Aggregate
    from evenflow.spark.file_job import FileJob

_TIME = re.compile(r"\s*\d+\s*(milli|micro)?(second|minute|hour|day)s?\s*", re.IGNORECASE)
# Report a user's mistake in one line, without the stack traces that Spark would log.
_SETTINGS = {"spark.log.level": "FATAL"}
_POLL = 0.5  #: seconds between checks for Ctrl-C


def run(
    source: Annotated[
        str,
        typer.Option(
            "--input",
            help="A Parquet, CSV or JSON lines file, or a directory of such files; a path or URI, as "
            "--output and --checkpoint.",
        ),
    ],
    key: Annotated[
        list[str], typer.Option(metavar="COLUMN", help="Key column; repeat it for a compound key.")
    ],
    output: Annotated[str, typer.Option(help="Directory for the result, as Parquet files.")],
    aggregate: Annotated[
        list[str],
        typer.Option(
            metavar="WHAT",
            help="What to compute for each key: count, count:COL, sum:COL, mean:COL, min:COL, max:COL, "
            "distinct:COL, quantiles:COL:0.5,0.99, top_k:COL:3, approx_distinct:COL, "
            "approx_top_k:COL:3, max_by:COL:ORD, and stddev, collect_set, first, mode and the other "
            "aggregates by their names; NAME=… names the column. May be repeated.",
        ),
    ],
    grouping: Annotated[
        str,
        typer.Option("--grouping", "-g", help="A scheme (see evenflow schemes), or auto."),
    ] = "auto",
    partitions: Annotated[
        str | None,
        typer.Option(
            metavar="N",
            help="Number of partitions; as many as cores if not given. Stream: auto for as many as the "
            "load calls for, auto:least=2,most=64 within limits.",
        ),
    ] = None,
    stream: Annotated[
        bool,
        typer.Option("--stream", help="Treat --input as a stream of files; needs --checkpoint."),
    ] = False,
    checkpoint: Annotated[
        str | None,
        typer.Option(help="Stream: where the state is kept; another run continues from it."),
    ] = None,
    trigger: Annotated[
        str | None,
        typer.Option(
            help="Stream: look for new files at this interval ('5 seconds') until Ctrl-C; if not "
            "given, process the files that are there and stop."
        ),
    ] = None,
    files_per_batch: Annotated[
        int | None, typer.Option(help="Stream: maximum number of new files per batch.")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Delete the contents of --output first.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of the hash functions.")] = 0,
    master: Annotated[
        str | None, typer.Option(help="Spark's master; this machine's cores if not given.")
    ] = None,
    storage_option: StorageOptions = None,
    as_json: Json = False,
) -> None:
    """Compute aggregates by key on Spark, with the keys balanced over the partitions.

    The result is that of Spark's groupBy, one row per key. As a stream, every batch adds a directory
    batch=N with a row for each key that it updated, exactly once, even if the program is killed.

    For a batch, Spark's own groupBy is as good: it combines rows before it shuffles them. Balancing
    pays off for streams with state, and for work of your own.

    \b
    Examples:
      evenflow run --input clicks.parquet --key page --aggregate count --output hits
      evenflow run --input logs/ --key user --key page --aggregate n=count \\
          --aggregate mean:ms --aggregate quantiles:ms:0.5,0.99 --output stats --partitions 8
      evenflow run --input incoming/ --key page --aggregate count --output hits \\
          --stream --checkpoint state --trigger '5 seconds'
      evenflow run --input s3://bucket/incoming --key page --aggregate count \\
          --output s3://bucket/hits --stream --checkpoint s3://bucket/state
    """
    _check_options(stream, checkpoint, trigger, files_per_batch)
    aggregates = _aggregates(aggregate)
    size = _partitions(partitions, stream)
    if len(set(key)) < len(key):
        raise InputError(f"--key names a column twice: {', '.join(key)}; once is enough")
    options = storage_options_in(storage_option)
    from evenflow.spark.file_job import FileJob
    from evenflow.spark.locations import is_local

    def job_on(spark: Any = None) -> FileJob:
        return FileJob(source, tuple(key), aggregates, grouping, size, seed, options, spark)

    job = None
    if all(is_local(place) for place in (source, output, checkpoint) if place is not None):
        job = job_on()
        job.check(output, checkpoint, overwrite)
    from evenflow.spark.session import running_session

    with running_session(master, "evenflow run", preload=True, **_SETTINGS) as spark:
        # How to reach a store may be in Spark's own configuration.
        job = job or job_on(spark)
        if checkpoint is None:
            with progress("run", quiet=as_json) as report:
                report(f"reading {source}", 0, None)
                summary = job.compute(spark, output, overwrite=overwrite)
        else:
            summary = _stream(
                job, spark, output, checkpoint, trigger, files_per_batch, overwrite, as_json
            )
    if as_json:
        print_json(summary)
    elif checkpoint is None:
        _show_batch(summary)
    else:
        _show_stream(summary)


def _check_options(
    stream: bool, checkpoint: str | None, trigger: str | None, files_per_batch: int | None
) -> None:
    if stream and checkpoint is None:
        raise InputError("--stream needs --checkpoint, where the state is kept")
    for option, value in (
        ("--checkpoint", checkpoint),
        ("--trigger", trigger),
        ("--files-per-batch", files_per_batch),
    ):
        if value is not None and not stream:
            raise InputError(f"{option} {str(value)!r} is for streams; add --stream")
    if trigger is not None and not _TIME.fullmatch(trigger):
        raise InputError(
            f"--trigger takes an interval such as '5 seconds' or '1 minute', got {trigger!r}"
        )
    if files_per_batch is not None and files_per_batch < 1:
        raise InputError(f"--files-per-batch must be at least 1, got {files_per_batch}")


def _partitions(text: str | None, stream: bool) -> int | str | None:
    """The number of partitions, or how a stream chooses it."""
    if text is None:
        return None
    try:
        return int(text)
    except ValueError:
        pass
    if text.partition(":")[0].strip() != AUTO:
        raise InputError(f"--partitions takes a whole number or auto, got {text!r}")
    if not stream:
        raise InputError(f"--partitions {text!r} is for streams; add --stream, or give a number")
    return text


def _aggregates(specs: list[str]) -> dict[str, Aggregate]:
    from evenflow.operators import parse_aggregate

    found: dict[str, Aggregate] = {}
    for spec in specs:
        name, one = parse_aggregate(spec)
        if name in found:
            raise InputError(
                f"two aggregates have the column name {name!r}; rename one, as in other={spec}"
            )
        found[name] = one
    return found


def _stream(
    job: FileJob,
    spark: Any,
    output: str,
    checkpoint: str,
    trigger: str | None,
    files_per_batch: int | None,
    overwrite: bool,
    as_json: bool,
) -> dict[str, Any]:
    from evenflow.metrics.measured_run import MeasuredRun
    from evenflow.spark.file_job import explained

    done: list[Mapping[str, Any]] = []
    with batches_view(quiet=as_json) as view, _interrupts() as interrupted:
        view.begin(job.path)

        def on_batch(metrics: Mapping[str, Any]) -> None:
            done.append(metrics)
            view.show(metrics)

        query = job.start(
            spark,
            output,
            checkpoint,
            every=trigger,
            files_per_batch=files_per_batch,
            on_batch=on_batch,
            overwrite=overwrite,
        )
        with explained(), query:
            while not query.awaitTermination(_POLL):
                if interrupted.is_set():
                    note("stopping after the batch in progress; Ctrl-C again to stop at once")
                    query.stop()
                    break
    measured = MeasuredRun(job.grouping, tuple(done))
    return {
        "input": job.path,
        "format": job.kind,
        "output": output,
        "checkpoint": checkpoint,
        "interrupted": interrupted.is_set(),
        **measured.to_dict(),
        "scheme": done[-1]["scheme"] if done else None,
        "reason": done[-1]["reason"] if done else None,
        "metrics": done,
    }


@contextmanager
def _interrupts() -> Iterator[threading.Event]:
    """An event that Ctrl-C sets, instead of raising in the middle of a batch."""
    pressed = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield pressed
        return

    def press(*_: object) -> None:
        if pressed.is_set():
            raise KeyboardInterrupt
        pressed.set()

    before = signal.signal(signal.SIGINT, press)
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, before)


def _show_batch(summary: Mapping[str, Any]) -> None:
    console = stdout()
    say(
        console,
        f"{summary['rows']:,} rows, {summary['keys']:,} keys in {summary['seconds']:.1f} s",
        "bold",
    )
    say(console, f"{summary['scheme']}: {summary['reason']}")
    say(console, _evenness(summary, f"{summary['partitions']} partitions"))
    say(console, f"Result: {summary['output']}", "bold")


def _show_stream(summary: Mapping[str, Any]) -> None:
    console = stdout()
    if not summary["batches"]:
        say(console, f"Nothing new in {summary['input']}: everything has been processed.", "bold")
        return
    say(
        console,
        f"{summary['rows']:,} rows in {summary['batches']} batches, {summary['seconds']:.1f} s "
        f"({summary['rows_per_second']:,.0f} rows per second)",
        "bold",
    )
    say(console, f"{' → '.join(summary['schemes'])}: {summary['reason']}")
    say(console, _evenness(summary, "the partitions"))
    say(console, f"Result: {summary['output']}; state: {summary['checkpoint']}", "bold")


def _evenness(summary: Mapping[str, Any], partitions: str) -> str:
    return (
        f"The fullest of {partitions} had {summary['max_over_average']:.2f} times the average "
        f"(imbalance {summary['imbalance']:.2g})."
    )
