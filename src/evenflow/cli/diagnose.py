"""`evenflow diagnose`: is it skew, and what would help?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evenflow.cli.options import Json, StorageOptions, storage_options_in
from evenflow.cli.terminal import note, print_json, progress
from evenflow.model.errors import InputError


def diagnose(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="A Spark event log, http://driver:4040, a checkpoint of evenflow, files with --key, "
            "or a Kafka topic with --bootstrap.",
        ),
    ],
    key: Annotated[
        list[str] | None,
        typer.Option(help="Files: the key column; repeat it for a compound key."),
    ] = None,
    partitions: Annotated[
        int | None,
        typer.Option(help="Keys: how many tasks would share the work; 16 if not given."),
    ] = None,
    seconds_per_row: Annotated[
        float | None,
        typer.Option(help="Keys: what the work takes for a row, for predicted times."),
    ] = None,
    whole_keys: Annotated[
        bool, typer.Option("--whole-keys", help="Keys: the work must not split a key.")
    ] = False,
    every_planner: Annotated[
        bool, typer.Option("--every-planner", help="Keys: try all planners that are installed.")
    ] = False,
    bootstrap: Annotated[
        str | None, typer.Option(help="The address of a Kafka broker; SOURCE is a topic.")
    ] = None,
    group: Annotated[str | None, typer.Option(help="Topic: the group whose lag is shown.")] = None,
    page: Annotated[
        Path | None, typer.Option(help="Write a page with pictures to this .html file, too.")
    ] = None,
    storage_option: StorageOptions = None,
    as_json: Json = False,
) -> None:
    """Find out whether skew is what slows a job, and what would help: the answer first.

    An event log or a running application: which stages wait for stragglers, for how long, and whether
    the cause is a key, null keys, a machine, input files, spill, garbage collection or costly rows.
    Files and a key: how skewed the keys are, with a dry run of all schemes and two planners.

    \b
    Examples:
      evenflow diagnose /var/spark-events/eventlog_v2_app-20260801
      evenflow diagnose http://driver:4040 --page stragglers.html
      evenflow diagnose clicks.parquet --key page --partitions 24 --seconds-per-row 0.001
      evenflow diagnose s3://bucket/checkpoint
      evenflow diagnose clicks --bootstrap broker:9092 --group counters
    """
    from evenflow.diagnosis import diagnose as diagnosed

    if page is not None and page.suffix not in (".html", ".htm"):
        raise InputError(f"--page takes the name of an .html file, got {str(page)!r}")
    with progress("diagnose", quiet=True) as report:
        report(f"reading {source}", 0, None)
        found = diagnosed(
            source,
            *(key or ()),
            partitions=partitions,
            seconds_per_row=seconds_per_row,
            mergeable=not whole_keys,
            every_planner=every_planner,
            bootstrap=bootstrap,
            group=group,
            storage_options=storage_options_in(storage_option),
        )
    if page is not None:
        try:
            page.write_text(found.to_html(), encoding="utf-8")
        except OSError as error:
            raise InputError(f"{str(page)!r} cannot be written: {error.strerror}") from None
        note(f"Page: {page}")
    if as_json:
        print_json(found.to_dict())
    else:
        print(found)
