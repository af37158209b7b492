"""Placement on a small tree: two blocks of two racks with two nodes each."""

import pytest
from msgspec import structs

from pykueue.engine import values
from pykueue.engine.policy import TopologyPolicy
from pykueue.engine.topology.cache import NodeReplacement, TopologyCache, TopologyUsage
from pykueue.engine.topology.placement_request import PlacementRequest
from pykueue.translate import messages

LEVELS = ("block", "rack", "kubernetes.io/hostname")
FLAVOR = values.FlavorName("flavor")
MAIN = values.PodSetName("main")
CPU = values.ResourceName("cpu")


def node(name, *, cpu=2000, taints=()):
    block, rack, _ = name.split("-")
    labels = dict(zip(LEVELS, (block, f"{block}-{rack}", name), strict=True))
    return values.Node(name=name, labels=labels, taints=taints, allocatable={CPU: cpu, values.PODS: 10})


def filled(policy=None):
    cache = TopologyCache(policy)
    cache.set_topology("default", LEVELS)
    cache.set_flavor(values.ResourceFlavor(name=FLAVOR, topology="default"))
    for block in "ab":
        for rack in "xy":
            for number in "12":
                cache.set_node(node(f"{block}-{rack}-{number}"))
    return cache


@pytest.fixture
def cache():
    return filled()


def request(count, **topology):
    topology_request = values.TopologyRequest(**topology) if topology else None
    return PlacementRequest(name=MAIN, count=count, pod_requests={CPU: 1000}, request=topology_request)


def placed(cache, requested, **options):
    result = cache.place({FLAVOR: [requested]}, **options)
    if isinstance(result, dict):
        return [(*domain.values, domain.pods) for domain in result[MAIN].domains]
    return messages.placement(result[1].reason)


def test_required_rack_holds_all_pods(cache):
    assert placed(cache, request(3, required="rack")) == [("a-x-1", 2), ("a-x-2", 1)]


def test_required_rack_too_small(cache):
    assert placed(cache, request(5, required="rack")) == 'topology "default" allows to fit only 4 out of 5 pod(s)'


def test_preferred_rack_widens_to_the_block(cache):
    assert placed(cache, request(5, preferred="rack")) == [("a-x-1", 2), ("a-x-2", 2), ("a-y-1", 1)]


def test_unconstrained_fills_the_fullest_node_first(cache):
    cache.add_usage((TopologyUsage(FLAVOR, ("b-y-2",), {CPU: 1000}, 1),), 1)
    assert placed(cache, request(1, unconstrained=True)) == [("b-y-2", 1)]


def test_slices_stay_within_a_rack(cache):
    requested = request(6, required="block", slices=(values.SliceLayer(topology="rack", size=3),))
    assert placed(cache, requested) == [("a-x-1", 2), ("a-x-2", 1), ("a-y-1", 2), ("a-y-2", 1)]


def test_leader_is_placed_beside_its_workers(cache):
    request = values.TopologyRequest(group="g", required="rack")
    leader = PlacementRequest(name=values.PodSetName("leader"), count=1, pod_requests={CPU: 1000}, request=request)
    workers = PlacementRequest(name=MAIN, count=3, pod_requests={CPU: 1000}, request=request)
    placements = cache.place({FLAVOR: [leader, workers]})
    racks = {domain.values[0][:3] for placement in placements.values() for domain in placement.domains}
    assert racks == {"a-x"}


def test_a_failure_lists_taints(cache):
    taint = values.Taint(key="gpu", value="yes")
    for block in "ab":
        for rack in "xy":
            for number in "12":
                cache.set_node(node(f"{block}-{rack}-{number}", taints=(taint,)))
    assert placed(cache, request(1)) == (
        'topology "default" doesn\'t allow to fit any of 1 pod(s). Total nodes: 8; excluded: taint "gpu=yes:NoSchedule": 8'
    )


def test_pods_without_topology_use_capacity(cache):
    cache.set_pod("system/agent", "a-x-1", {CPU: 1500})
    assert placed(cache, request(3, required="rack")) == [("a-y-1", 2), ("a-y-2", 1)]


def test_capacity_is_free_again_when_a_pod_ends(cache):
    cache.set_pod("system/agent", "a-x-1", {CPU: 1500})
    before = placed(cache, request(4, required="rack"))
    cache.drop_pod("system/agent")
    assert (before, placed(cache, request(4, required="rack"))) == (
        [("a-y-1", 2), ("a-y-2", 2)],
        [("a-x-1", 2), ("a-x-2", 2)],
    )


def test_as_if_empty_ignores_usage_of_workloads_but_not_of_pods(cache):
    everywhere = [f"{block}-{rack}-{number}" for block in "ab" for rack in "xy" for number in "12"]
    for name in everywhere:
        cache.add_usage((TopologyUsage(FLAVOR, (name,), {CPU: 2000}, 1),), 1)
    assert "doesn't allow" in placed(cache, request(1))
    assert placed(cache, request(1), as_if_empty=True) == [("a-x-1", 1)]


def test_trials_are_undone(cache):
    usage = (TopologyUsage(FLAVOR, ("a-x-1",), {CPU: 2000}, 1),)
    cache.add_trial_usage(usage, 1)
    assert not cache.fits(usage)
    cache.add_trial_usage(usage, -1)
    assert cache.fits(usage)


def test_only_the_pods_of_a_failed_node_move(cache):
    before = values.TopologyAssignment(
        levels=LEVELS[-1:],
        domains=(values.TopologyDomain(("a-x-1",), 1), values.TopologyDomain(("a-x-2",), 1)),
    )
    cache.add_usage((TopologyUsage(FLAVOR, ("a-x-2",), {CPU: 1000}, 1),), 1)
    cache.drop_node("a-x-1")
    replacement = NodeReplacement("a-x-1", {MAIN: before})
    assert placed(cache, request(2, required="rack"), replacement=replacement) == [("a-x-2", 2)]


def on_nodes(**pods):
    domains = tuple(values.TopologyDomain((name.replace("_", "-"),), count) for name, count in pods.items())
    return values.TopologyAssignment(levels=LEVELS[-1:], domains=domains)


def grown(cache, count, earlier, **topology):
    """The placement of an elastic job whose earlier slice is placed and counted."""
    for domain in earlier.domains:
        cache.add_usage((TopologyUsage(FLAVOR, domain.values, {CPU: 1000}, domain.pods),), 1)
    return placed(cache, structs.replace(request(count, **topology), earlier=earlier))


def test_a_job_that_grows_needs_capacity_for_the_new_pods_only(cache):
    assert grown(cache, 4, on_nodes(a_x_1=2), required="rack") == [("a-x-1", 2), ("a-x-2", 2)]


def test_pods_that_run_stay_when_a_job_grows(cache):
    pods = dict(grown(cache, 3, on_nodes(a_x_1=1, b_y_1=1)))
    assert sum(pods.values()) == 3
    assert pods.keys() >= {"a-x-1", "b-y-1"}


def test_a_job_that_cannot_grow_within_its_rack_waits(cache):
    message = grown(cache, 5, on_nodes(a_x_1=2), required="rack")
    assert message.startswith('topology "default" allows to fit only 2 out of 3 pod(s)')


def test_a_job_whose_node_is_gone_is_placed_again_when_it_grows(cache):
    earlier = on_nodes(a_x_1=2)
    cache.drop_node("a-x-1")
    assert placed(cache, structs.replace(request(2, required="rack"), earlier=earlier)) == [("a-x-2", 2)]


def test_a_job_that_shrinks_keeps_its_first_domains(cache):
    assert grown(cache, 3, on_nodes(a_x_1=2, b_y_1=2)) == [("a-x-1", 2), ("b-y-1", 1)]


# Profiles.


def test_balanced_placement_uses_domains_evenly():
    cache = filled(TopologyPolicy(balanced_placement=True))
    cache.set_node(node("a-x-1", cpu=10_000))
    cache.set_node(node("a-x-2", cpu=10_000))
    assert placed(cache, request(12, preferred="kubernetes.io/hostname")) == [("a-x-1", 6), ("a-x-2", 6)]


def test_without_balance_the_first_domain_is_filled(cache):
    cache.set_node(node("a-x-1", cpu=10_000))
    cache.set_node(node("a-x-2", cpu=10_000))
    assert placed(cache, request(12, preferred="kubernetes.io/hostname")) == [("a-x-1", 10), ("a-x-2", 2)]


def test_balanced_placement_leaves_out_domains_below_the_threshold():
    cache = filled(TopologyPolicy(balanced_placement=True))
    for name, cpu in (("a-x-1", 6000), ("a-x-2", 5000), ("a-x-3", 1000)):
        cache.set_node(node(name, cpu=cpu))
    assert placed(cache, request(10, preferred="kubernetes.io/hostname")) == [("a-x-1", 5), ("a-x-2", 5)]


@pytest.mark.parametrize("topology", [{"required": "block"}, {"unconstrained": True}])
def test_only_preferred_levels_are_balanced(topology):
    cache = filled(TopologyPolicy(balanced_placement=True))
    assert placed(cache, request(3, **topology)) == placed(filled(), request(3, **topology))


def test_a_placement_that_cannot_be_balanced_is_the_best_fit():
    cache = filled(TopologyPolicy(balanced_placement=True))
    assert placed(cache, request(5, preferred="rack")) == placed(filled(), request(5, preferred="rack"))


def preferring(label, count, **topology):
    requirement = values.LabelRequirement(key="disk", operator=values.Operator.IN, values=(label,))
    term = values.PreferredTerm(10, (requirement,))
    return structs.replace(request(count, **topology), preferred_terms=(term,))


def with_disk(name, **fields):
    plain = node(name, **fields)
    return structs.replace(plain, labels={**plain.labels, "disk": "ssd"})


@pytest.mark.parametrize("topology", [{"unconstrained": True}, {"required": "rack"}, {"preferred": "rack"}])
def test_pods_prefer_nodes_by_affinity(cache, topology):
    cache.set_node(with_disk("b-y-2"))
    assert placed(cache, preferring("ssd", 1, **topology)) == [("b-y-2", 1)]
    assert placed(cache, preferring("tape", 1, **topology)) != [("b-y-2", 1)]


def test_a_required_level_comes_before_the_preference(cache):
    cache.set_node(with_disk("b-y-2", cpu=1000))
    assert placed(cache, preferring("ssd", 4, required="rack")) == [("a-x-1", 2), ("a-x-2", 2)]


def test_without_the_mixed_profile_unconstrained_pods_use_few_nodes():
    cache = filled(TopologyPolicy(mixed_profile=False))
    cache.add_usage((TopologyUsage(FLAVOR, ("a-x-1",), {CPU: 1000}, 1),), 1)
    assert placed(cache, request(2, unconstrained=True)) == [("a-x-2", 2)]
    assert placed(cache, request(3, unconstrained=True)) == [("a-x-1", 1), ("a-x-2", 2)]


@pytest.mark.parametrize(("overlapping", "pods"), [(True, [("a-x-2", 2)]), (False, [("a-x-1", 2)])])
def test_flavors_share_the_capacity_of_nodes_unless_the_policy_says_otherwise(overlapping, pods):
    cache = filled(TopologyPolicy(overlapping_flavors=overlapping))
    other = values.FlavorName("other")
    cache.set_flavor(values.ResourceFlavor(name=other, topology="default"))
    cache.add_usage((TopologyUsage(other, ("a-x-1",), {CPU: 1000}, 2),), 1)
    assert placed(cache, request(2, required="kubernetes.io/hostname")) == pods


def test_pod_sets_together_do_not_exceed_the_pods_of_a_node():
    """The node has room for ten pods. Twelve in two pod sets ask for little else."""
    cache = TopologyCache(None)
    cache.set_topology("default", LEVELS)
    cache.set_flavor(values.ResourceFlavor(name=FLAVOR, topology="default"))
    cache.set_node(node("a-x-1"))
    hostname = values.TopologyRequest(required=LEVELS[-1])

    def result(*counts):
        requests = [
            PlacementRequest(name=values.PodSetName(str(index)), count=count, pod_requests={CPU: 1}, request=hostname)
            for index, count in enumerate(counts)
        ]
        return cache.place({FLAVOR: requests})

    assert isinstance(result(6, 4), dict)
    assert not isinstance(result(6, 6), dict)
