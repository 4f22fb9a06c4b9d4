"""The declarations and the claims of the paper on workload skewness and variance."""

from pathlib import Path

import pytest

import evenflow_lab
from evenflow.planning.protocol import Constraints
from evenflow_lab.cli.reproduction import Reproduction
from evenflow_lab.experiments import expand, figure_rows, judge, load_paper, plan, run_cell
from evenflow_lab.experiments.claims import claims_of, decide
from evenflow_lab.experiments.store import digest
from evenflow_lab.papers.skewness_and_variance import analysis
from evenflow_lab.simulators.replanning import replan
from evenflow_lab.workloads import Fluctuating

pytestmark = pytest.mark.slow

FOLDER = Path(evenflow_lab.__file__).parent / "papers" / "skewness_and_variance"
PAPER = load_paper(FOLDER)

# figure → cells of a quick and of a full run
CELLS = {
    "fig7": (8 * 2, 8 * 2 * 3),
    "fig8": (4 * 2 * 3, 8 * 2 * 3 * 3),
    "fig9": (4 * 2 * 3, 8 * 2 * 3 * 3),
    "fig10": (4 * 2 * 3, 4 * 2 * 3 * 3),
    "fig11": (1, 3),
    "fig12": (5 * 4, 9 * 4 * 3),
    "fig17": (5 * 2 * 2, 10 * 4 * 2 * 3),
    "fig18": (4, 4 * 3),
    "fig19": (3 * 3, 5 * 3 * 3),
    "fig20": (4 * 2, 9 * 4 * 3),
    "fig21": (4 * 2, 9 * 4 * 3),
}
COMMON = {"per_key": 10, "zipf": 0.85, "fluctuation": 1.0, "seed": 1}


def small(cell):
    """The cell with few keys and intervals."""
    parameters = dict(cell["parameters"])
    for name, value in (("intervals", 2), ("keys", 500), ("plans", 16), ("degrees", [1, 8])):
        if name in parameters:
            parameters[name] = value
    if "setting" in parameters:
        parameters["setting"] = {**parameters["setting"], "keys": 500}
    return {**cell, "parameters": parameters}


def made_up(run):
    """Rows of the shape that a run has, with numbers from nowhere."""
    parameters = run.cell["parameters"]
    if run.cell["function"] == "hashed":
        setting = parameters["setting"]
        return [
            {
                **setting,
                "fluctuation": parameters["fluctuation"],
                "largest": 1.1 + 5 / setting["keys"] + setting["workers"] / 100,
                "largest_over_smallest": 2.5,
                "largest_over_smallest_each": 5.0,
                "skewness": 1.5,
            }
        ]
    if run.cell["function"] == "discretized":
        return [
            {
                **parameters,
                "degree": degree,
                "generation_ms": 10 / degree,
                "original_ms": 100.0,
                "times_faster": 10.0 * degree,
                "load_error_max": degree / 1000,
            }
            for degree in parameters["degrees"]
        ]
    if run.cell["function"] == "growing_table":
        return [
            {
                "theta": parameters["theta"],
                "adjustments": n,
                "table_size": 9000 - n,
                "limit": 9333.3,
            }
            for n in (1, 16, 1024)
        ]
    cheap = parameters["planner"] in ("mixed-literal", "mixed", "mixed-bf")
    return [
        {
            **parameters,
            **run.labels,
            "grouping": parameters["planner"],
            "feasible": 1.0,
            "generation_ms": 5.0,
            "migration_cost": (5.0 if cheap else 20.0) / parameters["window"],
            "table_size": 100.0,
            "table_size_max": 100,
            "skewness_by_hash": 2.0,
            "skewness_before": 1.5,
            "skewness_expected_max": 1.08,
        }
    ]


@pytest.fixture(scope="module")
def rows():
    return {
        figure.id: [row for run in plan(figure, quick=True) for row in made_up(run)]
        for figure in PAPER.figures
    }


def test_the_paper_has_figures_7_to_12_and_17_to_21():
    ids = [f"fig{i}" for i in (*range(7, 13), *range(17, 22))]
    assert [figure.id for figure in PAPER.figures] == ids


@pytest.mark.parametrize("figure", CELLS)
def test_a_figure_expands_to_its_grid(figure):
    declared = PAPER.figure(figure)
    assert len(expand(declared, quick=True)) == CELLS[figure][0]
    assert len(expand(declared, quick=False)) == CELLS[figure][1]


@pytest.mark.parametrize("quick", [True, False])
def test_defaults_are_those_of_table_2(quick):
    defaults = {
        "zipf": 0.85, "fluctuation": 1.0, "theta": 0.08, "table_limit": 3000, "workers": 15,
    }  # fmt: skip
    for figure in PAPER.figures:
        base = {**figure.parameters, **(figure.quick.get("parameters", {}) if quick else {})}
        for name, value in defaults.items():
            if name in base:
                assert base[name] == value, (figure.id, name)
        small = {"fig12": 10_000, "fig18": 10_000}  # as the figure says, and as the paper says
        if "keys" in base and not (quick and figure.id == "fig11"):
            assert base["keys"] == small.get(figure.id, 1_000_000)


def test_the_paper_is_run_when_none_is_named():
    assert "skewness_and_variance" in {
        paper.name for paper, _ in Reproduction.of([], quick=True).chosen
    }


def test_figures_20_and_21_share_their_runs():
    def of(figure):
        return {digest(cell) for cell in expand(PAPER.figure(figure), quick=True)}

    assert of("fig20") == of("fig21")


def test_claims_have_different_ids_and_known_figures():
    claims = claims_of(PAPER)
    assert len({one.id for one in claims}) == len(claims) >= 50
    looked_at = {figure for one in claims for figure in one.figures}
    assert looked_at == {figure.id for figure in PAPER.figures}


def test_every_claim_is_judged_and_says_numbers(rows):
    ledger = judge(PAPER, rows, "quick")
    assert len(ledger) == len(claims_of(PAPER))
    for entry in ledger:
        if entry.held is None:
            assert entry.id.startswith("storm-")
            assert "Spark" in entry.why or "no θmax" in entry.why
            assert "θmax" in entry.why or "To be measured again: `evenflow bench" in entry.why
        else:
            assert any(character.isdigit() for character in entry.measured), entry.id
            assert "held if" in entry.measured, entry.id
        assert entry.why or entry.held, entry.id


def test_claims_follow_the_rows(rows):
    """The same rows with Mixed and its rivals exchanged turn verdicts over."""
    turned = {"mixed-literal": "min-table", "min-table": "mixed-literal", "mixed": "mixed"}
    other = dict(rows)
    for figure in ("fig8", "fig9", "fig10", "fig19"):
        other[figure] = [{**row, "grouping": turned[row["grouping"]]} for row in rows[figure]]
    before = {entry.id: entry.held for entry in judge(PAPER, rows)}
    after = {entry.id: entry.held for entry in judge(PAPER, other)}
    for id in (
        "mixed-much-cheaper-up-to-35",
        "mintable-three-times-mixed",
        "mixed-cheaper-at-any-k",
        "mixed-cheaper-at-any-window",
    ):
        assert before[id] is True
        assert after[id] is False


# --- made-up rows: a claim must be able to hold and to fail ---------------------------------------


def held(id, **rows):
    [one] = [one for one in claims_of(PAPER) if one.id == id]
    return decide(PAPER, one, rows)[0].held


@pytest.mark.parametrize(("at_008", "verdict"), [(3.0, True), (2.9, False)])
def test_mintable_must_cost_three_times_as_much_at_every_small_theta(at_008, verdict):
    ratios = {0.02: 4.0, 0.08: at_008, 0.1: 3.0, 0.3: 1.0}  # 0.3 is not asked about
    fig9 = [
        {"grouping": planner, "window": w, "theta": theta, "migration_cost": cost}
        for w in (1, 5)
        for theta, ratio in ratios.items()
        for planner, cost in (("mixed-literal", 2.0), ("min-table", 2.0 * ratio))
    ]
    assert held("mintable-three-times-mixed", fig9=fig9) is verdict


@pytest.mark.parametrize(
    ("mixed_at_40", "verdict"),
    [(9.0, True), (7.0, False), (3.0, False)],  # 7: MinTable costs 1.43 times as much
)
def test_the_jump_after_35_must_reach_mintable(mixed_at_40, verdict):
    costs = {"mixed-literal": {35: 2.0, 40: mixed_at_40}, "min-table": {35: 10.0, 40: 10.0}}
    fig8 = [
        {
            "grouping": planner,
            "window": w,
            "workers": n,
            "migration_cost": cost,
            "table_size_max": 3000,
        }
        for w in (1, 5)
        for planner, curve in costs.items()
        for n, cost in curve.items()
    ]
    assert held("mixed-jumps-after-35", fig8=fig8) is verdict


@pytest.mark.parametrize(("error", "verdict"), [(1.0, True), (1.01, False)])
def test_every_degree_must_have_a_small_error(error, verdict):
    fig11 = [{"degree": 1, "load_error_max": 0.0}, {"degree": 64, "load_error_max": error}]
    assert held("error-at-most-one-percent", fig11=fig11) is verdict


@pytest.mark.parametrize(
    ("sizes", "verdict"),
    [((9300, 9000), True), ((9300, 8000), False), ((9300, 10_500), False)],
)
def test_every_table_must_come_near_its_limit(sizes, verdict):
    fig18 = [
        {"theta": theta, "adjustments": n, "table_size": size if n == 64 else 10, "limit": 9333.3}
        for theta, size in zip((0.02, 0.3), sizes, strict=True)
        for n in (1, 64)
    ]
    assert held("table-converges-to-n-1-over-n", fig18=fig18) is verdict


@pytest.mark.parametrize(
    ("by_theta", "verdict"),
    [
        ({0.02: 512, 0.3: 32}, True),
        ({0.02: 32, 0.3: 32}, False),  # nothing differs
        ({0.02: 32, 0.3: 512}, False),
    ],
)
def test_a_smaller_theta_must_need_a_larger_table(by_theta, verdict):
    fig17 = [
        {
            "grouping": "mixed-literal",
            "theta": theta,
            "table_limit": limit,
            "migration_cost": 10.0 if limit < needed else 2.0,
        }
        for theta, needed in by_theta.items()
        for limit in (2, 32, 512, 8192)
    ]
    assert held("theta-decides-the-table-needed", fig17=fig17) is verdict


def test_a_few_real_cells_reach_the_claims(rows):
    """Rows of the engine have what the claims ask for: the first cells of every figure."""
    real = dict(rows)
    for figure in PAPER.figures:
        runs = plan(figure, quick=True)[:2]
        done = {digest(run.cell): {"rows": run_cell(small(run.cell))} for run in runs}
        theirs = [
            {**row, "keys": 1_000_000} if figure.id == "fig7" else row
            for row in figure_rows(runs, done)
        ]
        real[figure.id] = theirs + list(rows[figure.id][2:])
        if figure.id in {"fig11", "fig18"}:
            assert set(rows[figure.id][0]) - {"degrees"} <= set(theirs[0])
        else:
            assert set(rows[figure.id][0]) <= set(theirs[0]), figure.id
    real["fig11"] += rows["fig11"][2:]
    assert len(judge(PAPER, real)) == len(claims_of(PAPER))


# --- what is run ----------------------------------------------------------------------------------


def test_a_row_is_a_run_of_the_planner():
    row = analysis.replanned(
        "mixed", 5, 500, theta=0.1, table_limit=30, window=2, intervals=3, beta=1.2, **COMMON
    )
    stream = Fluctuating(0.85, 500, 1.0, 5_000, 5, 5_000, seed=1)
    figures = replan("mixed:beta=1.2", stream, Constraints(5, 0.1, 30), 2, 3).to_dict()
    assert (row["grouping"], row["symbol"]) == ("mixed", "Mixed")
    for name, value in figures.items():
        if name != "generation_ms":
            assert row[name] == value, name


def test_claims_on_mixed_are_judged_by_the_printed_form_and_ours_stands_beside_it(rows):
    """What ours does changes no verdict."""
    for figure in ("fig8", "fig9", "fig10", "fig17", "fig19"):
        assert {"mixed-literal", "mixed"} <= {row["grouping"] for row in rows[figure]}
    worse = {
        figure: [
            {**row, "migration_cost": 99.0, "table_size_max": 10**6, "feasible": 0.0}
            if row.get("grouping") == "mixed"
            else row
            for row in of_figure
        ]
        for figure, of_figure in rows.items()
    }
    assert [(e.id, e.held) for e in judge(PAPER, rows)] == [
        (e.id, e.held) for e in judge(PAPER, worse)
    ]
    common = {**COMMON, "theta": 0.02, "table_limit": 3, "window": 1, "intervals": 2}
    printed, ours = (analysis.replanned(p, 5, 500, **common) for p in ("mixed-literal", "mixed"))
    assert printed["symbol"] != ours["symbol"]
    assert printed["table_size_max"] > 3
    assert printed["skewness_expected_max"] < ours["skewness_expected_max"]


def test_hashed_loads_are_a_cumulative_distribution():
    setting = {"varied": "workers", "workers": 5, "keys": 500}
    rows = analysis.hashed(setting, intervals=4, **COMMON)
    assert [row["percentile"] for row in rows] == [20, 40, 60, 80, 100]
    loads = [row["load"] for row in rows]
    assert loads == sorted(loads)
    assert sum(loads) == pytest.approx(5)
    assert rows[0]["largest"] == loads[-1]
    assert rows[0]["largest_over_smallest"] == pytest.approx(loads[-1] / loads[0])


def test_a_growing_table_is_read_after_1_2_4_plans():
    common = {**COMMON, "workers": 5, "keys": 500, "window": 1}
    rows = analysis.growing_table(0.05, plans=20, **common)
    assert [row["adjustments"] for row in rows] == [1, 2, 4, 8, 16]
    stream = Fluctuating(0.85, 500, 1.0, 5_000, 5, 5_000, seed=1)
    run = replan("min-mig", stream, Constraints(5, 0.05, 500), 1, 80, plans=20)
    assert [row["table_size"] for row in rows] == [
        run.plans[row["adjustments"] - 1].table_size for row in rows
    ]
    assert rows[0]["limit"] == 400


def test_discretized_has_a_row_a_degree_and_the_original_beside():
    common = {**COMMON, "workers": 5, "keys": 500, "theta": 0.08, "table_limit": 100}
    rows = analysis.discretized([1, 16], window=1, intervals=3, **common)
    assert [row["degree"] for row in rows] == [1, 16]
    assert len({row["original_ms"] for row in rows}) == 1
    assert rows[0]["load_error_max"] == 0
    for row in rows:
        assert row["times_faster"] == pytest.approx(row["original_ms"] / row["generation_ms"])
