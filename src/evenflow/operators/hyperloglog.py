"""The number of distinct values of a column: approximate, by registers of the longest runs of zeros."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from evenflow.kernels.fingerprints import fingerprint
from evenflow.model import InputError
from evenflow.operators.aggregate import ColumnAggregate
from evenflow.operators.groups import I64, Groups
from evenflow.operators.input_columns import one_array, plain_type
from evenflow.operators.value_lists import flattened, lists_of

F64 = npt.NDArray[np.float64]

_LARGEST, _SMALLEST = 0.39, 0.0011  # of rsd: 2^4 and 2^20 registers
_RUN_BITS = 6
_RUN = (1 << _RUN_BITS) - 1
_DOUBLE = 53  # bits that a double holds exactly, and thus the longest run that is told apart
_KEYS_AT_ONCE = 1 << 14


@dataclass(frozen=True)
class ApproxCountDistinct(ColumnAggregate):
    """Estimates the number of distinct values of a column with HyperLogLog.

    Guarantee: relative standard error 1.04/√m with m = 2^⌈2·log₂(1.106/rsd)⌉ registers, as many as
    Spark's `approx_count_distinct` has: at most `rsd`. Two out of three estimates are closer, 95 % are
    within twice that. Null does not count; NaN is one value, −0.0 is 0.0. The result is a bigint, never
    null. It depends on the values alone, neither on their order nor on how they were split into parts.
    A state takes 4 bytes for each register in use: at most 4·m, 2 kilobytes by default.

    Parameters:
        column: numbers, booleans, strings, binary, dates, timestamps or intervals.
        rsd: the relative standard deviation allowed, 0.0011 … 0.39.

    Example:
        >>> from evenflow.operators import Aggregates, on_table
        >>> rows = pa.table({"page": ["a", "a", "b", "a"], "user": ["x", "y", None, "x"]})
        >>> on_table(Aggregates(users=ApproxCountDistinct("user")), rows, "page").to_pylist()
        [{'page': 'a', 'users': 2}, {'page': 'b', 'users': 0}]

    Paper: Flajolet, Fusy, Gandouet, Meunier, "HyperLogLog", AofA 2007; the estimate by Ertl, "New
    cardinality estimation algorithms for HyperLogLog sketches", 2017, section 4 ("improved raw
    estimation"), which needs no tables of corrections.
    """

    name: ClassVar[str] = "approx_count_distinct"
    state_columns: ClassVar[tuple[str, ...]] = ("registers",)
    any_width: ClassVar[bool] = False  # an int and a bigint have other hashes, as in Spark
    fingerprints: ClassVar[bool] = True

    rsd: float = 0.05

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (isinstance(self.rsd, int | float) and _SMALLEST <= self.rsd <= _LARGEST):
            raise InputError(
                f"{self}: rsd must be a number from {_SMALLEST} to {_LARGEST}, got {self.rsd!r}; "
                "leave it out for 0.05"
            )

    @property
    def _bits(self) -> int:
        """log₂ of the number of registers."""
        return math.ceil(2 * math.log2(1.106 / self.rsd))

    def state_schema(self, rows: pa.Schema) -> pa.Schema:
        """The registers in use, as register · 64 + run, in order."""
        plain_type(rows, self.column, self)
        return pa.schema([("registers", pa.list_(pa.int32()))])

    def output_schema(self, rows: pa.Schema) -> pa.Schema:
        """A bigint."""
        plain_type(rows, self.column, self)
        return pa.schema([(self.name, pa.int64())])

    def partial(self, table: pa.Table, groups: Groups) -> pa.Table:
        """The registers of the rows of each key."""
        self.state_schema(table.schema)
        values, groups = self.values(table, groups)
        hashes, bits = fingerprint(values), self._bits
        register = (hashes >> np.uint64(64 - bits)).astype(np.int64)
        rest = (hashes << np.uint64(bits)) >> np.uint64(64 - _DOUBLE)
        run = _DOUBLE + 1 - np.frexp(rest.astype(np.float64))[1].astype(np.int64)
        return self._largest((register << _RUN_BITS) | run, groups)

    def merge(self, states: pa.Table, groups: Groups) -> pa.Table:
        """The largest run of each register."""
        entries, groups = flattened(one_array(states.column("registers")), groups)
        return self._largest(entries.to_numpy().astype(np.int64), groups)

    def _largest(self, entries: I64, groups: Groups) -> pa.Table:
        width = self._bits + _RUN_BITS
        place = np.sort((groups.group << width) | entries)
        register = place >> _RUN_BITS
        # The entries of a register are next to each other, the longest run last.
        last = place[np.flatnonzero(np.diff(register, append=-1))]
        kept = pa.array((last & ((1 << width) - 1)).astype(np.int32))
        return pa.table({"registers": lists_of(kept, Groups(last >> width, groups.n))})

    def emit(self, state: pa.Table) -> pa.Array:
        """The estimates, rounded."""
        found = [
            self._estimates(state.slice(start, _KEYS_AT_ONCE))
            for start in range(0, state.num_rows, _KEYS_AT_ONCE)
        ]
        estimates = np.concatenate([np.zeros(0), *found])
        return pa.array(np.rint(estimates).astype(np.int64))

    def _estimates(self, state: pa.Table) -> F64:
        n, m = state.num_rows, 1 << self._bits
        every = Groups(np.arange(n), n)
        entries, groups = flattened(one_array(state.column("registers")), every)
        runs = entries.to_numpy().astype(np.int64) & _RUN
        longest = _DOUBLE + 1
        cells = groups.group * (longest + 1) + runs
        with_run = np.bincount(cells, minlength=n * (longest + 1)).reshape(n, longest + 1)
        z = m * _tau(1 - with_run[:, longest] / m)
        for run in range(longest - 1, 0, -1):
            z = 0.5 * (z + with_run[:, run])
        unused = 1 - groups.counts / m
        used = groups.counts > 0
        z = z + m * _sigma(np.where(used, unused, 0.0))
        return np.where(used, m * m / (2 * math.log(2) * np.where(used, z, 1.0)), 0.0)


def _sigma(x: F64) -> F64:
    """x + Σ x^(2^k)·2^(k − 1), for x below 1; Ertl's σ."""
    total, power, weight = x.copy(), x.copy(), 1.0
    while True:
        power = power * power
        more = total + power * weight
        if np.array_equal(more, total):
            return total
        total, weight = more, 2 * weight


def _tau(x: F64) -> F64:
    """(1 − x − Σ (1 − x^(2^−k))²·2^(−k))/3; Ertl's τ."""
    total, root, weight = 1 - x, x.copy(), 1.0
    while True:
        root, weight = np.sqrt(root), weight / 2
        less = total - (1 - root) ** 2 * weight
        if np.array_equal(less, total):
            return total / 3
        total = less
