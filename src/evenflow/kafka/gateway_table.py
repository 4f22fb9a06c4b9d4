"""The keys that are away from home, as one table that Spark's compiled code looks into.

A broadcast join would do the same in a job of its own before each batch, and take longer for each row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from evenflow.kafka.gateway_state import Route
from evenflow.kernels.fingerprints import fingerprint
from evenflow.kernels.mixing import MULTIPLIER
from evenflow.kernels.perfect_hash import perfect_hash

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession


@dataclass(frozen=True)
class Table:
    """Columns that tell of a key whether it is in the table, and where it goes.

    Arithmetic must wrap around where these are put into a DataFrame.

    Parameters:
        salt: of the hash.
        places: of the table.
        buckets: of the hash.
        arrays: a structure of arrays. It is a subquery, so that Spark neither writes its content into
            the code that it compiles nor prints it with every plan.
    """

    salt: int
    places: int
    buckets: int
    arrays: Column

    @classmethod
    def of(cls, session: SparkSession, routes: Sequence[Route]) -> Table:
        """A table of routes whose fingerprints are all different."""
        from pyspark.sql import functions as F

        keys = fingerprint(pa.array([route.key for route in routes], pa.binary()))
        hashed = perfect_hash(keys)
        order = np.argsort(hashed.place)
        ends = np.cumsum([len(routes[i].key) for i in order.tolist()])
        lengths = np.diff(ends, prepend=0)
        stranger = keys[order].view(np.int64)[0]  # in a free place: a key whose place is elsewhere

        def column(values: Any, empty: Any, kind: pa.DataType) -> pa.Array:
            filled = np.broadcast_to(empty, hashed.places).astype(kind.to_pandas_dtype())
            filled[hashed.place[order]] = values
            return pa.array([filled], pa.list_(kind))

        told = pa.table(
            {
                "shift": pa.array([hashed.shift], pa.list_(pa.int32())),
                "fingerprint": column(keys[order].view(np.int64), stranger, pa.int64()),
                "start": column(ends - lengths + 1, 1, pa.int32()),
                "length": column(lengths, 0, pa.int32()),
                "keys": pa.array([b"".join(routes[i].key for i in order.tolist())], pa.binary()),
                "partition": column([routes[i].partition for i in order.tolist()], 0, pa.int32()),
                "set": column([routes[i].set for i in order.tolist()], 0, pa.int64()),
            }
        )
        rows = session.createDataFrame(told)
        arrays = rows.select(F.struct(*told.column_names)).scalar()
        return cls(hashed.salt, hashed.places, len(hashed.shift), arrays)

    def place(self, fingerprint: Column) -> Column:
        """The only place where a key of this fingerprint can be."""
        from pyspark.sql import functions as F

        word = mixed(fingerprint, self.salt)
        bucket = F.shiftrightunsigned(word, 65 - self.buckets.bit_length())
        stride = F.shiftrightunsigned(word, 32).bitwiseOR(F.lit(1).cast("bigint"))
        shift = F.get(self.arrays["shift"], bucket.cast("int")).cast("bigint")
        return (word + shift * stride).bitwiseAND(F.lit(self.places - 1).cast("bigint")).cast("int")

    def has(self, place: Column, fingerprint: Column, key: Column) -> Column:
        """Whether a key is in its place. Of two keys with one fingerprint only the table's own is."""
        from pyspark.sql import functions as F

        own = F.substring(
            self.arrays["keys"],
            F.get(self.arrays["start"], place),
            F.get(self.arrays["length"], place),
        )
        alike = F.get(self.arrays["fingerprint"], place) == fingerprint
        return alike & (own.cast("string") == key)

    def told(self, what: str, place: Column) -> Column:
        """The `partition` or the `set` of the key in a place."""
        from pyspark.sql import functions as F

        return F.get(self.arrays[what], place)


def mixed(word: Column, by: int) -> Column:
    """A word, mixed as by `kernels.perfect_hash.words`, for arithmetic that wraps around."""
    from pyspark.sql import functions as F

    def folded(word: Column) -> Column:
        return word.bitwiseXOR(F.shiftrightunsigned(word, 32))

    factor = F.lit(_signed(int(MULTIPLIER)))
    return folded(folded(word.bitwiseXOR(F.lit(_signed(by)))) * factor) * factor


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word
