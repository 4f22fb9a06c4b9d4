"""Power laws over any number of ranks, drawn without a table of all of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np

from evenflow.kernels.jit import kernel
from evenflow.kernels.mixing import mix
from evenflow.model import InputError
from evenflow.model.validation import check_not_negative, check_whole
from evenflow.simulator.workloads.drawing import (
    F64,
    I32,
    alias_table,
    power_law_weights,
    random_word,
    unit,
)
from evenflow.simulator.workloads.protocol import U64

_TABLE = 1 << 13  #: ranks drawn by table: with 12 bytes each they stay in a core's own cache
_SUMMED = 1 << 10  #: ranks summed one by one; the sum of the others is an integral
_MOST_RANKS = 1 << 50  #: a rank must be an exact float, with room for its half
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)

# Places in `Sampler.tail`.
_START, _SHIFT, _COMPLEMENT, _WIDTH, _SQUEEZE, _FIRST, _LAST = range(7)


class Sampler(NamedTuple):
    """What `draw` needs of a law: an alias table of the head, and constants of the tail."""

    accept: F64
    alias: I32
    tail: F64
    table: int  #: ranks of the head; a further cell of the table, if there is one, is the tail


@dataclass(frozen=True)
class PowerLaw:
    """Rank r of 1 … ranks has probability ∝ (r + shift)^−exponent (Zipf and Mandelbrot).

    Guarantee: sums and expectations over all ranks are good to 10 digits and take milliseconds for
    any number of ranks.

    Parameters:
        exponent: s ≥ 0; 0 is uniform.
        ranks: how many there are; the stream need not reach them all.
        shift: above −1; 0 is Zipf's law.

    Example:
        >>> law = PowerLaw(exponent=1.1, ranks=28_000_000, shift=1.72)
        >>> f"{law.p1:.4f}, {law.distinct(28_000_000) / 1e6:.1f} M keys seen"
        '0.0448, 3.2 M keys seen'
    """

    exponent: float
    ranks: int
    shift: float = 0.0

    def __post_init__(self) -> None:
        check_not_negative("the exponent", self.exponent)
        check_whole("the number of ranks", self.ranks, 1)
        if self.ranks > _MOST_RANKS:
            raise InputError(f"at most 2^50 ranks can be told apart, got {self.ranks}")
        if not -1 < self.shift < math.inf:
            raise InputError(f"the shift must be a finite number above -1, got {self.shift}")

    @property
    def total(self) -> float:
        """Σ (r + shift)^−exponent over all ranks."""
        exact = min(self.ranks, _SUMMED)
        head = float(power_law_weights(self.exponent, self.shift, exact).sum())
        if exact == self.ranks:
            return head
        # Euler and Maclaurin's formula at midpoints; the next term is below 1e-13 of the sum.
        start, end = exact + 0.5 + self.shift, self.ranks + 0.5 + self.shift
        complement = 1.0 - self.exponent
        integral = start**complement * _primitive(complement, end / start)
        slopes = self.exponent * (end ** (-self.exponent - 1) - start ** (-self.exponent - 1))
        return float(head + integral + slopes / 24)

    @property
    def p1(self) -> float:
        """The probability of the most frequent key."""
        return float((1.0 + self.shift) ** -self.exponent / self.total)

    def distinct(self, messages: int) -> float:
        """How many different keys so many independent messages are expected to have."""
        exact = min(self.ranks, _SUMMED)
        total = self.total

        def seen(weights: F64) -> F64:
            probabilities: F64 = -np.expm1(messages * np.log1p(-weights / total))
            return probabilities

        with np.errstate(divide="ignore"):  # a single rank has probability 1
            head = float(seen(power_law_weights(self.exponent, self.shift, exact)).sum())
        if exact == self.ranks:
            return head
        # The chance of being seen changes slowly with the logarithm of the rank.
        low, high = math.log(exact + 0.5), math.log(self.ranks + 0.5)
        nodes, weights = _gauss_legendre()
        ranks = np.exp(low + (high - low) * nodes)
        density = seen((ranks + self.shift) ** -self.exponent) * ranks
        return float(head + (high - low) * (weights @ density))

    def sampler(self, table: int = _TABLE) -> Sampler:
        """The law in the form that `draw` takes; `table` ranks are drawn by table."""
        table = min(table, self.ranks)
        cells = power_law_weights(self.exponent, self.shift, table) / self.total
        if table < self.ranks:
            cells = np.append(cells, 1.0 - cells.sum())
        accept, alias = alias_table(cells)
        return Sampler(accept, alias, self._tail(table), table)

    def _tail(self, table: int) -> F64:
        """Constants of the ranks beyond the table, in units of the tail's left end."""
        start, complement = table + 0.5 + self.shift, 1.0 - self.exponent
        first = (table + 1 + self.shift) / start
        bound = _primitive(complement, (table + 1.5 + self.shift) / start)
        least = _inverse(complement, bound - first**-self.exponent / start)
        tail = np.empty(7)
        tail[_START], tail[_SHIFT], tail[_COMPLEMENT] = start, self.shift, complement
        tail[_WIDTH] = _primitive(complement, (self.ranks + 0.5 + self.shift) / start)
        tail[_SQUEEZE] = (first - least) * start
        tail[_FIRST], tail[_LAST] = table + 1, self.ranks
        return tail


def with_top_share(p1: float, ranks: int) -> PowerLaw:
    """Zipf's law over so many ranks, the first of which has probability `p1`.

    Example:
        >>> round(with_top_share(0.5, 2).exponent, 12)
        0.0
    """
    if not 1 / ranks <= p1 < 1:
        raise InputError(f"the most frequent of {ranks} keys cannot have the share {p1}")
    # The top key's share grows with the exponent.
    return PowerLaw(_bisected(lambda s: PowerLaw(s, ranks).p1 < p1, 0.0, 64.0), ranks)


@cache
def fitted(p1: float, keys: int, messages: int) -> PowerLaw:
    """Zipf's law whose top key has share `p1`, and of which `messages` show `keys` different keys.

    Guarantee: p1 is met to 12 digits, the expected number of distinct keys to one rank's worth.

    Parameters:
        p1: the share of the most frequent key.
        keys: distinct keys that were seen.
        messages: length of the stream in which they were seen.

    Example:
        >>> law = fitted(p1=0.0932, keys=2_900_000, messages=22_000_000)
        >>> f"s = {law.exponent:.4f}, {law.ranks / 1e6:.1f} M ranks"
        's = 1.0671, 24.5 M ranks'
    """
    check_whole("the number of messages", messages, 1)
    check_whole("the number of keys", keys, 2)
    if keys > messages or not 1 / keys < p1 < 1:
        raise InputError(
            f"no stream of {messages} messages has {keys} keys, of which one has the share {p1}"
        )

    # More ranks, the top key's share being what it is, mean more keys seen.
    low, high = keys - 1, keys
    while with_top_share(p1, high).distinct(messages) < keys:
        low, high = high, 2 * high
        if high > _MOST_RANKS:
            raise InputError(
                f"no power law with p1 = {p1} shows {keys} different keys in {messages} messages; "
                "give fewer keys or more messages"
            )
    while high - low > 1:
        middle = (low + high) // 2
        few = with_top_share(p1, middle).distinct(messages) < keys
        low, high = (middle, high) if few else (low, middle)
    return with_top_share(p1, high)


def draw(sampler: Sampler, salt: np.uint64, identity: np.uint64, position: int, out: U64) -> None:
    """Write the keys of the messages from `position` on; rank r (from 0) is key mix(identity + r).

    A message whose rank is in the head is drawn by table, one in the tail by rejection from the
    area under the continuous law, which almost never rejects.

    Paper: Hörmann and Derflinger, "Rejection-inversion to generate variates from monotone discrete
    distributions", 1996.
    """
    accept, alias, tail, table = sampler
    _draw(salt, identity, position, accept, alias, tail, table, out)


@kernel
def _primitive(complement: float, z: float) -> float:
    """∫ x^(complement − 1) dx from 1 to z."""
    log: float = np.log(z)
    area: float = log if complement == 0.0 else np.expm1(complement * log) / complement
    return area


@kernel
def _inverse(complement: float, area: float) -> float:
    """The z up to which that integral has this area."""
    z: float = np.exp(area if complement == 0.0 else np.log1p(complement * area) / complement)
    return z


@kernel
def _tail_rank(word: np.uint64, tail: F64) -> np.uint64:
    start, shift, complement = tail[_START], tail[_SHIFT], tail[_COMPLEMENT]
    while True:
        word = mix(word + _GOLDEN)
        area = unit(word) * tail[_WIDTH]
        x = _inverse(complement, area) * start - shift
        rank = min(max(np.floor(x + 0.5), tail[_FIRST]), tail[_LAST])
        # Close enough to the left is within the bar of every rank; otherwise ask this rank's bar.
        if rank - x <= tail[_SQUEEZE]:
            break
        bar = np.exp((complement - 1.0) * np.log((rank + shift) / start)) / start
        if area >= _primitive(complement, (rank + 0.5 + shift) / start) - bar:
            break
    return np.uint64(rank) - np.uint64(1)


@kernel
def _draw(
    salt: np.uint64,
    identity: np.uint64,
    position: int,
    accept: F64,
    alias: I32,
    tail: F64,
    table: int,
    out: U64,
) -> None:
    cells, head = np.float64(len(accept)), np.uint64(table)
    for i in range(len(out)):
        word = random_word(salt, position + i)
        spot = unit(word) * cells
        cell = np.uint64(spot)
        own = spot - np.float64(cell) < accept[cell]
        rank = cell if own else np.uint64(alias[cell])
        if rank == head:
            rank = _tail_rank(word, tail)
        out[i] = mix(identity + rank)


def _bisected(below: Callable[[float], bool], low: float, high: float) -> float:
    """Where `below` turns from true to false, to the last bit."""
    while True:
        middle = (low + high) / 2
        if not low < middle < high:
            return high
        low, high = (middle, high) if below(middle) else (low, middle)


@cache
def _gauss_legendre() -> tuple[F64, F64]:
    """Nodes and weights of a quadrature over [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(256)
    return (nodes + 1) / 2, weights / 2
