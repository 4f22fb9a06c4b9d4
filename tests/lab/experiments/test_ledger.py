"""Causes, thresholds, seeds, and the summary of all papers."""

import json

import pytest

from claims_with_reasons import claims_with_reasons
from evenflow.model import InputError
from evenflow_lab.experiments import (
    Cause,
    Measured,
    Threshold,
    expand,
    judge,
    load_paper,
    paper_folders,
)
from evenflow_lab.experiments.causes import causes_of
from evenflow_lab.experiments.claims import claims_of
from evenflow_lab.experiments.seeds import Spread, by_seed
from evenflow_lab.experiments.summary import BEGIN, END, check_page, summarise, write_summary
from evenflow_lab.experiments.tables import write_ledger
from tiny_experiments import DECLARED, paper_at

CLAIMS = """
from evenflow_lab.experiments.claims import Verdict, claim
from evenflow_lab.experiments.seeds import Measured, Threshold

@claim("low", "§1", figures=["fig1"], says="It is low.",
       threshold=Threshold("imbalance", most=0.5, unit=" %"))
def low(rows):
    return Measured(max(row["imbalance"] for row in rows["fig1"]), "of one scheme", "it is high")

@claim("even", "§2", figures=["fig1"], says="It is even.")
def even(rows):
    return Verdict(all(row["imbalance"] < 0.3 for row in rows["fig1"]), "0.3", "it is not")

@claim("grows", "§3", figures=["fig1"], says="It grows from seed to seed.")
def grows(rows):
    first, *_, last = [row["imbalance"] for row in rows["fig1"]]
    return Verdict(first < last, "it does")
"""
ROWS = {"fig1": [{"seed": seed, "imbalance": x} for seed, x in ((1, 0.2), (2, 0.4), (3, 0.9))]}


def ledger_of(folder, rows=ROWS, claims=CLAIMS, causes=""):
    paper_at(folder, DECLARED, claims)
    if causes:
        (folder / "causes.toml").write_text(causes, encoding="utf-8")
    return {entry.id: entry for entry in judge(load_paper(folder), rows, "quick")}


# --- causes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(paper_folders()))
def test_every_reason_why_a_claim_does_not_hold_has_a_cause(name):
    folder = paper_folders()[name]
    assert claims_with_reasons(folder) - set(causes_of(load_paper(folder))) == set()


@pytest.mark.parametrize("name", sorted(paper_folders()))
def test_every_cause_is_that_of_a_claim(name):
    paper = load_paper(paper_folders()[name])
    assert set(causes_of(paper)) - {one.id for one in claims_of(paper)} == set()


def test_a_cause_stands_only_where_a_claim_does_not_hold(tmp_path):
    causes = 'reading = ["even"]\npaper = ["low"]'
    ledger = ledger_of(tmp_path / "p", causes=causes)
    assert (ledger["low"].verdict, ledger["low"].cause) == ("held", "")
    assert (ledger["even"].verdict, ledger["even"].cause) == ("not held", Cause.READING)
    assert ledger_of(tmp_path / "q")["even"].cause == ""


@pytest.mark.parametrize(
    ("causes", "message"),
    [
        ('luck = ["low"]', "'luck' is no cause; known: paper, reading, stand-in, machine"),
        ('paper = "low"', "must be a list"),
        ('paper = ["low"]\nmachine = ["low"]', "'low' has two causes"),
        ("paper = [", "is not TOML"),
    ],
)
def test_a_mistake_in_causes_is_named(tmp_path, causes, message):
    with pytest.raises(InputError, match=message):
        ledger_of(tmp_path / "p", causes=causes)


# --- seeds and thresholds ------------------------------------------------------------------------


def test_a_claim_with_a_threshold_is_judged_by_the_median_of_the_seeds(tmp_path):
    low = ledger_of(tmp_path / "p")["low"]
    assert low.held is True  # 0.4; the worst seed has 0.9
    assert low.threshold == "at most 0.5 %"
    assert low.measured == (
        "imbalance: 0.4 % (0.2 … 0.9 over 3 seeds); of one scheme (held if the median is at most "
        "0.5 %)."
    )
    assert (low.held_by, low.seeds, low.mode) == (2, 3, "quick")
    worse = {"fig1": [{**row, "imbalance": row["imbalance"] + 0.2} for row in ROWS["fig1"]]}
    turned = ledger_of(tmp_path / "q", worse)["low"]
    assert (turned.held, turned.why, turned.held_by) == (False, "it is high", 1)


def test_a_claim_without_a_threshold_says_for_how_many_seeds_it_holds(tmp_path):
    even = ledger_of(tmp_path / "p")["even"]
    assert (even.held, even.held_by, even.seeds) == (False, 1, 3)


def test_a_claim_that_cannot_be_asked_of_one_seed_is_judged_all_the_same(tmp_path):
    grows = ledger_of(tmp_path / "p")["grows"]  # one row is too few to unpack
    assert (grows.held, grows.held_by, grows.seeds) == (True, 0, 0)


def test_one_seed_has_no_spread(tmp_path):
    rows, [claims, _] = {"fig1": ROWS["fig1"][:1]}, CLAIMS.split('@claim("grows"')
    low = ledger_of(tmp_path / "p", rows, claims)["low"]
    assert low.measured == "imbalance: 0.2 %; of one scheme (held if at most 0.5 %)."
    assert low.seeds == 0


def test_a_claim_with_a_threshold_must_measure(tmp_path):
    wrong = CLAIMS.replace("return Measured(max", "return Verdict(max")
    with pytest.raises(InputError, match=r"claim 'low' .* must return a Measured"):
        ledger_of(tmp_path / "p", claims=wrong)


def test_seeds_are_those_that_all_figures_have():
    rows = {"a": [{"seed": 1}, {"seed": 2}, {"seed": None}], "b": [{"seed": 2}], "c": [{"x": 1}]}
    assert by_seed(rows) == {
        2: {"a": [{"seed": 2}, {"seed": None}], "b": [{"seed": 2}], "c": [{"x": 1}]}
    }
    assert by_seed({"c": [{"x": 1}]}) == {}


def test_a_threshold_is_a_band_with_an_end():
    with pytest.raises(InputError, match="has no end"):
        Threshold("x")
    with pytest.raises(InputError, match="is empty"):
        Threshold("x", 2, 1)
    assert Threshold("x", 1, 2).holds(1)
    assert not Threshold("x", 1, 2).holds(2.1)
    assert Spread.of([3.0, 1.0]).median == 2.0
    assert Measured(1.0).why == ""


# Times of this machine; what was measured on a broker.
WITHOUT_SEEDS = {"table1", "broker_fig7", "broker_fig8", "broker_fig9", "broker_fig10"}


@pytest.mark.parametrize("name", ["skewness_and_variance", "smalops", "borealis"])
def test_every_figure_of_a_full_run_has_three_seeds(name):
    for figure in load_paper(paper_folders()[name]).figures:
        cells = expand(figure, quick=False)
        seeds = {cell.get("seed", cell.get("parameters", {}).get("seed")) for cell in cells}
        assert len(seeds) >= 3 or figure.id in WITHOUT_SEEDS, figure.id


# --- the summary ---------------------------------------------------------------------------------


@pytest.fixture
def one_paper(tmp_path, monkeypatch):
    folder = paper_at(tmp_path / "papers" / "tiny", DECLARED, CLAIMS)
    (folder / "causes.toml").write_text('stand-in = ["even"]', encoding="utf-8")
    monkeypatch.setenv("EVENFLOW_PAPERS", str(tmp_path / "papers"))
    return load_paper(folder)


def test_a_summary_stands_between_its_marks_and_nowhere_else(one_paper, tmp_path):
    page, out = tmp_path / "page.md", tmp_path / "out"
    page.write_text(f"# Before\n\n{BEGIN}\nold\n{END}\n\nAfter.\n", encoding="utf-8")
    write_ledger("A paper", judge(one_paper, ROWS, "full"), out / "tiny")
    write_summary(out, page)
    text = page.read_text(encoding="utf-8")
    assert text.startswith("# Before\n\n<!-- verdicts -->\n\nOf the claims")
    assert text.endswith("<!-- end -->\n\nAfter.\n")
    assert "\nold\n" not in text
    assert "| A paper (`tiny`) | full | 2 | 1 |  |  |  | 1 |  |  |" in text
    assert "| `tiny` | `even` | §2 | a stand-in | 1 of 3 |" in text
    write_summary(out, page)
    assert page.read_text(encoding="utf-8") == text


def test_a_paper_that_was_not_run_is_named(one_paper, tmp_path):
    assert "| A paper (`tiny`) | not run |" in "\n".join(summarise({"tiny": ("A paper", [])}))


def test_a_part_of_a_paper_is_no_summary(one_paper, tmp_path):
    page, out = tmp_path / "page.md", tmp_path / "out"
    page.write_text(f"{BEGIN}\n{END}\n", encoding="utf-8")
    write_ledger("A paper", judge(one_paper, ROWS, "full")[:1], out / "tiny")
    with pytest.raises(InputError, match=r"no verdict on 'even': not the whole paper was run last"):
        write_summary(out, page)


def test_a_page_without_marks_is_refused_before_anything_is_run(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("nothing\n", encoding="utf-8")
    with pytest.raises(InputError, match="has no place for the verdicts"):
        check_page(page)
    with pytest.raises(InputError, match="cannot be read"):
        check_page(tmp_path / "none.md")


def test_a_ledger_on_disk_has_cause_threshold_and_seeds(one_paper, tmp_path):
    write_ledger("A paper", judge(one_paper, ROWS, "full"), tmp_path)
    low, even, _ = json.loads((tmp_path / "ledger.json").read_text(encoding="utf-8"))
    assert (low["threshold"], low["cause"]) == ("at most 0.5 %", "")
    assert (even["cause"], even["held_by"], even["seeds"]) == ("a stand-in", 1, 3)
    text = (tmp_path / "ledger.md").read_text(encoding="utf-8")
    assert "Cause: a stand-in." in text
    assert "Seeds: it holds for 1 of 3 by themselves." in text
