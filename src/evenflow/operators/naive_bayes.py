"""Naive Bayes: how often each word comes with each class, and the classifier made of it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from evenflow.model import InputError
from evenflow.operators.exact_sums import sum_integers
from evenflow.operators.groups import I64, Groups, pairs
from evenflow.operators.input_columns import column_type, one_array, present
from evenflow.operators.protocol import Operator, Rows


@dataclass(frozen=True)
class NaiveBayes(Operator):
    """Counts each class among the rows of a key, which is a word or another feature.

    One row is one occurrence: a word of a document and the document's class. A hot word ("the") is a
    hot key; partial counts of it add up, so any scheme may run it.

    Guarantee: exact counts; rows whose label is null are not counted.

    Parameters:
        label: the column that holds the class.
        classes: all classes there are. A row with another one is an error.

    Example:
        >>> from evenflow.operators import on_table
        >>> rows = pa.table({
        ...     "word": ["win", "money", "win", "meeting", "money"],
        ...     "class": ["spam", "spam", "spam", "ham", "ham"],
        ... })
        >>> bayes = NaiveBayes(label="class", classes=["ham", "spam"])
        >>> counts = on_table(bayes, rows, "word")
        >>> counts.to_pylist()[0]
        {'word': 'win', 'class_ham': 0, 'class_spam': 2}
        >>> bayes.model(counts, key="word").predict([["win", "money"], ["meeting"], ["unheard"]])
        ['spam', 'ham', 'spam']

    Paper: the running example of "Consistent Grouping", §IV.
    """

    name: ClassVar[str] = "naive-bayes"

    label: str
    classes: Sequence[Hashable]

    def __post_init__(self) -> None:
        object.__setattr__(self, "classes", tuple(self.classes))
        if len(self.classes) < 2 or len(set(self.count_columns)) < len(self.classes):
            raise InputError(
                f"naive Bayes needs two or more different classes, got {list(self.classes)!r}"
            )

    @property
    def count_columns(self) -> list[str]:
        """The column that holds the count of each class."""
        return [f"{self.label}_{value}" for value in self.classes]

    def columns(self) -> tuple[str, ...]:
        """The label."""
        return (self.label,)

    def state_schema(self, rows: pa.Schema) -> pa.Schema:
        """The count of each class."""
        self._value_set(column_type(rows, self.label, "naive Bayes"))
        return pa.schema([(column, pa.int64()) for column in self.count_columns])

    def update(self, rows: Rows, state: pa.Table) -> pa.Table:
        """The counts after these rows."""
        labels, groups = present(one_array(rows.table.column(self.label)), rows.groups)
        found = pc.index_in(labels, value_set=self._value_set(labels.type))
        if found.null_count:
            strange = labels.filter(found.is_null())[0].as_py()
            raise InputError(
                f"naive Bayes: column {self.label!r} holds {strange!r}, which is none of the classes "
                f"{list(self.classes)!r}; add it, or leave such rows out"
            )
        width = len(self.classes)
        cell = groups.group * width + found.to_numpy()
        new = np.bincount(cell, minlength=rows.n_keys * width).reshape(-1, width)
        return self._table(new + self._counts(state))

    def merge(self, a: pa.Table, b: pa.Table) -> pa.Table:
        """The counts of two parts, added up."""
        return self._added(pa.concat_tables([a, b]), pairs(a.num_rows))

    def merge_groups(self, states: pa.Table, group: I64, n: int) -> pa.Table:
        """The counts of any number of parts, added up for all keys at once."""
        return self._added(states, Groups(group, n))

    def model(
        self,
        counts: pa.Table,
        key: str,
        *,
        priors: Mapping[Any, float] | None = None,
        smoothing: float = 1.0,
    ) -> NaiveBayesModel:
        """The classifier made of the emitted counts.

        Parameters:
            counts: the key column and one count column for each class, one row per word.
            key: the column of the words.
            priors: class → its prior probability; by default its share of all occurrences, since word
                counts do not tell how many documents there were.
            smoothing: added to every count, so that a word never seen with a class does not rule it
                out; 1 is Laplace's.
        """
        for column in [key, *self.count_columns]:
            column_type(counts.schema, column, "naive Bayes model")
        if not smoothing > 0:
            raise InputError(f"smoothing must be above 0, got {smoothing!r}; Laplace's is 1")
        seen = self._counts(counts).astype(np.float64) + smoothing
        share = self._counts(counts).sum(axis=0).astype(np.float64)
        if priors is not None:
            if set(priors) != set(self.classes) or not all(p > 0 for p in priors.values()):
                raise InputError(
                    f"priors must be above 0 for each of {list(self.classes)!r}, got {priors!r}"
                )
            share = np.array([priors[value] for value in self.classes], np.float64)
        elif not share.all():
            share = share + smoothing  # a class without any occurrence would be log 0
        words = counts.column(key).to_pylist()
        return NaiveBayesModel(
            tuple(self.classes),
            {word: number for number, word in enumerate(words)},
            np.log(seen) - np.log(seen.sum(axis=0)),
            np.log(share) - np.log(share.sum()),
        )

    def predict(
        self, counts: pa.Table, documents: Iterable[Iterable[Any]], key: str, **options: Any
    ) -> list[Any]:
        """The class of each document, which is a sequence of words; options are those of `model`."""
        return self.model(counts, key, **options).predict(documents)

    def _value_set(self, kind: pa.DataType) -> pa.Array:
        try:
            return pa.array(self.classes, kind)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
            raise InputError(
                f"naive Bayes: the classes {list(self.classes)!r} are not values of column "
                f"{self.label!r}, which is {kind}; cast one or the other"
            ) from None

    def _counts(self, state: pa.Table) -> I64:
        columns = [one_array(state.column(name)).fill_null(0) for name in self.count_columns]
        return np.stack([column.to_numpy() for column in columns], axis=1)

    def _table(self, counts: I64) -> pa.Table:
        return pa.table(list(counts.T.copy()), self.count_columns)

    def _added(self, states: pa.Table, groups: Groups) -> pa.Table:
        parts = self._counts(states).T
        return self._table(np.stack([sum_integers(part, groups)[0] for part in parts], axis=1))


@dataclass(frozen=True, eq=False)
class NaiveBayesModel:
    """A multinomial naive Bayes classifier. `NaiveBayes.model` makes it.

    Parameters:
        classes: what it chooses among.
        words: word → its row in `word_given_class`.
        word_given_class: the logarithm of the smoothed probability of each word in each class.
        prior: the logarithm of the probability of each class.
    """

    classes: tuple[Any, ...]
    words: Mapping[Any, int]
    word_given_class: npt.NDArray[np.float64]
    prior: npt.NDArray[np.float64]

    def scores(self, documents: Iterable[Iterable[Any]]) -> npt.NDArray[np.float64]:
        """Documents × classes: log P(class) + Σ log P(word | class). Unknown words are left out."""
        known = [[self.words[w] for w in words if w in self.words] for words in documents]
        lengths = np.array([len(rows) for rows in known], np.int64)
        rows = np.array([row for document in known for row in document], np.int64)
        document = np.repeat(np.arange(len(known)), lengths)
        likelihood = [
            np.bincount(document, weights=self.word_given_class[rows, c], minlength=len(known))
            for c in range(len(self.classes))
        ]
        return np.stack(likelihood, axis=1) + self.prior

    def predict(self, documents: Iterable[Iterable[Any]]) -> list[Any]:
        """The most probable class of each document; the first of `classes` among equals."""
        return [self.classes[best] for best in self.scores(documents).argmax(axis=1)]
