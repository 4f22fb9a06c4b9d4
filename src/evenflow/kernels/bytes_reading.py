"""Little-endian words from any place of a byte array.

Written as shifts, which is right on every machine and at every alignment; LLVM folds them into the
one unaligned load that the machine has.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from evenflow.kernels.jit import kernel

_1, _2, _3, _4, _5, _6, _7 = (np.uint64(i) for i in range(1, 8))
_8, _16, _24, _32, _40, _48, _56 = (np.uint64(8 * i) for i in range(1, 8))


@kernel
def read_u32(data: npt.NDArray[np.uint8], place: np.uint64) -> np.uint64:
    """The four bytes from `place` on, as a number below 2³²."""
    return (
        np.uint64(data[place])
        | np.uint64(data[place + _1]) << _8
        | np.uint64(data[place + _2]) << _16
        | np.uint64(data[place + _3]) << _24
    )


@kernel
def read_u64(data: npt.NDArray[np.uint8], place: np.uint64) -> np.uint64:
    """The eight bytes from `place` on."""
    return (
        np.uint64(data[place])
        | np.uint64(data[place + _1]) << _8
        | np.uint64(data[place + _2]) << _16
        | np.uint64(data[place + _3]) << _24
        | np.uint64(data[place + _4]) << _32
        | np.uint64(data[place + _5]) << _40
        | np.uint64(data[place + _6]) << _48
        | np.uint64(data[place + _7]) << _56
    )
