"""`evenflow state show|get|verify|history|diff`: inspect a checkpoint."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenflow.cli import state_changes
from evenflow.cli.options import Json, StorageOptions, command_group, storage_options_in
from evenflow.cli.terminal import cell, note, print_json, progress, say, stdout, table_of
from evenflow.model.errors import InputError

if TYPE_CHECKING:
    from evenflow.storage import Storage

_DAMAGED = _NOTHING = 1

app = command_group("Inspect a query's checkpoint.")
app.command("history", short_help="One key's state over time.")(state_changes.history)
app.command("diff", short_help="Which keys changed between two batches.")(state_changes.diff)

Location = Annotated[
    str, typer.Argument(metavar="CHECKPOINT", help="The query's checkpoint: a path or URI.")
]


@contextmanager
def bad_input() -> Iterator[None]:
    """What is wrong with a checkpoint, as what is wrong with the command's input."""
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

    storage = storage_at(checkpoint, storage_options_in(storage_option))
    with bad_input():
        found = contents(storage)
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
    named = _namer(storage, found)
    for title, values in (("identity", found["identity"]), ("plan", named(found["plan"]))):
        say(console, f"{title}: {_line(values)}")
    for epoch, owners in found["epochs"].items():
        say(console, f"epoch {epoch}: {_line(named(owners))}")
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
            shown = {name: value for name, value in hot.items() if name != "fingerprint"}
            say(console, f"  {_line(shown)}")


@app.command("get", short_help="What is kept of one key; exit code 1 if nothing is.")
def get(
    checkpoint: Location,
    key: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY…", help="The key: a value per key column, in their order."),
    ] = None,
    key_json: Annotated[
        str | None,
        typer.Option(help='The key as a JSON list, which has null: ["home", null].'),
    ] = None,
    storage_option: StorageOptions = None,
    as_json: Json = False,
) -> None:
    """Show what the last batch of a query has left of one key: each row of its state, with the batch
    that wrote it; with windows, sessions and joins also when it expires.

    Exit code 0: something is kept. 1: nothing is kept of this key. 2: this is not a checkpoint, or not
    such a key.
    """
    from evenflow.engine.one_key import state_of_key
    from evenflow.storage import storage_at

    if (key is None) == (key_json is None):
        raise InputError("give the key after the checkpoint, or else --key-json")
    with bad_input():
        storage = storage_at(checkpoint, storage_options_in(storage_option))
        found = state_of_key(storage, key or _key_in(key_json or ""))
    if as_json:
        print_json(found)
    else:
        console = stdout()
        kept = len(found["rows"])
        what = "1 row" if kept == 1 else f"{kept} rows"
        say(console, f"{_line(found['key'])}: {what} of state after batch {found['batch']}")
        for row in found["rows"]:
            until = f", expires {row['expires']}" if "expires" in row else ""
            say(console, f"  batch {row['batch']}{until}: {_line(row['state'])}")
    if not found["rows"]:
        raise typer.Exit(_NOTHING)


def _key_in(text: str) -> list[Any]:
    try:
        key = json.loads(text)
    except ValueError:
        key = None
    if not isinstance(key, list):
        raise InputError(f'--key-json takes a JSON list, such as ["home", null]; got {text!r}')
    return key


@app.command("verify", short_help="Check every file; exit code 1 if one is damaged.")
def verify(
    checkpoint: Location, storage_option: StorageOptions = None, as_json: Json = False
) -> None:
    """Check every checksum, manifest and row of a checkpoint, and name each damaged file.

    Exit code 0: all is well. 1: something is damaged. 2: this is not a checkpoint.
    """
    from evenflow.state.verification import verify as verify_files
    from evenflow.storage import storage_at

    with bad_input(), progress("verify", quiet=True) as report:
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


def _namer(storage: Storage, found: dict[str, Any]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Gives a plan or an epoch with keys where it has fingerprints; keys that are not known any more
    are counted."""
    from evenflow.cli.live_view import key_name
    from evenflow.engine.checkpoint_keys import named_keys

    by_key = ("table", "hot")
    plans = (found["plan"], *found["epochs"].values())
    wanted = {one for plan in plans for field in by_key for one in plan.get(field) or ()}
    with bad_input():
        names = named_keys(storage, wanted)

    def named(plan: dict[str, Any]) -> dict[str, Any]:
        shown = dict(plan)
        for field in by_key:
            entries = plan.get(field)
            if isinstance(entries, dict) and entries:
                known = {key_name(names[k]): v for k, v in entries.items() if k in names}
                others = len(entries) - len(known)
                if field == "hot":
                    known = dict(sorted(known.items(), key=lambda item: -item[1]))
                shown[field] = known | ({"other keys": others} if others else {})
        return shown

    return named


def _line(values: Any) -> str:
    """Plain values on one line, without JSON's outer braces."""
    if isinstance(values, dict):
        return ", ".join(f"{name} {_value(value)}" for name, value in values.items())
    return _value(values)


def _value(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 200 else f"{text[:200]}… ({len(text)} characters)"
