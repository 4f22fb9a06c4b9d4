"""Who owns a key: NumPy, kernel, twin and Spark give one answer; owners are near uniform, and owners
under different seeds are independent."""

import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import naive
from evenflow.grouping import make
from evenflow.kernels import jit
from evenflow.kernels.jit import kernel
from evenflow.kernels.xxh64 import hash_word
from evenflow.model import owners
from evenflow.model.owners import Owners, owner_of, owner_words, seed_word

words = st.integers(0, 2**64 - 1)
seeds = st.integers(-(2**63), 2**64 - 1)
counts = st.integers(1, 2**31 - 1)
EXTREMES = [0, 1, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1]
KEYS = np.arange(200_000, dtype=np.uint64)


@kernel
def hash_all(keys, running, out):
    for i in range(len(keys)):
        out[i] = hash_word(keys[i], running)


def excess(observed, expected):
    """χ² in standard deviations above what chance gives: for a fair source seldom beyond 4."""
    chi_square = float(((observed - expected) ** 2 / expected).sum())
    freedom = observed.size - 1
    return (chi_square - freedom) / (2 * freedom) ** 0.5 if freedom else chi_square


@given(st.lists(words, max_size=50), seeds, counts)
@example(EXTREMES, 0, 1)
@example(EXTREMES, 2**64 - 1, 2**31 - 1)
@example(EXTREMES, -(2**63), 7)
def test_numpy_kernel_and_twin_name_the_same_owner(keys, seed, n):
    prints = np.array(keys, np.uint64)
    expected = [naive.owner_word(key, seed) for key in keys]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # arithmetic wraps around without a word
        found, owned = owner_words(prints, seed), owner_of(prints, n, seed)
    compiled = np.empty_like(prints)
    hash_all(prints, seed_word(seed), compiled)
    assert found.tolist() == compiled.tolist() == expected
    assert owned.tolist() == [naive.owner(key, n, seed) for key in keys]
    assert owned.dtype == np.int32
    assert prints.tolist() == keys


@pytest.mark.parametrize("n", [0, 1, 8191, 8192, 8193, 20_000])
def test_any_number_of_keys_is_hashed_as_one_by_one(n):
    prints = np.random.default_rng(n).integers(0, 2**64, n, np.uint64)
    compiled = np.empty_like(prints)
    hash_all(prints, seed_word(3), compiled)
    assert owner_words(prints, 3).tolist() == compiled.tolist()


@given(st.lists(words, min_size=1, max_size=50), seeds, st.integers(1, 500))
@example(EXTREMES, 2**64 - 1, 1)
def test_the_schemes_that_keep_keys_whole_send_each_to_its_owner(keys, seed, n):
    prints, out = np.array(keys, np.uint64), np.empty(len(keys), np.int32)
    for name in ("key", "table"):
        scheme = make(name)
        scheme.route(scheme.start(n, seed), prints, out)
        assert (
            out.tolist() == owner_of(prints, n, seed).tolist() == Owners(n, seed)(prints).tolist()
        )


@pytest.mark.spark
def test_spark_names_the_same_owner(spark):
    from pyspark.sql import functions as F

    from evenflow.spark.native_routing import owner_sql

    rng = np.random.default_rng(5)
    prints = np.array([*EXTREMES, *rng.integers(0, 2**64, 500, np.uint64).tolist()], np.uint64)
    many = [-(2**63), -1, 0, 1, 42, 0x5EED, 2**31, 2**63 - 1, 2**63, 2**64 - 1]
    many += rng.integers(-(2**63), 2**63, 10).tolist()
    numbers = [1, 2, 3, 80, 5120, 2**31 - 1]
    asked = [(n, seed) for seed in many for n in numbers]
    assert spark.conf.get("spark.sql.ansi.enabled") == "true"
    rows = spark.createDataFrame(pa.table({"of": pa.array(prints.view(np.int64))}))
    answer = rows.select(
        *(F.expr(owner_sql("of", n, seed)).alias(f"c{i}") for i, (n, seed) in enumerate(asked)),
    ).toArrow()
    for i, (n, seed) in enumerate(asked):
        expected = owner_of(prints, n, seed).tolist()
        assert answer[f"c{i}"].to_pylist() == expected
        assert answer[f"c{i}"].type == pa.int32()


@given(words, seeds)
def test_hash_is_a_bijection_of_fingerprints(word, seed):
    """Undone step by step, with the inverses of the primes and of the rotations."""
    p1, p2, p3 = (int(p) for p in (owners.P1, owners.P2, owners.P3))

    def unmultiplied(number, by):
        return number * pow(by, -1, 2**64) % 2**64

    def unshifted(number, by):
        back = number
        for _ in range(64 // by + 1):
            back = number ^ back >> by
        return back

    def unrotated(number, by):
        return (number >> by | number << 64 - by) % 2**64

    digest = unshifted(naive.owner_word(word, seed), 32)
    digest = unshifted(unmultiplied(digest, p3), 29)
    digest = unshifted(unmultiplied(digest, p2), 33)
    digest = unrotated(unmultiplied((digest - int(owners.P4)) % 2**64, p1), 27)
    digest ^= (int(seed_word(seed)) + int(owners.P5) + 8) % 2**64
    assert unmultiplied(unrotated(unmultiplied(digest, p1), 31), p2) == word


@pytest.mark.parametrize("stride", [1, 2**10, 2**32, 2**44])
def test_every_output_bit_depends_on_every_bit_of_the_fingerprint(stride):
    keys = np.arange(4096, dtype=np.uint64) * np.uint64(stride)
    hashed = owner_words(keys, 7)
    for bit in range(64):
        flipped = owner_words(keys ^ np.uint64(1 << bit), 7)
        changed = np.unpackbits((hashed ^ flipped).view(np.uint8)).reshape(len(keys), 64).mean(0)
        assert abs(changed - 0.5).max() < 0.08, bit


@pytest.mark.parametrize("n", [1, 2, 3, 100, 1000])
def test_owners_of_sequential_keys_are_near_uniform(n):
    counts = np.bincount(owner_of(KEYS, n, 7), minlength=n)
    assert len(counts) == n
    assert excess(counts, len(KEYS) / n) < 4


@pytest.mark.parametrize("n", [2, 3, 10, 100])
@pytest.mark.parametrize("other", [1, 0x5EED, 2**63])
def test_owners_under_different_seeds_are_independent(n, other):
    pairs = owner_of(KEYS, n, 0).astype(np.int64) * n + owner_of(KEYS, n, other)
    assert excess(np.bincount(pairs, minlength=n * n), len(KEYS) / n**2) < 4


def test_compiled_code_is_discarded_when_the_hash_changes(tmp_path):
    """`hash_word` is compiled into kernels of other files, and is not in one that imports numba."""
    before, changed = tmp_path / "before", tmp_path / "changed"
    package = Path(jit.__file__).parents[1]
    for path in package.rglob("*.py"):
        if b"kernels.jit" in path.read_bytes():
            for copy in (before / path.relative_to(package), changed / path.relative_to(package)):
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.write_bytes(path.read_bytes())
    assert jit.sources_digest(before) == jit.sources_digest()
    source = changed / "model" / "owners.py"
    source.write_text(source.read_text().replace("<< _31", "<< _33"))
    assert jit.sources_digest(changed) != jit.sources_digest()
