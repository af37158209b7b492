"""Elastic jobs: which slice is the current one, and which pods are ungated."""

from pykueue.api.labels import ELASTIC_JOB, WORKLOAD_SLICE_NAME
from pykueue.api.times import SECOND_NS, from_ns
from pykueue.controllers.jobs import slices
from pykueue.controllers.jobs.context import JobContext
from pykueue.controllers.workload_slices import decide
from pykueue.translate.jobs.registry import FRAMEWORKS

NOW_NS = 1_000 * SECOND_NS


def slice_of(name, count=2, *, at=0, reserved=None, replaces="", evicted=False):
    annotations = {ELASTIC_JOB: "true", WORKLOAD_SLICE_NAME: "first"}
    if replaces:
        annotations["kueue.x-k8s.io/workload-slice-replacement-for"] = f"ns/{replaces}"
    true = {"status": "True", "reason": "R", "message": ""}
    conditions = [{"type": "Evicted", **true}] if evicted else []
    if reserved is not None:
        since = from_ns(reserved * SECOND_NS)
        conditions += [{"type": kind, "lastTransitionTime": since, **true} for kind in ("QuotaReserved", "Admitted")]
    return {
        "metadata": {
            "name": name, "namespace": "ns", "uid": name, "annotations": annotations,
            "creationTimestamp": from_ns(at * SECOND_NS),
        },
        "spec": {"podSets": [{"name": "main", "count": count, "template": {"spec": {}}}]},
        "status": {"conditions": conditions},
    }  # fmt: skip


def pod(name, *, gated=True, phase="Pending"):
    metadata = {"name": name, "namespace": "ns", "labels": {"kueue.x-k8s.io/podset": "main"}}
    gates = [{"name": ELASTIC_JOB}] if gated else []
    return {"metadata": metadata, "spec": {"schedulingGates": gates}, "status": {"phase": phase}}


def selected(*workloads):
    context = JobContext(kind=FRAMEWORKS["batch/job"], job=None, now_ns=NOW_NS)
    chosen, actions = slices.select(context, list(workloads))
    return chosen and chosen["metadata"]["name"], [action.new["metadata"]["name"] for action in actions]


def ungated(workloads, *pods):
    return [write.old["metadata"]["name"] for write in decide.plan(workloads, pods)]


def test_a_slice_that_waits_tells_what_the_job_asks_for():
    assert selected(slice_of("first", reserved=1), slice_of("second", replaces="first")) == ("second", [])


def test_a_slice_just_replaced_is_left_to_the_scheduler():
    first, second = slice_of("first", reserved=1), slice_of("second", reserved=999, replaces="first")
    assert selected(first, second) == ("second", [])


def test_a_slice_replaced_long_ago_is_ended():
    first, second = slice_of("first", reserved=1), slice_of("second", reserved=2, replaces="first")
    assert selected(first, second) == ("second", ["first"])


def test_an_evicted_slice_beside_another_is_ended():
    assert selected(slice_of("first", reserved=1, evicted=True), slice_of("second")) == ("second", ["first"])


def test_a_slice_that_holds_quota_only_shrinks_in_place():
    workload = slice_of("first", 2, reserved=1)
    assert slices.can_resize(workload, {"main": 1})
    assert not slices.can_resize(workload, {"main": 3})


def test_a_new_slice_carries_the_name_of_the_first():
    replacement = slices.as_slice({"metadata": {"name": "third", "namespace": "ns"}}, [slice_of("second")])
    assert replacement["metadata"]["annotations"][WORKLOAD_SLICE_NAME] == "first"


def test_as_many_pods_go_as_the_slice_has():
    assert ungated([slice_of("first", 2, reserved=1)], pod("c"), pod("b"), pod("a")) == ["a", "b"]


def test_pods_that_are_gone_count_and_pods_that_ended_do_not():
    pods = [pod("a", gated=False), pod("b", gated=False, phase="Succeeded"), pod("c"), pod("d")]
    assert ungated([slice_of("first", 2, reserved=1)], *pods) == ["c"]


def test_no_pod_goes_for_a_slice_that_waits():
    workloads = [slice_of("first", 1, reserved=1), slice_of("second", 2, replaces="first")]
    assert ungated(workloads, pod("a", gated=False), pod("b")) == []
