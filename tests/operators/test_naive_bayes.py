"""Counts of classes by word, and the classifier made of them."""

import math
import pickle
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.model import InputError
from evenflow.operators import NaiveBayes, on_table
from operator_parts import at_once, in_batches, in_merged_parts
from operators.test_aggregates import CUTS, ORDERS

CLASSES = ["ham", "späm", "neither"]
BAYES = NaiveBayes(label="class", classes=CLASSES)
OCCURRENCES = st.lists(
    st.tuples(st.sampled_from(["win", "große", None]), st.none() | st.sampled_from(CLASSES)),
    max_size=30,
)


def occurrences(pairs):
    return pa.table(
        {
            "key": pa.array([word for word, _ in pairs], pa.string()),
            "class": pa.array([kind for _, kind in pairs], pa.string()),
        }
    )


@settings(max_examples=60)
@given(OCCURRENCES, CUTS, ORDERS)
def test_counts_are_those_of_a_loop_however_the_rows_are_cut(pairs, cut, order):
    table, expected = occurrences(pairs), Counter(pairs)
    ways = [at_once(BAYES, table)]
    if pairs:
        ways += [in_batches(BAYES, table, cut), *in_merged_parts(BAYES, table, cut, order)]
    for result in ways:
        assert result.keys() == {word for word, _ in pairs}
        for word, row in result.items():
            assert row == {f"class_{kind}": expected[word, kind] for kind in CLASSES}


def naive_scores(pairs, document, classes, priors=None, smoothing=1.0):
    """Log-probabilities by the textbook, one word after the other."""
    words = {word for word, _ in pairs}
    scores = []
    for kind in classes:
        inside = [word for word, k in pairs if k == kind]
        score = math.log(priors[kind] if priors else len(inside) / len(pairs))
        for word in document:
            if word in words:
                among = len(inside) + smoothing * len(words)
                score += math.log((inside.count(word) + smoothing) / among)
        scores.append(score)
    return scores


@pytest.mark.parametrize("priors", [None, {"ham": 0.9, "späm": 0.05, "neither": 0.05}])
@pytest.mark.parametrize("smoothing", [1.0, 0.1])
def test_predictions_are_those_of_the_textbook(priors, smoothing):
    generator = np.random.default_rng(5)
    words = [f"w{i}" for i in range(20)]
    pairs = [(str(generator.choice(words)), str(generator.choice(CLASSES))) for _ in range(300)]
    counts = on_table(BAYES, occurrences(pairs), "key")
    documents = [[str(w) for w in generator.choice([*words, "unheard"], 6)] for _ in range(30)]
    documents.append([])
    model = BAYES.model(counts, "key", priors=priors, smoothing=smoothing)
    expected = [naive_scores(pairs, d, CLASSES, priors, smoothing) for d in documents]
    assert np.allclose(model.scores(documents), expected)
    chosen = [CLASSES[int(np.argmax(scores))] for scores in expected]
    assert model.predict(documents) == chosen
    options = {"priors": priors, "smoothing": smoothing}
    assert BAYES.predict(counts, documents, "key", **options) == chosen
    assert pickle.loads(pickle.dumps(model)).predict(documents) == chosen


def test_a_class_that_never_occurred_is_possible_but_not_preferred():
    counts = on_table(BAYES, occurrences([("win", "späm"), ("win", "späm")]), "key")
    assert BAYES.predict(counts, [["win"], []], "key") == ["späm", "späm"]


def test_classes_may_be_numbers():
    bayes = NaiveBayes(label="stars", classes=[1, 5])
    table = pa.table({"key": ["a", "a", "b"], "stars": [5, 1, 5]})
    counts = on_table(bayes, table, "key")
    assert counts.to_pylist()[0] == {"key": "a", "stars_1": 1, "stars_5": 1}
    assert bayes.predict(counts, [["b"]], "key") == [5]


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda: NaiveBayes("class", ["spam"]), "two or more different classes"),
        (lambda: NaiveBayes("class", ["spam", "spam"]), "two or more different classes"),
        (
            lambda: on_table(NaiveBayes("class", ["a", "b"]), occurrences([("w", "ham")]), "key"),
            "holds 'ham', which is none of the classes",
        ),
        (
            lambda: NaiveBayes("n", ["a", "b"]).state_schema(pa.schema([("n", pa.int64())])),
            "are not values of column 'n', which is int64",
        ),
        (lambda: BAYES.state_schema(pa.schema([("klass", pa.string())])), "did you mean 'klass'"),
        (lambda: BAYES.model(pa.table({"word": []}), "word"), "no column 'class_ham'"),
        (
            lambda: BAYES.model(on_table(BAYES, occurrences([]), "key"), "key", smoothing=0),
            "smoothing must be above 0",
        ),
        (
            lambda: BAYES.model(on_table(BAYES, occurrences([]), "key"), "key", priors={"ham": 1}),
            "priors must be above 0 for each",
        ),
    ],
)
def test_mistakes_are_named(act, message):
    with pytest.raises(InputError, match=message):
        act()
