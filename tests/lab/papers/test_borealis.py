"""The declarations and the claims of the paper on load distribution in Borealis."""

from pathlib import Path

import pytest

import evenflow_lab
from evenflow_lab.cli.reproduction import Reproduction
from evenflow_lab.experiments import expand, figure_rows, judge, load_paper, plan, run_cell
from evenflow_lab.experiments.claims import claims_of, decide
from evenflow_lab.experiments.store import digest
from evenflow_lab.papers.borealis import analysis, terms

pytestmark = pytest.mark.slow

FOLDER = Path(evenflow_lab.__file__).parent / "papers" / "borealis"
PAPER = load_paper(FOLDER)

# figure → cells of a quick and of a full run
CELLS = {
    "fig1": (4 * 2, 8 * 2 * 5),
    "fig3": (3 * 3 * 2, 8 * 3 * 5),
    "fig4": (3 * 4 * 2, 8 * 4 * 5),
    "table1": (4, 5),
    "table3": (3 * 3 * 2, 8 * 3 * 5),
    "fig5": (3 * 2 * 3, 3 * 2 * 2 * 5),
    "fig6": (3 * 4, 7 * 4 * 5),
    "fig7": (2 * 6, 4 * 6 * 5),
    "fig8": (4 * 2, 4 * 5),
    "fig9": (15 * 4, 21 * 4 * 5),
    "fig10": (2 * 5 * 2, 5 * 5 * 5),
}


def made_up(run):
    """Rows of the shape that a run has, with numbers from nowhere."""
    parameters = run.cell["parameters"]
    name = parameters.get("algorithm", parameters.get("plan", ""))
    if run.cell["function"] == "timed":
        nodes = parameters["size"]["nodes"]
        common = {"nodes": nodes, "pair_ms": 0.2}
        rows = [{**common, "grouping": "evenflow", "seconds": 1e-6 * nodes**2}]
        if parameters["size"]["literal"]:
            rows.append({**common, "grouping": "transcription", "seconds": 4e-4 * nodes**3})
        return rows
    good = name.startswith("COR") and name != "COR-BAL"
    row = {
        **parameters,
        "grouping": f"{name} plan" if "plan" in parameters else name,
        "latency_ms": 5.0 if name == "cut" else 50.0,
        "latency_ratio": 2.0 if good else 20.0,
        "deviation": 0.05 if good else 0.04 if name == "MINIMUM" else 0.15,
        "window_deviation": 0.05 if good else 0.04 if name == "MINIMUM" else 0.15,
        "correlation": 0.6 if name == "COR-GLB" else 0.0,
        "window_correlation": 0.6,
        "load_moved": 30.0 if "RE" in name else 10.0,
        "growth": 0.0,
        "final_deviation": 0.05 if "RE" in name or "GLB" in name else 0.07,
        "final_latency_ratio": 2.0,
    }
    if "setting" in parameters:
        row |= parameters["setting"]
    return [row]


@pytest.fixture(scope="module")
def rows():
    return {
        figure.id: [row for run in plan(figure, quick=True) for row in made_up(run)]
        for figure in PAPER.figures
    }


def small(cell):
    """The cell with little time, and few nodes where they are given."""
    parameters = dict(cell["parameters"])
    for name, value in (("settle", 0.0), ("duration", 3.0), ("calm", 2.0)):
        if name in parameters:
            parameters[name] = value
    if "size" in parameters:
        parameters["size"] = {"nodes": 3, "literal": True}
    return {**cell, "parameters": parameters}


def test_the_paper_has_figures_1_and_3_to_10_and_tables_1_and_3():
    ids = {"fig1", *(f"fig{i}" for i in range(3, 11)), "table1", "table3"}
    assert {figure.id for figure in PAPER.figures} == ids


@pytest.mark.parametrize("figure", CELLS)
def test_a_figure_expands_to_its_grid(figure):
    declared = PAPER.figure(figure)
    assert len(expand(declared, quick=True)) == CELLS[figure][0]
    assert len(expand(declared, quick=False)) == CELLS[figure][1]


def test_five_seeds_each():
    for figure in PAPER.figures:
        assert list(figure.grid["seed"]) == ([1] if figure.id == "table1" else [1, 2, 3, 4, 5])


def test_figures_3_and_4_and_table_3_share_their_runs():
    def of(figure):
        return {digest(cell) for cell in expand(PAPER.figure(figure), quick=False)}

    assert of("fig3") == of("table3") < of("fig4")


def test_the_paper_is_run_when_none_is_named():
    assert "borealis" in {paper.name for paper, _ in Reproduction.of([], quick=True).chosen}


def test_claims_have_different_ids_and_known_figures():
    claims = claims_of(PAPER)
    assert len({one.id for one in claims}) == len(claims) >= 30
    looked_at = {figure for one in claims for figure in one.figures}
    assert looked_at == {figure.id for figure in PAPER.figures}


def test_every_claim_is_judged_and_says_numbers(rows):
    ledger = judge(PAPER, rows, "quick")
    assert len(ledger) == len(claims_of(PAPER))
    for entry in ledger:
        if entry.held is None:
            assert entry.id == "statistics-transfer"
        else:
            assert any(character.isdigit() for character in entry.measured), entry.id
            assert "held if" in entry.measured, entry.id
        assert entry.why or entry.held, entry.id


@pytest.mark.parametrize(
    ("ours", "rivals", "latency", "verdict"),
    [
        (0.0, 0.0, 20.0, True),  # at 0.95 nobody's queues grow
        (0.0, 0.0, 11.0, False),
        (0.0, 0.1, 20.0, True),  # the rivals' do
        (0.1, 0.1, 1.0, True),  # both: latencies say how long the run was
        (0.1, 0.0, 20.0, False),  # ours alone
    ],
)
def test_where_queues_grow_latencies_decide_nothing(ours, rivals, latency, verdict):
    fig3 = [
        {
            "grouping": name,
            "level": level,
            "seed": seed,
            "latency_ratio": 10.0 if name == "COR-GLB" else latency if level == 0.95 else 30.0,
            "growth": 0.0 if level < 0.95 else ours if name == "COR-GLB" else rivals,
        }
        for name in ("COR-GLB", "LLF-GLB", "RAND-GLB")
        for level in (0.8, 0.95)
        for seed in (1, 2)
    ]
    assert held("cor-glb-much-lower-latency", fig3=fig3) is verdict


@pytest.mark.parametrize(
    ("correlations", "verdict"),
    [((0.4, 0.6, 0.9), True), ((0.3, 0.4, 0.9), False), ((0.6, 0.9, 0.95), False)],
)
def test_the_correlation_of_065_is_a_band_around_it(correlations, verdict):
    table3 = [
        {"grouping": "COR-GLB", "seed": s, "correlation": c, "window_correlation": 0.7}
        for s, c in enumerate(correlations)
    ]
    assert held("cor-glb-large-correlation", table3=table3) is verdict


@pytest.mark.parametrize(("level", "grows"), [(0.8, False), (1.1, True)])
def test_queues_grow_where_more_arrives_than_nodes_can_do(level, grows):
    row = analysis.placed_once("LLF-GLB", level, 0.0, 60.0, 1)
    assert (row["growth"] > (5 if grows else 1) * terms.GROWS) is grows


@pytest.mark.parametrize(
    ("figure", "id", "one", "other"),
    [
        ("fig1", "cut-plan-much-better", "cut plan", "connected plan"),
        ("fig3", "cor-glb-much-lower-latency", "COR-GLB", "LLF-GLB"),
        ("fig4", "cor-glb-much-smaller-deviation", "COR-GLB", "RAND-GLB"),
        ("table3", "cor-glb-large-correlation", "COR-GLB", "LLF-GLB"),
        ("fig5", "increase-latency", "COR-GLB", "LLF-GLB"),
        ("fig6", "one-way-much-worse-than-global", "COR-GLB", "COR-BAL"),
        ("fig7", "improved-much-better-than-one-way", "COR-RE-IMP", "COR-BAL"),
        ("fig8", "redistribution-moves-much-more", "COR-RE-IMP", "COR-SE-IMP"),
        ("fig9", "half-a-period-is-enough", "COR-SE-IMP", "LLF-BAL"),
        ("fig10", "bursty-each-combination-better", "COR-SE-GLB-IMP", "LLF-GLB-BAL"),
        ("table1", "global-grows-with-the-cube", "transcription", "evenflow"),
    ],
)
def test_claims_follow_the_rows(rows, figure, id, one, other):
    """The same rows with two contestants exchanged."""
    swap = {one: other, other: one}
    turned = [
        {**row, "grouping": swap.get(row["grouping"], row["grouping"])} for row in rows[figure]
    ]
    assert held(id, **{figure: rows[figure]}) is True
    assert held(id, **{figure: turned}) is False


# --- made-up rows: a claim must be able to hold and to fail ---------------------------------------


def held(id, **rows):
    [one] = [one for one in claims_of(PAPER) if one.id == id]
    return decide(PAPER, one, rows)[0].held


@pytest.mark.parametrize(("correlation", "verdict"), [(0.09, True), (-0.11, False)])
def test_rivals_must_be_near_zero(correlation, verdict):
    table3 = [
        {"grouping": "LLF-GLB", "correlation": correlation},
        {"grouping": "RAND-GLB", "correlation": 0.0},
    ]
    assert held("rivals-correlation-near-zero", table3=table3) is verdict


@pytest.mark.parametrize(("deviation", "verdict"), [(0.05, True), (0.051, False)])
def test_close_to_the_minimum_is_within_a_quarter(deviation, verdict):
    fig4 = [
        {"grouping": name, "level": 0.8, "deviation": value, "window_deviation": value}
        for name, value in (("COR-GLB", deviation), ("MINIMUM", 0.04))
    ]
    assert held("cor-glb-close-to-minimum", fig4=fig4) is verdict


@pytest.mark.parametrize(("worst", "verdict"), [(1.9, True), (2.0, False)])
def test_one_sensitive_parameter_is_enough(worst, verdict):
    fig9 = [
        {
            "grouping": name,
            "varied": varied,
            "value": value,
            "latency_ratio": worst
            if (name, varied, value) == ("COR-SE-IMP", "window", 20)
            else 1.0,
        }
        for name in ("COR-GLB", "COR-SE-IMP")
        for varied in ("n", "window", "samples", "period", "ratio")
        for value in (10, 20)
    ]
    assert held("correlation-not-sensitive", fig9=fig9) is verdict


@pytest.mark.parametrize(("scaled", "verdict"), [(4.0, True), (6.0, False)])
def test_less_load_must_be_moved_both_ways(scaled, verdict):
    fig5 = [
        {"grouping": name, "m": 10, "rates": rates, "load_moved": moved}
        for rates, ours in (("redrawn", 1.0), ("scaled", scaled))
        for name, moved in (("COR-GLB", ours), ("LLF-GLB", 5.0), ("RAND-GLB", 7.0))
    ]
    assert held("increase-load-moved", fig5=fig5) is verdict


def test_a_few_real_cells_reach_the_claims(rows):
    """Rows of the engine have what the claims ask for: the first cells of every figure."""
    asked = {
        "fig1": {"grouping", "level", "latency_ms", "correlation"},
        "fig3": {"grouping", "level", "latency_ratio", "deviation"},
        "fig4": {"grouping", "level", "deviation", "window_deviation"},
        "table1": {"grouping", "nodes", "seconds", "pair_ms"},
        "table3": {"grouping", "level", "correlation", "window_correlation"},
        "fig5": {"grouping", "m", "rates", "latency_ratio", "load_moved"},
        "fig6": {"grouping", "level", "latency_ratio", "load_moved", "correlation"},
        "fig7": {"grouping", "level", "latency_ratio"},
        "fig8": {"grouping", "load_moved", "latency_ratio", "final_deviation", "timeline"},
        "fig9": {"grouping", "varied", "value", "panel", "latency_ratio"},
        "fig10": {"grouping", "level", "latency_ratio"},
    }
    for figure in PAPER.figures:
        runs = plan(figure, quick=True)[:1]
        done = {digest(run.cell): {"rows": run_cell(small(run.cell))} for run in runs}
        theirs = figure_rows(runs, done)
        assert asked[figure.id] <= set(theirs[0]), figure.id


# --- what is run ----------------------------------------------------------------------------------


def test_the_bound_is_below_every_plan_of_the_same_streams():
    common = {"level": 0.8, "settle": 0.0, "duration": 10.0, "seed": 1}
    bound, plan_of = (analysis.placed_once(name, **common) for name in ("MINIMUM", "COR-GLB"))
    assert 0 < bound["deviation"] <= plan_of["deviation"]
    assert bound["deviation"] == pytest.approx(plan_of["minimum"])
    assert bound["window_deviation"] == pytest.approx(plan_of["window_minimum"])
    assert bound["latency_ratio"] is None


def test_moves_of_the_first_placement_do_not_count_after_an_increase():
    common = {"before": 0.5, "after": 0.8, "calm": 2.0, "duration": 3.0, "seed": 1}
    row = analysis.after_increase("COR-GLB", 10, "scaled", **common)
    assert 0 <= row["load_moved"] < 5  # the placement itself moves nearly all of 10


def test_plans_of_figure_1_are_what_they_are_called():
    rows = {plan: analysis.two_plans(plan, 0.8, 20.0, seed=1) for plan in ("connected", "cut")}
    assert rows["cut"]["latency_ms"] < rows["connected"]["latency_ms"]
    assert rows["connected"]["correlation"] < -0.8
    assert rows["cut"]["deviation"] < rows["connected"]["deviation"] / 2
