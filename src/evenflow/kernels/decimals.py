"""Decimals of any width and scale as hashes of their value."""

from __future__ import annotations

from typing import Any

import numpy as np

from evenflow.kernels.jit import kernel
from evenflow.kernels.xxh64 import U64, hash_word

_0, _1, _5, _10 = (np.uint64(i) for i in (0, 1, 5, 10))
_HALF, _SIGN = np.uint64(32), np.uint64(63)
_LOW = np.uint64(0xFFFFFFFF)


@kernel
def _is_multiple_of_ten(limbs: U64, used: int) -> Any:
    if limbs[0] & _1:
        return False
    # 2⁶⁴ mod 5 is 1, so a number has the same remainder as the sum of its limbs.
    left = _0
    for j in range(used):
        left += limbs[j] % _5
    return left % _5 == _0


@kernel
def _divide_by_ten(limbs: U64, used: int) -> None:
    left = _0
    for back in range(used):
        j = used - 1 - back
        upper = (left << _HALF) | (limbs[j] >> _HALF)
        lower = ((upper % _10) << _HALF) | (limbs[j] & _LOW)
        limbs[j] = ((upper // _10) << _HALF) | (lower // _10)
        left = lower % _10


@kernel
def hash_decimals(words: U64, scale: int, limbs: U64, hashes: U64) -> None:
    """Hash each row of `words`, a two's complement number whose lowest word comes first.

    Trailing zeros are stripped and added to the scale; then the words of the magnitude, up to the
    highest non-zero one, are chained with scale and sign as the seed. So the hash depends only on the
    value, not on the width, precision or scale of its type. `limbs` is scratch space, as long as a row.
    """
    n, width = words.shape
    for i in range(n):
        negative = words[i, width - 1] >> _SIGN
        carry = negative
        used = 1
        for j in range(width):
            limbs[j] = (words[i, j] ^ (_0 - negative)) + carry
            carry &= np.uint64(limbs[j] == _0)
            if limbs[j] != _0:
                used = j + 1
        exponent = scale
        if used == 1 and limbs[0] == _0:
            exponent = 0
        else:
            while _is_multiple_of_ten(limbs, used):
                _divide_by_ten(limbs, used)
                exponent -= 1
                if used > 1 and limbs[used - 1] == _0:
                    used -= 1
        digest = np.uint64(2 * exponent) + negative
        for j in range(used):
            digest = hash_word(limbs[j], digest)
        hashes[i] = digest
