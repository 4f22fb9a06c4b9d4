"""Phases II and III of mixed routing on arrays: which keys leave a full worker, and where they go.

All sums are whole numbers (`Rows.scale`), so nothing depends on the order of the rows. The literal twin
of these kernels, the paper's pseudo-code line by line, is `evenflow_lab.literal.planning`.

They are fast because orders are sorted only as far as they are read, and because:

- Candidates are taken by descending cost, and an exchange puts back only smaller ones. So each key is
  placed at most once, and a key that was once too costly for an exchange stays so.
- "An exchangeable set exists" needs no search: it does if the keys of a worker that are at least as
  costly as the candidate, `heavy`, leave room for it. Heavy keys are visited once, by cost.
- A key of at most `light` always fits on the least loaded worker, so only the few that cost more (at
  most N/θ of them) need that check.
"""

from typing import NamedTuple

import numpy as np

from evenflow.kernels.jit import inlined, kernel
from evenflow.kernels.lazy_order import comes_before, settle

CANDIDATES, MOVES, UNFIT, MET = range(4)  # `counters`


class Crew(NamedTuple):
    """The workers during one run.

    Parameters:
        limit: Lmax of each, as a whole number like all work here.
        weight: its capacity: "least loaded" is by load over weight, then by number.
        load: its current load.
        heavy: the part of it that can no longer be exchanged.
        ratio: load over weight.
        tree: a tournament tree by smallest ratio; `tree[1]` is the winner.
        fixed_head: how far the order of keys at home has been read.
        loose_head: the same for the others.
        tally: scratch space, one number per worker, all 0.
    """

    limit: np.ndarray
    weight: np.ndarray
    load: np.ndarray
    heavy: np.ndarray
    ratio: np.ndarray
    tree: np.ndarray
    fixed_head: np.ndarray
    loose_head: np.ndarray
    tally: np.ndarray


class Desk(NamedTuple):
    """The output of one run.

    Parameters:
        taken: the number of keys of each row that were taken from their worker.
        candidate, candidate_cost: a heap, the costliest on top.
        row, worker, amount: the moves: `amount` keys of the row go to the worker.
        counters: the number of candidates, of moves, of keys that fit nowhere, and of heavy keys
            visited so far.
    """

    taken: np.ndarray
    candidate: np.ndarray
    candidate_cost: np.ndarray
    row: np.ndarray
    worker: np.ndarray
    amount: np.ndarray
    counters: np.ndarray


@inlined
def _work(rows, row):
    """The cost of one key of the row as a whole number."""
    return np.int64(rows.cost[row] * rows.scale + 0.5)


@inlined
def _count(rows, row):
    return rows.keys_alike[row] if len(rows.keys_alike) else np.int64(1)


@kernel
def total_work(rows):
    """The total work at this scale."""
    total = np.int64(0)
    for row in range(len(rows.cost)):
        total += _work(rows, row) * _count(rows, row)
    return total


@inlined
def priority_of(cost, state, by_cost, beta):
    """ψ: the cost itself, or γ = cost^β / state. Keys without cost come last, and without state first.

    The usual powers use multiplications and roots, which give the same result on every machine.
    """
    if by_cost:
        return cost
    if cost == 0.0:
        return 0.0
    if beta == 1.5:
        power = cost * np.sqrt(cost)
    elif beta == 1.0:
        power = cost
    else:
        power = cost**beta
    return power / state if state > 0.0 else np.inf


@kernel
def survey(rows, place, home, light, loads, sizes):
    """Add up load and number of the rows at home, by worker; the last two entries of `sizes` are the
    number of rows away from home and the number of heavy rows."""
    n = len(loads)
    for row in range(len(place)):
        d = place[row]
        if d != home[row]:
            sizes[n] += 1
        else:
            sizes[d] += 1
            loads[d] += _work(rows, row) * _count(rows, row)
        if rows.cost[row] > light:
            sizes[n + 1] += 1


@kernel
def deal_out(rows, state, place, home, light, by_cost, beta, order, ends, loose, heavy):
    """Fill `order` with the rows at home, by worker, `loose` with all others, and `heavy` with the
    heavy ones."""
    n_loose = n_heavy = 0
    for row in range(len(place)):
        d, cost = place[row], rows.cost[row]
        if d != home[row]:
            loose[n_loose] = row
            n_loose += 1
        else:
            at = ends[d]
            ends[d] = at + 1
            order.priority[at] = priority_of(cost, state[row], by_cost, beta)
            order.row[at] = row
        if cost > light:
            heavy.priority[n_heavy] = cost
            heavy.row[n_heavy] = row
            n_heavy += 1


@kernel
def survey_loose(rows, place, loose, loads, sizes):
    """Add up load and number of the rows `loose`, by worker."""
    for i in range(len(loose)):
        row = loose[i]
        loads[place[row]] += _work(rows, row) * _count(rows, row)
        sizes[place[row]] += 1


@kernel
def deal_out_loose(rows, state, place, loose, by_cost, beta, order, ends):
    """Fill `order` with the rows `loose`, by worker."""
    for i in range(len(loose)):
        row = loose[i]
        at = ends[place[row]]
        ends[place[row]] = at + 1
        order.priority[at] = priority_of(rows.cost[row], state[row], by_cost, beta)
        order.row[at] = row


# --- the least loaded worker ----------------------------------------------------------------------


@inlined
def _winner(crew, a, b):
    """The less loaded of two workers; −1 is none, and `a` wins ties."""
    if b < 0 or (a >= 0 and crew.ratio[a] <= crew.ratio[b]):
        return a
    return b


@kernel
def _start_tournament(crew):
    n, leaves = len(crew.load), len(crew.tree) // 2
    for d in range(leaves):
        crew.tree[leaves + d] = d if d < n else -1
        if d < n:
            crew.ratio[d] = crew.load[d] / crew.weight[d]
    for i in range(leaves - 1, 0, -1):
        crew.tree[i] = _winner(crew, crew.tree[2 * i], crew.tree[2 * i + 1])


@kernel
def _change_load(crew, d, by):
    crew.load[d] += by
    crew.ratio[d] = crew.load[d] / crew.weight[d]
    i = (len(crew.tree) // 2 + d) // 2
    while i:
        crew.tree[i] = _winner(crew, crew.tree[2 * i], crew.tree[2 * i + 1])
        i //= 2


# --- the candidates -------------------------------------------------------------------------------


@kernel
def _push(rows, desk, row):
    i = desk.counters[CANDIDATES]
    desk.counters[CANDIDATES] = i + 1
    cost = rows.cost[row]
    while i:
        up = (i - 1) // 2
        if not comes_before(rows, cost, row, desk.candidate_cost[up], desk.candidate[up]):
            break
        desk.candidate[i], desk.candidate_cost[i] = desk.candidate[up], desk.candidate_cost[up]
        i = up
    desk.candidate[i], desk.candidate_cost[i] = row, cost


@kernel
def _pop(rows, desk):
    top = desk.candidate[0]
    last = desk.counters[CANDIDATES] - 1
    desk.counters[CANDIDATES] = last
    row, cost, i = desk.candidate[last], desk.candidate_cost[last], 0
    while 2 * i + 1 < last:
        down = 2 * i + 1
        if down + 1 < last and comes_before(
            rows,
            desk.candidate_cost[down + 1],
            desk.candidate[down + 1],
            desk.candidate_cost[down],
            desk.candidate[down],
        ):
            down += 1
        if not comes_before(rows, desk.candidate_cost[down], desk.candidate[down], cost, row):
            break
        desk.candidate[i], desk.candidate_cost[i] = desk.candidate[down], desk.candidate_cost[down]
        i = down
    desk.candidate[i], desk.candidate_cost[i] = row, cost
    return top


# --- taking keys from a worker --------------------------------------------------------------------


@inlined
def _skip(rows, order, head, d, below):
    """The place of the first unread row in the worker's order that costs less than `below`. Costlier
    rows, and rows without cost, are skipped for good."""
    at = head[d]
    while at < order.start[d + 1]:
        settle(rows, order, d, at)
        cost = rows.cost[order.row[at]]
        if cost < below and cost * rows.scale + 0.5 >= 1.0:
            break
        at += 1
    head[d] = at
    return at


@kernel
def _relieve(rows, fixed, loose, crew, desk, d, below, until):
    """Turn keys of the worker that cost less than `below` into candidates, by ψ, until its load is at
    most `until`."""
    while crew.load[d] > until:
        a = _skip(rows, fixed, crew.fixed_head, d, below)
        b = _skip(rows, loose, crew.loose_head, d, below)
        has_a, has_b = a < fixed.start[d + 1], b < loose.start[d + 1]
        if not (has_a or has_b):
            return
        if has_a and not (
            has_b
            and comes_before(rows, loose.priority[b], loose.row[b], fixed.priority[a], fixed.row[a])
        ):
            row, head = fixed.row[a], crew.fixed_head
        else:
            row, head = loose.row[b], crew.loose_head
        work, left = _work(rows, row), _count(rows, row) - desk.taken[row]
        amount = min(left, (crew.load[d] - until + work - 1) // work)
        if desk.taken[row] == 0:
            _push(rows, desk, row)
        desk.taken[row] += amount
        crew.load[d] -= amount * work
        if amount == left:
            head[d] += 1


# --- the two phases -------------------------------------------------------------------------------


@kernel
def _meet_heavy(rows, heavy, place, crew, desk, cost):
    """Count every key that costs at least `cost` as heavy on its worker; candidates are counted when
    they are placed."""
    at = desk.counters[MET]
    while at < len(heavy.row):
        settle(rows, heavy, 0, at)
        row = heavy.row[at]
        if rows.cost[row] < cost:
            break
        left = _count(rows, row) - desk.taken[row]
        crew.heavy[place[row]] += left * _work(rows, row)
        at += 1
    desk.counters[MET] = at


@inlined
def _choose(rows, fixed, loose, heavy, place, crew, desk, row, work):
    """Choose the worker for one key and make room for it: lines 4 to 8 of Algorithm 1."""
    d = crew.tree[1]
    if crew.load[d] + work <= crew.limit[d]:
        return d
    cost = rows.cost[row]
    _meet_heavy(rows, heavy, place, crew, desk, cost)
    best = -1
    for d in range(len(crew.load)):
        fits = crew.heavy[d] + work <= crew.limit[d]
        if fits and (best < 0 or crew.ratio[d] < crew.ratio[best]):
            best = d
    if best < 0:
        desk.counters[UNFIT] += 1
        return crew.tree[1]
    _relieve(rows, fixed, loose, crew, desk, best, cost, crew.limit[best] - work)
    return best


@inlined
def _note(desk, row, worker, amount):
    i = desk.counters[MOVES]
    desk.row[i], desk.worker[i], desk.amount[i] = row, worker, amount
    desk.counters[MOVES] = i + 1


@kernel
def relieve_and_assign(rows, fixed, loose, heavy, place, crew, desk):
    """Phase II on every worker above its limit, then phase III (LLFD) until no candidate is left."""
    for d in range(len(crew.load)):
        if crew.load[d] > crew.limit[d]:
            _relieve(rows, fixed, loose, crew, desk, d, np.inf, crew.limit[d])
    _start_tournament(crew)
    while desk.counters[CANDIDATES]:
        row = _pop(rows, desk)
        work, amount = _work(rows, row), desk.taken[row]
        for _ in range(amount):
            d = _choose(rows, fixed, loose, heavy, place, crew, desk, row, work)
            _change_load(crew, d, work)
            crew.heavy[d] += work
            if amount == 1:
                _note(desk, row, d, 1)
            else:
                crew.tally[d] += 1
        if amount > 1:
            for d in range(len(crew.tally)):
                if crew.tally[d]:
                    _note(desk, row, d, crew.tally[d])
                    crew.tally[d] = 0


@kernel
def sum_up(rows, state, worker, home, place, moved_back, desk, n):
    """The change in the number of table entries, and the bytes of state that move off the n workers
    that stay; resets `taken` for the next run."""
    entries, migrated = np.int64(0), 0.0
    for i in range(len(moved_back)):
        row = moved_back[i]
        migrated += state[row] * (_count(rows, row) - desk.taken[row])
    for i in range(desk.counters[MOVES]):
        row, d, amount = desk.row[i], desk.worker[i], desk.amount[i]
        if place[row] != home[row]:
            entries -= amount
        if d != home[row]:
            entries += amount
        if d != worker[row] and worker[row] < n:
            migrated += state[row] * amount
    for i in range(desk.counters[MOVES]):
        desk.taken[desk.row[i]] = 0
    return entries, migrated
