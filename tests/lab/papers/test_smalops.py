"""The declarations and the claims of the paper on SMALOPS."""

import json
import shutil
from pathlib import Path

import pytest

import evenflow_lab
from evenflow.model import InputError
from evenflow.simulator.schemes import make_scheme
from evenflow_lab.cli.reproduction import Reproduction
from evenflow_lab.experiments import expand, figure_rows, judge, load_paper, plan, run_cell
from evenflow_lab.experiments.claims import claims_of, decide
from evenflow_lab.experiments.store import digest
from evenflow_lab.papers.smalops import analysis, broker
from evenflow_lab.simulators.partitioned_log import PERCENTILES

pytestmark = pytest.mark.slow

FOLDER = Path(evenflow_lab.__file__).parent / "papers" / "smalops"
PAPER = load_paper(FOLDER)

# figure → cells of a quick and of a full run
CELLS = {
    "fig7": (2 * 3, 2 * 3 * 3),
    "fig8": (5 * 3, 6 * 3),
    "fig9": (13, 21 * 3),
    "fig10": (2 * 2 * 3, 2 * 2 * 5),
    "broker_fig7": (2, 2),
    "broker_fig8": (2, 2),
    "broker_fig9": (2, 2),
    "broker_fig10": (2, 2),
    "sec2_state": (2, 2 * 3),
    "load": (4 * 2 * 2, 7 * 4 * 3),
    "fixed": (2 * 2 * 2, 6 * 2 * 3),
    "times": (4 * 2 * 2, 6 * 2 * 3),
    "rules": (8, 8 * 3),
    "rivals": (1, 3 * 3),
}
P99 = {"key": 1000.0, "smalops": 100.0, "shuffle": 0.0}


def small(cell):
    """The cell with few messages."""
    parameters = dict(cell["parameters"])
    for name, value in (
        ("seconds", 10.4),
        ("saturation", 0.02),
        ("minutes", 1),
        ("messages", 60_000),
        ("minute", 20_000),
        ("least", 10),
    ):
        if name in parameters:
            parameters[name] = value
    return {**cell, "parameters": parameters}


def made_up(run):
    """Rows of the shape that a run has, with numbers from nowhere."""
    parameters, function = run.cell["parameters"], run.cell["function"]
    if function.startswith("broker_"):  # read from a file
        return [{**parameters, **row} for row in run_cell(run.cell)]
    if function == "distribution":
        near = parameters["service_us"] == 50
        return [
            {
                **parameters,
                "percentile": p,
                "delay": p * (3 if near and g == "key" and p >= 50 else 1),
            }
            for g in [parameters["grouping"]]
            for p in PERCENTILES
        ]
    if function == "beside_hashing":
        return [
            {
                **parameters,
                "grouping": g,
                "p99": P99.get(g, 50.0) * parameters["service_us"],
                "reduction": 100 * (1 - P99.get(g, 50.0) / 1000),
                "max_load_ratio": 2.0 if g == "key" else 1.1,
            }
            for g in parameters.get("schemes", ["key", "smalops"])
        ]
    if function == "thresholds":
        setting = parameters["setting"]
        hot = setting["percent"] >= 10 and setting["means"] == "coverage"
        return [{**parameters, **setting, "p99": 100.0 if hot else 1000.0, "hashed_p99": 1000.0,
                 "tracked": setting["percent"] * 2}]  # fmt: skip
    if function == "over_time":
        return [
            {
                **parameters,
                "second": 5.0 * (i + 1),
                "p99": P99[parameters["grouping"]],
                "overall_p99": P99[parameters["grouping"]],
                "overall_p50": 1.0,
                "hashed_busiest": 0.9,
            }
            for i in range(12)
        ]
    if function == "windows":
        return [{**parameters, "overall_p99": 100.0, "overall_moves": 9, "overall_held_longest": 1.0,
                 "hashed_p99": 1000.0}]  # fmt: skip
    if function == "ruled":
        few = parameters["rule"] == "two choices alone" or "equation" in parameters["rule"]
        return [{**parameters, "p99": 150.0 if few else 100.0, "moves": 10 if few else 30}]
    if function == "tracked":
        return [
            {
                **parameters,
                "window": i + 1,
                "what": what,
                "tracked": 1300,
                "seen": 3_200_000,
                "ever": 14_000,
                "hot_share": 0.7,
                "tracked_percent": 0.04,
                "moved_heaviest": 0.01,
                "moved_others": 0.1,
                "moved_heaviest_there": 0.1,
                "moved_others_there": 0.5,
                "messages_of_hot": 15_000_000,
                "in_the_whole_run": 14_000,
                "messages_of_those": 20_300_000,
                "most_tracked": 1300,
                "count": 1,
            }
            for i in range(2)
            for what in ("seen so far", "hot so far", "hot now")
        ]
    raise AssertionError(function)


@pytest.fixture(scope="module")
def rows():
    return {
        figure.id: [row for run in plan(figure, quick=True) for row in made_up(run)]
        for figure in PAPER.figures
    }


def test_the_paper_has_figures_7_to_10_and_what_the_choices_do():
    assert [figure.id for figure in PAPER.figures] == list(CELLS)


@pytest.mark.parametrize("figure", CELLS)
def test_a_figure_expands_to_its_grid(figure):
    declared = PAPER.figure(figure)
    assert len(expand(declared, quick=True)) == CELLS[figure][0]
    assert len(expand(declared, quick=False)) == CELLS[figure][1]


def test_the_paper_is_run_when_none_is_named():
    assert "smalops" in {paper.name for paper, _ in Reproduction.of([], quick=True).chosen}


def test_settings_are_the_papers():
    assert (analysis.S, analysis.V, analysis.KEYS) == (1.1, 2.72, 28_000_000)
    assert analysis.INTERVAL == 10.0
    assert PAPER.figure("fig8").grid["service_us"][0] == 10
    assert PAPER.figure("fig8").grid["service_us"][-1] == 50
    assert PAPER.figure("fig10").parameters["service_ms"] == 20
    assert PAPER.figure("fig10").parameters["minutes"] == 5
    assert PAPER.figure("fig7").parameters["seconds"] == 300
    state = PAPER.figure("sec2_state").parameters
    assert (state["messages"], state["least"]) == (28_000_000, 100)


def test_claims_have_different_ids_and_known_figures():
    claims = claims_of(PAPER)
    assert len({one.id for one in claims}) == len(claims) >= 25
    looked_at = {figure for one in claims for figure in one.figures}
    assert looked_at == {figure.id for figure in PAPER.figures} - {"rivals", "fixed"}


def test_every_claim_is_judged_and_says_numbers(rows):
    ledger = judge(PAPER, rows, "quick")
    assert len(ledger) == len(claims_of(PAPER))
    for entry in ledger:
        if entry.held is None:
            assert entry.id.startswith("broker-")
            assert "evenflow bench smalops-broker" in entry.why
            continue
        assert any(character.isdigit() for character in entry.measured), entry.id
        assert "held if" in entry.measured, entry.id
        assert entry.why or entry.held, entry.id


def test_claims_follow_the_rows(rows):
    """The same rows with Kafka and SMALOPS exchanged turn verdicts over."""
    turned = {"key": "smalops", "smalops": "key"}
    other = dict(rows)
    for figure in ("fig7", "fig10", "load"):
        other[figure] = [
            {**row, "grouping": turned.get(row["grouping"], row["grouping"])}
            for row in rows[figure]
        ]
    other["fig8"] = [{**row, "reduction": -row["reduction"]} for row in rows["fig8"]]
    before = {entry.id: entry.held for entry in judge(PAPER, rows)}
    after = {entry.id: entry.held for entry in judge(PAPER, other)}
    for id in (
        "p99-73-percent-at-50",
        "p99-57-percent-at-20",
        "kafka-degrades-from-p50-at-50",
        "dynamic-load-improves",
        "dynamic-load-improves-over-time",
        "hashing-cannot-handle-skew",
    ):
        assert before[id] is True, id
        assert after[id] is False, id


# --- made-up rows: a claim must be able to hold and to fail ---------------------------------------


def held(id, **rows):
    [one] = [one for one in claims_of(PAPER) if one.id == id]
    return decide(PAPER, one, rows)[0].held


@pytest.mark.parametrize(
    ("reductions", "verdict"), [((70.0, 73.0, 90.0), True), ((70.0, 72.9, 90.0), False)]
)
def test_the_tail_must_be_73_percent_lower_with_the_median_seed(reductions, verdict):
    fig8 = [
        {"grouping": "smalops", "service_us": 50, "reduction": r, "seed": seed}
        for seed, r in enumerate(reductions)
    ]
    assert held("p99-73-percent-at-50", fig8=fig8) is verdict


@pytest.mark.parametrize(("at_10", "verdict"), [(600.0, True), (700.0, False)])
def test_ten_percent_together_must_make_the_drop(at_10, verdict):
    fig9 = [
        {"means": means, "percent": percent, "p99": p99, "hashed_p99": 1000.0}
        for means in ("coverage", "others", "threshold")
        for percent, p99 in ((1, 990.0), (10, at_10), (50, 100.0))
    ]
    assert held("ten-percent-drops-sharply", fig9=fig9) is verdict


@pytest.mark.parametrize(("tracked", "verdict"), [(1500, True), (1501, False), (999, False)])
def test_a_window_must_have_1000_to_1500_hot_keys(tracked, verdict, rows):
    state = [{**row, "tracked": tracked} for row in rows["sec2_state"]]
    assert held("tracked-at-a-time", sec2_state=state) is verdict


@pytest.mark.parametrize(("longest", "verdict"), [(10.0, True), (10.1, False)])
def test_no_hand_over_may_outlast_the_interval(longest, verdict, rows):
    times = [{**row, "overall_held_longest": longest} for row in rows["times"]]
    assert held("interval-of-ten-seconds", times=times) is verdict


@pytest.mark.parametrize(("ours", "verdict"), [(27.0, True), (28.0, False)])
def test_claims_on_a_real_broker_are_judged_by_what_was_saved(tmp_path, monkeypatch, ours, verdict):
    [function] = [
        one.function for one in claims_of(PAPER) if one.id == "broker-p99-near-saturation"
    ]
    monkeypatch.setitem(function.__globals__, "SAVED", tmp_path / "broker.json")
    assert function({}).held is None
    rows = [{"grouping": "key", "p99_ms": 100.0}, {"grouping": "smalops", "p99_ms": ours}]
    run = {"partitions": 8, "service": 0.003, "rate": 1000.0, "schemes": rows}
    saved = {"command": "python", "cores": 2, "load_average_before": 0.1, "static": run}
    (tmp_path / "broker.json").write_text(json.dumps(saved))
    assert function({}).held is verdict


def by_service(*ours):
    return [
        {
            "grouping": g,
            "service_ms": 1.2 + i,
            "p99": p99,
            "reduction": 0.0 if g == "key" else ours[i],
        }
        for g in ("key", "smalops")
        for i, p99 in enumerate((10.0, 20.0, 30.0))
    ]


@pytest.mark.parametrize(
    ("claim", "figure", "changed", "verdict"),
    [
        ("broker-kafka-keeps-increasing", "broker_fig8", by_service(60, 60, 60), True),
        ("broker-p99-at-lower-load", "broker_fig8", by_service(57, 0, 0), True),
        ("broker-p99-at-lower-load", "broker_fig8", by_service(56.9, 99, 99), False),
        ("broker-ten-percent-drops-sharply", "broker_fig9", {10: 66.0, 50: 1.0}, True),
        ("broker-ten-percent-drops-sharply", "broker_fig9", {10: 67.0, 50: 1.0}, False),
        ("broker-more-percent-no-impact", "broker_fig9", {10: 11.0, 50: 10.0}, True),
        ("broker-more-percent-no-impact", "broker_fig9", {10: 11.1, 50: 10.0}, False),
    ],
)
def test_claims_on_the_brokers_sweeps_are_judged_by_their_rows(claim, figure, changed, verdict):
    if isinstance(changed, dict):
        readings = ("that hot keys have together", "that a hot key has itself")
        changed = [
            {"percent": percent, "p99": p99, "reading": reading, "hashed_p99": 100.0}
            for reading in readings
            for percent, p99 in changed.items()
        ]
    assert held(claim, **{figure: changed}) is verdict


def test_kafkas_tail_that_does_not_grow_is_seen():
    rows = [{**row, "p99": -row["p99"]} for row in by_service(0, 0, 0)]
    assert held("broker-kafka-keeps-increasing", broker_fig8=rows) is False


def test_a_measurement_that_is_not_there_is_said_with_the_command(monkeypatch):
    monkeypatch.setitem(broker.SAVED, "sweeps", "no-such-file.json")
    with pytest.raises(InputError, match=r"evenflow bench smalops-broker --sweeps --save"):
        broker.broker_by_service("key")


def test_rows_of_an_older_measurement_are_not_taken_for_new_ones(tmp_path, monkeypatch):
    shutil.copytree(FOLDER, tmp_path / "smalops")
    monkeypatch.setenv("EVENFLOW_PAPERS", str(tmp_path))
    cell = plan(PAPER.figure("broker_fig7"), quick=True)[0].cell
    before = digest(cell)
    assert digest(cell) == before
    (tmp_path / "smalops" / "broker.json").write_text("{}")
    assert digest(cell) != before


def test_a_few_real_cells_reach_the_claims(rows):
    """Rows of the simulator have what the claims ask for: the first cells of every figure."""
    real = dict(rows)
    for figure in PAPER.figures:
        runs = plan(figure, quick=True)[:2]
        done = {digest(run.cell): {"rows": run_cell(small(run.cell))} for run in runs}
        theirs = [
            {**row, **{n: run.cell["parameters"][n] for n in ("saturation",) if n in row}}
            for run in runs
            for row in figure_rows([run], done)
        ]
        assert set(rows[figure.id][0]) <= set(theirs[0]), figure.id
        real[figure.id] = [*theirs, *rows[figure.id][len(theirs) :], *rows[figure.id]]
    assert len(judge(PAPER, real)) == len(claims_of(PAPER))


# --- what is run ----------------------------------------------------------------------------------


def test_the_busiest_partition_is_as_busy_as_the_setting_says():
    [row, _] = analysis.beside_hashing(50, 0, 8, 0.3, 30, 1)
    assert row["grouping"] == "key"
    assert row["busiest"] == pytest.approx(0.3, rel=0.02)


def test_every_rule_is_a_scheme_that_can_be_made():
    for options, _ in analysis.RULES.values():
        make_scheme(f"smalops:{options}")
    assert set(PAPER.figure("rules").grid["rule"]) == {"key hashing", *analysis.RULES}


def test_a_long_run_counts_keys_window_by_window():
    rows = analysis.tracked(60_000, 20_000, 0, 10, 5, seed=1)
    assert [row["window"] for row in rows[::3]] == [1, 2, 3]
    last = rows[-1]
    assert last["tracked"] <= last["ever"] <= last["in_the_whole_run"] <= last["seen"]
    assert last["messages_of_hot"] <= last["messages_of_those"] <= 60_000
