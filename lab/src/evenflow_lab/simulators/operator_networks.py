"""Networks of continuous-query operators: who feeds whom, what a tuple costs, how many come out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evenflow.model import InputError
from evenflow.model.validation import check_positive, check_whole

F64 = npt.NDArray[np.float64]
I32 = npt.NDArray[np.int32]


@dataclass(frozen=True)
class OperatorNetwork:
    """Operators, and the streams between them. An operator comes after all that feed it.

    Every tuple that reaches an operator costs it the same time, and leaves `selectivity` tuples on
    average (a join or union with several inputs: for each tuple of any of them). What it emits goes to
    each of its `targets`, or out of the network if it has none.

    Parameters:
        cost: seconds of a processor of speed 1 for a tuple, of each operator.
        selectivity: tuples out for a tuple in.
        targets: the operators that each one feeds.
        inputs: the operator that each input stream feeds.

    Example:
        A chain of two operators, the first of which drops half of its tuples:

        >>> network = OperatorNetwork.of([0.001, 0.002], [0.5, 1.0], [[1], []], [0])
        >>> network.gains().tolist(), network.loads(np.array([[100.0]])).tolist()
        ([[1.0], [0.5]], [[0.1], [0.1]])
    """

    cost: F64
    selectivity: F64
    targets: tuple[tuple[int, ...], ...]
    inputs: I32

    def __post_init__(self) -> None:
        operators = len(self.cost)
        if not (len(self.selectivity) == len(self.targets) == operators):
            raise InputError(
                f"{operators} costs, but {len(self.selectivity)} selectivities and targets of "
                f"{len(self.targets)} operators"
            )
        if operators and not (np.isfinite(self.cost).all() and self.cost.min() > 0):
            raise InputError("the cost of a tuple must be finite and above 0")
        if operators and not (np.isfinite(self.selectivity).all() and self.selectivity.min() >= 0):
            raise InputError("selectivities must be finite and not negative")
        for operator, targets in enumerate(self.targets):
            for target in targets:
                if not operator < target < operators:
                    raise InputError(
                        f"operator {operator} feeds {target}: an operator can feed only operators "
                        f"after it, up to {operators - 1}"
                    )
        if len(self.inputs) and not (self.inputs.min() >= 0 and self.inputs.max() < operators):
            raise InputError(f"inputs must name operators, 0 to {operators - 1}")

    @classmethod
    def of(
        cls,
        cost: npt.ArrayLike,
        selectivity: npt.ArrayLike,
        targets: list[list[int]],
        inputs: npt.ArrayLike,
    ) -> OperatorNetwork:
        """From anything like arrays."""
        return cls(
            np.array(cost, np.float64),
            np.array(selectivity, np.float64),
            tuple(tuple(one) for one in targets),
            np.array(inputs, np.int32),
        )

    @classmethod
    def chains(
        cls,
        count: int,
        length: int = 10,
        cost: float = 0.001,
        selectivity: tuple[float, float] = (0.8, 1.2),
        seed: int = 0,
    ) -> OperatorNetwork:
        """Independent chains, each with an input stream; selectivities are drawn evenly.

        Example:
            >>> network = OperatorNetwork.chains(2, length=3, selectivity=(1.0, 1.0))
            >>> network.targets, network.inputs.tolist()
            (((1,), (2,), (), (4,), (5,), ()), [0, 3])
        """
        check_whole("the number of chains", count, 1)
        check_whole("the length of chains", length, 1)
        check_positive("the cost of a tuple", cost)
        random = np.random.default_rng(seed)
        operators = count * length
        last = range(length - 1, operators, length)
        return cls(
            np.full(operators, cost),
            random.uniform(*selectivity, operators),
            tuple(() if o in last else (o + 1,) for o in range(operators)),
            np.arange(0, operators, length, dtype=np.int32),
        )

    @classmethod
    def trees(
        cls,
        count: int,
        depth: int = 3,
        cost: float = 0.001,
        selectivity: tuple[float, float] = (0.8, 1.2),
        seed: int = 0,
    ) -> OperatorNetwork:
        """Independent binary trees of joins: 2^(depth − 1) input streams, joined two by two.

        A join emits for each tuple half of what is drawn, so that rates do not double level by level.

        Example:
            >>> network = OperatorNetwork.trees(1, depth=2, selectivity=(1.0, 1.0))
            >>> network.targets, network.inputs.tolist(), network.selectivity.tolist()
            (((2,), (2,), ()), [0, 1], [1.0, 1.0, 0.5])
        """
        check_whole("the number of trees", count, 1)
        check_whole("the depth of trees", depth, 1)
        check_positive("the cost of a tuple", cost)
        random = np.random.default_rng(seed)
        size, leaves = 2**depth - 1, 2 ** (depth - 1)
        targets: list[tuple[int, ...]] = []
        for tree in range(count):
            for place in range(size):
                up = leaves + place // 2  # levels follow one another, the widest first
                targets.append((tree * size + up,) if place < size - 1 else ())
        drawn = random.uniform(*selectivity, count * size)
        drawn[np.arange(count * size) % size >= leaves] /= 2
        inputs = np.add.outer(np.arange(count) * size, np.arange(leaves)).ravel()
        return cls(np.full(count * size, cost), drawn, tuple(targets), inputs.astype(np.int32))

    def __len__(self) -> int:
        return len(self.cost)

    def gains(self) -> F64:
        """Tuples that reach each operator for a tuple of each input stream: (operators, streams)."""
        gains = np.zeros((len(self), len(self.inputs)))
        for stream, operator in enumerate(self.inputs):
            gains[operator, stream] += 1
        for operator, targets in enumerate(self.targets):
            for target in targets:
                gains[target] += gains[operator] * self.selectivity[operator]
        return gains

    def loads(self, rates: F64) -> F64:
        """The load of each operator at these rates of the input streams, (streams, samples), as long
        as no node is overloaded: what §2.2 calls ideal."""
        loads: F64 = self.cost[:, None] * (self.gains() @ rates)
        return loads

    def queries(self) -> I32:
        """The number of the connected query graph that each operator belongs to."""
        query = np.arange(len(self))
        for operator, targets in enumerate(self.targets):
            for target in targets:
                joined = query[target]
                query[query == joined] = query[operator]
        _, number = np.unique(query, return_inverse=True)
        return number.astype(np.int32)
