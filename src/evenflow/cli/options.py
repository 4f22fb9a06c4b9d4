"""Options that several commands share, and how they are parsed."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Annotated, TypeVar

import typer

from evenflow.model.errors import InputError

T = TypeVar("T")

Json = Annotated[bool, typer.Option("--json", help="JSON on standard output.")]
StorageOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--storage-option",
        metavar="KEY=VALUE",
        help="A setting of the store, such as region=eu-west-1, where the environment does not have "
        "it. May be repeated.",
    ),
]
Weights = Annotated[str | None, typer.Option(help="Capacities of the workers: 1,1,4.")]


def command_group(description: str) -> typer.Typer:
    """A typer application of several commands; without one it prints its help and exits with 2."""
    app = typer.Typer(help=description, rich_markup_mode=None)

    @app.callback(invoke_without_command=True)
    def show_help(context: typer.Context) -> None:
        if context.invoked_subcommand is None:
            typer.echo(context.get_help())
            raise typer.Exit(2)

    return app


def numbers_in(option: str, text: str | None) -> tuple[float, ...] | None:
    """Parses an option that takes several numbers, such as 1,1,4; None if it is not given."""
    if text is None:
        return None
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise InputError(
            f"{option} takes numbers separated by commas, such as 1,1,4; got {text!r}"
        ) from None


def storage_options_in(given: list[str] | None) -> dict[str, str]:
    """The settings of a store.

    Example:
        >>> storage_options_in(["region=eu-west-1", "allow_http=true"])
        {'region': 'eu-west-1', 'allow_http': 'true'}
    """
    pairs = [text.partition("=") for text in given or ()]
    if not all(name and equals for name, equals, _ in pairs):
        # What was given may be a secret.
        raise InputError("--storage-option takes KEY=VALUE, such as region=eu-west-1")
    return {name: value for name, _, value in pairs}


def count_of(option: str, given: int | None, each: tuple[float, ...] | None, meaning: str) -> int:
    """The given number, or else the length of `each`."""
    if given is None and each is None:
        raise InputError(f"{option} is missing: {meaning}")
    return given if given is not None else len(each or ())


def timed(warm_up: Callable[[], object], work: Callable[[], T]) -> tuple[T, float]:
    """The result of `work` and the seconds it took; `warm_up` compiles the kernels beforehand."""
    warm_up()
    begin = perf_counter()
    result = work()
    return result, perf_counter() - begin
