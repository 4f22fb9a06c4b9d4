"""`evenflow simulate`: a stream through one, several or all schemes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenflow.cli.options import Json, numbers_in
from evenflow.cli.terminal import note, print_json, progress, say, stdout
from evenflow.model.errors import InputError

if TYPE_CHECKING:
    from evenflow.grouping import GroupingScheme
    from evenflow.model import Workers
    from evenflow.simulator import QueueResult, Result
    from evenflow.simulator.workloads import Workload

# A slip of the finger should give an answer at once, not fill the memory first.
_MOST_WORKERS = 1_000_000
_MOST_STATES = 100_000_000  #: workers × sources

_WORKERS, _ZIPF, _KEYS, _MESSAGES = 50, 1.4, 10_000, 1_000_000


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
    sources: Annotated[int, typer.Option(help="Number of sources that route the stream.")] = 5,
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
    seed: Annotated[int, typer.Option(help="Of the stream and of the hash functions.")] = 0,
    drift: Annotated[
        int | None, typer.Option(help="Permute the keys every so many messages.")
    ] = None,
    source_file: Annotated[
        Path | None,
        typer.Option("--input", help="Take the keys from a Parquet, CSV or JSON lines file."),
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option("--key", help="Key column of --input; repeat it for a compound key."),
    ] = None,
    weights: Annotated[str | None, typer.Option(help="Capacities of the workers: 1,1,4.")] = None,
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
        typer.Option(help="Virtual workers of each worker, where the scheme has any (consistent)."),
    ] = None,
    arrivals: Annotated[
        str | None, typer.Option(help="Queues: constant (if not given), hourly or bursts.")
    ] = None,
    slots: Annotated[
        int | None,
        typer.Option(
            help="Queues: time slots in which workers watch their load; "
            "one per 1000 messages per worker if not given."
        ),
    ] = None,
    timeline: Annotated[
        bool,
        typer.Option("--timeline", help="JSON: imbalance over time. Queues: every time slot."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Route a stream by several sources; report imbalance, replication and time.

    Any option that speaks of queues gives workers capacities and queues, in virtual time.
    With --json, one scheme gives an object; several give a list of objects.
    """
    from evenflow import simulator
    from evenflow.cli.queue_options import cluster_of

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
    wanted = grouping or ["all"]
    chosen, left_out = _chosen(wanted, roster, seed, virtual_workers)
    for name, reason in left_out.items():
        note(f"left out: {name}: {reason}")

    results: list[Result] = []
    queues: list[QueueResult] = []
    with progress("simulate", quiet=as_json) as report:
        for spec, scheme in chosen:
            total = workload.length()

            def show(done: int, spec: str = spec, total: int | None = total) -> None:
                report(spec, done, total)

            show(0)
            if cluster is None:
                results.append(
                    simulator.simulate(scheme, workload, roster, sources, seed, progress=show)
                )
            else:
                queues.append(
                    simulator.simulate_queues(
                        scheme, workload, cluster, sources, seed, progress=show
                    )
                )
                results.append(queues[-1].routing)
    if as_json:
        answers: list[dict[str, Any]] = [
            r.to_dict(loads=loads, timeline=timeline) for r in queues or results
        ]
        answers += [{"grouping": name, "error": reason} for name, reason in left_out.items()]
        print_json(answers[0] if len(wanted) == 1 and wanted != ["all"] else answers)
        return
    from evenflow.cli.results_table import HOW_TO_READ, results_table

    stream = ", ".join(f"{k}={v}" for k, v in workload.describe().items() if v is not None)
    title = (
        f"{results[0].messages:,} messages, {results[0].keys:,} keys ({stream}), "
        f"{len(roster)} workers, {sources} sources, seed {seed}"
    )
    console = stdout()
    say(console, title, "bold")
    console.print(results_table([(s, r) for (s, _), r in zip(chosen, results, strict=True)]))
    say(console, HOW_TO_READ)
    if queues:
        _print_queues([spec for spec, _ in chosen], queues, timeline)


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
    from evenflow.simulator.workloads import KeyFile

    for option, value in synthetic.items():
        if value is not None:
            raise InputError(
                f"--{option} {value} describes a synthetic stream, but the keys come from --input; "
                "leave one of them out"
            )
    if not key:
        raise InputError(f"--input {str(path)!r} needs --key: the column that holds the key")
    return KeyFile(path, tuple(key), limit=messages)


def _chosen(
    wanted: list[str], roster: Workers, seed: int, virtual: int | None = None
) -> tuple[list[tuple[str, GroupingScheme]], dict[str, str]]:
    """The schemes asked for, started once so that a bad parameter is refused before any work.

    A scheme asked for by name must work; one that only came with `all` may be left out, with the
    reason why.
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
    return chosen, left_out


def _has_virtual_workers(spec: str) -> bool:
    from evenflow.grouping import scheme_class

    name = spec.partition(":")[0].strip()
    return "virtual" in getattr(scheme_class(name), "__dataclass_fields__", {})
