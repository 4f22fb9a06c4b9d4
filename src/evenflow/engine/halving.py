"""Which of many fail: by halves, so that few failures among many cost few calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def by_halves(
    n: int,
    call: Callable[[int, int], T],
    failed: Callable[[int, Exception], object],
    error: Exception | None = None,
) -> list[tuple[int, int, T]]:
    """`call(start, stop)` for stretches that cover 0 … n − 1, except the numbers that fail alone.

    A lack of memory is nobody's fault in particular, and is raised.

    Parameters:
        n: how many there are.
        call: works on the numbers from `start` to `stop`; fails if one of them does.
        failed: called with each number that fails alone, and its error; may raise one.
        error: of `call(0, n)`, if that was tried already.

    Example:
        >>> def inverse(start, stop):
        ...     return [1 / (2 - number) for number in range(start, stop)]
        >>> by_halves(4, inverse, lambda number, error: print(number, error))
        2 division by zero
        [(0, 2, [0.5, 1.0]), (3, 4, [-1.0])]
    """
    done: list[tuple[int, int, T]] = []
    left = [(0, n)] if n else []
    while left:
        start, stop = left.pop()
        if error is None:
            try:
                done.append((start, stop, call(start, stop)))
                continue
            except MemoryError:
                raise
            except Exception as found:
                error = found
        if stop - start == 1:
            failed(start, error)
        else:
            middle = (start + stop) // 2
            left += [(middle, stop), (start, middle)]
        error = None
    return done
