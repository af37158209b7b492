import pytest

from pykueue.engine import reasons, values
from pykueue.engine.explain.explanation import (
    Explanation,
    FewerPods,
    FlavorFit,
    HigherPriority,
    Holder,
    MoreQuota,
    Obstacle,
    PodSetFit,
    Refusal,
    ResourceFit,
    Spared,
    Standing,
    Victim,
)
from pykueue.translate import explanations

MINUTE_NS = 60 * 10**9
CPU = values.FlavorResource("spot", "cpu")
WORKLOAD = values.Workload(
    key="ns/w", uid="w", namespace="ns", local_queue="ns/main", created_at_ns=0, pod_sets=(), priority=3
)
HOLDER = Holder(workload="ns/r", cluster_queue="b", priority=1, usage={CPU: 7000}, since_ns=0)


def text(**fields):
    explanation = Explanation(workload=WORKLOAD, **({"standing": Standing.QUEUED, "cluster_queue": "a"} | fields))
    return "\n".join(explanations.lines(explanation, now_ns=90 * MINUTE_NS))


def test_a_pending_workload_says_its_place():
    assert text(position=2, queue_length=5, ahead=("ns/x",)).splitlines() == [
        "Workload ns/w is pending in ClusterQueue a, 2 of 5 (priority 3).",
        "It fits now and will be admitted at its turn.",
        "Ahead of it: ns/x",
    ]


@pytest.mark.parametrize(
    ("is_strict", "effect"), [(False, "do not block it"), (True, "block the queue, which is StrictFIFO")]
)
def test_those_ahead_that_can_never_start_are_told_apart(is_strict, effect):
    ahead = {"ahead": ("ns/huge", "ns/x"), "stuck_ahead": ("ns/huge",), "is_strict": is_strict}
    assert text(position=3, queue_length=3, **ahead).splitlines()[2:] == [
        "Ahead of it: ns/x",
        f"Also ahead of it are workloads that can never start as things are, and {effect}: ns/huge",
    ]


def test_a_workload_that_waits_is_described_in_plain_words():
    assert "inadmissible" not in text(standing=Standing.INADMISSIBLE, position=1, queue_length=1)


def test_an_obstacle_is_told():
    assert text(standing=Standing.OUTSIDE, obstacle=Obstacle.LOCAL_QUEUE_MISSING) == (
        "Workload ns/w is in no queue: its LocalQueue does not exist."
    )


def test_an_admission_names_its_flavors():
    pod_set = values.PodSetAdmission(name="main", flavors={"cpu": "spot"}, usage={"cpu": 1}, count=1)
    admission = values.Admission(cluster_queue="a", pod_sets=(pod_set,))
    assert text(standing=Standing.ADMITTED, admission=admission) == (
        "Workload ns/w is admitted in ClusterQueue a on spot."
    )


def test_one_pod_is_not_several():
    pod_set = PodSetFit(name="main", count=1, requests={"cpu": 5000}, undeclared=(), flavors=())
    assert text(pod_sets=(pod_set,)).splitlines()[3] == "Pod set main (1 pod) asks for cpu 5"


def test_shortage_and_holders_in_quantities():
    fit = ResourceFit(resource="cpu", requested=5000, unused=3000, nominal=10000, capacity=12000, holders=(HOLDER,))
    taint = reasons.TaintUntolerated(flavor="gpu", taint=values.Taint(key="gpu", value="yes"))
    flavors = (
        FlavorFit(flavor="spot", mismatch=None, resources=(fit,)),
        FlavorFit(flavor="gpu", mismatch=taint, resources=()),
    )
    pod_set = PodSetFit(name="main", count=5, requests={"cpu": 5000}, undeclared=(), flavors=flavors)
    assert text(pod_sets=(pod_set,)).splitlines()[3:] == [
        "Pod set main (5 pods) asks for cpu 5",
        "  spot: short",
        "    cpu: 5 asked, 3 unused, 2 short (nominal 10, at most 12)",
        "      held by ns/r (7, for 1h30m, priority 1, b)",
        "  gpu: untolerated taint {gpu yes NoSchedule <nil>} in flavor gpu",
    ]


def test_preemption_names_victims_and_the_spared():
    output = text(
        victims=(Victim(holder=HOLDER, reason=reasons.PreemptionReason.IN_COHORT_RECLAMATION),),
        spared=(Spared(holder=HOLDER, refusal=Refusal.WITHIN_NOMINAL),),
    )
    assert "To make room it would preempt:\n  ns/r (7, for 1h30m, priority 1, b): InCohortReclamation" in output
    assert "Not preempted:\n  ns/r (7, for 1h30m, priority 1, b): its queue uses no more than its own quota" in output


def test_remedies_are_things_to_do():
    output = text(
        pending=reasons.NoLongerFits(),
        remedies=(MoreQuota(amounts={CPU: 2000}), HigherPriority(priority=51), FewerPods(counts={"main": 3})),
    )
    assert output.splitlines()[-4:] == [
        "Any one of these would let it in now:",
        "  - raise the nominal quota of ClusterQueue a: 2 more cpu in flavor spot",
        "  - give it priority 51 (it has 3)",
        "  - ask for fewer pods: 3 in main",
    ]
