"""`evenflow state history|diff`: one key's state over time, and what changed between two batches."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenflow.cli.options import Json, StorageOptions, storage_options_in
from evenflow.cli.terminal import cell, print_json, say, stdout, table_of
from evenflow.model.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

    from evenflow.engine.stored_state import StoredState
    from evenflow.state.checkpoint import Checkpoint

Location = Annotated[
    str, typer.Argument(metavar="CHECKPOINT", help="The query's checkpoint: a path or URI.")
]
_LONGEST = 60  # characters of a value


def history(
    checkpoint: Location,
    key: Annotated[
        str,
        typer.Argument(
            metavar="KEY",
            help='The key: plain text, or a JSON list of its columns: \'["home", 7]\', "[null]".',
        ),
    ],
    storage_option: StorageOptions = None,
    as_json: Json = False,
) -> None:
    """Show one key's state after every batch that is kept, as far as it changed.

    How many batches are kept is the query's option "keepVersions" (10).
    """
    opened = _open(checkpoint, storage_option)
    changes: list[dict[str, Any]] = []
    asked: str | None = None
    for state in _kept(opened):
        keys = _key_in(key, state.key_schema())
        asked = json.dumps(_plain(keys.to_pylist()[0]), ensure_ascii=False)
        rows = [_plain(row) for row in state.rows_like(keys).to_pylist()]
        rows = sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))
        if not changes or changes[-1]["rows"] != rows:
            changes.append({"batch": state.manifest.batch, "rows": rows})
    kept = opened.batches()
    if as_json:
        print_json({"checkpoint": opened.location, "key": key, "kept": kept, "history": changes})
        return
    console = stdout()
    if asked is None or not any(one["rows"] for one in changes):
        say(
            console,
            f"{opened.location}: no state of {asked or key} in the {len(kept)} kept batches",
        )
        return
    say(console, f"{asked}, in batches {kept[0]} to {kept[-1]}:", "bold")
    names = next(list(one["rows"][0]) for one in changes if one["rows"])
    table = table_of("batch", *names)
    for one in changes:
        for row in one["rows"] or [dict.fromkeys(names, "–")]:
            table.add_row(str(one["batch"]), *(cell(_short(row[name])) for name in names))
    console.print(table)


def diff(
    checkpoint: Location,
    before: Annotated[
        int | None, typer.Option("--from", help="A batch that is kept; the oldest by default.")
    ] = None,
    after: Annotated[
        int | None, typer.Option("--to", help="A later one; the last by default.")
    ] = None,
    limit: Annotated[int, typer.Option(help="How many keys to show.")] = 20,
    storage_option: StorageOptions = None,
    as_json: Json = False,
) -> None:
    """Show which keys' state changed between two batches, from what to what."""
    from evenflow.engine.stored_state import StoredState, changes
    from evenflow.model.validation import check_whole

    check_whole("--limit", limit, least=0)
    opened = _open(checkpoint, storage_option)
    kept = opened.batches()
    if not kept:
        raise InputError(f"{opened.location}: no batch has been committed yet")
    first = kept[0] if before is None else before
    last = kept[-1] if after is None else after
    if first > last:
        raise InputError(f"--from {first} is after --to {last}; exchange them")
    with _explained():
        new = StoredState.of(opened, last)
        old = StoredState.of(opened, first) if opened.manifest(first).segments else None
        added = changed = 0
        shown: list[dict[str, Any]] = []
        for owner in range(new.partitions):
            for row in changes(old, new, owner).to_batches():
                missing = row.column("before").null_count
                added, changed = added + missing, changed + row.num_rows - missing
                left = max(0, limit - len(shown))
                shown += [_plain(one) for one in row.slice(0, left).to_pylist()]
    if as_json:
        print_json(
            {
                "checkpoint": opened.location,
                "from": first,
                "to": last,
                "added": added,
                "changed": changed,
                "keys": shown,
            }
        )
        return
    console = stdout()
    say(
        console,
        f"{opened.location}: from batch {first} to batch {last}, {added:,} keys were added and "
        f"{changed:,} changed",
    )
    if not shown:
        return
    table = table_of("key")
    table.add_column("before", overflow="fold")
    table.add_column("after", overflow="fold")
    for one in shown:
        name = json.dumps([one[c] for c in one if c not in ("before", "after")], ensure_ascii=False)
        table.add_row(cell(name), *(cell(_fields(one[side])) for side in ("before", "after")))
    console.print(table)
    if added + changed > len(shown):
        say(console, f"the first {len(shown)} of {added + changed:,}; --limit shows more")


def _open(location: str, storage_option: list[str] | None) -> Checkpoint:
    from evenflow.state.checkpoint import Checkpoint
    from evenflow.storage import storage_at

    with _explained():
        return Checkpoint.open(storage_at(location, storage_options_in(storage_option)))


def _kept(checkpoint: Checkpoint) -> list[StoredState]:
    from evenflow.engine.stored_state import StoredState

    with _explained():
        manifests = checkpoint.manifests()
        return [
            StoredState(checkpoint.storage, manifests[batch], checkpoint.identity)
            for batch in sorted(manifests)
            if manifests[batch].segments
        ]


def _key_in(text: str, schema: pa.Schema) -> pa.Table:
    """The key that a text names, as a table of one row."""
    import pyarrow as pa

    values: Any = None
    if text.lstrip().startswith("["):
        try:
            values = json.loads(text)
        except ValueError:
            values = None
    if not isinstance(values, list):
        values = [text]
    if len(values) != len(schema):
        raise InputError(
            f"the key has {len(schema)} columns ({', '.join(schema.names)}); give it as a JSON list, "
            f"such as '[\"home\", 7]', got {text!r}"
        )
    columns = []
    for value, field in zip(values, schema, strict=True):
        given = None if value is None else value if isinstance(value, str) else json.dumps(value)
        try:
            columns.append(pa.array([given], pa.string()).cast(field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            raise InputError(
                f"the key column {field.name!r} is {field.type}, and {given!r} is not"
            ) from None
    return pa.table(columns, names=schema.names)


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """As JSON has it: bytes as their number, times as text."""
    return {name: _value(value) for name, value in row.items()}


def _value(value: Any) -> Any:
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>"
    if isinstance(value, dict):
        return _plain(value)
    if isinstance(value, list):
        return [_value(one) for one in value]
    if isinstance(value, float) and (value != value or value in (float("inf"), -float("inf"))):
        return str(value)
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _fields(values: dict[str, Any] | None) -> str:
    if values is None:
        return "–"
    return ", ".join(f"{name} {_short(value)}" for name, value in values.items())


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _explained() -> Any:
    from evenflow.cli.state import bad_input

    return bad_input()
