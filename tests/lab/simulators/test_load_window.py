"""The running statistics of load samples, against the window from scratch."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from evenflow.model import InputError
from evenflow_lab.simulators.load_window import LoadWindow
from naive_placement import covariance


@settings(deadline=None, max_examples=50)
@given(
    samples=arrays(np.float64, st.tuples(st.integers(1, 40), st.just(3)), elements=st.floats(0, 2)),
    k=st.integers(1, 6),
)
def test_means_and_covariances_are_those_of_the_window_from_scratch(samples, k):
    window = LoadWindow(3, k, pairs=True)
    for sample in samples:
        window.add(sample)
    last = samples[-k:].T
    assert len(window) == last.shape[1]
    assert (window.series() == last).all()
    np.testing.assert_allclose(window.means(), last.mean(axis=1), atol=1e-12)
    np.testing.assert_allclose(window.covariance(), covariance(last), atol=1e-12)


def test_rounding_does_not_pile_up():
    window, random = LoadWindow(2, 3, pairs=True), np.random.default_rng(1)
    for i in range(1_000):
        window.add(random.uniform(0, 1e6 if i < 800 else 1.0, 2))
    np.testing.assert_allclose(window.covariance(), covariance(window.series()), atol=1e-9)


def test_a_window_refuses_what_is_no_sample():
    window = LoadWindow(2, 3)
    with pytest.raises(InputError, match="empty"):
        window.means()
    with pytest.raises(InputError, match="2 loads"):
        window.add([1.0])
    with pytest.raises(InputError, match="finite"):
        window.add([1.0, np.nan])
    window.add([1.0, 2.0])
    with pytest.raises(InputError, match="pairs=True"):
        window.covariance()
