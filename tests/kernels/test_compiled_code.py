"""Compiled code that travels: who has it compiles nothing, and code that does not fit is not run."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from evenflow.engine.routing import Route, code_for
from evenflow.grouping import make
from evenflow.kernels import compiled_code
from evenflow.kernels.compiled_code import CompiledCode, code_of, install, when_ready
from evenflow.kernels.jit import kernel
from evenflow.model import KeyCounts

KEYS = pa.schema([("k", pa.int64())])
ROUTE = Route(make("partial-key"), 4, 1, ("k",), KeyCounts({}, 0))

TASK = """
import pickle, sys
import pyarrow as pa
from evenflow.kernels.compiled_code import install
code, route = pickle.load(open(sys.argv[1], "rb"))
install(code)
rows = pa.record_batch({"k": pa.array(range(1000), pa.int64())})
(routed,) = route(0, iter([rows]))
print(routed.column(0).to_pylist())
"""


def routed_elsewhere(folder, code, **environment):
    """What a process with an empty cache makes of 1000 rows, and how many kernels it compiled."""
    home = folder / "home"
    home.mkdir(exist_ok=True)
    (folder / "task").write_bytes(pickle.dumps((code, ROUTE)))
    done = subprocess.run(
        [sys.executable, "-c", TASK, str(folder / "task")],
        env={**os.environ, "HOME": str(home), "EVENFLOW_CACHE_DIR": str(home), **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout, len(list(home.rglob("*.compiled")))


@pytest.fixture(scope="module")
def code():
    return code_for(ROUTE, KEYS)


@pytest.fixture(scope="module")
def answer():
    rows = pa.record_batch({"k": pa.array(range(1000), pa.int64())})
    (routed,) = ROUTE(0, iter([rows]))
    return f"{routed.column(0).to_pylist()}\n"


@pytest.mark.slow
def test_a_process_that_was_given_the_code_compiles_nothing(tmp_path, code, answer):
    assert routed_elsewhere(tmp_path, code) == (answer, 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        {"versions": ("another", "3.11")},
        {"architecture": "another"},
        {"features": frozenset({"+unheard-of"})},
    ],
)
def test_code_that_does_not_fit_is_not_run(tmp_path, code, answer, change):
    printed, compiled = routed_elsewhere(tmp_path, code._replace(**change))
    assert printed == answer
    assert compiled > 0


@pytest.mark.slow
def test_code_for_fewer_features_runs_on_a_processor_with_more(tmp_path, code, answer):
    less = code._replace(features=frozenset({min(code.features)}))
    assert routed_elsewhere(tmp_path, less) == (answer, 0)


@pytest.mark.slow
def test_code_for_more_features_is_not_run_on_a_processor_with_fewer(tmp_path, code, answer):
    printed, compiled = routed_elsewhere(
        tmp_path, code, NUMBA_CPU_NAME="generic", NUMBA_CPU_FEATURES="+sse2"
    )
    assert printed == answer
    assert compiled > 0


@pytest.mark.parametrize("scheme", ["partial-key", "table", "shuffle"])
@pytest.mark.parametrize("kind", [pa.int64(), pa.string(), pa.decimal128(10, 2)])
def test_the_code_of_a_route_is_made_once(scheme, kind):
    keys = pa.schema([("k", kind)])
    one, other = (
        Route(make(scheme), 4, 1, ("k",), KeyCounts({batch: 1}, 9), batch) for batch in (3, 4)
    )
    assert code_for(one, keys).bodies
    assert code_for(one, keys) is code_for(other, keys)


def test_a_scheme_that_only_this_process_knows_has_code_too():
    class Own(type(make("partial-key"))):
        pass

    assert code_for(Route(Own(), 4, 1, ("k",), KeyCounts({}, 0)), KEYS).bodies


@kernel
def counted(numbers, out):
    for number in numbers:
        out[number] += 1


def test_code_of_a_call_without_kernels_is_empty():
    assert code_of(lambda: None) == CompiledCode()
    assert install(CompiledCode()) is None
    assert not any(code.bodies == b"" for code in compiled_code._installed.values())


def test_a_call_is_not_made_for_which_a_kernel_would_be_compiled(tmp_path, monkeypatch):
    monkeypatch.setattr(counted.dispatcher()._cache, "_directory", None)
    out = np.zeros(3, np.int64)
    numbers = np.array([1, 1])
    assert not when_ready(lambda: counted(numbers, out))
    assert out.tolist() == [0, 0, 0]
    counted(numbers, out)
    assert when_ready(lambda: counted(numbers, out))
    assert out.tolist() == [0, 4, 0]
