"""`evenflow doctor`: does this machine have what evenflow needs, and what to do if not."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import typer

from evenflow.cli.options import Json, StorageOptions, storage_options_in
from evenflow.cli.terminal import cell, new_table, print_json, progress, say, stdout

_STYLE = {"ok": "green", "warning": "yellow", "problem": "bold red"}
_NOT_USABLE = 1


def doctor(
    master: Annotated[
        str | None, typer.Option(metavar="URL", help="A cluster: spark://host:7077, yarn, k8s://…")
    ] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(metavar="URI", help="A checkpoint location that all machines must reach."),
    ] = None,
    storage_option: StorageOptions = None,
    as_json: Json = False,
) -> None:
    """Check Python, packages, Java, Spark and the machine, and say how to fix each problem.

    With --master, every executor of that cluster says its versions, and with --checkpoint it reads and
    writes a probe there.

    Exit code 0 if evenflow can be used, with or without warnings; 1 if not.
    """
    from evenflow.spark.requirements import examine, usable

    checks = []
    with progress("looking", quiet=True) as report:
        report("Python, packages, Java", 0, None)
        for check in examine(master, checkpoint, storage_options_in(storage_option)):
            checks.append(check)
            report(check.name, len(checks), None)
    good = usable(checks)
    if as_json:
        print_json({"usable": good, "checks": [dataclasses.asdict(check) for check in checks]})
    else:
        table = new_table()
        for heading in ("", "what", "found", "what to do"):
            table.add_column(heading, overflow="fold")
        for check in checks:
            table.add_row(
                cell(check.verdict, _STYLE[check.verdict]),
                cell(check.name, "bold"),
                cell(check.found),
                cell(check.advice),
            )
        console = stdout()
        console.print(table)
        say(console, _summary([check.verdict for check in checks]))
    if not good:
        raise typer.Exit(_NOT_USABLE)


def _summary(verdicts: list[str]) -> str:
    """One line.

    Example:
        >>> _summary(["ok", "warning"])
        'evenflow can be used here; 1 warning.'
        >>> _summary(["ok", "problem", "problem"])
        'evenflow cannot be used here: 2 problems.'
    """
    problems, warnings = verdicts.count("problem"), verdicts.count("warning")
    if problems:
        return f"evenflow cannot be used here: {_many(problems, 'problem')}."
    return "evenflow can be used here" + (f"; {_many(warnings, 'warning')}." if warnings else ".")


def _many(n: int, noun: str) -> str:
    return f"{n} {noun}" + ("" if n == 1 else "s")
