"""Where a query writes: places of its own, apart from each other, taken before anything is written."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from evenflow.engine.dead_letters import DeadLetters, letter_schema
from evenflow.engine.job import Job
from evenflow.engine.output import Sink
from evenflow.model import InputError
from evenflow.spark.locations import is_local
from evenflow.spark.sinks import ParquetSink, Target
from evenflow.state.checkpoint import Checkpoint

if TYPE_CHECKING:
    from evenflow.spark.stream_writer import StreamSettings

_LOG = logging.getLogger("evenflow.query")
_PATH = "deadletterpath"


def check_store_options(location: str, settings: StreamSettings) -> None:
    """Refuse options of a store where none of the query's places is on one: a mistake in their names
    would not be noticed.

    Parameters:
        location: of the checkpoint.
    """
    given = sorted(settings.storage_options)
    places = [location, settings.path, settings.options.get(_PATH)]
    if given and all(is_local(place) for place in places if place is not None):
        raise InputError(
            f"the option {'storage.' + given[0]!r} is for the store of checkpoint and output; both are "
            "on a file system here, where it has no effect; leave it out, or give a location such as "
            "s3://bucket/folder"
        )


def dead_letters_of(job: Job, output: Target, settings: StreamSettings) -> DeadLetters | None:
    """Where rows are set aside that the operator fails for; None to stop at the first of them.

    Parameters:
        output: of the query, whose session and options of a store they share.
    """
    limit = settings.dead_letter_limit
    if _PATH not in settings.options:
        return None
    letter_schema(job)  # refuses work that cannot set rows aside
    target = replace(
        output,
        format="parquet",
        path=settings.options[_PATH],
        table=None,
        options={},
        partition_by=(),
    )
    return DeadLetters(ParquetSink.of(target), limit)


def check_apart(location: str, sinks: Sequence[Sink]) -> None:
    """Refuse places that lie within each other: readers of one would find the files of the other.

    Parameters:
        location: of the checkpoint.
        sinks: of the output and, if there are any, of dead letters.
    """
    places = [sink.storage.where() for sink in sinks if isinstance(sink, ParquetSink)]
    for i, one in enumerate(places):
        for other in (location, *places[:i]):
            a, b = (text.rstrip("/") + "/" for text in (one, other))
            if a.startswith(b) or b.startswith(a):
                raise InputError(
                    f"{one} and {other} lie within each other; checkpointLocation, the output and "
                    "deadLetterPath each need a directory of their own"
                )


def take_places(checkpoint: Checkpoint, output: Sink, letters: DeadLetters | None) -> None:
    """Take the places of a query, before anything in them is deleted or written.

    Files that are not the query's are refused. Earlier output that is somewhere else is said.
    """
    last = checkpoint.last()
    if isinstance(output, ParquetSink):
        output.check_free(checkpoint.query)
        if last is not None and not output.belongs_to(checkpoint.query):
            _LOG.warning(
                "%s is a new output of the query with the checkpoint %s: the rows of batches 0 to %d "
                "are where the query has written so far, and only later ones will be here",
                output.storage.where(),
                checkpoint.location,
                last.batch,
            )
        output.claim(checkpoint.query)
    if letters is not None and isinstance(letters.sink, ParquetSink):
        letters.sink.check_free(checkpoint.query)
        letters.sink.claim(checkpoint.query)


def discard_uncommitted(letters: DeadLetters, checkpoint: Checkpoint) -> None:
    """Drop the dead letters of a batch that was never committed: it is run again now, and functions
    that have been mended in the meantime do not fail for the same rows."""
    last = checkpoint.last()
    if isinstance(letters.sink, ParquetSink):
        letters.sink.discard(0 if last is None else last.batch + 1)
