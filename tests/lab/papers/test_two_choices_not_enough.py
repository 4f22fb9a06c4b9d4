"""The declarations and the claims of "When two choices are not enough"."""

import doctest
from pathlib import Path

import numpy as np
import pytest

import evenflow_lab
from evenflow.grouping.optimal_choices import find_optimal_choices
from evenflow.simulator import simulate
from evenflow.simulator.workloads import Zipf
from evenflow_lab.experiments import expand, figure_rows, judge, load_paper, plan, run_cell
from evenflow_lab.experiments.claims import claims_of
from evenflow_lab.experiments.store import digest
from evenflow_lab.papers.two_choices_not_enough import analysis, terms

pytestmark = pytest.mark.slow

FOLDER = Path(evenflow_lab.__file__).parent / "papers" / "two_choices_not_enough"
PAPER = load_paper(FOLDER)

# figure → cells of a quick and of a full run
CELLS = {
    "fig1": (5 * 5 * 3, 5 * 5 * 3),
    "fig3": (2 * 20, 2 * 20),
    "fig4": (4 * 20, 4 * 20),
    "fig5": (4 * 10, 4 * 20),
    "fig6": (2 * 10, 2 * 20),
    "fig7": (3 * 5 * 4 * 4 * 3, 4 * 5 * 10 * 4 * 3),
    "fig8": (5, 5),
    "fig9": (2 * 4 * 2 * 3, 2 * 10 * 2 * 3),
    "fig10": (2 * 3 * 5 * 7 * 3, 3 * 4 * 10 * 7 * 3),
    "fig11": (5 * 5 * 5 * 3, 5 * 5 * 5 * 3),
    "fig12": (5 * 3 * 5, 5 * 3 * 5),
    "distinct": (2 * 2 * 4 * 12, 2 * 4 * 4 * 12),
}


def small(cell):
    """The cell on a short stream."""
    cell = {name: dict(v) if isinstance(v, dict) else v for name, v in cell.items()}
    where = cell["parameters"] if cell["kind"] == "analysis" else cell["workload"]
    if "messages" in where:
        where["messages"] = 20_000
    if where.get("name") == "flights":
        cell["workload"] = {"name": "zipf", "zipf": 0.5, "keys": 300, "messages": 20_000, "seed": 1}
    return cell


def made_up(run):
    """Rows of the shape that a run has, with numbers from nowhere."""
    cell = run.cell
    if cell["kind"] == "analysis":
        return []
    scheme = cell["grouping"].partition(":")[0]
    imbalance = {"partial-key": 0.1, "d-choices": 4e-4}.get(scheme, 1e-6)
    workload = cell["workload"]
    return [
        {
            **{name: value for name, value in workload.items() if name != "name"},
            "workload_name": workload["name"],
            "workers": cell["workers"],
            "seed": cell["seed"],
            "messages": 20_000,
            "imbalance": imbalance,
            "imbalance_mean": imbalance,
            "replicas": 1_000,
            "worst_window": 1.0,
            "timeline": [{"time": t, "imbalance": imbalance} for t in range(1, 21)],
            **run.labels,
        }
    ]


@pytest.fixture(scope="module")
def rows():
    """Rows of all figures: formulas as they are, runs within runs where cheap, the rest made up."""
    answer = {}
    for figure in PAPER.figures:
        runs = plan(figure, quick=True)
        if figure.id in {"fig3", "fig5", "fig6", "fig9"}:
            answer[figure.id] = [row for run in runs for row in stand_in_rows(figure.id, run)]
        elif figure.kind == "analysis":
            answer[figure.id] = [
                {**row, **run.labels} for run in runs for row in run_cell(small(run.cell))
            ]
        else:
            answer[figure.id] = [row for run in runs for row in made_up(run)]
    return answer


def stand_in_rows(figure, run):
    """What the analysis functions return, without their simulations."""
    parameters = run.cell["parameters"]
    if figure == "fig3":
        p1 = Zipf(parameters["zipf"], parameters["keys"]).probabilities()[0]
        numbers = {"p1": p1, "head_share": 0.5, "hot_keys": 10}
        return [
            {**parameters, **numbers, "theta": theta, "how": how}
            for theta in ("θ = 2/n", "θ = 1/(5n)")
            for how in ("formula", "simulated")
        ]
    if figure == "fig9":
        found = {"formula": 5, "picked": 5, "smallest": 4, "imbalance": 0.0, "imbalance_goal": 0.0}
        return [
            {**parameters, **found, "which": which, "d": 5}
            for which in ("D-C, formula", "D-C, running", "Min-d")
        ]
    memory = {"memory": 110, "memory_pkg": 100, "memory_sg": 1_000}
    return [
        {**parameters, **memory, "more_than_pkg": 10, "less_than_sg": 89, "grouping": g, "how": how}
        for g in ("d-choices", "w-choices")
        for how in ("formula", "simulated")
    ]


def test_the_paper_has_figures_1_and_3_to_12_and_one_of_ours():
    ids = [f"fig{i}" for i in (1, *range(3, 13))]
    assert [figure.id for figure in PAPER.figures] == [*ids, "distinct"]


@pytest.mark.parametrize("figure", CELLS)
def test_a_figure_expands_to_its_grid(figure):
    declared = PAPER.figure(figure)
    assert len(expand(declared, quick=True)) == CELLS[figure][0]
    assert len(expand(declared, quick=False)) == CELLS[figure][1]


def test_full_runs_have_the_papers_numbers_of_messages():
    lengths = {"zipf": 10_000_000, "wp": 22_000_000, "tw": 20_000_000, "ct": 690_000}
    for figure in PAPER.figures:
        for cell in expand(figure, quick=False):
            if cell["kind"] == "routing" and cell["workload"]["name"] in lengths:
                assert cell["workload"]["messages"] == lengths[cell["workload"]["name"]]
            if cell["kind"] == "analysis":
                assert cell["parameters"].get("messages", 10_000_000) == 10_000_000


def test_figures_1_11_and_12_share_their_runs():
    def of(figure):
        return {digest(cell) for cell in expand(PAPER.figure(figure), quick=True)}

    assert of("fig1") < of("fig11")
    assert of("fig12") < of("fig11")
    assert of("fig6") < of("fig5")


def test_thresholds_are_multiples_of_1_over_n():
    thetas = {
        cell["grouping"].partition("theta=")[2]
        for cell in expand(PAPER.figure("fig7"), quick=True)
        if cell["workers"] == 50
    }
    assert {float(theta) for theta in thetas} == {0.04, 0.02, 0.01, 0.005, 0.0025}


def test_claims_have_different_ids_and_known_figures():
    claims = claims_of(PAPER)
    assert len(claims) >= 40
    assert len({one.id for one in claims}) == len(claims)
    looked_at = {figure for one in claims for figure in one.figures}
    assert looked_at == {figure.id for figure in PAPER.figures}


def test_every_claim_is_judged_and_says_numbers(rows):
    ledger = judge(PAPER, rows, "quick")
    assert len(ledger) == len(claims_of(PAPER))
    for entry in ledger:
        if entry.held is None:
            assert entry.id.startswith("storm-")
        else:
            assert any(character.isdigit() for character in entry.measured), entry.id
            assert "held if" in entry.measured, entry.id
        assert entry.why or entry.held, entry.id


def test_claims_follow_the_rows(rows):
    """The same rows with the schemes' imbalances exchanged turn verdicts over."""
    turned = {"partial-key": "w-choices", "w-choices:literal=true": "partial-key"}
    other = dict(rows)
    for figure in ("fig1", "fig10", "fig11"):
        other[figure] = [
            {**row, "grouping": turned.get(row["grouping"], row["grouping"])}
            for row in rows[figure]
        ]
    before = {entry.id: entry.held for entry in judge(PAPER, rows)}
    after = {entry.id: entry.held for entry in judge(PAPER, other)}
    for id in ("ours-below-01-percent", "wc-best-and-constantly-low", "two-choices-do-not-scale"):
        assert before[id] is True
        assert after[id] is False


# --- made-up rows: a claim must be able to hold and to fail ---------------------------------------


def held(id, **rows):
    [function] = [one.function for one in claims_of(PAPER) if one.id == id]
    return function(rows).held


def replicas(pkg, d_c, w_c, sg=1_000, **more):
    """The four rows that `memory` gives for a setting."""
    return [
        {
            "grouping": grouping,
            "how": how,
            "memory": count,
            "memory_pkg": pkg,
            "memory_sg": sg,
            "more_than_pkg": 100 * (count / pkg - 1),
            **more,
        }
        for how in ("formula", "simulated")
        for grouping, count in (("d-choices", d_c), ("w-choices", w_c))
    ]


@pytest.mark.parametrize(
    ("d", "counts", "verdict"),
    [
        (5, (100, 101, 102), True),
        (5, (100, 102, 102), False),  # as much as W-C is not less
        (5, (100, 100, 102), False),  # as little as PKG is not more
        (10, (100, 102, 102), False),  # no setting with 2 < d < n: nothing was tested
    ],
)
def test_d_choices_memory_lies_strictly_between_where_d_does(d, counts, verdict):
    fig4 = [{"workers": 10, "zipf": 1.4, "d": d}]
    fig5 = replicas(*counts, workers=10, zipf=1.4)
    assert held("dc-memory-between-pkg-and-wc", fig4=fig4, fig5=fig5) is verdict


@pytest.mark.parametrize(
    ("moderate", "at_the_end", "verdict"),
    [
        ((101, 110), (119, 120), True),
        ((101, 110), (110, 120), False),
        ((110, 110), (119, 120), False),
    ],
)
def test_overheads_over_pkg_meet_at_very_high_skew(moderate, at_the_end, verdict):
    fig5 = [
        row
        for n in (50, 100)
        for z, counts in ((1.0, moderate), (2.0, at_the_end))
        for row in replicas(100, *counts, workers=n, zipf=z)
    ]
    assert held("same-memory-at-very-high-skew", fig5=fig5) is verdict


@pytest.mark.parametrize(("twice", "verdict"), [(1_000, True), (950, False)])
def test_shuffle_needs_twice_the_memory_on_twice_the_workers_at_some_skew(twice, verdict):
    fig6 = [
        row
        for n, z, sg in ((50, 0.1, 500), (100, 0.1, twice), (50, 2.0, 300), (100, 2.0, 400))
        for row in replicas(100, 110, 120, sg, workers=n, zipf=z)
    ]
    assert held("sg-memory-grows-with-workers", fig6=fig6) is verdict


@pytest.mark.parametrize(
    ("first", "verdict"),
    [
        ({5: 2.0, 10: 1.6, 50: 1.4, 100: 1.2}, True),
        ({5: 2.0, 10: 1.8, 50: 1.6, 100: 1.2}, False),  # 1.6 is not modest
        ({5: 2.0, 10: 1.4, 50: 1.4, 100: 1.2}, False),  # no earlier than on 10 workers
    ],
)
def test_round_robin_gives_way_under_modest_skew_only_at_scale(first, verdict):
    fig7 = [
        {
            "grouping": "round-robin-head",
            "workers": n,
            "θn": 1,
            "zipf": z,
            "imbalance": 1e-3 if z >= onset else 1e-5,
        }
        for n, onset in first.items()
        for z in (1.0, 1.2, 1.4, 1.6, 1.8, 2.0)
    ]
    assert held("rr-gives-way-earlier-at-scale", fig7=fig7) is verdict


@pytest.mark.parametrize(("on_20", "verdict"), [(2e-3, True), (5e-4, False)])
def test_pkg_must_be_uneven_on_20_workers_too(on_20, verdict):
    imbalance = {5: 1e-6, 10: 1e-6, 20: on_20, 50: 0.03, 100: 0.04}
    fig1 = [
        {"grouping": "partial-key", "workload_name": "wp", "workers": n, "imbalance": value}
        for n, value in imbalance.items()
    ]
    assert held("pkg-imbalance-grows-with-scale", fig1=fig1) is verdict


@pytest.mark.parametrize(("worst", "verdict"), [(5e-4, True), (6e-4, False)])
def test_every_run_of_d_choices_is_within_s_epsilon_or_the_claim_fails(worst, verdict):
    fig11 = [
        {
            "grouping": "d-choices",
            "workload_name": "wp",
            "workers": 50,
            "imbalance": value,
            "seed": seed,
        }
        for seed, value in enumerate((1e-5, 1e-5, worst))
    ]
    assert held("dc-within-s-epsilon", fig11=fig11) is verdict


@pytest.mark.parametrize(("d_choices", "verdict"), [(2e-4, True), (9e-5, False)])
def test_imbalances_below_epsilon_are_no_difference(d_choices, verdict):
    imbalance = {"partial-key": 1e-3, "d-choices": d_choices, "w-choices": 1e-6}
    fig11 = [
        {"grouping": grouping, "workload_name": "ct", "workers": n, "imbalance": value}
        for n in (20, 50, 100)
        for grouping, value in imbalance.items()
    ]
    assert held("ct-same-order", fig11=fig11) is verdict


def test_claims_on_figure_7_are_judged_by_the_median_or_by_every_run():
    def fig7(*seeds):
        return [
            {"grouping": g, "workers": n, "θn": 1, "zipf": 2.0, "seed": seed, "imbalance": value}
            for n in (5, 100)
            for g, values in (("w-choices", seeds), ("round-robin-head", (n / 1e4,) * len(seeds)))
            for seed, value in enumerate(values)
        ]

    assert held("wc-beats-rr-at-high-skew", fig7=fig7(1e-5, 1e-5, 0.5)) is True  # the median
    assert held("wc-beats-rr-at-high-skew", fig7=fig7(1e-5, 0.5, 0.5)) is False
    assert held("wc-ideal-below-1-over-n", fig7=fig7(1e-5, 1e-5, 9e-5)) is True
    assert held("wc-ideal-below-1-over-n", fig7=fig7(1e-5, 1e-5, 2e-4)) is False  # every run


@pytest.mark.parametrize(
    ("imbalance", "replicas", "verdict"),
    [(4e-4, 110, True), (6e-4, 110, False), (4e-4, 120, False)],
)
def test_different_workers_must_be_balanced_and_cheaper_than_all(imbalance, replicas, verdict):
    found = {
        "d-choices": (1e-3, 100),
        "d-choices:literal=true": (1e-3, 105),
        "d-choices:distinct=true": (imbalance, replicas),
        "w-choices": (1e-6, 120),
    }
    rows = [
        {"grouping": g, "workers": 50, "zipf": 1.4, "seed": seed, "imbalance": i, "replicas": r}
        for g, (i, r) in found.items()
        for seed in (1, 2)
    ]
    assert held("distinct-workers-within-s-epsilon", distinct=rows) is verdict


def test_a_few_real_cells_reach_the_claims(rows):
    """Rows of the engine have what the claims ask for: two cells of Figure 7, three of Figure 11."""
    real = dict(rows)
    for figure, count in (("fig7", 2), ("fig11", 3)):
        runs = plan(PAPER.figure(figure), quick=True)[:count]
        done = {digest(run.cell): {"rows": run_cell(small(run.cell))} for run in runs}
        real[figure] = figure_rows(runs, done) + list(rows[figure][count:])
    assert len(judge(PAPER, real)) == len(claims_of(PAPER))


def test_the_helpers_examples_run():
    failed, attempted = doctest.testmod(terms)
    assert attempted
    assert not failed


@pytest.mark.parametrize(("zipf", "workers"), [(0.8, 50), (1.4, 100), (2.0, 50)])
def test_all_prefixes_give_the_d_of_the_scheme(zipf, workers):
    row = analysis.needed_choices(zipf, workers, keys=10_000, epsilon=1e-4)
    shares = Zipf(zipf, 10_000).probabilities()
    head = shares[shares >= 1 / (5 * workers)]
    assert row["d"] == row["d_all_prefixes"] == find_optimal_choices(head, workers, 1e-4)
    assert row["d_two_prefixes"] <= row["d"]


def test_memory_by_formula_is_expected_least_frequency():
    """Against frequencies drawn at random: PKG's min(f, 2) and SG's min(f, n), summed."""
    stream = Zipf(1.4, 1_000, 5_000, seed=3)
    rows = analysis.memory(1.4, 20, 1_000, 2_000, 5_000, epsilon=1e-4, sources=1, seed=3)
    row = rows[0]
    drawn = np.random.default_rng(1).multinomial(5_000, stream.probabilities(), size=200)
    assert row["memory_pkg"] == pytest.approx(np.minimum(drawn, 2).sum(axis=1).mean(), rel=0.01)
    assert row["memory_sg"] == pytest.approx(np.minimum(drawn, 20).sum(axis=1).mean(), rel=0.01)


def test_counted_memory_is_the_simulators():
    rows = analysis.memory(1.4, 20, 1_000, 2_000, 5_000, epsilon=1e-4, sources=2, seed=3)
    counted = {row["grouping"]: row for row in rows if row["how"] == "simulated"}
    stream = Zipf(1.4, 1_000, 2_000, seed=3)
    for scheme in ("d-choices", "w-choices"):
        assert counted[scheme]["memory"] == simulate(scheme, stream, 20, 2, 3).replicas
    assert counted["d-choices"]["memory_sg"] == simulate("shuffle", stream, 20, 2, 3).replicas


def test_head_and_tail_add_up_to_the_stream():
    rows = analysis.head_and_tail("w-choices", 2.0, 5, 1_000, 20_000, sources=2, seed=1)
    assert sum(row["load"] for row in rows) == pytest.approx(1)
    totals = [sum(row["load"] for row in rows if row["worker"] == w) for w in range(1, 6)]
    stream = Zipf(2.0, 1_000, 20_000, seed=1)
    loads = simulate("w-choices:theta=0.025", stream, 5, 2, 1).loads
    assert totals == pytest.approx(sorted((load / 20_000 for load in loads), reverse=True))


def test_smallest_choices_is_the_first_of_all_that_reaches_the_goal():
    """No d that is skipped because the top key is too heavy for it would have done."""
    found = analysis.smallest_choices(1.6, 10, 1_000, 30_000, epsilon=1e-3, sources=2, seed=1)
    stream = Zipf(1.6, 1_000, 30_000, seed=1)
    reached = [
        d
        for d in range(2, 11)
        if simulate(f"d-choices:choices={d}", stream, 10, 2, 1).imbalance <= found["imbalance_goal"]
    ]
    assert found["smallest"] == min(reached, default=10)
    own = simulate("d-choices:epsilon=0.001", stream, 10, 2, 1)
    measured = ("imbalance", "worst_window", "replicas")
    assert [found[name] for name in measured] == [getattr(own, name) for name in measured]
