"""Variants of a Workload: created, activated, admitted and evicted as Kueue's controller does it."""

import pytest

from pykueue.api import conditions
from pykueue.api.times import SECOND_NS, from_ns
from pykueue.controllers.concurrent_admission import decide
from pykueue.controllers.workloads import transitions
from pykueue.kube.controller.writes import Create, Delete, Event, Update

NOW_NS = 1_800_000_000 * SECOND_NS
GATE = "kueue.x-k8s.io/concurrent-admission"
FLAVORS = ("reservation", "on-demand", "spot")


def cluster_queue(*flavors, mode="TryPreferredFlavors", last=None):
    migration = {"mode": mode, **({"constraints": {"lastAcceptableFlavorName": last}} if last else {})}
    group = {"coveredResources": ["cpu"], "flavors": [{"name": name, "resources": []} for name in flavors or FLAVORS]}
    return {
        "metadata": {"name": "cq"},
        "spec": {"resourceGroups": [group], "concurrentAdmissionPolicy": {"migration": migration}},
    }


def workload(name, **metadata):
    return {"metadata": {"name": name, "namespace": "default", **metadata}, "spec": {"podSets": [], "queueName": "lq"}}


def parent(name="wl-12345", **spec):
    obj = workload(name, uid="", labels={"kueue.x-k8s.io/concurrent-admission-parent": "true"})
    obj["spec"] |= spec
    return obj


def variant(flavor, *, active=True):
    owner = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "name": "wl-12345", "uid": "p"}
    obj = workload(
        f"wl-variant-{flavor}",
        uid=flavor,
        annotations={"kueue.x-k8s.io/workload-allowed-resource-flavors": flavor},
        ownerReferences=[{**owner, "controller": True}],
    )
    obj["spec"] |= {"active": active, "preemptionGates": [{"name": GATE}]}
    return obj


def admitted(obj):
    admission = {"clusterQueue": "cq", "podSetAssignments": [{"name": "main", "flavors": {"cpu": "x"}}]}
    transitions.reserve_quota(obj, admission, NOW_NS)
    transitions.sync_admitted(obj, NOW_NS)
    return obj


def with_condition(obj, kind, *, status=True, reason="x", message="m"):
    conditions.put(obj, kind, status=status, reason=reason, message=message, now_ns=NOW_NS)
    return obj


def tried(obj):
    return with_condition(obj, "QuotaReserved", status=False, reason="Pending", message="Workload does not fit")


def blocked(obj):
    return with_condition(tried(obj), "BlockedOnPreemptionGates", reason="PreemptionGated")


def opened(obj, seconds_ago):
    transitions.open_preemption_gate(obj, GATE, NOW_NS - seconds_ago * SECOND_NS)
    return obj


class Result:
    def __init__(self, owner, members, queue=None):
        plan = decide.plan(owner, members, queue or cluster_queue(), NOW_NS, max_name_length=253)
        self.requeue_after_ns = plan.requeue_after_ns
        self.created = [action.object for action in plan.actions if isinstance(action, Create)]
        self.deleted = [action.object["metadata"]["name"] for action in plan.actions if isinstance(action, Delete)]
        self.events = [(action.reason, action.message) for action in plan.actions if isinstance(action, Event)]
        self.written = {}
        for action in plan.actions:
            if isinstance(action, Update):
                self.written[action.new["metadata"]["name"]] = action.new

    def active(self, *members):
        final = [self.written.get(member["metadata"]["name"], member) for member in members]
        return [obj["spec"]["active"] for obj in final]


def test_every_flavor_gets_a_variant():
    result = Result(parent(), [], cluster_queue("on-demand", "spot"))
    assert [obj["metadata"]["name"] for obj in result.created] == [
        "wl-variant-on-demand-dda31",
        "wl-variant-spot-6e000",
    ]
    spot = result.created[1]
    assert spot["metadata"]["annotations"] == {"kueue.x-k8s.io/workload-allowed-resource-flavors": "spot"}
    assert "labels" not in spot["metadata"]
    assert "finalizers" not in spot["metadata"]
    assert spot["metadata"]["ownerReferences"][0]["kind"] == "Workload"
    assert spot["spec"]["preemptionGates"] == [{"name": GATE}]
    assert result.events[0] == ("CreatedVariant", 'Variant Workload "default/wl-variant-on-demand-dda31" created')


def test_only_missing_variants_are_created():
    result = Result(parent(), [variant("spot")], cluster_queue("on-demand", "spot"))
    assert [obj["metadata"]["name"] for obj in result.created] == ["wl-variant-on-demand-dda31"]


def test_a_variant_has_the_gates_of_its_parent_too():
    result = Result(parent(preemptionGates=[{"name": "other"}]), [], cluster_queue("spot"))
    assert result.created[0]["spec"]["preemptionGates"] == [{"name": "other"}, {"name": GATE}]


@pytest.mark.parametrize("end", ["Finished", "deletion"])
def test_a_parent_that_ends_gets_no_new_variants(end):
    obj = parent()
    if end == "Finished":
        with_condition(obj, "Finished")
    else:
        obj["metadata"]["deletionTimestamp"] = from_ns(NOW_NS)
    assert Result(obj, []).created == []


def test_the_variant_of_a_removed_flavor_is_deleted():
    members = [variant("on-demand"), variant("spot"), variant("stale")]
    result = Result(parent(), members, cluster_queue("on-demand", "spot"))
    assert result.deleted == ["wl-variant-stale"]
    text = 'Variant Workload "default/wl-variant-stale" deleted; flavor "stale" no longer in ClusterQueue'
    assert result.events == [("DeletedVariant", text)]


def test_a_parent_without_its_admitted_variant_is_evicted():
    result = Result(admitted(parent()), [variant("spot"), admitted(variant("stale"))], cluster_queue("spot"))
    assert result.deleted == ["wl-variant-stale"]
    evicted = conditions.find(result.written["wl-12345"], "Evicted")
    assert (evicted["reason"], evicted["message"]) == ("ConcurrentAdmission", "No variant is running")


def test_the_parent_takes_over_the_admission_of_a_variant():
    chosen = admitted(variant("spot"))
    written = Result(parent(), [variant("reservation"), variant("on-demand"), chosen]).written["wl-12345"]
    assert written["status"]["admission"] == chosen["status"]["admission"]
    assert conditions.find(written, "QuotaReserved")["message"] == "Quota reserved in ClusterQueue cq"
    assert conditions.find(written, "Admitted")["message"] == "The variant wl-variant-spot is admitted"


def test_a_deactivated_parent_is_not_admitted_again():
    result = Result(parent(active=False), [admitted(variant("spot"))], cluster_queue("spot"))
    assert "wl-12345" not in result.written
    assert result.active(variant("spot")) == [False]


def evicted(obj, reason="FlavorMigration"):
    transitions.evict(obj, reason=reason, message="moved", now_ns=NOW_NS)
    return obj


def test_the_job_of_an_evicted_variant_stops_first():
    result = Result(admitted(parent()), [evicted(admitted(variant("spot")))], cluster_queue("spot"))
    condition = conditions.find(result.written["wl-12345"], "Evicted")
    assert (condition["reason"], condition["message"]) == ("VariantEvicted", "Admitted variant was evicted")
    assert "wl-variant-spot" not in result.written


def test_an_evicted_variant_waits_while_the_parent_is_stopped():
    stopping = evicted(admitted(parent()), "VariantEvicted")
    assert Result(stopping, [evicted(admitted(variant("spot")))], cluster_queue("spot")).written == {}


@pytest.mark.parametrize(("reason", "requeued"), [("FlavorMigration", "False"), ("Preempted", "True")])
def test_an_evicted_variant_loses_its_quota_when_the_parent_is_stopped(reason, requeued):
    result = Result(parent(), [evicted(admitted(variant("spot")), reason)], cluster_queue("spot"))
    written = result.written["wl-variant-spot"]
    assert "admission" not in written["status"]
    assert conditions.find(written, "QuotaReserved")["message"] == "moved"
    assert conditions.find(written, "Requeued")["status"] == requeued


def test_a_variant_that_never_ran_loses_its_quota_and_the_job_goes_on():
    reserved = variant("on-demand", active=False)
    transitions.reserve_quota(reserved, {"clusterQueue": "cq"}, NOW_NS)
    members = [variant("reservation", active=False), evicted(reserved, "Deactivated"), admitted(variant("spot"))]
    result = Result(admitted(parent()), members, cluster_queue(mode="RetainFirstAdmission"))
    assert "wl-12345" not in result.written
    assert "admission" not in result.written["wl-variant-on-demand"]["status"]


@pytest.mark.parametrize(
    ("last", "mode", "flavor", "active"),
    [
        ("reservation", "TryPreferredFlavors", "spot", [True, False, True]),
        ("reservation", "TryPreferredFlavors", "on-demand", [True, True, False]),
        ("reservation", "TryPreferredFlavors", "reservation", [True, False, False]),
        ("on-demand", "TryPreferredFlavors", "spot", [True, True, True]),
        (None, "TryPreferredFlavors", "spot", [True, True, True]),
        (None, "TryPreferredFlavors", "on-demand", [True, True, False]),
        (None, "TryPreferredFlavors", "reservation", [True, False, False]),
        (None, "RetainFirstAdmission", "spot", [False, False, True]),
    ],
)
def test_the_policy_decides_which_variants_stay_active(last, mode, flavor, active):
    members = [admitted(variant(name)) if name == flavor else variant(name) for name in FLAVORS]
    result = Result(parent(), members, cluster_queue(mode=mode, last=last))
    assert result.active(*members) == active


@pytest.mark.parametrize(
    ("last", "flavor", "cause"),
    [
        ("reservation", "spot", 'being below lastAcceptableFlavor: "reservation" and another Variant admitted {}'),
        (None, "reservation", "being lower priority than admitted Variant {}"),
    ],
)
def test_a_deactivated_variant_says_why(last, flavor, cause):
    members = [admitted(variant(name)) if name == flavor else variant(name) for name in FLAVORS]
    quoted = f'"default/wl-variant-{flavor}"'
    text = f"Variant Workload deactivated due to {cause.format(quoted)}"
    assert ("DeactivatedVariant", text) in Result(parent(), members, cluster_queue(last=last)).events


def test_all_variants_are_active_again_when_none_is_admitted():
    members = [variant(name, active=False) for name in FLAVORS]
    result = Result(parent(), members)
    assert result.active(*members) == [True, True, True]
    assert result.events[0] == (
        "ActivatedVariant",
        "Variant Workload activated due to no other Variant being admitted",
    )


def test_a_variant_that_exceeded_a_limit_stays_inactive():
    """As in Kueue, its DeactivationTarget stays. Two controllers would undo each other's writes."""
    exceeded = with_condition(variant("reservation", active=False), "DeactivationTarget")
    members = [exceeded, variant("on-demand", active=False), admitted(variant("spot"))]
    assert Result(parent(), members).active(*members) == [False, True, True]


def test_variants_follow_the_deactivation_of_the_parent():
    members = [variant(name) for name in FLAVORS]
    result = Result(parent(active=False), members)
    assert result.active(*members) == [False, False, False]
    text = 'Variant Workload deactivated due to Parent Workload "default/wl-12345" not active'
    assert result.events[0] == ("DeactivatedVariant", text)


def test_variants_finish_with_their_parent():
    done = with_condition(admitted(parent()), "Finished", reason="Succeeded", message="Job finished")
    written = Result(done, [admitted(variant("spot"))], cluster_queue("spot")).written["wl-variant-spot"]
    finished = conditions.find(written, "Finished")
    assert (finished["reason"], finished["message"]) == ("Succeeded", "Job finished")


@pytest.mark.parametrize("is_ready", [True, False])
def test_the_admitted_variant_shows_whether_the_pods_are_ready(is_ready):
    owner = with_condition(admitted(parent()), "PodsReady", status=is_ready, reason="r")
    before = with_condition(admitted(variant("spot")), "PodsReady", status=not is_ready)
    written = Result(owner, [before], cluster_queue("spot")).written["wl-variant-spot"]
    assert conditions.find(written, "PodsReady") == conditions.find(owner, "PodsReady")


def gates(result):
    return {
        name: [gate["position"] for gate in obj["status"]["preemptionGates"]]
        for name, obj in result.written.items()
        if obj.get("status", {}).get("preemptionGates")
    }


def test_the_gate_of_the_first_blocked_variant_is_opened():
    result = Result(parent(), [tried(variant("reservation")), blocked(variant("on-demand")), blocked(variant("spot"))])
    assert gates(result) == {"wl-variant-on-demand": ["Open"]}
    text = 'Opened preemption gate for variant workload "default/wl-variant-on-demand"'
    assert result.events == [("PreemptionUngatedVariant", text)]
    assert result.requeue_after_ns == 300 * SECOND_NS


def test_no_gate_is_opened_before_better_variants_are_tried():
    result = Result(parent(), [variant("reservation"), blocked(variant("on-demand")), tried(variant("spot"))])
    assert gates(result) == {}
    assert result.requeue_after_ns == 0


def test_no_gate_is_opened_for_variants_that_wait_for_quota():
    assert gates(Result(parent(), [tried(variant(name)) for name in FLAVORS])) == {}


@pytest.mark.parametrize(("seconds_ago", "is_opened"), [(60, False), (300, True)])
def test_the_next_variant_waits_five_minutes_for_its_gate(seconds_ago, is_opened):
    members = [opened(blocked(variant("reservation")), seconds_ago), blocked(variant("on-demand"))]
    result = Result(parent(), members, cluster_queue("reservation", "on-demand"))
    assert gates(result) == ({"wl-variant-on-demand": ["Open"]} if is_opened else {})
    assert result.requeue_after_ns == (300 if is_opened else 240) * SECOND_NS


def test_the_latest_opened_gate_counts():
    members = [
        opened(blocked(variant("reservation")), 400),
        opened(blocked(variant("on-demand")), 100),
        blocked(variant("spot")),
    ]
    assert Result(parent(), members).requeue_after_ns == 200 * SECOND_NS


def test_the_gate_of_a_deleted_variant_does_not_count():
    members = [opened(blocked(variant("stale")), 10), blocked(variant("on-demand"))]
    assert gates(Result(parent(), members, cluster_queue("on-demand"))) == {"wl-variant-on-demand": ["Open"]}
