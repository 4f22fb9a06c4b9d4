"""`evenflow schemes`, and the list of algorithms that other commands print."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Mapping
from typing import Any

from evenflow.cli.options import Json
from evenflow.cli.terminal import cell, new_table, print_json, say, stdout


def schemes(as_json: Json = False) -> None:
    """List every grouping scheme: what it does and which parameters it takes."""
    from evenflow import grouping

    show_algorithms(grouping.schemes(), as_json, splits_keys=True, weighted=False)
    if not as_json:
        say(
            stdout(),
            "Give parameters after a colon: --grouping greedy-d:d=5. A scheme that splits keys needs "
            "an operator that can merge partial results.",
        )


def show_algorithms(found: Mapping[str, type], as_json: bool, **flags: bool) -> None:
    """Prints every algorithm of one kind: name, symbol, parameters, summary.

    Parameters:
        found: name → class.
        as_json: one JSON document instead of a table.
        flags: boolean attributes to show, with the value for classes that lack one.
    """
    from evenflow.simulator.result import plain_values

    described: list[dict[str, Any]] = [
        {
            "name": name,
            "symbol": getattr(kind, "symbol", ""),
            **{flag: bool(getattr(kind, flag, default)) for flag, default in flags.items()},
            "parameters": defaults_of(kind),
            "summary": first_sentence(inspect.getdoc(kind) or ""),
        }
        for name, kind in found.items()
    ]
    if as_json:
        print_json(plain_values(described))
        return
    table = new_table()
    spelled = [flag.replace("_", " ") for flag in flags]
    for heading in ("name", "symbol", *spelled, "parameters", "what it does"):
        table.add_column(heading, no_wrap=heading == "name", overflow="fold")
    for one in described:
        table.add_row(
            cell(one["name"], "bold"),
            cell(one["symbol"]),
            *("yes" if one[flag] else "no" for flag in flags),
            cell(", ".join(f"{p}={v}" for p, v in one["parameters"].items()) or "–"),
            cell(one["summary"]),
        )
    stdout().print(table)


def defaults_of(kind: type) -> dict[str, Any]:
    """Parameter → default; the word `required` where there is none."""
    from evenflow.model.discovery import parameters_of

    def default(field: dataclasses.Field[Any]) -> Any:
        if field.default_factory is not dataclasses.MISSING:
            return field.default_factory()
        return "required" if field.default is dataclasses.MISSING else field.default

    return {field.name: default(field) for field in parameters_of(kind)}


def first_sentence(text: str) -> str:
    """The first sentence of a docstring, on one line.

    Example:
        >>> first_sentence("Sends each message, whatever its key,\\nto the next. Guarantee: …")
        'Sends each message, whatever its key, to the next.'
    """
    line = " ".join(text.partition("\n\n")[0].split())
    return re.split(r"(?<=[.!?]) (?=[A-Z])", line, maxsplit=1)[0]
