"""Owners of past epochs in a manifest: what is written is read again, and it is little."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.model.owners import Owners
from evenflow.state.errors import DamagedState
from evenflow.state.manifest import Manifest, dump, load, seal

tables = st.dictionaries(st.integers(0, 12).map(lambda n: n * 7**20), st.integers(0, 2), max_size=9)
placed = st.builds(Owners, st.just(3), st.integers(0, 1), tables, st.sampled_from([(), (0, 2, 1)]))


@given(st.dictionaries(st.integers(0, 200), placed, max_size=6))
def test_the_owners_of_every_epoch_are_read_as_they_were_written(owners):
    manifest = load(dump(Manifest(1, owners={e: one.to_json() for e, one in owners.items()})))
    assert {e: Owners.from_json(one) for e, one in manifest.owners.items()} == owners
    assert dump(manifest) == dump(load(dump(manifest)))


def test_tables_that_differ_in_a_few_entries_take_little_more_than_one():
    """Those of 17 epochs, of 150 entries each, of which two change from one to the next."""

    def table(epoch):
        return {str(n * 7**20): n % 3 for n in range(2 * epoch, 2 * epoch + 150)}

    owners = {e: {"partitions": 3, "seed": 0, "table": table(e)} for e in range(17)}
    one = len(dump(Manifest(1, owners={16: owners[16]})))
    assert len(dump(Manifest(1, owners=owners))) < 2.5 * one


@pytest.mark.parametrize(
    ("owners", "message"),
    [
        ({"3": {"differs": {}}}, "epoch 3 differs from no table"),
        ({"4": {"table": 5}, "3": {"differs": {}}}, "epoch 3 differs from no table"),
        ({"4": {"table": {}}, "3": {"differs": {}, "table": {}}}, "epoch 3 differs from no table"),
        ({"4": {"table": {}}, "3": {"differs": [1]}}, "differs"),
        ({"4": {"table": {}}, "3": {"differs": {"x": 1}}}, "differs"),
        ({"4": {"table": {}}, "3": {"differs": {"7": -1}}}, "is -1"),
    ],
)
def test_what_no_epoch_can_have_been_is_refused_in_one_line(owners, message):
    with pytest.raises(DamagedState, match=message) as refused:
        load(seal({"batch": 1, "format": 2, "owners": owners}))
    assert "\n" not in str(refused.value)
