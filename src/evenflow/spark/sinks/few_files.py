"""The files of a batch's output, put together to fewer ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq

from evenflow.engine.output import Output
from evenflow.state.errors import explained
from evenflow.storage import together


def in_few_files(output: Output, rows: int) -> Output:
    """The output in files of at least `rows` rows, but for the last one.

    Guarantee: the same rows, in the order of the partitions. Which files are put together follows from
    how many rows each has, and the name of the new one from the first of them, so a batch that is
    delivered again has the same files.

    Parameters:
        output: of one batch.
        rows: of a file; one that has as many is left as it is.
    """
    names = sorted(output.files)
    contents = together(output.storage, [partial(output.storage.read, name) for name in names])
    files = [pq.ParquetFile(pa.BufferReader(content)) for content in contents]
    made: list[str] = []
    for group in grouped([file.metadata.num_rows for file in files], rows):
        if len(group) == 1:
            made.append(names[group[0]])
            continue
        sink = pa.BufferOutputStream()
        with pq.ParquetWriter(sink, output.schema) as writer:
            for number in group:
                writer.write_table(files[number].read().cast(output.schema))
        name = names[group[0]].removesuffix(".parquet") + "-together.parquet"
        with explained("write", output.storage.where(name)):
            output.storage.put(name, [memoryview(sink.getvalue())])
        made.append(name)
    return replace(output, files=made)


def grouped(rows: Sequence[int], least: int) -> Iterable[list[int]]:
    """The numbers of neighbouring files that together have at least so many rows.

    Example:
        >>> list(grouped([3, 9, 1, 1, 4, 2], least=5))
        [[0, 1], [2, 3, 4], [5]]
    """
    group: list[int] = []
    total = 0
    for number, n in enumerate(rows):
        group.append(number)
        total += n
        if total >= least:
            yield group
            group, total = [], 0
    if group:
        yield group
