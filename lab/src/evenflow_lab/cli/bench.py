"""`evenflow bench NAME`: every benchmark of the catalogue, run and shown in the same way."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

import typer
from typer.core import TyperGroup
from typer.main import get_command

from evenflow.cli.terminal import cell, new_table, print_json, progress, say, stdout
from evenflow_lab.benchmarks.catalogue import BENCHMARKS, Benchmark

if TYPE_CHECKING:
    from evenflow_lab.benchmarks.outcome import Goal, Result, Table

_FAILED = 1
_BY_NAME = inspect.Parameter.KEYWORD_ONLY


class Benchmarks(TyperGroup):
    """The catalogue as a group of commands. A benchmark is imported when it is run, not before."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(BENCHMARKS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        name = cmd_name.replace("_", "-")
        return _command(name, BENCHMARKS[name]) if name in BENCHMARKS else None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Benchmarks"):
            formatter.write_dl([(name, one.summary) for name, one in BENCHMARKS.items()])


app = typer.Typer(
    cls=Benchmarks,
    help="Measure speed, as ratios within one run, and what must hold while things fail.",
    rich_markup_mode=None,
)


@app.callback(invoke_without_command=True)
def bench(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(2)


def _command(name: str, benchmark: Benchmark) -> Any:
    """The command of one benchmark: its options are the parameters of its `run`."""
    run = benchmark.run()

    def command(as_json: bool, **options: Any) -> None:
        with progress(f"bench {name}", quiet=as_json) as report:
            last: Result | None = None
            for last in _results(run(**options, progress=report)):
                if not as_json:
                    show(last)
        assert last is not None
        if as_json:
            print_json(last.answer)
        if not last.passed:
            raise typer.Exit(_FAILED)

    command.__doc__ = benchmark.help()
    command.__signature__ = _signature(run)  # type: ignore[attr-defined]
    command.__annotations__ = {}
    alone = typer.Typer(rich_markup_mode=None, add_completion=False)
    alone.command(name, short_help=benchmark.summary)(command)
    return get_command(alone)


def _results(found: Result | Iterator[Result]) -> Iterator[Result]:
    if isinstance(found, Iterator):
        yield from found
    else:
        yield found


def _signature(run: Callable[..., Any]) -> inspect.Signature:
    """The options of a benchmark for typer, and `--json`."""
    hints = get_type_hints(run, include_extras=True)
    options = []
    for parameter in inspect.signature(run).parameters.values():
        if parameter.name == "progress":
            continue
        kind, text = get_args(hints[parameter.name])
        # A switch has one spelling, not a second one that turns it off.
        flags = [f"--{parameter.name.replace('_', '-')}"] if kind is bool else []
        default = typer.Option(parameter.default, *flags, help=text)
        options.append(
            inspect.Parameter(parameter.name, _BY_NAME, default=default, annotation=kind)
        )
    as_json = typer.Option(False, "--json", help="JSON on standard output.")
    last = inspect.Parameter("as_json", _BY_NAME, default=as_json, annotation=bool)
    return inspect.Signature([*options, last])


def show(result: Result) -> None:
    """A result, for people."""
    console = stdout()
    for table in result.tables:
        _show_table(table)
    for line in result.lines:
        say(console, line)
    for goal in result.goals:
        _show_goal(goal)


def _show_table(table: Table) -> None:
    console = stdout()
    if table.title:
        say(console, table.title, "bold")
    if not table.rows:
        return
    shown = new_table()
    for i, heading in enumerate(table.rows[0]):
        shown.add_column(heading, justify="right" if i else "left", no_wrap=True)
    for row in table.rows:
        shown.add_row(
            *(cell(_figure(value), "" if i else "bold") for i, value in enumerate(row.values()))
        )
    console.print(shown)


def _show_goal(goal: Goal) -> None:
    asked = f"{'at least' if goal.at_least else 'at most'} {goal.bound:g}"
    say(
        stdout(),
        f"{'✓' if goal.held else '✗'} {goal.what}: {goal.measured:.2f} (goal: {asked})",
        "green" if goal.held else "red",
    )


def _figure(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)
