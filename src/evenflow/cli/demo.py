"""`evenflow demo`: one skewed stream on Spark, by key grouping and by a better scheme."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenflow.cli.live_view import BatchesView, batches_view
from evenflow.cli.options import Json
from evenflow.cli.output_folder import make_writable
from evenflow.cli.terminal import cell, print_json, say, stdout, table_of
from evenflow.model.errors import InputError
from evenflow.model.validation import check_whole

if TYPE_CHECKING:
    from evenflow.metrics.measured_run import MeasuredRun
    from evenflow.spark.demo_job import DemoStream

_BASELINE = "key"
_PARTITIONS, _MESSAGES, _BATCHES, _ZIPF, _SERVICE = 16, 120_000, 8, 1.4, 1.0
_IDLE = 900  # seconds
_MOST_PARTITIONS = 256  #: each is a Python process
# On two cores, Java's optimizing compiler costs more than it gains within a minute.
_SETTINGS = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}

HOW_TO_READ = (
    "latency: from the start of a message's batch until it was processed. fullest ÷ average: the "
    "messages of the fullest partition in a batch, as a multiple of the average; the mean over all "
    "batches, and the worst. partitions per key: in how many partitions a key had messages in a "
    "batch (1 needs the least memory)."
)


def demo(
    out: Annotated[Path, typer.Option(help="Directory for the picture.")] = Path("out"),
    grouping: Annotated[
        str,
        typer.Option("--grouping", "-g", help="The scheme to compare with key grouping, or auto."),
    ] = "auto",
    partitions: Annotated[
        int, typer.Option(help="Number of partitions; their tasks sleep, so they need no cores.")
    ] = _PARTITIONS,
    messages: Annotated[int, typer.Option(help="Length of the stream.")] = _MESSAGES,
    batches: Annotated[int, typer.Option(help="Number of micro-batches.")] = _BATCHES,
    zipf: Annotated[float, typer.Option(help="Skew of the stream; 0 is uniform.")] = _ZIPF,
    service: Annotated[float, typer.Option(help="Milliseconds of work per message.")] = _SERVICE,
    seed: Annotated[int, typer.Option(help="Seed of the stream.")] = 1,
    serve: Annotated[
        bool,
        typer.Option("--serve", help="End with the address of the live page of both runs."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Run keyed work on a skewed stream on Spark, first by key grouping, then balanced.

    The stream is generated: its keys are Zipf-distributed, and its hot keys change half-way. Each
    partition is a Spark task that counts messages by key and sleeps for each of them, so two cores
    can stand in for many machines. Everything else is real work of Spark, and part of the measurement.
    """
    make_writable(out)
    stream = _check_options(grouping, partitions, messages, batches, zipf, service, seed)
    if serve and as_json:
        raise InputError("--serve prints an address and --json one document; give one of the two")
    folder = Path(tempfile.mkdtemp(prefix="evenflow-demo-"))
    try:
        with batches_view(quiet=as_json) as view:
            runs, agree = _run(view, folder, stream, grouping, partitions, service / 1000)
    finally:
        if not serve:
            shutil.rmtree(folder, ignore_errors=True)

    from evenflow.report import drawn
    from evenflow.report.demonstration import draw_runs

    title = (
        f"{messages:,} messages, {zipf:g}-Zipf keys, hot keys change half-way; {partitions} "
        f"partitions, {service:g} ms per message"
    )
    picture = drawn(lambda: draw_runs(runs, out / "demo.png", title, stream.changes_at))
    if as_json:
        print_json(
            {
                "partitions": partitions,
                "messages": messages,
                "zipf": zipf,
                "service_ms": service,
                "seed": seed,
                "cores": os.cpu_count(),
                "same_answer": agree,
                "runs": [run.to_dict() for run in runs],
                "settled": settled.to_dict() if (settled := runs[1].settled()) else None,
                "batches": {run.label: list(run.batches) for run in runs},
                "picture": picture and str(picture),
            }
        )
    else:
        _show(runs, agree, title, picture)
    if serve:
        serve_runs([f"{run.label}={folder / f'run-{i}'}" for i, run in enumerate(runs)])
    if not agree:
        raise typer.Exit(1)


def serve_runs(checkpoints: list[str]) -> None:
    """Serve the live page of some runs: until Ctrl-C on a terminal, elsewhere in the background, until
    nobody has looked at it for a quarter of an hour."""
    from evenflow.cli import dashboard

    if sys.stdout.isatty():
        dashboard.serve(dashboard.sources_of(checkpoints, []))
        return
    arguments = ["dashboard", *checkpoints, "--port", "0", "--idle", str(_IDLE), "--json"]
    process = subprocess.Popen(
        [sys.executable, "-m", "evenflow.cli", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        text=True,
    )
    assert process.stdout is not None
    with process.stdout as printed:
        answer = "".join(iter(printed.readline, "}\n"))
    say(stdout(), f"The page is at {json.loads(answer + '}')['url']}", "bold")
    say(
        stdout(),
        f"It ends after {_IDLE // 60} minutes without a visitor, or with kill {process.pid}.",
    )


def _check_options(
    grouping: str,
    partitions: int,
    messages: int,
    batches: int,
    zipf: float,
    service: float,
    seed: int,
) -> DemoStream:
    check_whole("partitions", partitions, least=1)
    if partitions > _MOST_PARTITIONS:
        raise InputError(
            f"got {partitions} partitions; each is a process: use at most {_MOST_PARTITIONS}"
        )
    if not (math.isfinite(service) and service >= 0):
        raise InputError(f"--service takes milliseconds of at least 0, got {service}")
    if grouping == _BASELINE:
        raise InputError("--grouping key is the baseline of the comparison; give another scheme")
    from evenflow.grouping import make
    from evenflow.spark.demo_job import DemoStream

    if grouping != "auto":
        make(grouping)
    return DemoStream(messages=messages, batches=batches, exponent=zipf, seed=seed)


def _run(
    view: BatchesView,
    folder: Path,
    stream: DemoStream,
    grouping: str,
    partitions: int,
    seconds: float,
) -> tuple[list[MeasuredRun], bool]:
    from evenflow.spark import demo_job
    from evenflow.spark.session import running_session

    view.doing("compiling the routers' kernels (seconds the first time, then cached)")
    demo_job.compile_kernels(grouping, partitions)
    view.doing(f"starting Spark with {partitions} partitions on {os.cpu_count()} cores")
    master = f"local[{partitions}]"
    with running_session(master, "evenflow demo", preload=True, **_SETTINGS) as spark:
        stream.write(folder / "stream")
        view.doing("warming up: Java's compiler, the tasks' Python processes")
        warm_up = demo_job.DemoStream(messages=partitions * 100, batches=2, exponent=0, keys=100)
        warm_up.write(folder / "warm-up")
        for name in (_BASELINE, "d-choices" if grouping == "auto" else grouping):
            demo_job.run_stream(
                spark, folder / "warm-up", folder / f"warm-{name}", name, partitions, 0.0
            )
        runs: list[MeasuredRun] = []
        answers = []
        for name in (_BASELINE, grouping):
            view.begin(name, stream.batches)
            run, answer = demo_job.run_stream(
                spark, folder / "stream", folder / f"run-{len(runs)}", name, partitions, seconds,
                view.show,
            )  # fmt: skip
            runs.append(run)
            answers.append(answer)
        view.doing("comparing the answers")
    return runs, all(demo_job.same_answer(stream, answer) for answer in answers)


def _show(runs: list[MeasuredRun], agree: bool, title: str, picture: Path | None) -> None:
    from evenflow.report import NO_PICTURE

    console = stdout()
    say(console, title, "bold")
    table = table_of(
        "grouping", "messages\nper second", "latency\np50", "p99", "fullest ÷\naverage",
        "worst\nbatch", "partitions\nper key", "seconds",
    )  # fmt: skip
    base, other = runs
    settled = other.settled()
    for run in (*runs, *([settled] if settled else ())):
        table.add_row(
            cell(run.label, "bold"),
            f"{run.throughput:,.0f}",
            _seconds(run.latency(0.5)),
            _seconds(run.latency(0.99)),
            f"{run.max_over_average:.2f}",
            f"{run.worst_max_over_average:.2f}",
            f"{run.replication:.2f}",
            f"{run.seconds:.1f}",
        )
    console.print(table)
    say(console, HOW_TO_READ)
    gains = [_gain(run, base) for run in (other, settled) if run is not None]
    say(console, f"Messages per second: {'; '.join(gains)}.", "bold")
    for reason in _reasons(other):
        say(console, reason)
    say(
        console,
        "Both runs give the counts and means that Arrow computes from the whole stream."
        if agree
        else "The answers differ from Arrow's: this is a bug; please report it.",
    )
    say(console, f"Picture: {picture}" if picture else NO_PICTURE, "bold")


def _gain(run: MeasuredRun, base: MeasuredRun) -> str:
    return f"{run.label}: {run.throughput / max(base.throughput, 1e-9):.1f} times {base.label}"


def _reasons(run: MeasuredRun) -> Iterator[str]:
    """The schemes that `auto` chose, and why."""
    last: Any = None
    for batch in run.batches:
        if batch["scheme"] != last and batch["reason"] != "asked for":
            yield f"Batch {batch['batch']}: {batch['scheme']}; {batch['reason']}."
        last = batch["scheme"]


def _seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f} s"
