"""`evenflow reproduce`: the figures of the papers again, with a verdict on each claim."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenflow.cli.output_folder import make_writable
from evenflow.cli.terminal import cell as table_cell
from evenflow.cli.terminal import new_table, note, print_json, say, stdout
from evenflow.model.errors import InputError
from evenflow_lab.cli.countdown import countdown

if TYPE_CHECKING:
    from evenflow_lab.experiments import Cell, Execute, Outcome


class Where(StrEnum):
    """Who runs the cells."""

    local = "local"
    spark = "spark"


def reproduce(
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PAPER[/FIGURE]", help="Papers or figures; all papers if none is given."
        ),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick/--full",
            help="Shorter streams and fewer points, in minutes; or the papers' own numbers.",
        ),
    ] = True,
    out: Annotated[Path, typer.Option(help="Where everything goes.")] = Path("out/reproduce"),
    summary_page: Annotated[
        Path | None,
        typer.Option(
            "--summary",
            metavar="PAGE",
            help="A Markdown page; the tables of all papers' verdicts that OUT holds are put between "
            "its marks.",
        ),
    ] = None,
    scheme: Annotated[
        list[Path] | None,
        typer.Option(
            help="A Python file with a scheme of your own, for every routing figure; may be "
            "repeated."
        ),
    ] = None,
    source_file: Annotated[
        Path | None,
        typer.Option(
            "--input", help="A Parquet, CSV or JSON lines file in place of the figures' streams."
        ),
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option("--key", help="Key column of --input; repeat it for a compound key."),
    ] = None,
    on: Annotated[
        Where, typer.Option(help="On this machine's cores, or as tasks of a Spark session.")
    ] = Where.local,
    master: Annotated[
        str | None, typer.Option(help="Spark's master; this machine's cores if not given.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Runs at once; as many as there are cores.")
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Run everything again, whatever is there.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="JSON on standard output.")] = False,
) -> None:
    """Run the papers' experiments, draw their figures, judge their claims.

    What is finished is kept in OUT/cells: a run that was interrupted goes on where it was. A claim
    that does not hold is a finding, not an error: the exit code is 0.
    """
    if master is not None and on is not Where.spark:
        raise InputError(f"--master {master!r} is Spark's; add --on spark")
    if key and source_file is None:
        raise InputError(f"--key {key[0]!r} names a column of a file; give the file with --input")
    if source_file is not None and not key:
        raise InputError(f"--input {str(source_file)!r} needs --key: the column with the key")
    make_writable(out)
    if summary_page is not None:
        from evenflow_lab.experiments.summary import check_page

        check_page(summary_page)

    from evenflow_lab.cli.reproduction import Reproduction
    from evenflow_lab.experiments import CellStore, run_cells

    work = Reproduction.of(targets or [], quick)
    if scheme:
        work = work.with_schemes(scheme)
    if source_file is not None:
        work = work.on_file(source_file, key or [])
    for reason in work.left_out:
        note(f"left out: {reason}")
    at_once = jobs or os.cpu_count() or 1
    with countdown("reproduce", quiet=as_json) as progress:
        outcomes = run_cells(
            work.cells(),
            CellStore(out / "cells", fresh),
            _execute(on, master, jobs, at_once),
            progress,
            at_once,
        )
    if not as_json:
        note("reproduce: drawing")
    summary = work.write(outcomes, out)
    if summary_page is not None:
        from evenflow_lab.experiments.summary import write_summary

        write_summary(out, summary_page)
    if as_json:
        print_json(summary)
        return
    _print(summary)


def _execute(on: Where, master: str | None, jobs: int | None, at_once: int) -> Execute:
    from evenflow_lab.experiments import on_processes, run_and_time, warm_up

    if on is Where.local:
        return lambda cells: on_processes(cells, at_once)

    def on_spark(cells: Sequence[Cell]) -> Iterator[tuple[int, Outcome]]:
        from evenflow_lab.cli.spark_cells import run_on_spark

        if master is None or master.startswith("local"):
            warm_up(cells)  # tasks of this machine find on disk what is compiled here
        return run_on_spark(cells, run_and_time, master, jobs)

    return on_spark


def _print(summary: dict[str, Any]) -> None:
    console = stdout()
    for paper in summary["papers"]:
        say(console, f"{paper['title']} ({summary['mode']})", "bold")
        table = new_table()
        for heading in ("figure", "runs", "seconds", "data", "picture"):
            right = heading in {"runs", "seconds"}
            table.add_column(heading, justify="right" if right else "left", overflow="fold")
        for figure in paper["figures"]:
            table.add_row(
                table_cell(figure["figure"], "bold"),
                str(figure["cells"]),
                f"{figure['seconds']:.1f}",
                "stand-in" if figure["stand_in"] else "",
                table_cell(figure["picture"]),
            )
        console.print(table)
        if paper["ledger"]:
            claims = new_table()
            for heading in ("claim", "verdict", "seeds", "cause", "measured"):
                claims.add_column(heading, no_wrap=heading in {"verdict", "seeds"}, overflow="fold")
            for entry in paper["ledger"]:
                claims.add_row(
                    table_cell(entry["id"], "bold"),
                    entry["verdict"],
                    f"{entry['held_by']}/{entry['seeds']}" if entry["seeds"] else "",
                    entry["cause"],
                    table_cell(entry["measured"] or entry["why"]),
                )
            console.print(claims)
        say(console, f"Page: {paper['page']}", "bold")
