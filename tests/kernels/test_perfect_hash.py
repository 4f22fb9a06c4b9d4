"""A table without collisions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.kernels.perfect_hash import PER_BUCKET, SMALLEST, perfect_hash
from evenflow.model import InputError
from evenflow.model.owners import owner_words


def looked_up(found, keys):
    """By the rule in the docstring, in Python's own whole numbers."""
    bits = len(found.shift).bit_length() - 1
    return [
        (word + int(found.shift[word >> 64 - bits]) * (word >> 32 | 1)) % found.places
        for word in owner_words(keys, found.seed).tolist()
    ]


@given(st.sets(st.integers(0, 2**64 - 1), max_size=400))
def test_every_key_has_a_place_of_its_own_where_the_rule_finds_it(keys):
    keys = np.array(sorted(keys), np.uint64)
    found = perfect_hash(keys)
    assert found.place.tolist() == looked_up(found, keys)
    assert len(set(found.place.tolist())) == len(keys)
    assert found.places >= max(SMALLEST, 2 * len(keys))
    assert len(found.shift) * PER_BUCKET == found.places


@pytest.mark.parametrize("n", [0, 1, 128, 129, 100_000])
def test_keys_that_differ_in_a_few_bits_only_are_told_apart(n):
    keys = np.arange(n, dtype=np.uint64) << np.uint64(40)
    found = perfect_hash(keys)
    assert found.place.tolist() == looked_up(found, keys)
    assert len(np.unique(found.place)) == n
    again = perfect_hash(keys.copy())
    assert found.seed == again.seed
    assert (found.shift == again.shift).all()


def test_keys_that_fit_nowhere_under_one_seed_have_a_table_under_another():
    """Fingerprints that meet in all that the first hash looks at, as somebody may choose them."""
    many = np.random.default_rng(1).integers(0, 2**64, 2_000_000, np.uint64)
    word = owner_words(many, 0)
    bucket, stride = word >> np.uint64(58), (word >> np.uint64(32) | np.uint64(1)) % np.uint64(256)
    alike = (bucket << np.uint64(32)) + (stride << np.uint64(16)) + word % np.uint64(256)
    _, first, counts = np.unique(alike, return_index=True, return_counts=True)
    shared = alike == alike[first[np.argmax(counts)]]
    assert shared.sum() > 1
    found = perfect_hash(many[shared])
    assert found.seed != 0
    assert len(set(found.place.tolist())) == shared.sum()


def test_equal_keys_are_refused():
    with pytest.raises(InputError, match="distinct keys"):
        perfect_hash(np.array([7, 7], np.uint64))
