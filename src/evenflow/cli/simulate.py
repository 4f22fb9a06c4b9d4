"""`evenflow simulate`: a stream through one, several or all schemes, or under a planner."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from evenflow.cli.options import Json, Weights, numbers_in
from evenflow.cli.terminal import note, print_json, progress, say, stdout
from evenflow.model.errors import InputError

if TYPE_CHECKING:
    from evenflow.grouping import GroupingScheme
    from evenflow.model import Workers
    from evenflow.simulator import QueueResult, Result
    from evenflow.simulator.workloads import Workload

T = TypeVar("T")
Chosen = Sequence[tuple[str, "GroupingScheme"]]

# Refuse a typing error at once instead of filling the memory first.
_MOST_WORKERS = 1_000_000
_MOST_STATES = 100_000_000  #: workers × sources

_WORKERS, _SOURCES, _ZIPF, _KEYS, _MESSAGES = 50, 5, 1.4, 10_000, 1_000_000


def simulate(
    grouping: Annotated[
        list[str] | None,
        typer.Option(
            "--grouping",
            "-g",
            help="A scheme, with parameters after a colon (greedy-d:d=5); may be repeated; "
            "'all' for all of them, which is the default.",
        ),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help=f"Number of workers; {_WORKERS} if not given.")
    ] = None,
    sources: Annotated[
        int | None,
        typer.Option(help=f"Number of sources that route the stream; {_SOURCES} if not given."),
    ] = None,
    zipf: Annotated[
        float | None, typer.Option(help=f"Skew of a synthetic stream; {_ZIPF} if not given.")
    ] = None,
    keys: Annotated[
        int | None, typer.Option(help=f"Keys of a synthetic stream; {_KEYS} if not given.")
    ] = None,
    messages: Annotated[
        int | None,
        typer.Option(
            help=f"Length of a synthetic stream, {_MESSAGES} if not given; "
            "of a file, the rows to read."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the stream and the hash functions.")] = 0,
    drift: Annotated[
        int | None, typer.Option(help="Permute the keys after every DRIFT messages.")
    ] = None,
    source_file: Annotated[
        Path | None,
        typer.Option(
            "--input",
            help="Read the keys from a Parquet, CSV or JSON lines file, or a directory of such files.",
        ),
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option("--key", help="Key column of --input; repeat it for a compound key."),
    ] = None,
    weights: Weights = None,
    loads: Annotated[bool, typer.Option("--loads", help="JSON: messages of each worker.")] = False,
    capacity: Annotated[
        float | None,
        typer.Option(
            help="Queues: the utilisation of equal machines under shuffle, which sets the workers' "
            "capacities; 0.8 if not given."
        ),
    ] = None,
    heterogeneity: Annotated[
        str | None,
        typer.Option(help="Queues: 3,5 makes 3 machines 5 times stronger, same total capacity."),
    ] = None,
    change_at: Annotated[
        list[str] | None,
        typer.Option(
            help="Queues: 600000:5,4 changes the heterogeneity after 600000 messages; may be repeated."
        ),
    ] = None,
    virtual_workers: Annotated[
        int | None,
        typer.Option(help="Virtual workers per worker, for schemes that have them (consistent)."),
    ] = None,
    arrivals: Annotated[
        str | None, typer.Option(help="Queues: constant (the default), hourly or bursts.")
    ] = None,
    slots: Annotated[
        int | None,
        typer.Option(
            help="Queues: time slots after which workers report their load; "
            "one per 1000 messages per worker if not given."
        ),
    ] = None,
    timeline: Annotated[
        bool,
        typer.Option("--timeline", help="JSON: imbalance over time. Queues: every time slot."),
    ] = False,
    replan: Annotated[
        str | None,
        typer.Option(
            metavar="PLANNER",
            help="Route by a table that this planner (see evenflow plan --list) replans between "
            "batches, and report every batch.",
        ),
    ] = None,
    theta: Annotated[
        float | None,
        typer.Option(help="Replan: tolerated load above a worker's share; 0.08 if not given."),
    ] = None,
    batch: Annotated[
        int | None, typer.Option(help="Replan: messages per batch; 20000 if not given.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Route a stream from several sources; report imbalance, replication and time.

    The options marked "Queues" give workers capacities and queues, in virtual time. With --replan,
    the engine itself counts the stream batch by batch in this process, as it would on Spark.
    With --json, one scheme gives an object; several give a list of objects.
    """
    from evenflow import simulator
    from evenflow.cli.queue_options import cluster_of

    others = {
        "--grouping": grouping,
        "--sources": sources,
        "--weights": weights,
        "--capacity": capacity,
        "--heterogeneity": heterogeneity,
        "--change-at": change_at,
        "--virtual-workers": virtual_workers,
        "--arrivals": arrivals,
        "--slots": slots,
        "--loads": loads or None,
        "--timeline": timeline or None,
    }
    _refuse_together(replan, others, {"--theta": theta, "--batch": batch})
    sources = _SOURCES if sources is None else sources
    roster = _roster(workers, sources, weights)
    cluster = cluster_of(
        len(roster),
        capacity=capacity,
        heterogeneity=heterogeneity,
        change_at=change_at,
        arrivals=arrivals,
        slots=slots,
        weights=weights,
    )
    workload = (
        _synthetic(zipf, keys, messages, drift, seed, key)
        if source_file is None
        else _file(source_file, key, messages, zipf=zipf, keys=keys, drift=drift)
    )
    if replan is not None:
        from evenflow.cli.replan import show_replanning

        show_replanning(workload, len(roster), replan, theta, batch, seed, as_json)
        return
    wanted = grouping or ["all"]
    chosen, left_out = choose_schemes(wanted, roster, seed, virtual_workers)
    queues: list[QueueResult] = []
    results: list[Result]
    if cluster is None:
        results = measure_schemes(
            "simulate", chosen, workload.length(), as_json,
            lambda scheme, show: simulator.simulate(
                scheme, workload, roster, sources, seed, progress=show
            ),
        )  # fmt: skip
    else:
        queues = measure_schemes(
            "simulate", chosen, workload.length(), as_json,
            lambda scheme, show: simulator.simulate_queues(
                scheme, workload, cluster, sources, seed, progress=show
            ),
        )  # fmt: skip
        results = [result.routing for result in queues]
    if as_json:
        answers: list[dict[str, Any]] = [
            r.to_dict(loads=loads, timeline=timeline) for r in queues or results
        ]
        answers += [{"grouping": name, "error": reason} for name, reason in left_out.items()]
        print_json(answers[0] if len(wanted) == 1 and wanted != ["all"] else answers)
        return
    from evenflow.cli.results_table import HOW_TO_READ, results_table

    labels = [spec for spec, _ in chosen]
    console = stdout()
    say(
        console,
        f"{results[0].messages:,} messages, {results[0].keys:,} keys ({described(workload)}), "
        f"{len(roster)} workers, {sources} sources, seed {seed}",
        "bold",
    )
    console.print(results_table(list(zip(labels, results, strict=True))))
    say(console, HOW_TO_READ)
    if queues:
        _print_queues(labels, queues, timeline)


def described(workload: Workload) -> str:
    """A workload's description on one line."""
    return ", ".join(f"{k}={v}" for k, v in workload.describe().items() if v is not None)


def measure_schemes(
    title: str,
    chosen: Chosen,
    messages: int | None,
    quiet: bool,
    run: Callable[[GroupingScheme, Callable[[int], None]], T],
) -> list[T]:
    """Runs every scheme on a stream of `messages`, with one progress bar over all of them."""
    results = []
    total = None if messages is None else len(chosen) * messages
    with progress(title, quiet=quiet) as report:
        for i, (spec, scheme) in enumerate(chosen):

            def show(done: int, spec: str = spec, before: int = i * (messages or 0)) -> None:
                report(spec, before + done, total)

            show(0)
            results.append(run(scheme, show))
    return results


def choose_schemes(
    wanted: list[str], roster: Workers, seed: int, virtual: int | None = None
) -> tuple[Chosen, dict[str, str]]:
    """The requested schemes, and those left out with the reason, which is also printed.

    Every scheme is started once, so that a bad parameter is refused before any work. A scheme that
    was requested by name must start; one that came with `all` may be left out.
    """
    from evenflow.grouping import make, schemes
    from evenflow.simulator.schemes import make_scheme

    chosen: list[tuple[str, GroupingScheme]] = []
    left_out: dict[str, str] = {}
    for spec in wanted:
        for one in schemes() if spec == "all" else [spec]:
            try:
                has_virtual = virtual is not None and _has_virtual_workers(one)
                scheme = make(one, virtual=virtual) if has_virtual else make_scheme(one)
                scheme.start(roster, seed)
                chosen.append((one, scheme))
            except InputError as error:
                if spec != "all":
                    raise
                left_out[one] = str(error)
    if virtual is not None and not any(_has_virtual_workers(spec) for spec, _ in chosen):
        raise InputError(
            f"--virtual-workers {virtual} is for schemes that have virtual workers, such as "
            "consistent; none of those chosen has any"
        )
    if not chosen:
        raise InputError(f"no scheme can run: {next(iter(left_out.values()), 'none is installed')}")
    for name, reason in left_out.items():
        note(f"left out: {name}: {reason}")
    return chosen, left_out


def _has_virtual_workers(spec: str) -> bool:
    from evenflow.grouping import scheme_class

    name = spec.partition(":")[0].strip()
    return "virtual" in getattr(scheme_class(name), "__dataclass_fields__", {})


def _refuse_together(replan: str | None, others: dict[str, Any], own: dict[str, Any]) -> None:
    for option, value in (own if replan is None else others).items():
        if value is not None:
            reason = (
                "needs --replan PLANNER"
                if replan is None
                else "does not apply to --replan, which routes by a table; leave one of them out"
            )
            raise InputError(f"{option} {reason}")


def _print_queues(labels: list[str], results: list[QueueResult], timeline: bool) -> None:
    from evenflow.cli.results_table import HOW_TO_READ_QUEUES, queue_table, timeline_table

    console = stdout()
    console.print(queue_table(list(zip(labels, results, strict=True))))
    say(console, HOW_TO_READ_QUEUES)
    for label, result in zip(labels, results, strict=True) if timeline else ():
        console.print()
        say(console, label, "bold")
        console.print(timeline_table(result))


def _roster(workers: int | None, sources: int, weights: str | None) -> Workers:
    from evenflow.model import Workers

    given = numbers_in("--weights", weights)
    if workers is None:
        workers = _WORKERS if given is None else len(given)
    if workers > _MOST_WORKERS:
        raise InputError(f"got {workers} workers; at most {_MOST_WORKERS} can be simulated")
    if sources < 1:
        raise InputError(f"got {sources} sources; a whole number of at least 1 is needed")
    if workers * sources > _MOST_STATES:
        raise InputError(
            f"got {workers} workers and {sources} sources; workers × sources can be at most "
            f"{_MOST_STATES}"
        )
    return Workers.numbered(workers, given)


def _synthetic(
    zipf: float | None,
    keys: int | None,
    messages: int | None,
    drift: int | None,
    seed: int,
    key: list[str] | None,
) -> Workload:
    from evenflow.simulator.workloads import Zipf

    if key:
        raise InputError(f"--key {key[0]!r} names a column of a file; give the file with --input")
    return Zipf(
        exponent=_ZIPF if zipf is None else zipf,
        keys=_KEYS if keys is None else keys,
        messages=_MESSAGES if messages is None else messages,
        seed=seed,
        drift=drift,
    )


def _file(
    path: Path, key: list[str] | None, messages: int | None, **synthetic: float | None
) -> Workload:
    from evenflow.simulator.workloads import keys_at

    for option, value in synthetic.items():
        if value is not None:
            raise InputError(
                f"--{option} {value} describes a synthetic stream, but the keys come from --input; "
                "leave one of them out"
            )
    if not key:
        raise InputError(f"--input {str(path)!r} needs --key: the column that holds the key")
    return keys_at(path, tuple(key), messages)
