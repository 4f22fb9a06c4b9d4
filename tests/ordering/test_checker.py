"""The checker of order sees every anomaly, and nothing where there is none."""

import random

import pytest

from evenflow_lab.checking.order_checker import check

SENT = {b"a": 5, b"b": 3}


def _right(seed=0):
    """What a right service notes: keys interleaved, each in order."""
    left = dict.fromkeys(SENT, 0)
    chance = random.Random(seed)
    rows = []
    while left:
        key = chance.choice(list(left))
        rows.append((key, left[key], left[key] + 1))
        left[key] += 1
        if left[key] == SENT[key]:
            del left[key]
    return rows


def test_right_logs_have_no_anomaly():
    for seed in range(20):
        found = check(SENT, _right(seed))
        assert not found.any
        assert found.messages == 8


def test_every_lost_message_is_seen():
    rows = _right()
    for i, (key, number, _) in enumerate(rows):
        found = check(SENT, rows[:i] + rows[i + 1 :])
        assert found.lost == 1
        assert f"lost: message {number} of key {key!r}" in found.examples
    assert check(SENT, []).lost == 8


def test_every_message_processed_twice_is_seen():
    rows = _right()
    for i, row in enumerate(rows):
        for at in range(i, len(rows) + 1):
            found = check(SENT, [*rows[:at], (*row[:2], None), *rows[at:]])
            assert found.twice == 1
            assert found.lost == found.foreign == 0


def test_every_exchange_of_two_messages_of_a_key_is_seen():
    rows = _right()
    for i in range(len(rows)):
        for j in range(i):
            changed = rows[:]
            changed[i], changed[j] = changed[j], changed[i]
            found = check(SENT, [(key, number, None) for key, number, _ in changed])
            assert (found.out_of_order > 0) == (rows[i][0] == rows[j][0] or _between(rows, j, i))
            assert found.lost == found.twice == found.foreign == 0


def _between(rows, j, i):
    """Whether one of the two passes a message of its own key."""
    return any(row[0] in (rows[i][0], rows[j][0]) for row in rows[j + 1 : i])


@pytest.mark.parametrize("row", [(b"c", 0, None), (b"a", 5, None), (b"a", -1, None)])
def test_messages_that_nobody_sent_are_seen(row):
    found = check(SENT, [*_right(), row])
    assert found.foreign == 1
    assert found.lost == found.twice == found.out_of_order == 0


def test_a_state_that_does_not_know_earlier_messages_is_seen():
    rows = _right()
    forgot = [
        (key, number, 1 if key == b"a" and number == 3 else count) for key, number, count in rows
    ]
    assert check(SENT, forgot).wrong_state == 1
