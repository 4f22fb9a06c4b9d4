"""The correlation improvement step of the improved two-way algorithms."""

from __future__ import annotations

from collections.abc import Callable

from evenflow.placement.board import Board


def improve(board: Board, enough: float, change: Callable[[int, int], bool]) -> int:
    """Change pairs with little correlation, one of which may get overloaded for a while; how many were.

    Nodes are gone through by number, as they are after the changes before.

    Parameters:
        board: the plan in the making.
        enough: ρ: pairs with at least this load correlation stay as they are.
        change: a two-way algorithm on two nodes, kept if their correlation grows; whether it was.

    Paper: "Dynamic Load Distribution in the Borealis Stream Processor", §3.3.4.
    """
    if len(board.nodes) < 2:
        return 0
    changed = 0
    for node in range(len(board.nodes)):
        if not board.is_divergent(node):
            continue
        other, correlation = board.least_correlated(node)
        if correlation < enough:
            changed += change(node, other)
    return changed
