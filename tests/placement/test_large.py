"""Sub-domains and super-operators: placement where n or m is large."""

import numpy as np
import pytest

from evenflow.model import InputError
from evenflow.placement import make_placer, placers
from evenflow.placement.domains import Domains
from evenflow.placement.protocol import NOWHERE, Nodes, Observed
from evenflow.placement.super_operators import SuperOperators
from evenflow_lab.benchmarks.placement_speed import instance


@pytest.mark.parametrize("name", placers())
def test_without_overlap_no_operator_leaves_the_domain_of_its_node(name):
    observed, nodes = instance(12), Nodes(12)
    found = Domains(make_placer(name), size=5).propose(observed, nodes)
    assert found.details == {"domains": 3}
    assert (found.node // 5 == observed.node // 5).all()
    for first, end in ((0, 5), (5, 10), (10, 12)):
        rows = np.flatnonzero((observed.node >= first) & (observed.node < end))
        inside = Observed.of(observed.series[rows], observed.node[rows] - first)
        alone = make_placer(name).propose(inside, Nodes(end - first))
        assert (alone.node + first == found.node[rows]).all()


def test_load_travels_where_domains_overlap():
    heavy = Observed.of(np.full((30, 2), 0.1), node=np.zeros(30))
    apart = Domains(make_placer("llf-glb"), size=2).propose(heavy, Nodes(6))
    assert set(apart.node.tolist()) == {0, 1}
    linked = Domains(make_placer("llf-glb"), size=2, overlap=1).propose(heavy, Nodes(6))
    assert set(linked.node.tolist()) >= set(range(5))


def test_new_operators_are_dealt_out_over_domains():
    loads = np.random.default_rng(1).uniform(0, 0.2, (100, 4))
    capacities = (1.0, 1.0, 2.0, 2.0, 4.0)
    found = Domains(make_placer("cor-glb"), size=2).propose(
        Observed.of(loads), Nodes(5, capacities)
    )
    assert (found.node != NOWHERE).all()
    assert np.ptp(found.loads()) < 0.15


def test_immovable_operators_count_for_their_domain():
    loads, node = np.full((9, 1), 0.5), np.full(9, NOWHERE)
    node[:4] = 0
    observed = Observed.of(loads, node, movable=node < 0)
    found = Domains(make_placer("llf-glb"), size=1).propose(observed, Nodes(2))
    assert (found.node[:4] == 0).all()
    assert (found.node == 1).sum() >= 4


@pytest.mark.parametrize(
    "arguments", [{"size": 0}, {"size": 2, "overlap": 2}, {"size": 2, "overlap": -1}]
)
def test_wrong_domains_are_refused(arguments):
    with pytest.raises(InputError):
        Domains(make_placer("cor-glb"), **arguments)


@pytest.mark.parametrize("seed", range(5))
def test_groups_have_enough_load_and_stay_together(seed):
    random = np.random.default_rng(seed)
    node, movable = random.integers(0, 4, 80), random.random(80) < 0.8
    observed = Observed.of(random.exponential(0.02, (80, 5)), node, movable)
    grouped = SuperOperators(make_placer("cor-glb"), least=0.05)
    group = grouped.groups(observed)
    loads = observed.loads()
    for number in np.unique(group):
        rows = np.flatnonzero(group == number)
        assert len(set(node[rows])) == 1
        if not movable[rows].all():
            assert len(rows) == 1
            continue
        others = group[(node == node[rows[0]]) & movable]
        assert loads[rows].sum() >= 0.05 or len(set(others)) <= 1 + sum(
            loads[group == other].sum() >= 0.05 for other in set(others)
        )
        if loads[rows].sum() < 0.05:  # then everything small of that node is in it
            small = movable & (loads < 0.05) & (node == node[rows[0]])
            assert set(np.flatnonzero(small)) == set(rows.tolist())
    found = grouped.propose(observed, Nodes(4))
    assert found.details["super_operators"] == group.max() + 1 < 80
    for number in np.unique(group):
        assert len(set(found.node[group == number])) == 1
    assert (found.node == node)[~movable].all()


def test_nothing_small_changes_nothing():
    observed, nodes = instance(5), Nodes(5)
    plain = make_placer("cor-re-imp").propose(observed, nodes)
    grouped = SuperOperators(make_placer("cor-re-imp"), least=0.0).propose(observed, nodes)
    assert (plain.node == grouped.node).all()
    assert (
        SuperOperators(make_placer("cor-glb"), 1.0)
        .propose(Observed.of(np.zeros((0, 2))), nodes)
        .details["super_operators"]
        == 0
    )
