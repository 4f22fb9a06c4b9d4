"""Writes docs/reference/ from the package itself: docstrings, dataclass fields and `--help`.

`make docs` runs it. The pages are committed, and tests/docs fails where one is out of date.
They hold what this package ships, not what another installed package adds.
"""

from __future__ import annotations

import ast
import dataclasses
import doctest
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import typer

from evenflow import grouping, sketches
from evenflow.cli.app import app
from evenflow.cli.schemes import first_sentence
from evenflow.grouping.protocol import GroupingScheme
from evenflow.planning import planners
from evenflow.planning.protocol import Constraints, Planner, Proposal, Statistics
from evenflow.sketches.named_keys import NamedKeys
from evenflow.sketches.protocol import Sketch

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = ROOT / "docs" / "reference"
WIDTH = 80  #: of the help texts, whatever terminal this runs in

_HEADING = re.compile(r"([A-Z][a-z ]+):$")
_LEAD = re.compile(r"([A-Z][a-z]+): ")
_NOTICE = "<!-- Made by `make docs` from the docstrings; do not edit. -->"


def pages() -> dict[Path, str]:
    """Path → text of every page of the reference."""
    return {
        REFERENCE / "schemes.md": schemes_page(),
        REFERENCE / "sketches.md": sketches_page(),
        REFERENCE / "planners.md": planners_page(),
        REFERENCE / "cli.md": cli_page(),
    }


def schemes_page() -> str:
    shipped = _shipped(grouping.schemes())
    rows = [
        [
            f"[`{name}`](#{name})",
            scheme.symbol,
            "yes" if scheme.splits_keys else "no",
            "yes" if scheme.weighted else "no",
            first_sentence(inspect.getdoc(scheme) or ""),
        ]
        for name, scheme in shipped.items()
    ]
    return _page(
        "Grouping schemes",
        "What `evenflow schemes` lists. The words are explained in [concepts](../concepts.md); "
        "[Add a scheme](../add_a_scheme.md) says how to write one.",
        _table(["name", "symbol", "splits keys", "weights", "what it does"], rows),
        'Make one by name: `evenflow.grouping.make("greedy-d:d=5")`, or on the command line '
        "`--grouping greedy-d:d=5`.",
        *(_class_section(name, scheme) for name, scheme in shipped.items()),
        "## The protocol",
        _docstring(GroupingScheme),
        _methods(GroupingScheme),
    )


def sketches_page() -> str:
    shipped = _shipped(sketches.sketches())
    return _page(
        "Sketches",
        "Which keys are hot? Make one by name: "
        '`evenflow.sketches.make("space-saving:capacity=100")`.',
        *(_class_section(name, sketch) for name, sketch in shipped.items()),
        "## The protocol",
        _docstring(Sketch),
        _methods(Sketch),
        "## Hot keys by value",
        f"`evenflow.sketches.named_keys.NamedKeys` ([source]({_source(NamedKeys)}))",
        _docstring(NamedKeys),
    )


def planners_page() -> str:
    shipped = _shipped(planners())
    rows = [
        [f"[`{name}`](#{name})", planner.symbol, first_sentence(inspect.getdoc(planner) or "")]
        for name, planner in shipped.items()
    ]
    return _page(
        "Planners",
        "What `evenflow plan --list` lists: from what was seen of each key to where it goes next.",
        _table(["name", "symbol", "what it does"], rows),
        'Make one by name: `evenflow.planning.make_planner("mixed:beta=1")`, or on the '
        "command line `evenflow plan --planner mixed:beta=1`.",
        *(_class_section(name, planner) for name, planner in shipped.items()),
        "## The protocol",
        _docstring(Planner),
        _methods(Planner),
        *(
            f"## {kind.__name__}\n\n{_docstring(kind)}"
            for kind in (Statistics, Constraints, Proposal)
        ),
    )


def cli_page() -> str:
    sections = [
        f"## `{path}`\n\n```text\n{help_text}\n```"
        for path, help_text in _help_texts(typer.main.get_command(app), "evenflow")
    ]
    return _page(
        "Command line",
        "Exit codes: 0 done; 2 the input was wrong, and one line on standard error says how; "
        "130 interrupted. `--json` prints one JSON document on standard output and nothing else "
        "there; progress goes to standard error.",
        *sections,
        "## `python -m evenflow.checks`",
        "Runs the conformance suite on schemes by name, or on all. `--json` prints "
        "one array. Exit codes: 0 all passed; 1 something failed; 2 the input was wrong. What is "
        "checked: [Add a scheme](../add_a_scheme.md#the-checks-that-will-run).",
    )


def _shipped(found: dict[str, type[Any]]) -> dict[str, type[Any]]:
    return {name: c for name, c in found.items() if c.__module__.startswith("evenflow.")}


def _class_section(name: str, described: type) -> str:
    place = f"`{described.__module__}.{described.__name__}` ([source]({_source(described)}))"
    return f"## {name}\n\n{place}\n\n{_docstring(described)}"


def _source(described: type) -> str:
    return f"../../src/{described.__module__.replace('.', '/')}.py"


def _docstring(described: type) -> str:
    """A docstring as Markdown: parameters as a table, the example as code, leads in bold."""
    parts = []
    for heading, body in _blocks(inspect.getdoc(described) or ""):
        if heading == "Parameters":
            parts.append(_parameters(described, body))
        elif heading == "Example":
            parts.append(f"```pycon\n{_imports(described, body)}{body}\n```")
        elif heading:
            raise ValueError(f"{described.__name__}: no rule for the heading {heading!r}")
        elif body.startswith("- "):
            parts.append(body)
        else:
            parts.append(_LEAD.sub(r"**\1:** ", " ".join(body.split()), count=1))
    return "\n\n".join(parts)


def _blocks(text: str) -> Iterator[tuple[str, str]]:
    """(heading, body) of each paragraph; the heading is empty unless it stands on its own line."""
    for paragraph in re.split(r"\n{2,}(?! )", text):
        first, _, rest = paragraph.partition("\n")
        heading = _HEADING.fullmatch(first)
        if heading and rest:
            yield heading[1], dedent(rest).strip("\n")
        else:
            yield "", paragraph


def _imports(described: type, example: str) -> str:
    """The lines that a reader needs before an example, which its own module does not."""
    code = "".join(part.source for part in doctest.DocTestParser().get_examples(example))
    used = {node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)}
    known = vars(sys.modules[described.__module__])
    wanted: dict[str, list[str]] = {}
    for name in sorted(used):
        home = getattr(known.get(name), "__module__", None) or ""
        if home.startswith("evenflow.") and f"import {name}" not in code:
            home = "evenflow.model" if home.startswith("evenflow.model.") else home
            wanted.setdefault(home, []).append(name)
    return "".join(f">>> from {m} import {', '.join(names)}\n" for m, names in wanted.items())


def _parameters(described: type, body: str) -> str:
    """A table of the parameters. What is described must be what there is."""
    meanings = {
        name: " ".join(meaning.split())
        for name, meaning in re.findall(r"^(\w+): (.*?)(?=^\w|\Z)", body, re.MULTILINE | re.DOTALL)
    }
    if not dataclasses.is_dataclass(described):
        return _table(["parameter", "meaning"], [[f"`{n}`", meanings[n]] for n in meanings])
    fields = {field.name: field for field in dataclasses.fields(described)}
    if meanings.keys() != fields.keys():
        raise ValueError(
            f"{described.__name__} describes the parameters {sorted(meanings)} and has {sorted(fields)}"
        )
    rows = [[f"`{n}`", f"`{fields[n].type}`", _default(fields[n]), meanings[n]] for n in meanings]
    return _table(["parameter", "type", "default", "meaning"], rows)


def _default(field: dataclasses.Field[Any]) -> str:
    if field.default is not dataclasses.MISSING:
        return f"`{field.default}`"
    if field.default_factory is not dataclasses.MISSING:
        return f"`{field.default_factory()}`"
    return "–"


def _methods(protocol: type) -> str:
    lines = []
    for name, method in vars(protocol).items():
        if inspect.isfunction(method) and not name.startswith("_"):
            signature = str(inspect.signature(method)).replace("'", "").replace("(self, ", "(")
            signature = signature.replace("(self)", "()")
            meaning = " ".join((inspect.getdoc(method) or "").split())
            lines.append(f"- `{name}{signature}`: {meaning}")
    return "\n".join(lines)


def _help_texts(command: Any, path: str, parent: Any = None) -> Iterator[tuple[str, str]]:
    """(command line, help text) of a command and all below it."""
    context = command.context_class(
        command,
        info_name=path.rpartition(" ")[2],
        parent=parent,
        terminal_width=WIDTH,
        max_content_width=WIDTH,
        **command.context_settings,
    )
    yield path, command.get_help(context).rstrip()
    for name, below in getattr(command, "commands", {}).items():
        yield from _help_texts(below, f"{path} {name}", context)


def _table(headings: list[str], rows: list[list[str]]) -> str:
    # A bar would end a cell, also inside code.
    rows = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in [headings, ["---"] * len(headings), *rows])


def _page(title: str, *parts: str) -> str:
    return "\n\n".join([f"# {title}", _NOTICE, *parts]) + "\n"


def main() -> None:
    """Write every page."""
    REFERENCE.mkdir(exist_ok=True)
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
        print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
