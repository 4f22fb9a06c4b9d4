"""`evenflow bench storage`: what it says of requests."""

import pytest

from evenflow_lab.benchmarks import storage


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(storage, "_STATE", 2000)
    monkeypatch.setattr(storage, "_BATCHES", 3)


@pytest.mark.parametrize("scheme", storage.SCHEMES)
def test_with_warm_caches_tasks_read_nothing_and_without_them_they_do(scheme):
    warm, none = (storage._requests(scheme, 4, 200, caches) for caches in ("warm", "none"))
    assert warm["tasks: reads"] == 0
    assert none["tasks: reads"] >= 4
    assert warm["tasks: writes"] == none["tasks: writes"] <= 3 * 4
