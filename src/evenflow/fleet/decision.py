"""From an algorithm's proposal to the moves made: a limited number, and only if they pay off."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np

from evenflow.placement.protocol import I32, Proposal

_CANDIDATES = 32  # moves that are considered, the heaviest first


def unevenness(proposal: Proposal, node: I32 | None = None) -> float:
    """The mean squared deviation of nodes' loads from an even share, over all nodes and samples.

    It is the average load variance, which placement by correlation lowers, plus the variance of
    average loads over nodes, which plain balancing lowers.

    Example:
        >>> from evenflow.placement.protocol import Nodes, Observed
        >>> seen = Observed.of([[0.2, 0.6], [0.6, 0.2]], node=[0, 0])
        >>> together = Proposal(seen, Nodes(2), seen.node)
        >>> round(unevenness(together), 6), round(unevenness(together, np.array([0, 1])), 6)
        (0.16, 0.04)
    """
    plan = proposal if node is None else replace(proposal, node=node)
    series = plan.series()
    return float(((series - series.mean()) ** 2).mean())


def worthwhile(proposal: Proposal, most: int | None, gain: float) -> Proposal:
    """The proposal, reduced to the moves that may be made at once; no moves if they gain too little.

    If the proposal has too many moves, those that lower the unevenness most are taken, singly or in
    pairs: half of an exchange can be worse than none.

    Guarantee: every move is one of the proposal's, there are at most `most`, and if there are any, the
    unevenness falls by at least the share `gain`.

    Parameters:
        proposal: of any algorithm; every operator is on a node.
        most: the maximum number of moves; None for no limit.
        gain: the share by which the unevenness must fall.

    Example:
        >>> from evenflow.placement.protocol import Nodes, Observed
        >>> seen = Observed.of([[0.2, 0.6], [0.2, 0.6], [0.6, 0.2], [0.6, 0.2]], node=[0, 0, 1, 1])
        >>> mixed = Proposal(seen, Nodes(2), np.array([1, 0, 0, 1], np.int32))
        >>> worthwhile(mixed, 2, 0.1).node.tolist()
        [1, 0, 0, 1]
        >>> worthwhile(mixed, 1, 0.1).node.tolist()
        [0, 0, 1, 1]
    """
    chosen = proposal.node
    if most is not None and int(proposal.moved().sum()) > most:
        chosen = _best_moves(proposal, most)
    now = unevenness(proposal, proposal.observed.node)
    if now - unevenness(proposal, chosen) < max(gain * now, 1e-12):
        chosen = proposal.observed.node
    return replace(proposal, node=chosen)


def _best_moves(proposal: Proposal, most: int) -> I32:
    changed = np.flatnonzero(proposal.moved())
    weights = proposal.observed.loads()[changed]
    left = changed[np.argsort(-weights, kind="stable")][:_CANDIDATES].tolist()
    chosen = proposal.observed.node.copy()
    while most > 0:
        level = unevenness(proposal, chosen)
        best: tuple[int, ...] = ()
        for together in (1, 2):
            if best or together > most:
                break
            for moves in combinations(left, together):
                tried = chosen.copy()
                tried[list(moves)] = proposal.node[list(moves)]
                reached = unevenness(proposal, tried)
                if reached < level:
                    level, best = reached, moves
        if not best:
            break
        chosen[list(best)] = proposal.node[list(best)]
        left = [move for move in left if move not in best]
        most -= len(best)
    return chosen
