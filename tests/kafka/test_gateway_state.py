"""What a gateway remembers from batch to batch."""

import json

import pyarrow as pa

from evenflow.kafka.gateway_state import Counted, GatewayState, advance
from evenflow.planning.hot_keys import HotKeys

POLICY = HotKeys(4, threshold=0.02)


def some_state(batches=3):
    state = GatewayState.start(POLICY, 0.0)
    keys = [*(b"hot-%d" % i for i in range(9)), b"\xff\x00", *(b"%d" % i for i in range(60))]
    for i in range(batches):
        counts = [*(90 - 9 * j for j in range(9)), 10 + 30 * i, *([1] * 60)]
        counted = Counted(keys, counts, sum(counts) + 50)
        state = advance(POLICY, state, counted, 11.0 * (i + 1), 10.0, 10.0, i + 1)
    return state


def test_the_state_is_the_same_after_it_was_written_down():
    state = some_state()
    plain = json.loads(json.dumps(state.to_json(POLICY)))
    again = GatewayState.from_json(plain, POLICY)
    assert again.to_json(POLICY) == state.to_json(POLICY)
    assert again.routes() == state.routes()
    assert again.moves == state.moves
    more = Counted([b"hot-1"], [7], 7)
    following = [advance(POLICY, s, more, 50.0, 10.0, 10.0, 9) for s in (some_state(), again)]
    assert following[0].to_json(POLICY) == following[1].to_json(POLICY)


def test_a_key_that_has_cooled_goes_home_and_is_forgotten():
    state = some_state()
    assert any(route.set for route in state.routes())
    away = {route.key: route for route in state.routes() if route.set}
    cold = Counted([b"%d" % i for i in range(100)], [1] * 100, 100)
    state = advance(POLICY, state, cold, 100.0, 10.0, 10.0, 7)
    assert {move.key for move in state.moves} >= {
        key for key, route in away.items() if route.partition != _home(key)
    }
    for move in state.moves:
        assert move.target == _home(move.key)
    assert state.routes() == []
    assert state.sets == {}
    state = advance(POLICY, state, Counted([], [], 0), 200.0, 10.0, 10.0, 8)
    assert state.names == {}
    assert state.moves == ()


def _home(key):
    from evenflow.kernels.fingerprints import fingerprint

    return int(POLICY.homes(fingerprint(pa.array([key], pa.binary())))[0])


def test_without_a_window_or_interval_over_nothing_moves():
    state = GatewayState.start(POLICY, 0.0)
    state = advance(POLICY, state, Counted([b"a"], [1000], 1000), 5.0, 10.0, 10.0, 1)
    assert state.moves == ()
    assert state.routes() == []
    assert state.names
