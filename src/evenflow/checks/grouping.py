"""All checks of a grouping scheme."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from evenflow.checks import contract, scheme_changes, scheme_routing
from evenflow.checks.outcome import Report, run
from evenflow.checks.streams import Stream, standard_streams
from evenflow.grouping.protocol import GroupingScheme

GroupingCheck = Callable[[GroupingScheme, Sequence[Stream]], None]

GROUPING_CHECKS: tuple[GroupingCheck, ...] = (
    contract.protocol_is_complete,
    contract.configuration_is_frozen,
    contract.docstring_has_a_running_example,
    contract.bad_input_is_refused,
    contract.state_is_plain_arrays,
    scheme_routing.only_live_workers,
    scheme_routing.only_declared_candidates,
    scheme_routing.batches_change_nothing,
    scheme_routing.pickling_changes_nothing,
    scheme_routing.running_again_changes_nothing,
    scheme_routing.keys_are_not_written,
    scheme_routing.one_worker_a_key,
    scheme_routing.seeds_matter,
    scheme_routing.own_guarantee_holds,
    scheme_changes.resizing_keeps_to_live_workers,
    scheme_changes.resizing_to_the_same_roster_changes_nothing,
    scheme_changes.resizing_keeps_keys_whole,
    scheme_changes.resizing_shares_out_work,
    scheme_changes.empty_feedback_changes_nothing,
    scheme_changes.signals_keep_to_live_workers,
    scheme_changes.plans_keep_to_live_workers,
    scheme_changes.weights_are_followed_or_refused,
)  #: in the order in which they run; each docstring says what is checked


def run_grouping_checks(scheme: GroupingScheme, streams: Sequence[Stream] | None = None) -> Report:
    """Run all checks on `scheme`, each on all streams (the standard ones if not given).

    Example:
        >>> from evenflow.grouping import make
        >>> from evenflow.checks import standard_streams
        >>> run_grouping_checks(make("key"), standard_streams(messages=500)).ok
        True
    """
    fed = standard_streams() if streams is None else streams
    subject = getattr(scheme, "name", type(scheme).__name__)
    return run(
        str(subject), [(check.__name__, partial(check, scheme, fed)) for check in GROUPING_CHECKS]
    )
