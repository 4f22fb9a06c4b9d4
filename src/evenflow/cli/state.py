"""`evenflow state show|verify`: inspect a checkpoint."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from evenflow.cli.options import Json, StorageOptions, command_group, storage_options_in
from evenflow.cli.terminal import cell, note, print_json, progress, say, stdout, table_of
from evenflow.model.errors import InputError

_DAMAGED = 1

app = command_group("Inspect a query's checkpoint.")

Location = Annotated[
    str, typer.Argument(metavar="CHECKPOINT", help="The query's checkpoint: a path or URI.")
]


@contextmanager
def _bad_input() -> Iterator[None]:
    from evenflow.state.errors import CheckpointError

    try:
        yield
    except CheckpointError as error:
        raise InputError(str(error)) from error


@app.command("show", short_help="Batches, plan, owners, keys, bytes, hot keys.")
def show(
    checkpoint: Location, storage_option: StorageOptions = None, as_json: Json = False
) -> None:
    """Show what a checkpoint holds: batches, plan, owners, segments, keys, bytes, hot keys."""
    from evenflow.state.verification import contents
    from evenflow.storage import storage_at

    with _bad_input():
        found = contents(storage_at(checkpoint, storage_options_in(storage_option)))
    if as_json:
        print_json(found)
        return
    console = stdout()
    batches = found["batches"]
    if batches["last"] is None:
        say(console, f"{found['checkpoint']}: no batch has been committed yet")
        return
    say(
        console,
        f"{found['checkpoint']}: batch {batches['last']} is committed, {batches['kept']} versions "
        f"are kept (from batch {batches['oldest']}); {found['keys']:,} keys in {found['rows']:,} "
        f"rows, {found['segments']} segments, {found['bytes']:,} bytes",
    )
    for title, values in (("identity", found["identity"]), ("plan", found["plan"])):
        say(console, f"{title}: {_line(values)}")
    for epoch, owners in found["epochs"].items():
        say(console, f"epoch {epoch}: {_line(owners)}")
    table = table_of("owner", "segments", "rows", "bytes", "epochs")
    for owner in found["owners"]:
        table.add_row(
            str(owner["owner"]),
            str(owner["segments"]),
            f"{owner['rows']:,}",
            f"{owner['bytes']:,}",
            cell(", ".join(map(str, owner["epochs"]))),
        )
    console.print(table)
    if found["hot_keys"]:
        say(console, "hot keys of the last batch, hottest first:")
        for hot in found["hot_keys"]:
            say(console, f"  {_line(hot)}")


@app.command("verify", short_help="Check every file; exit code 1 if one is damaged.")
def verify(
    checkpoint: Location, storage_option: StorageOptions = None, as_json: Json = False
) -> None:
    """Check every checksum, manifest and row of a checkpoint, and name each damaged file.

    Exit code 0: all is well. 1: something is damaged. 2: this is not a checkpoint.
    """
    from evenflow.state.verification import verify as verify_files
    from evenflow.storage import storage_at

    with _bad_input(), progress("verify", quiet=True) as report:
        verdict = verify_files(storage_at(checkpoint, storage_options_in(storage_option)), report)
    if as_json:
        print_json(verdict.to_json())
    else:
        for what in verdict.problems.values():
            note(what)
        outcome = "all is well" if verdict.intact else f"{len(verdict.problems)} damaged"
        say(stdout(), f"{verdict.files} files, {verdict.rows:,} rows of state: {outcome}")
    if not verdict.intact:
        raise typer.Exit(_DAMAGED)


def _line(values: Any) -> str:
    """Plain values on one line, without JSON's outer braces."""
    if isinstance(values, dict):
        return ", ".join(f"{name} {_value(value)}" for name, value in values.items())
    return _value(values)


def _value(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 200 else f"{text[:200]}… ({len(text)} characters)"
