"""The check of a gateway's log must see what it is there to see."""

import pytest

from evenflow.ordering import FIRST, LAST, MESSAGE, Header, pack, set_number
from evenflow_lab.checking.gateway_log import written

GATEWAY = 5 << 24
NEW = set_number(1, 0)


class Message:
    """As confluent-kafka gives it."""

    def __init__(self, kind, epoch, sequence, value=None, lane=1, key=b"k", **more):
        header = Header(kind, GATEWAY + (0 if kind else lane), epoch, sequence, **more)
        self.parts = key, value, pack(header)

    def key(self):
        return self.parts[0]

    def value(self):
        return self.parts[1]

    def headers(self):
        return self.parts[2]


def log():
    """A key that moves from partition 0 to 1 at the beginning of batch 1."""
    return [
        [
            Message(MESSAGE, 0, 0, b"1"),
            Message(MESSAGE, 0, 1, b"2"),
            Message(LAST, 1, 0, set=NEW, other=1),
            Message(MESSAGE, 1, 4, b"x", key=b"other"),
        ],
        [Message(FIRST, 1, 0, set=NEW, other=0), Message(MESSAGE, 1, 2, b"3", set=NEW)],
    ]


def test_a_sound_log_gives_every_keys_values_in_order():
    found = written(log())
    assert found.values == {b"k": [b"1", b"2", b"3"], b"other": [b"x"]}
    assert (found.records, found.duplicates, found.markers, found.moves) == (6, 0, 2, 1)


def test_what_was_written_again_is_dropped():
    twice = log()
    twice[0] += log()[0][2:]
    twice[1] += log()[1]
    found = written(twice)
    assert found.duplicates == 4
    assert found.values == written(log()).values


@pytest.mark.parametrize(
    ("partition", "place", "message", "problem"),
    [
        (0, 4, Message(MESSAGE, 1, 9, b"4"), "after it has left"),
        (0, 4, Message(MESSAGE, 1, 4, b"other", key=b"other"), "with another content"),
        (0, 4, Message(MESSAGE, 0, 9, b"y", lane=2, key=b"other"), "of an older batch"),
        (
            0,
            4,
            Message(LAST, 1, 1, key=b"other", set=NEW + 1, other=1),
            "after its batch's messages",
        ),
        (1, 2, Message(FIRST, 2, 0, key=b"other", set=NEW + 1, other=0), "without its other side"),
        (1, 2, Message(MESSAGE, 1, 3, b"4", set=NEW + 1), "of another set"),
    ],
)
def test_a_log_that_breaks_a_rule_is_seen(partition, place, message, problem):
    broken = log()
    broken[partition].insert(place, message)
    with pytest.raises(AssertionError, match=problem):
        written(broken)


def test_markers_that_disagree_are_seen():
    broken = log()
    broken[1][0] = Message(FIRST, 1, 0, set=NEW, other=1)
    with pytest.raises(AssertionError, match="disagree"):
        written(broken)
