"""Placement on a small tree: two blocks of two racks with two nodes each."""

import pytest

from pykueue.engine import values
from pykueue.engine.topology.cache import LostNode, TopologyCache, TopologyUsage
from pykueue.engine.topology.demand import PlacementRequest

LEVELS = ("block", "rack", "kubernetes.io/hostname")
FLAVOR = values.FlavorName("flavor")
MAIN = values.PodSetName("main")
CPU = values.ResourceName("cpu")


def node(name, *, cpu=2000, taints=()):
    block, rack, _ = name.split("-")
    labels = dict(zip(LEVELS, (block, f"{block}-{rack}", name), strict=True))
    return values.Node(name=name, labels=labels, taints=taints, allocatable={CPU: cpu, values.PODS: 10})


@pytest.fixture
def places():
    places = TopologyCache()
    places.set_topology("default", LEVELS)
    places.set_flavor(values.ResourceFlavor(name=FLAVOR, topology="default"))
    for block in "ab":
        for rack in "xy":
            for number in "12":
                places.set_node(node(f"{block}-{rack}-{number}"))
    return places


def demand(count, **wish):
    request = values.TopologyRequest(**wish) if wish else None
    return PlacementRequest(name=MAIN, count=count, pod_requests={CPU: 1000}, request=request)


def placed(places, wanted, **options):
    found = places.place({FLAVOR: [wanted]}, **options)
    if isinstance(found, dict):
        return [(*domain.values, domain.pods) for domain in found[MAIN].domains]
    return found[1].text


def test_required_rack_holds_all_pods(places):
    assert placed(places, demand(3, required="rack")) == [("a-x-1", 2), ("a-x-2", 1)]


def test_required_rack_too_small(places):
    assert placed(places, demand(5, required="rack")) == 'topology "default" allows to fit only 4 out of 5 pod(s)'


def test_preferred_rack_widens_to_the_block(places):
    assert placed(places, demand(5, preferred="rack")) == [("a-x-1", 2), ("a-x-2", 2), ("a-y-1", 1)]


def test_unconstrained_fills_the_fullest_node_first(places):
    places.book((TopologyUsage(FLAVOR, ("b-y-2",), {CPU: 1000}, 1),), 1)
    assert placed(places, demand(1, unconstrained=True)) == [("b-y-2", 1)]


def test_slices_stay_within_a_rack(places):
    wanted = demand(6, required="block", slices=(values.SliceLayer(topology="rack", size=3),))
    assert placed(places, wanted) == [("a-x-1", 2), ("a-x-2", 1), ("a-y-1", 2), ("a-y-2", 1)]


def test_leader_is_placed_beside_its_workers(places):
    request = values.TopologyRequest(group="g", required="rack")
    leader = PlacementRequest(name=values.PodSetName("leader"), count=1, pod_requests={CPU: 1000}, request=request)
    workers = PlacementRequest(name=MAIN, count=3, pod_requests={CPU: 1000}, request=request)
    found = places.place({FLAVOR: [leader, workers]})
    racks = {domain.values[0][:3] for each in found.values() for domain in each.domains}
    assert racks == {"a-x"}


def test_taints_are_told_in_the_failure(places):
    taint = values.Taint(key="gpu", value="yes")
    for block in "ab":
        for rack in "xy":
            for number in "12":
                places.set_node(node(f"{block}-{rack}-{number}", taints=(taint,)))
    assert placed(places, demand(1)) == (
        'topology "default" doesn\'t allow to fit any of 1 pod(s). Total nodes: 8; excluded: taint "gpu=yes:NoSchedule": 8'
    )


def test_pods_of_others_take_room(places):
    places.set_pod("system/agent", "a-x-1", {CPU: 1500})
    assert placed(places, demand(3, required="rack")) == [("a-y-1", 2), ("a-y-2", 1)]


def test_room_comes_back_when_a_pod_goes(places):
    places.set_pod("system/agent", "a-x-1", {CPU: 1500})
    before = placed(places, demand(4, required="rack"))
    places.drop_pod("system/agent")
    assert (before, placed(places, demand(4, required="rack"))) == (
        [("a-y-1", 2), ("a-y-2", 2)],
        [("a-x-1", 2), ("a-x-2", 2)],
    )


def test_as_if_empty_ignores_bookings_and_not_pods(places):
    everywhere = [f"{block}-{rack}-{number}" for block in "ab" for rack in "xy" for number in "12"]
    for name in everywhere:
        places.book((TopologyUsage(FLAVOR, (name,), {CPU: 2000}, 1),), 1)
    assert "doesn't allow" in placed(places, demand(1))
    assert placed(places, demand(1), as_if_empty=True) == [("a-x-1", 1)]


def test_trials_are_forgotten(places):
    taken = (TopologyUsage(FLAVOR, ("a-x-1",), {CPU: 2000}, 1),)
    places.try_out(taken, 1)
    assert not places.fits(taken)
    places.try_out(taken, -1)
    assert places.fits(taken)


def test_only_the_pods_of_a_lost_node_move(places):
    before = values.TopologyAssignment(
        levels=LEVELS[-1:],
        domains=(values.TopologyDomain(("a-x-1",), 1), values.TopologyDomain(("a-x-2",), 1)),
    )
    places.book((TopologyUsage(FLAVOR, ("a-x-2",), {CPU: 1000}, 1),), 1)
    places.drop_node("a-x-1")
    lost = LostNode("a-x-1", {MAIN: before})
    assert placed(places, demand(2, required="rack"), lost=lost) == [("a-x-2", 2)]
