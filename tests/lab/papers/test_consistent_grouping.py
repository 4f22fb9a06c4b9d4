"""The consistent grouping paper's declarations and claims; the figures themselves are `reproduce`'s."""

from __future__ import annotations

import dataclasses
import doctest
from pathlib import Path
from typing import Any

import pytest

import evenflow_lab
from evenflow_lab.experiments import Paper, Verdict, expand, judge, load_paper, plan, run_cell
from evenflow_lab.experiments.claims import claims_of
from evenflow_lab.papers.consistent_grouping import analysis, measures

pytestmark = pytest.mark.slow

FOLDER = Path(evenflow_lab.__file__).parent / "papers" / "consistent_grouping"


@pytest.fixture(scope="module")
def paper() -> Paper:
    return load_paper(FOLDER)


# Figure → number of runs, full and quick: schemes × grid × seeds, worked out by hand.
CELLS = {
    "fig4": (8 * 20 * 3, 8 * 5 * 3),
    "fig6": (4 * 13, 4 * 5),
    "fig7": (8 * 4, 8 * 4),
    "fig8": (8 * 4 + 2 * 8 * 4, 8 * 4 + 2 * 8 * 4),
    "fig9": (3 * 2, 3),
    "fig9_even": (5 * 2, 5),
    "fig10": (4 * 2, 4),
    "fig10_others": (4 * 7, 4 * 4),
    "fig11": (2 * 4 * 4, 2 * 3 * 3),
    "fig12": (2 * 6 * 2 * 3, 2 * 6),
    "fig13": (4 * 2, 4),
    "sec7_signals": (2 * 2, 2 * 2),
    "sec6_bounds": (10 * 2, 5 * 2),
    "sec6_widest": (3 * 10 * 2, 3 * 10 * 2),
}


def test_every_figure_expands_to_its_runs(paper: Paper) -> None:
    counts = {f.id: (len(expand(f, False)), len(expand(f, True))) for f in paper.figures}
    assert counts == CELLS


def test_full_runs_have_the_papers_message_counts(paper: Paper) -> None:
    for figure in paper.figures:
        for cell in expand(figure, quick=False):
            stream = cell.get("workload") or cell["parameters"]
            if stream.get("name") == "wp":
                assert stream["messages"] == 22_000_000
            elif figure.id in {"fig4", "sec6_bounds"}:
                assert (stream["messages"], stream["keys"]) == (10_000_000, 100_000)


def test_the_changes_of_figure_13_scale_with_the_quick_stream(paper: Paper) -> None:
    figure = paper.figure("fig13")
    shares = []
    for quick in (False, True):
        cell = expand(figure, quick)[0]
        changes, messages = cell["cluster"]["changes"], cell["workload"]["messages"]
        shares.append([(after / messages, pair) for after, pair in changes])
    assert shares[0] == shares[1]


def test_every_claim_has_its_own_id_and_a_section(paper: Paper) -> None:
    claims = claims_of(paper)
    assert len(claims) == len({one.id for one in claims}) > 40
    assert all(one.section and one.says.endswith(".") for one in claims)
    open_ones = {one.id for one in claims if not one.figures}
    assert {"storm-latency", "storm-throughput", "storm-memory"} <= open_ones


def test_claims_that_need_a_cluster_are_open(paper: Paper) -> None:
    for one in claims_of(paper):
        if not one.figures:
            verdict = one.function({})
            assert verdict.held is None
            assert verdict.why


# --- synthetic rows: a claim must be able to hold and to fail -----------------------------------


def _routing(grouping: str, workers: int, uneven: float, replicas: float, **more: Any) -> dict:
    return {
        "grouping": grouping,
        "workers": workers,
        "sources": 1,
        "messages": 1_000_000,
        "imbalance": uneven / workers,
        "distinct_keys": 1000,
        "replicas": round(1000 * replicas),
        "parameters": {},
        "extra": False,
        **more,
    }


def _over_time(grouping: str, queues: list[float], **more: Any) -> dict:
    timeline = [
        {
            "messages": 100 * (i + 1),
            "queue_difference": queue,
            "latency_difference": 10 * queue,
            "utilisation_difference": queue / 10,
            "cumulative_imbalance": queue / 100,
        }
        for i, queue in enumerate(queues)
    ]
    return {"grouping": grouping, "arrivals": "hourly", "timeline": timeline, **more}


def _held(paper: Paper, id: str, **rows: list[dict]) -> bool | None:
    [function] = [one.function for one in claims_of(paper) if one.id == id]
    verdict: Verdict = function(rows)
    assert "held if" in verdict.measured
    return verdict.held


def test_porc_bound_fails_where_the_imbalance_is_above_epsilon(paper: Paper) -> None:
    good = [_routing("random-choices", 10, 0.01, 1.1)]
    bad = [_routing("random-choices", 10, 0.0101, 1.1)]
    assert _held(paper, "porc-bound", fig4=good, fig7=good) is True
    assert _held(paper, "porc-bound", fig4=good, fig7=bad) is False


def test_porc_memory_is_compared_with_pkg_at_the_same_number_of_bins(paper: Paper) -> None:
    pkg = [_routing("partial-key", n, 5, 1.2) for n in (50, 100)]
    porc = [_routing("random-choices", 50, 0.01, 1.2), _routing("random-choices", 100, 0.01, 1.25)]
    assert _held(paper, "porc-memory-as-pkg", fig7=[*pkg, *porc]) is True
    porc[1]["replicas"] = 1300
    assert _held(paper, "porc-memory-as-pkg", fig7=[*pkg, *porc]) is False


@pytest.mark.parametrize("grouping", ["random-choices:literal=true", "random-choices"])
def test_a_key_on_all_workers_refutes_the_claim(paper: Paper, grouping: str) -> None:
    row = {"grouping": grouping, "workers": 5, "slack": 1.01, "keys_on_all": 0}
    assert _held(paper, "key-on-all-workers", sec6_widest=[row, {**row, "slack": 0.5}]) is True
    row["keys_on_all"] = 1
    assert _held(paper, "key-on-all-workers", sec6_widest=[row, {**row, "slack": 0.5}]) is False


def test_sources_are_compared_over_sources_and_workers(paper: Paper) -> None:
    rows = [
        _routing("consistent", n, 0.01, memory) | {"sources": s}
        for n, s, memory in ((5, 1, 1.0), (5, 100, 1.4), (100, 1, 1.3), (100, 100, 1.9))
    ]
    assert _held(paper, "sources-memory", fig11=rows) is True
    rows[3]["replicas"] = 2100
    assert _held(paper, "sources-memory", fig11=rows) is False


def test_growing_queues_are_told_from_level_ones(paper: Paper) -> None:
    growing = [float(i) for i in range(100)]
    assert _held(paper, "kg-queues-grow", fig9=[_over_time("key", growing)]) is True
    assert _held(paper, "kg-queues-grow", fig9=[_over_time("key", [5.0] * 100)]) is False


def test_cg_must_be_far_below_kg_under_every_arrival_curve(paper: Paper) -> None:
    rows = [
        _over_time(scheme, [queue] * 100, arrivals=arrivals)
        for arrivals in ("hourly", "constant")
        for scheme, queue in (("key", 1000.0), ("consistent", 5.0))
    ]
    assert _held(paper, "cg-queues-low", fig9=rows) is True
    rows[-1] = _over_time("consistent", [200.0] * 100, arrivals="constant")
    assert _held(paper, "cg-queues-low", fig9=rows) is False


def test_cg_has_adapted_if_it_is_back_before_the_next_change(paper: Paper) -> None:
    changes = [[3000, [5, 4]], [6000, [2, 10]]]
    era = [50.0] * 5 + [1.0] * 25
    back = _over_time("consistent:virtual=100", [*era, *era, *era], changes=changes)
    stuck = _over_time("consistent:virtual=100", [*era, *era, *([50.0] * 30)], changes=changes)
    assert _held(paper, "cg-adapts", fig13=[back]) is True
    assert _held(paper, "cg-adapts", fig13=[stuck]) is False


@pytest.mark.parametrize(("figure", "id"), [
    ("fig9", "cg-imbalance-of-section-4-zero"),
    ("fig10", "cg-imbalance-of-section-4-zero-when-uneven"),
])  # fmt: skip
def test_the_imbalance_of_section_4_is_judged_by_the_literal_form(
    paper: Paper, figure: str, id: str
) -> None:
    def rows(literal: float, ours: float) -> dict:
        queues = {"key": 200.0, "shuffle": 200.0}
        queues |= {"consistent:literal=true": literal, "consistent": ours}
        return {figure: [_over_time(scheme, [queue] * 20) for scheme, queue in queues.items()]}

    assert _held(paper, id, **rows(literal=9.0, ours=11.0)) is True
    assert _held(paper, id, **rows(literal=11.0, ours=9.0)) is False  # above the band, 0.1
    assert _held(paper, id, **rows(literal=21.0, ours=9.0)) is False  # more than a tenth of KG's


@pytest.mark.parametrize(("evening", "verdict"), [(90.0, True), (110.0, False), (600.0, False)])
def test_the_spike_must_be_gone_where_queues_are_signalled(
    paper: Paper, evening: float, verdict: bool
) -> None:
    rows = [
        _over_time("consistent", [10.0] * 55 + [late] * 45, signals=signals)
        for signals, late in (("utilisation", 500.0), ("queue", evening))
    ]
    assert _held(paper, "spike-from-utilisation", sec7_signals=rows) is verdict


def test_virtual_workers_are_judged_by_the_median_of_their_seeds(paper: Paper) -> None:
    def rows(hundred: list[float]) -> list[dict]:
        others = [(v, 9.0) for v in (5, 10, 20, 50, 1000) for _ in hundred]
        return [
            _over_time("consistent", [queue] * 20, virtual=v)
            for v, queue in [*others, *((100, queue) for queue in hundred)]
        ]

    assert _held(paper, "virtual-100-best", fig12=rows([1.0, 2.0, 90.0])) is True
    assert _held(paper, "virtual-100-best", fig12=rows([1.0, 10.0, 90.0])) is False


def test_settling_is_the_first_moment_at_half_the_first_difference() -> None:
    row = _over_time("consistent", [10.0] * 30 + [4.0] * 70)
    assert measures.settled_after(row, window=1) == 0.3
    assert measures.settled_after(_over_time("consistent", [10.0] * 10)) == 1.0


# --- a tiny real run ----------------------------------------------------------------------------


def _tiny(figure: Any) -> Any:
    """The figure on a stream of 20 000 messages with every scheme, and few of its points."""
    few = {name: values if len(values) < 5 else values[::4] for name, values in figure.grid.items()}
    if "virtual" in few:
        few = figure.grid
    changes: dict[str, Any] = {"grid": few, "extra": (), "seeds": (1,), "quick": {}}
    if figure.kind == "analysis":
        changes["parameters"] = {**figure.parameters, "messages": 10_000, "keys": 1_000}
    else:
        changes["workload"] = {"name": "zipf", "zipf": 1.2, "keys": 1_000, "messages": 20_000}
        if "zipf" in few:
            changes["workload"].pop("zipf")
    if figure.kind == "queueing":
        cluster = {**figure.cluster, "slots": 40}
        if "changes" in cluster:
            cluster["changes"] = [[6_000, [5, 4]], [12_000, [2, 10]]]
        changes["cluster"] = cluster
    return dataclasses.replace(figure, **changes)


def test_every_claim_can_be_judged_on_a_tiny_run(paper: Paper) -> None:
    rows = {
        figure.id: [
            {**row, **run.labels}
            for run in plan(_tiny(figure), quick=False)
            for row in run_cell(run.cell)
        ]
        for figure in paper.figures
        if figure.id not in {"fig4", "fig8"}
    }
    rows["fig4"] = [
        {**row, **run.labels}
        for run in plan(_tiny(paper.figure("fig4")), quick=False)
        if run.cell["workers"] != 1000
        for row in run_cell(run.cell)
    ]
    rows["fig8"] = [
        {**row, **run.labels, **other}
        for run in plan(_tiny(paper.figure("fig8")), quick=False)
        for row in run_cell(run.cell)
        for other in ({}, {"extra": True, "workload_name": "flights", "key": "origin"})
    ]
    ledger = judge(paper, rows)
    assert {entry.id for entry in ledger} == {one.id for one in claims_of(paper)}
    by_id = {entry.id: entry for entry in ledger}
    # What is a theorem holds on any stream.
    for id in ("porc-bound", "sg-one-message", "pkg-two-workers", "equation-1", "equation-2"):
        assert by_id[id].held is True, by_id[id].measured
    assert by_id["key-on-all-workers"].held is True  # of the paper's own rule, that is


# --- analysis -----------------------------------------------------------------------------------


def test_bounds_enclose_what_is_measured() -> None:
    rows = analysis.memory_and_bounds(1.4, 10, keys=500, messages=5_000, epsilon=0.01, seed=1)
    replicas = {row["what"]: row["replicas"] for row in rows}
    assert replicas[analysis.SG] <= replicas[analysis.SG_BOUND]
    assert replicas[analysis.PORC_BOUND] <= replicas[analysis.PORC] <= replicas[analysis.SG]


def test_the_widest_key_is_counted_by_hand() -> None:
    """One key only: it must be on ⌈n/(1 + ε)⌉ workers, give or take one."""
    row = analysis.widest_key(
        10,
        slack=4.5,
        grouping="random-choices:literal=true",
        zipf=1.0,
        keys=1,
        messages=2_000,
        seed=1,
    )
    assert row["epsilon"] == 0.5
    assert row["widest"] in (7, 8)
    assert row["keys_on_all"] == 0
    assert row["widest_share"] == row["widest"] / 10


def test_the_helpers_examples_run() -> None:
    failed, attempted = doctest.testmod(measures)
    assert attempted
    assert not failed
