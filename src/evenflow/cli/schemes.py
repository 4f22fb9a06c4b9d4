"""`evenflow schemes`: what there is to choose from."""

from __future__ import annotations

import dataclasses
import inspect
import re
from typing import Annotated, Any

import typer

from evenflow.cli.terminal import cell, new_table, print_json, say, stdout


def schemes(
    as_json: Annotated[bool, typer.Option("--json", help="JSON on standard output.")] = False,
) -> None:
    """List every grouping scheme: what it does and which parameters it takes."""
    from evenflow import grouping
    from evenflow.simulator.result import plain_values

    found = [_describe(name, scheme) for name, scheme in grouping.schemes().items()]
    if as_json:
        print_json(plain_values(found))
        return
    table = new_table()
    for heading in ("name", "symbol", "splits keys", "weights", "parameters", "what it does"):
        table.add_column(heading, no_wrap=heading == "name", overflow="fold")
    for scheme in found:
        table.add_row(
            cell(scheme["name"], "bold"),
            cell(scheme["symbol"]),
            "yes" if scheme["splits_keys"] else "no",
            "yes" if scheme["weighted"] else "no",
            cell(", ".join(f"{p}={v}" for p, v in scheme["parameters"].items()) or "–"),
            cell(scheme["summary"]),
        )
    console = stdout()
    console.print(table)
    say(
        console,
        "Give parameters after a colon: --grouping greedy-d:d=5. A scheme that splits keys needs "
        "an operator that can merge partial results.",
    )


def _describe(name: str, scheme: type) -> dict[str, Any]:
    return {
        "name": name,
        "symbol": getattr(scheme, "symbol", ""),
        "splits_keys": bool(getattr(scheme, "splits_keys", True)),
        "weighted": bool(getattr(scheme, "weighted", False)),
        "parameters": parameters_of(scheme),
        "summary": first_sentence(inspect.getdoc(scheme) or ""),
    }


def parameters_of(scheme: type) -> dict[str, Any]:
    """Name → default; the word `required` where there is none."""
    if not dataclasses.is_dataclass(scheme):
        return {}
    defaults: dict[str, Any] = {}
    for field in dataclasses.fields(scheme):
        if field.default is not dataclasses.MISSING:
            defaults[field.name] = field.default
        elif field.default_factory is not dataclasses.MISSING:
            defaults[field.name] = field.default_factory()
        else:
            defaults[field.name] = "required"
    return defaults


def first_sentence(text: str) -> str:
    """The first sentence of a docstring, on one line.

    Example:
        >>> first_sentence("Sends each message, whatever its key,\\nto the next. Guarantee: …")
        'Sends each message, whatever its key, to the next.'
    """
    line = " ".join(text.partition("\n\n")[0].split())
    return re.split(r"(?<=[.!?]) (?=[A-Z])", line, maxsplit=1)[0]
