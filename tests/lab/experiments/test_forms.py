"""Both forms of a scheme in one figure: whom a claim is judged by."""

from evenflow_lab.experiments import Verdict, claim, in_both_forms
from evenflow_lab.experiments.claims import Claim
from evenflow_lab.experiments.forms import of_form


def row(grouping, imbalance, **more):
    return {"grouping": grouping, "imbalance": imbalance, **more}


ROWS = [
    row("key", 0.5),
    row("w-choices:literal=true", 0.01),
    row("w-choices", 0.02),
    row("consistent:virtual=100,literal=true", 0.03),
    row("consistent:literal=true,virtual=100", 0.04),
    row("consistent:virtual=100", 0.05),
]


def judged(limit, rows=ROWS):
    @claim("even", "§1", figures=["fig1"], says="W-C is even.")
    def even(rows):
        [found] = [r["imbalance"] for r in rows["fig1"] if r["grouping"] == "w-choices"]
        return Verdict(found <= limit, f"it is {found}.", "" if found <= limit else "too large")

    one = Claim("even", "§1", "W-C is even.", ("fig1",), even)
    [both] = in_both_forms([one])
    assert both.id == "even"
    return both.function({"fig1": rows})


def test_rows_of_a_form_bear_the_plain_name_and_schemes_with_one_form_are_in_both():
    assert [(r["grouping"], r["imbalance"]) for r in of_form(ROWS, literal=True)] == [
        ("key", 0.5),
        ("w-choices", 0.01),
        ("consistent:virtual=100", 0.03),
        ("consistent:virtual=100", 0.04),
    ]
    assert [(r["grouping"], r["imbalance"]) for r in of_form(ROWS, literal=False)] == [
        ("key", 0.5),
        ("w-choices", 0.02),
        ("consistent:virtual=100", 0.05),
    ]


def test_rows_of_an_analysis_tell_their_form_by_a_column():
    rows = [{"d": 1, "literal": True}, {"d": 2, "literal": False}, {"d": 3, "literal": None}]
    assert [r["d"] for r in of_form(rows, literal=True)] == [1, 3]
    assert [r["d"] for r in of_form(rows, literal=False)] == [2, 3]


def test_the_verdict_is_that_of_the_literal_form_and_names_both():
    assert judged(0.015) == Verdict(True, "Literal form: it is 0.01. Ours, not held: it is 0.02.")
    assert judged(0.005) == Verdict(
        False, "Literal form: it is 0.01. Ours, not held: it is 0.02.", "too large"
    )


def test_a_verdict_on_a_scheme_with_one_form_is_left_as_it_is():
    assert judged(0.03, rows=[row("w-choices", 0.02)]) == Verdict(True, "it is 0.02.")
