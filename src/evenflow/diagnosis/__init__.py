"""How skewed is it, what would help, and by how much?"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenflow.diagnosis.diagnosis import Diagnosis, Finding
from evenflow.model import InputError

if TYPE_CHECKING:
    from evenflow.spark.key_counts import Frame, KeyColumn

__all__ = ["Diagnosis", "Finding", "diagnose"]

_PARTITIONS = 16  #: where nothing says how many


def diagnose(
    source: Frame | str | os.PathLike[str],
    /,
    *keys: KeyColumn,
    partitions: int | None = None,
    seconds_per_row: float | None = None,
    mergeable: bool = True,
    every_planner: bool = False,
    bootstrap: str | None = None,
    group: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Diagnosis:
    """Find out whether skew is what slows a job, and what would help.

    Guarantee: nothing is changed: an event log, files, a checkpoint and a topic are only read.

    Parameters:
        source: a Spark event log (a file, or a directory of a rolled one); the address of a running
            application (`http://driver:4040`); a checkpoint of a query of evenflow; a batch DataFrame,
            or files (Parquet, CSV, JSON lines), with `keys`; a Kafka topic, with `bootstrap`.
        keys: of a DataFrame or of files: the columns by which the work is keyed.
        partitions: keys: how many tasks would share the work; if not given, as many as Spark
            has cores, or the topic has partitions, or 16 for files.
        seconds_per_row: keys: what the work takes for a row, for predicted times.
        mergeable: keys: whether the work has a merge, so that hot keys may be split.
        every_planner: keys: try all planners that are installed, not only two.
        bootstrap, group: the address of a Kafka broker, and the consumer group whose lag is wanted.
        storage_options: of the checkpoint's store, where the environment does not have them.

    Example:
        >>> import tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> path = Path(folder.name) / "clicks.csv"
        >>> _ = path.write_text("page\\n" + "home\\n" * 60 + "help\\n" * 40)
        >>> diagnose(path, "page", partitions=4).cause
        'hot key'
        >>> folder.cleanup()
    """
    if not isinstance(source, (str, os.PathLike)):
        return _of_frame(source, keys, partitions, seconds_per_row, mergeable, every_planner)
    if bootstrap is not None:
        from evenflow.diagnosis.topics import diagnose_topic

        return diagnose_topic(str(source), bootstrap, group, partitions, seconds_per_row)
    if group is not None:
        raise InputError("a consumer group needs bootstrap, the address of its broker")
    if keys:
        columns = tuple(key if isinstance(key, str) else _refused(key) for key in keys)
        return _of_files(source, columns, partitions, seconds_per_row, mergeable, every_planner)
    if str(source).startswith(("http://", "https://")):
        from evenflow.diagnosis.applications import diagnose_application
        from evenflow.diagnosis.rest import read_application

        return diagnose_application(read_application(str(source)), "live application")
    return _of_place(source, storage_options)


def _of_frame(
    frame: Any,
    keys: tuple[Any, ...],
    partitions: int | None,
    seconds_per_row: float | None,
    mergeable: bool,
    every_planner: bool,
) -> Diagnosis:
    from evenflow.diagnosis.key_figures import COUNTED, figures_of_table
    from evenflow.diagnosis.keys import diagnose_keys
    from evenflow.spark.jobs import default_partitions
    from evenflow.spark.key_counts import is_dataframe, key_counts

    if not is_dataframe(frame):
        raise InputError(
            f"diagnose takes a DataFrame, a path or an address, got {type(frame).__name__}"
        )
    if not keys:
        raise InputError('diagnose(df, …) needs the key columns: diagnose(df, "page")')
    names, counted, rows, distinct = key_counts(frame, keys, COUNTED)
    return diagnose_keys(
        figures_of_table("the DataFrame", names, counted, rows, distinct),
        partitions or default_partitions(frame),
        seconds_per_row,
        mergeable=mergeable,
        every_planner=every_planner,
    )


def _of_files(
    source: str | os.PathLike[str],
    columns: tuple[str, ...],
    partitions: int | None,
    seconds_per_row: float | None,
    mergeable: bool,
    every_planner: bool,
) -> Diagnosis:
    from evenflow.diagnosis.key_figures import figures_of_files
    from evenflow.diagnosis.keys import diagnose_keys

    return diagnose_keys(
        figures_of_files(Path(source), columns),
        partitions or _PARTITIONS,
        seconds_per_row,
        mergeable=mergeable,
        every_planner=every_planner,
    )


def _of_place(
    source: str | os.PathLike[str], storage_options: Mapping[str, str] | None
) -> Diagnosis:
    """An event log or a checkpoint, whichever is there."""
    from evenflow.diagnosis.applications import diagnose_application
    from evenflow.diagnosis.checkpoints import diagnose_checkpoint, is_checkpoint
    from evenflow.diagnosis.event_log import is_event_log, read_event_log
    from evenflow.model.file_formats import format_of
    from evenflow.storage import storage_at

    local = "://" not in str(source)
    path = Path(source)
    if local and not path.exists():
        raise InputError(
            f"there is no {str(source)!r}; diagnose takes an event log, a checkpoint, "
            "http://driver:4040, or files with a key"
        )
    if local and is_event_log(path):
        return diagnose_application(read_event_log(path))
    if not local or path.is_dir():
        storage = storage_at(source, storage_options)
        if is_checkpoint(storage):
            return diagnose_checkpoint(storage, str(source))
    if path.is_file() and format_of(path) is not None:
        raise InputError(f"{str(source)!r} has rows: name the key column, with --key or as keys")
    raise InputError(
        f"{str(source)!r} is neither a Spark event log nor a checkpoint of evenflow; of files, name "
        "the key column; of Spark, give a log from spark.eventLog.dir"
    )


def _refused(key: object) -> str:
    raise InputError(f"key columns of files are given by name, got {key!r}")
