"""Mixing: twins agree, the mix is a bijection, choices are in range, near uniform, independent."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive
from evenflow.kernels.jit import kernel
from evenflow.kernels.mixing import choice, high_choice, later_mix, low_choice, mix, salt

words = st.integers(0, 2**64 - 1)
counts = st.integers(1, 2**32)
KEYS = np.arange(200_000, dtype=np.uint64)
SALT = salt(7)


@kernel
def mix_all(keys, salt, out):
    for i in range(len(keys)):
        out[i] = mix(keys[i] ^ salt)


@kernel
def choose_all(keys, salt, number, n, out):
    for i in range(len(keys)):
        out[i] = choice(mix(keys[i] ^ salt), number, n)


def choices(number, n, keys=KEYS):
    out = np.empty(len(keys), np.int64)
    choose_all(keys, SALT, np.uint64(number), np.uint64(n), out)
    return out


def excess(observed, expected):
    """χ² in standard deviations above what chance gives: for a fair source seldom beyond 4."""
    chi_square = float(((observed - expected) ** 2 / expected).sum())
    freedom = observed.size - 1
    return (chi_square - freedom) / (2 * freedom) ** 0.5 if freedom else chi_square


@given(words)
def test_mix_equals_twin(word):
    assert int(mix(np.uint64(word))) == naive.mix(word)


@given(words, st.integers(0, 2**20), counts)
def test_choices_equal_twins(word, i, n):
    mixed, count = np.uint64(word), np.uint64(n)
    assert int(high_choice(mixed, count)) == naive.high_choice(word, n)
    assert int(low_choice(mixed, count)) == naive.low_choice(word, n)
    assert int(later_mix(mixed, np.uint64(i))) == naive.later_mix(word, i)
    assert int(choice(mixed, np.uint64(i), count)) == naive.choice(word, i, n)


@given(words, st.integers(0, 2**20), counts)
def test_every_choice_is_below_n(word, i, n):
    assert 0 <= int(choice(np.uint64(word), np.uint64(i), np.uint64(n))) < n


@given(words)
def test_mix_is_a_bijection(word):
    """Undone step by step: x ^= x >> 32 is its own inverse, a product by an odd number has one."""
    inverse = pow(0xD6E8FEB86659FD93, -1, 2**64)
    unmixed = int(mix(np.uint64(word)))
    for _ in range(2):
        unmixed = (unmixed ^ unmixed >> 32) * inverse % 2**64
    assert unmixed ^ unmixed >> 32 == word


@pytest.mark.parametrize("stride", [1, 2**10, 2**32, 2**44])
def test_every_output_bit_depends_on_every_key_bit(stride):
    """Of keys that differ in one bit, whichever, each bit of the mix differs half of the time."""
    keys = np.arange(4096, dtype=np.uint64) * np.uint64(stride)
    mixed, flipped = np.empty_like(keys), np.empty_like(keys)
    mix_all(keys, SALT, mixed)
    for bit in range(64):
        mix_all(keys ^ np.uint64(1 << bit), SALT, flipped)
        changed = np.unpackbits((mixed ^ flipped).view(np.uint8)).reshape(len(keys), 64).mean(0)
        assert abs(changed - 0.5).max() < 0.08, bit


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("n", [1, 2, 3, 100, 1000])
def test_choices_of_sequential_keys_are_near_uniform(n, number):
    counts = np.bincount(choices(number, n), minlength=n)
    assert len(counts) == n
    assert excess(counts, len(KEYS) / n) < 4


@pytest.mark.parametrize("n", [2, 3, 10, 100])
def test_choices_are_independent_of_each_other(n):
    chosen = [choices(number, n) for number in range(6)]
    for one, other in combinations(chosen, 2):
        pairs = np.bincount(one * n + other, minlength=n * n)
        assert excess(pairs, len(KEYS) / n**2) < 4


@pytest.mark.parametrize("n", [3, 100])
def test_neighbouring_keys_choose_independently(n):
    chosen = choices(0, n)
    pairs = np.bincount(chosen[:-1] * n + chosen[1:], minlength=n * n)
    assert excess(pairs, (len(KEYS) - 1) / n**2) < 4


def test_salts_of_different_parts_differ():
    made = [int(salt(*parts)) for parts in ((0,), (1,), (0, 0), (0, 1), (1, 0), (-1,), (2**64,))]
    assert len(set(made)) == len(made) - 1  # −1 is its own; 2⁶⁴ is 0 in 64 bits
    assert made[0] == made[-1]
