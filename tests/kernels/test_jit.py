"""The directory of compiled code: what lies there is run, so it must be this user's alone."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile

import numpy as np
import pytest

from evenflow.kernels.compiled_code import _digest
from evenflow.kernels.jit import cache_directory, kernel

SOMEBODY = 65534
CODE = "*.compiled"
HALF = 1000  # bytes of a file with code


@pytest.fixture
def fallback(tmp_path, monkeypatch):
    """The folder in the temporary directory, where there is no other place for a cache."""
    monkeypatch.delenv("EVENFLOW_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null")
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    temporary.chmod(0o1777)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    cache_directory.cache_clear()
    yield temporary / f"evenflow-{os.geteuid()}"
    cache_directory.cache_clear()


def test_the_directory_is_private(fallback):
    found = cache_directory()
    assert found is not None
    assert found.is_relative_to(fallback)
    assert found.stat().st_mode & 0o777 == 0o700


def test_a_directory_that_others_can_write_is_not_used(fallback):
    fallback.mkdir()
    fallback.chmod(0o777)
    assert cache_directory() is None


def test_a_directory_below_which_others_can_write_is_not_used(fallback):
    first = cache_directory()
    first.chmod(0o777)
    cache_directory.cache_clear()
    assert cache_directory() is None


def test_a_symbolic_link_to_anothers_directory_is_not_used(fallback, tmp_path):
    planted = tmp_path / "planted"
    planted.mkdir()
    planted.chmod(0o777)
    fallback.symlink_to(planted)
    assert cache_directory() is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_a_directory_of_somebody_else_is_not_used(fallback):
    fallback.mkdir(mode=0o700)
    os.chown(fallback, SOMEBODY, SOMEBODY)
    assert cache_directory() is None


def test_a_given_directory_that_is_not_private_is_not_used(fallback, tmp_path, monkeypatch, caplog):
    given = tmp_path / "given"
    given.mkdir()
    given.chmod(0o777)
    monkeypatch.setenv("EVENFLOW_CACHE_DIR", str(given))
    found = cache_directory()
    assert found is not None
    assert found.is_relative_to(fallback)
    assert "EVENFLOW_CACHE_DIR" in caplog.text
    assert str(given) in caplog.text


PLANT = """
import os, sys, pathlib
from evenflow.kernels import jit
from evenflow.kernels.xxh64 import hash_words
import numpy as np
words = np.zeros(1, np.uint64)
words.flags.writeable = False
hash_words(words, np.zeros(1, np.uint64))
print(jit.cache_directory())
"""


@pytest.mark.slow
@pytest.mark.parametrize("variable", ["NUMBA_CACHE_DIR", "EVENFLOW_CACHE_DIR"])
def test_a_file_planted_for_the_compiler_is_not_run(tmp_path, variable):
    """Compiled code is unpickled; a file that somebody else had written ran."""
    planted, home = tmp_path / "planted", tmp_path / "home"
    planted.mkdir()
    environment = {**os.environ, "XDG_CACHE_HOME": str(home), variable: str(planted)}
    environment.pop("EVENFLOW_CACHE_DIR" if variable == "NUMBA_CACHE_DIR" else "-", None)
    subprocess.run([sys.executable, "-c", PLANT], env=environment, check=True)
    made = sorted((*planted.rglob(CODE), *home.rglob(CODE)))
    assert made

    class Planted:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "ran"),)

    body = pickle.dumps(Planted())
    for file in made:
        target = planted / file.relative_to(planted if file.is_relative_to(planted) else home)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(_digest(body) + body)
    for folder, _, _ in os.walk(planted):
        os.chmod(folder, 0o777)
    for file in home.rglob(CODE):
        file.unlink()
    ran = subprocess.run(
        [sys.executable, "-c", PLANT], env=environment, capture_output=True, text=True
    )
    assert not (tmp_path / "ran").exists(), ran.stderr
    assert ran.returncode == 0, ran.stderr


@pytest.mark.slow
def test_a_file_that_was_cut_short_is_made_again(tmp_path):
    environment = {**os.environ, "EVENFLOW_CACHE_DIR": str(tmp_path)}
    whole = {}
    for _ in range(2):
        subprocess.run([sys.executable, "-c", PLANT], env=environment, check=True)
        found = {file: len(file.read_bytes()) for file in tmp_path.rglob(CODE)}
        whole = whole or found
        assert found.keys() == whole.keys()
        assert min(found.values()) > HALF
        for file in found:
            file.write_bytes(file.read_bytes()[:HALF])


TYPES = """
import sys
import evenflow as ef
from evenflow.engine.routing import Route
from evenflow.grouping import make, schemes
from evenflow.spark import execution, jobs
for name in schemes():
    make(name)
print("numba" in sys.modules)
"""


def test_nothing_but_a_call_of_a_kernel_loads_the_compiler():
    """Importing it takes longer than many a task, and most tasks have no use for it."""
    done = subprocess.run([sys.executable, "-c", TYPES], capture_output=True, text=True)
    assert done.stdout.strip() == "False", done.stderr


@kernel
def doubled(numbers, out):
    """Twice each number."""
    for i in range(len(numbers)):
        out[i] = 2 * numbers[i]


def test_a_kernel_keeps_what_was_written():
    assert (doubled.__name__, doubled.__doc__) == ("doubled", "Twice each number.")
    out = np.zeros(2, np.int64)
    doubled(np.array([3, 4]), out)
    assert out.tolist() == [6, 8]
    doubled.py_func([5], out)
    assert out.tolist() == [10, 8]
