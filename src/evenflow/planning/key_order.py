"""Planners whose steps follow the order of rows, made to follow that of keys."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from evenflow.planning.protocol import Proposal, Statistics


def in_key_order(statistics: Statistics, plan: Callable[[Statistics], Proposal]) -> Proposal:
    """What `plan` makes of the rows by ascending key, whatever order they are in.

    The controller's statistics are in that order already, and then this takes no time; a million rows
    that are not take a tenth of a second to sort.

    Guarantee: the proposal does not depend on the order of the rows.

    Parameters:
        statistics: in any order.
        plan: gets them by ascending key.
    """
    keys = statistics.keys
    if (keys[1:] > keys[:-1]).all():
        return plan(statistics)
    order = np.argsort(keys)
    ordered = Statistics(
        keys=keys[order],
        costs=statistics.costs[order],
        state=statistics.state[order],
        worker=statistics.worker[order],
        home=statistics.home[order],
    )
    proposal = plan(ordered)
    worker = np.empty_like(proposal.worker)
    worker[order] = proposal.worker
    return Proposal(statistics, proposal.constraints, worker, proposal.planner, proposal.told)
