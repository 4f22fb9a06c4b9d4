"""The engine: who gets which message, what is measured, and that chunking changes nothing."""

import json
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import naive
from evenflow.grouping import Scheme, make, schemes
from evenflow.metrics import WINDOW, fair_shares
from evenflow.model import Feedback, InputError, KeyCounts, Workers
from evenflow.report.comparison import draw_comparison
from evenflow.simulator import simulate
from evenflow.simulator import sources as sources_module
from evenflow.simulator.result import plain_values
from evenflow.simulator.sources import Sources
from evenflow.simulator.workloads import Zipf
from evenflow_lab.benchmarks.kernel_speed import WORKERS, kernel_speeds


@dataclass(frozen=True)
class Recorder(Scheme):
    """Sends everything of source j to the j-th worker; remembers what it saw."""

    name: ClassVar[str] = "recorder"
    wrong: int | None = None

    def start(self, workers, seed=0, source=0):
        ids = Workers.of(workers).ids
        return {"worker": ids[source % len(ids)], "keys": []}

    def route(self, state, keys, out):
        assert keys.flags.c_contiguous
        assert out.flags.c_contiguous
        state["keys"] += keys.tolist()
        out[:] = state["worker"] if self.wrong is None else self.wrong

    def describe(self, state):
        return {"keys": state["keys"], "share": np.float64("nan"), "seen": np.int32(3)}


@pytest.mark.parametrize("name", schemes())
@pytest.mark.parametrize("sources", [1, 3])
def test_result_does_not_depend_on_the_chunk_size(name, sources):
    stream = Zipf(1.4, keys=300, messages=45_000, seed=2, drift=22_000)
    results = [simulate(name, stream, 7, sources, seed=2, chunk=c) for c in (1 << 20, 4_097, 1_000)]
    assert results[0] == results[1] == results[2]
    assert sum(results[0].loads) == 45_000


@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 1_000])
def test_message_i_goes_to_source_i_mod_s(chunk):
    stream = Zipf(messages=20, seed=4)
    keys = np.concatenate(list(stream.chunks(100))).tolist()
    result = simulate(Recorder(), stream, workers=3, sources=3, chunk=chunk)
    assert result.details["keys"] == keys[::3]
    assert result.loads == (7, 7, 6)


@pytest.mark.parametrize("roster", [Workers.numbered(4), Workers((9, 2, 4, 1000))])
def test_measurements_agree_with_their_twins(roster):
    stream = Zipf(1.2, keys=60, messages=2 * WINDOW + 1_234, seed=9)
    result = simulate("key", stream, roster, sources=2, seed=1)
    keys = np.concatenate(list(stream.chunks(1 << 20)))
    scheme, out = make("key"), np.empty(len(keys), np.int32)
    scheme.route(scheme.start(roster, 1), keys, out)
    numbers = [roster.ids.index(worker) for worker in out.tolist()]
    shares = fair_shares(roster)
    assert result.messages == len(keys)
    assert result.loads == tuple(numbers.count(w) for w in range(4))
    assert result.imbalance == pytest.approx(naive.imbalance(numbers, shares))
    assert [t for t, _ in result.timeline] == [WINDOW, 2 * WINDOW, len(keys)]
    assert result.imbalance_mean == pytest.approx(
        np.mean([naive.imbalance(numbers[:t], shares) for t, _ in result.timeline])
    )
    assert (result.keys, result.replicas) == naive.replication(keys.tolist(), numbers)
    assert result.max_load == max(result.loads) / len(keys)
    assert result.worst_window == naive.worst_window(numbers, shares, WINDOW, WINDOW)


def test_worker_ids_may_have_gaps_without_changing_the_measurements():
    stream = Zipf(1.4, messages=50_000)
    dense = simulate("key", stream, 3, seed=5)
    gaps = simulate("key", stream, Workers((4, 7, 2_000_000_000)), seed=5)
    assert dense == gaps


def test_weights_are_what_the_imbalance_is_relative_to():
    roster = Workers.numbered(2, weights=[3, 1])

    @dataclass(frozen=True)
    class ThreeToOne(Recorder):
        weighted: ClassVar[bool] = True

        def route(self, state, keys, out):
            out[:] = np.arange(len(out)) % 4 == 3

    result = simulate(ThreeToOne(), Zipf(messages=80_000), roster)
    assert result.imbalance == pytest.approx(0)
    assert result.worst_window == pytest.approx(1)
    assert result.to_dict()["weights"] == [3.0, 1.0]


def test_key_grouping_has_the_load_of_the_most_frequent_key():
    stream = Zipf(2.0, keys=10_000, messages=300_000, seed=1)
    result = simulate("key", stream, workers=100, sources=5, seed=1)
    p1 = stream.probabilities()[0]
    assert p1 == pytest.approx(0.608, abs=1e-3)
    assert p1 - 0.005 < result.max_load < p1 + 0.05
    assert result.replication == 1.0


def test_result_is_strict_json():
    result = simulate(Recorder(), Zipf(messages=10), workers=2)
    answer = result.to_dict(loads=True, timeline=True)
    assert json.loads(json.dumps(answer, allow_nan=False)) == answer
    assert answer["worst_window"] is None
    assert answer["details"]["share"] is None
    assert answer["details"]["seen"] == 3
    assert answer["loads"] == [10, 0]
    assert answer["timeline"] == [[10, 0.5]]
    assert {"zipf", "drift", "seed", "keys", "replicas", "ns_per_message"} <= answer.keys()
    assert "loads" not in result.to_dict()


def test_plain_values_knows_what_numpy_has():
    odd = {1: (np.uint64(2**63), np.bool_(True)), "x": [np.inf, {"y": b"z"}], "none": None}
    assert plain_values(odd) == {"1": [2**63, True], "x": [None, {"y": "b'z'"}], "none": None}


@pytest.mark.parametrize("sources", [0, -1, 1.5, True, "2"])
def test_sources_must_be_a_whole_number(sources):
    with pytest.raises(InputError, match="a whole number of at least 1 is needed"):
        simulate("key", Zipf(messages=10), workers=2, sources=sources)


@pytest.mark.parametrize("wrong", [-1, 2])
def test_a_scheme_that_sends_to_nobody_is_found_out(wrong):
    with pytest.raises(InputError, match=f"sent to worker {wrong}, which is not one of the 2 live"):
        simulate(Recorder(wrong=wrong), Zipf(messages=10), workers=2)


def test_more_sources_than_messages():
    assert simulate(Recorder(), Zipf(messages=3), workers=2, sources=50).loads == (2, 1)


def test_progress_ends_at_the_length_of_the_stream():
    seen = []
    simulate("key", Zipf(messages=1_000), 2, chunk=300, progress=seen.append)
    assert seen == [300, 600, 900, 1_000]


def test_kernel_speeds_measures_every_scheme_that_can_start():
    speeds = kernel_speeds(messages=4_000, rounds=1)
    assert set(speeds.nanoseconds) | set(speeds.not_started) == set(schemes())
    assert all(len(times) == len(WORKERS) for times in speeds.nanoseconds.values())
    assert all(ns > 0 for times in speeds.nanoseconds.values() for ns in times)
    answer = json.loads(json.dumps(speeds.to_dict(), allow_nan=False))
    assert answer["schemes"]["key"]["ratio"] == {"10": 1.0, "100": 1.0, "1000": 1.0}
    assert answer["fingerprints"]["mb_per_s"] > 0


def test_kernel_speeds_reports_a_scheme_that_cannot_start(monkeypatch):
    @dataclass(frozen=True)
    class Stubborn(Recorder):
        def start(self, workers, seed=0, source=0):
            raise InputError("needs a table")

    found = {"key": schemes()["key"], "stubborn": Stubborn}
    monkeypatch.setattr("evenflow_lab.benchmarks.kernel_speed.schemes", lambda: found)
    monkeypatch.setattr("evenflow.model.discovery.Catalogue.all", lambda _: found)
    speeds = kernel_speeds(messages=100, rounds=1)
    assert set(speeds.nanoseconds) == {"key"}
    assert speeds.not_started == {"stubborn": "needs a table"}


def test_picture_has_no_text_that_is_clipped_or_covered(tmp_path, monkeypatch):
    from matplotlib.figure import Figure

    stream = Zipf(1.4, keys=300, messages=45_000, seed=2)
    one = simulate("key", stream, 7, 2)
    # Many marks close together, an odd name, and one that is perfect.
    results = {f"a-scheme-with-a-name-{i}": simulate("key", stream, 7, 2, seed=i) for i in range(8)}
    results |= {"cost$ [x]\x1b $": one}
    drawn = []
    save = Figure.savefig
    monkeypatch.setattr(
        Figure, "savefig", lambda self, *a, **k: (drawn.append(self), save(self, *a, **k))
    )
    path = draw_comparison(results, tmp_path / "picture.png")
    assert path.read_bytes().startswith(b"\x89PNG")
    [figure] = drawn
    figure.draw_without_rendering()
    _left, right = figure.axes
    names = [text for text in right.texts if text.get_text()]
    assert len(names) == len(results)
    boxes = [text.get_window_extent().extents for text in names]
    for i, a in enumerate(boxes):
        for b in boxes[:i]:
            assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]
    width, height = figure.bbox.extents[2:]
    for axes in figure.axes:
        x0, y0, x1, y1 = axes.get_tightbbox().extents
        assert x0 >= 0
        assert y0 >= 0
        assert x1 <= width
        assert y1 <= height


def test_picture_refuses_a_file_that_cannot_be_written(tmp_path):
    result = simulate("key", Zipf(messages=100), 2)
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot be written"):
        draw_comparison({"key": result}, tmp_path / "file" / "is not a folder.png")
    with pytest.raises(InputError, match="nothing to draw"):
        draw_comparison({}, tmp_path / "empty.png")


def test_a_scheme_that_plans_itself_gets_the_counts_of_every_epoch(monkeypatch):
    monkeypatch.setattr(sources_module, "EPOCH", 300)
    [keys] = Zipf(exponent=1.2, keys=40, messages=1000, seed=2).chunks(1000)
    sources = Sources(make("key-isolator"), Workers.numbered(5), 2, seed=3)
    got = np.concatenate([sources.route(part) for part in np.array_split(keys, 7)])

    scheme = make("key-isolator")
    state, expected = scheme.start(5, 3), []
    for begin in range(0, 1000, 300):
        epoch = keys[begin : begin + 300]
        scheme.route(state, epoch, out := np.empty(len(epoch), np.int32))
        expected += out.tolist()
        found, counts = np.unique(epoch, return_counts=True)
        hot = dict(zip(found.tolist(), counts.tolist(), strict=True))
        scheme.observe(state, Feedback(hot=KeyCounts(hot, 300)))
    assert got.tolist() == expected
