"""Options that several commands take, and how they are read."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Annotated, TypeVar

import typer

from evenflow.model.errors import InputError

T = TypeVar("T")

Json = Annotated[bool, typer.Option("--json", help="JSON on standard output.")]


def command_group(meaning: str) -> typer.Typer:
    """An application of several commands, which alone prints its help and exits with 2."""
    app = typer.Typer(help=meaning, rich_markup_mode=None)

    @app.callback(invoke_without_command=True)
    def show_help(context: typer.Context) -> None:
        if context.invoked_subcommand is None:
            typer.echo(context.get_help())
            raise typer.Exit(2)

    return app


def numbers_in(option: str, text: str | None) -> tuple[float, ...] | None:
    """The numbers of an option that takes several, such as 1,1,4; None where it is not given."""
    if text is None:
        return None
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise InputError(
            f"{option} takes numbers with commas between them, such as 1,1,4; got {text!r}"
        ) from None


def count_of(option: str, given: int | None, each: tuple[float, ...] | None, meaning: str) -> int:
    """How many there are, by the option or as many as `each` has numbers."""
    if given is None and each is None:
        raise InputError(f"{option} is missing: {meaning}")
    return given if given is not None else len(each or ())


def timed(practice: Callable[[], object], work: Callable[[], T]) -> tuple[T, float]:
    """What `work` gives, and how many seconds it took, compilation left out: `practice` compiles."""
    practice()
    begin = perf_counter()
    done = work()
    return done, perf_counter() - begin
