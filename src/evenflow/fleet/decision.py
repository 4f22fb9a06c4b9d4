"""From what an algorithm proposes to what is done: no more moves than allowed, none for little."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np

from evenflow.placement.protocol import I32, Proposal

_CANDIDATES = 32  # moves that are looked at, the heaviest first


def unevenness(proposal: Proposal, node: I32 | None = None) -> float:
    """How far nodes' loads are from an even share, over all nodes and samples: the mean square.

    It is the average load variance plus the variance of average loads over nodes: what placement by
    correlation lowers, and what plain balancing lowers.

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
    """The proposal, or as much of it as may be done at once; no move if that gains too little.

    Of more moves than are allowed, those are taken, one by one or two at a time, that lower the
    unevenness most: part of an exchange can be worse than nothing.

    Guarantee: every move is one of the proposal's, there are at most `most`, and if there are any, the
    unevenness falls by at least `gain` of what it is.

    Parameters:
        proposal: of any algorithm; every operator is on a node.
        most: moves at once; None for all.
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
        chosen = _fewer(proposal, most)
    now = unevenness(proposal, proposal.observed.node)
    if now - unevenness(proposal, chosen) < max(gain * now, 1e-12):
        chosen = proposal.observed.node
    return replace(proposal, node=chosen)


def _fewer(proposal: Proposal, most: int) -> I32:
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
