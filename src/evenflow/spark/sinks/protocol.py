"""What a format of `writeStream` is, and what it is given to make its sink."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Protocol

from evenflow.engine.output import Sink
from evenflow.model import InputError
from evenflow.spark.locations import spark_address
from evenflow.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

#: Options of every format, under the names that people type.
OWN_OPTIONS = (
    "checkpointLocation",
    "path",
    "keepVersions",
    "leaseSeconds",
    "deadLetterPath",
    "deadLetterLimit",
    "metricsPort",
    "metricsAddress",
)


class Format(Sink, Protocol):
    """A sink that is found by its name: `writeStream.format(name)`.

    Its class has:

        name: of the format, in lower case.
        temporary: whether its output ends with the process; its queries need no checkpoint location.
    """

    name: ClassVar[str]
    temporary: ClassVar[bool]

    @classmethod
    def of(cls, target: Target) -> Sink:
        """The sink for a query. Refuses here, before the first batch, what the format does not take."""
        ...


def another_history(where: str, batch: int) -> InputError:
    """The error for an output that goes on where the checkpoint does not.

    Parameters:
        where: the output.
        batch: that is to be delivered.
    """
    return InputError(
        f"{where} has batch {batch}, or a later one, made of other rows: the checkpoint was restored "
        f"from a backup, and the output was not; remove batch {batch} and all later ones from the "
        "output, or restore it from the same backup, or give this query an output of its own"
    )


class InCheckpoint:
    """A sink for which tasks write the output into the checkpoint."""

    def staging(self, default: Storage) -> Storage:
        return default


@dataclass(frozen=True)
class Target:
    """What a format is given to make its sink.

    Parameters:
        format: its name, as the user wrote it.
        schema: of the output.
        spark: the session.
        path: of `start(path)` or the option "path".
        table: of `toTable(name)`.
        options: of the writer that are not evenflow's own, as the user wrote them.
        partition_by: the columns of `partitionBy`.
        name: of the query.
        connect: whether the session is one of Spark Connect.
        storage_options: of the writer, for the store of the output.
    """

    format: str
    schema: StructType
    spark: SparkSession = field(repr=False)
    path: str | None = None
    table: str | None = None
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    partition_by: tuple[str, ...] = ()
    name: str | None = None
    connect: bool = False
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def spark_path(self) -> str | None:
        """The path, as Spark must be given it."""
        return None if self.path is None else spark_address(self.spark, self.path)

    def option(self, name: str, default: str | None = None) -> str | None:
        """The value of an option, whose name may be written in any case, as for Spark."""
        found = {key.lower(): value for key, value in self.options.items()}
        return found.get(name.lower(), default)

    def takes(self, *options: str) -> None:
        """Refuse tables, partitions and all other options, for formats that are not Spark's.

        Parameters:
            options: the names of those that the format takes.
        """
        if self.table is not None:
            raise InputError(
                f"toTable({self.table!r}): format {self.format!r} does not write to tables; use "
                '"delta", "iceberg" or another format of Spark'
            )
        if self.partition_by:
            raise InputError(
                f"partitionBy: format {self.format!r} cannot partition its output; use "
                '"delta", "iceberg" or another format of Spark, or leave partitionBy out'
            )
        known = {name.lower(): name for name in (*OWN_OPTIONS, *options)}
        for key in self.options:
            if key.lower() not in known:
                near = difflib.get_close_matches(key.lower(), known, 1)
                hint = f"did you mean {known[near[0]]!r}? " if near else ""
                raise InputError(
                    f"format {self.format!r} has no option {key!r}; {hint}There are "
                    f"{', '.join(known.values())}"
                )
