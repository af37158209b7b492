import pytest
from msgspec import structs

from pykueue.engine import values
from pykueue.engine.explain.explanation import (
    Explanation,
    FlavorFit,
    MoreQuota,
    Obstacle,
    PodSetFit,
    ReduceRequests,
    ResourceFit,
    Standing,
)
from pykueue.engine.reasons import InactiveReason, Inactivity
from pykueue.translate import node_capacity
from pykueue.translate.job_explanations import JobFacts, report

SECOND_NS = 10**9
CPU = values.FlavorResource("spot", "cpu")


def condition(kind, second, *, status="True", reason="", message=""):
    stamp = f"1970-01-01T00:00:{second:02d}Z"
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": stamp}


def workload(*conditions, **status):
    metadata = {"name": "w", "namespace": "ns", "creationTimestamp": "1970-01-01T00:00:00Z"}
    return {"metadata": metadata, "spec": {"queueName": "q"}, "status": {"conditions": list(conditions), **status}}


def pod(name="p", *, phase="Running", node="n", state=None, **status):
    container = {"name": "main", "state": state or {}, **status.pop("container", {})}
    spec = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "4"}}}]} | (
        {"nodeName": node} if node else {}
    )
    return {
        "metadata": {"name": name},
        "spec": spec,
        "status": {"phase": phase, "containerStatuses": [container], **status},
    }


def node(cpu):
    return {"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": cpu}}}


def engine_answer(standing=Standing.QUEUED, *, requested=4000, capacity=8000, **fields):
    fit = ResourceFit(resource="cpu", requested=requested, unused=0, nominal=capacity, capacity=capacity)
    flavors = (FlavorFit(flavor="spot", mismatch=None, resources=(fit,)),)
    pod_set = values.PodSet(
        name="main", count=1, spec_count=1, requests={"cpu": requested}, pod_requests={"cpu": requested}
    )
    value = values.Workload(
        key="ns/w", uid="u", namespace="ns", local_queue="ns/q", created_at_ns=0, pod_sets=(pod_set,)
    )
    fits = PodSetFit(name="main", count=1, requests={"cpu": requested}, undeclared=(), flavors=flavors)
    admission = values.Admission(cluster_queue="a", pod_sets=())
    return Explanation(
        workload=value,
        standing=standing,
        cluster_queue="a",
        admission=admission,
        pod_sets=(fits,),
        position=1,
        queue_length=1,
        **fields,
    )


def answer(**facts):
    return report(JobFacts(title="Job ns/train", namespace="ns", now_ns=20 * SECOND_NS, **facts))


def text(**facts):
    return "\n".join(answer(**facts).text())


def test_a_job_that_succeeded_says_how_long_it_waited_and_ran():
    finished = condition("Finished", 17, reason="Succeeded", message="Job finished successfully")
    assert text(workload=workload(condition("Admitted", 3), finished)).splitlines() == [
        "Job ns/train succeeded after 14s (waited 3s), 3s ago.",
        "Message: Job finished successfully",
    ]


def test_a_job_that_succeeded_names_the_pod_whose_output_is_shown():
    finished = condition("Finished", 17, reason="Succeeded")
    ended = pod(phase="Succeeded", state={"terminated": {"exitCode": 0, "reason": "Completed"}})
    job_report = answer(workload=workload(condition("Admitted", 3), finished), pods=(ended,))
    assert (job_report.lines, job_report.output_pod) == (("Exit code 0 of container main in pod p",), "p")


def test_a_job_that_failed_names_the_exit_code_and_the_pod():
    finished = condition("Finished", 17, reason="Failed", message="backoff limit")
    failed = pod(phase="Failed", state={"terminated": {"exitCode": 7, "reason": "Error"}})
    job_report = answer(workload=workload(condition("Admitted", 3), finished), pods=(failed,))
    assert (job_report.state, job_report.output_pod) == ("finished", "p")
    assert "Exit code 7 of container main in pod p" in job_report.lines


def test_a_command_that_was_not_there():
    state = {"terminated": {"exitCode": 128, "reason": "StartError", "message": "executable file not found"}}
    finished = condition("Finished", 17, reason="Failed")
    assert "Exit code 128 (StartError) of container main in pod p: executable file not found" in text(
        workload=workload(finished), pods=(pod(phase="Failed", state=state),)
    )


def test_a_job_that_runs():
    admitted = workload(condition("Admitted", 3))
    running = answer(workload=admitted, explanation=engine_answer(Standing.ADMITTED), pods=(pod(),))
    assert running.summary == "Job ns/train is running: 1 of 1 pods running, admitted 17s ago."


def test_a_job_whose_pods_are_left_to_another_controller():
    job = {"metadata": {"name": "train"}, "spec": {"managedBy": "kueue.x-k8s.io/multikueue"}}
    job_report = answer(workload=workload(), job=job, explanation=engine_answer(Standing.ADMITTED))
    assert job_report.lines == ("It has no pods: its spec.managedBy leaves them to kueue.x-k8s.io/multikueue.",)


def test_a_job_whose_pods_are_in_another_cluster():
    dispatched = workload(clusterName="worker-1")
    job_report = answer(workload=dispatched, explanation=engine_answer(Standing.ADMITTED))
    assert job_report.lines == ("Its pods are in MultiKueueCluster worker-1.",)


def test_a_prebuilt_workload_that_does_not_exist():
    labels = {"kueue.x-k8s.io/queue-name": "q", "kueue.x-k8s.io/prebuilt-workload-name": "ready-made"}
    job = {"metadata": {"name": "train", "labels": labels}}
    assert "Workload ready-made, which its label" in answer(job=job, existing={"LocalQueue": ("q",)}).summary


def test_a_pod_that_no_node_can_take():
    scheduled = {"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available: 1 Insufficient cpu."}
    waiting = pod(phase="Pending", node="", conditions=[scheduled])
    job_report = answer(
        workload=workload(), explanation=engine_answer(Standing.ADMITTED), pods=(waiting,), nodes=(node("2"),)
    )
    assert job_report.summary.endswith(
        "but 1 of 1 pods cannot be scheduled: 0/1 nodes are available: 1 Insufficient cpu."
    )
    assert job_report.lines[-1] == "  node n is too small: it has cpu 2 of 4"


def test_a_pod_that_waits_for_other_pods_to_end():
    scheduled = {"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available: 1 Insufficient cpu."}
    waiting = pod(phase="Pending", node="", conditions=[scheduled])
    facts = {"pods": (waiting,), "nodes": (node("6"),), "free": ({"cpu": 1000},)}
    job_report = answer(workload=workload(), explanation=engine_answer(Standing.ADMITTED), **facts)
    assert job_report.lines[-1] == "  node n is in use: it has cpu 1 of 4 left"


def test_pods_on_a_cluster_without_nodes():
    job_report = answer(
        workload=workload(),
        explanation=engine_answer(Standing.ADMITTED),
        pods=(pod(phase="Pending", node=""),),
        nodes=(),
    )
    assert "the cluster has no nodes" in job_report.summary


def test_a_crash_loop():
    container = {
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": {"exitCode": 3}},
        "restartCount": 2,
    }
    job_report = answer(
        workload=workload(), explanation=engine_answer(Standing.ADMITTED), pods=(pod(container=container),)
    )
    assert job_report.summary.endswith(
        "but container main of pod p is in CrashLoopBackOff, 2 restarts, last exit code 3"
    )
    assert job_report.output_pod == "p"


def test_a_request_that_no_wait_can_satisfy():
    remedy = ReduceRequests(amounts={"main": {"cpu": 2000}})
    explanation = engine_answer(requested=64000, capacity=2000, remedies=(remedy,))
    job_report = answer(workload=workload(), explanation=explanation, nodes=(node("2"),))
    assert job_report.lines[0] == (
        "It can never start as things are: it asks for 64 cpu, ClusterQueue a may have 2, the largest node has 2."
    )
    assert job_report.lines[-1] == "  - ask for less: at most 2 cpu in each pod of main"


def test_a_request_beyond_the_quota_can_never_start_on_large_nodes_either():
    explanation = engine_answer(requested=64000, capacity=2000)
    job_report = answer(workload=workload(), explanation=explanation, nodes=(node("128"),))
    assert job_report.lines[0].startswith(
        "It can never start as things are: it asks for 64 cpu, ClusterQueue a may have 2"
    )


def test_a_resource_that_is_not_covered_is_named_with_all_that_are():
    fits = PodSetFit(name="main", count=1, requests={"gpu": 1}, undeclared=("gpu",), flavors=())
    explanation = structs.replace(engine_answer(), pod_sets=(fits,), covered=("cpu", "memory"))
    assert answer(workload=workload(), explanation=explanation).lines[0] == (
        "It can never start as things are: it asks for gpu, which ClusterQueue a does not cover (covered: cpu, memory)."
    )


def test_an_admitted_workload_that_no_node_is_large_enough_for():
    job_report = answer(workload=workload(), explanation=engine_answer(Standing.ADMITTED), nodes=(node("2"),))
    assert job_report.lines[0] == (
        "It can never start as things are: it asks for 4 cpu in each pod, the largest node has 2."
        " It uses quota nevertheless: delete it."
    )


@pytest.mark.parametrize(
    ("free", "note"),
    [
        (({"cpu": 0}, {"cpu": 500}), " (its pods would still wait: the nodes have 500m cpu free)"),
        (({"cpu": 3000}, {"cpu": 2000}), " (its pods would still wait: no node has more than 3 cpu free)"),
        (({"cpu": 4000},), ""),
        (None, ""),
    ],
)
def test_more_quota_without_free_nodes(free, note):
    explanation = engine_answer(remedies=(MoreQuota(amounts={CPU: 4000}),))
    last = answer(workload=workload(), explanation=explanation, nodes=(node("8"),), free=free).lines[-1]
    assert last == f"  - raise the nominal quota of ClusterQueue a: 4 more cpu in flavor spot{note}"


def test_what_pods_leave_free():
    """A pod that has ended, or is on no node, uses nothing."""
    pods = [pod(), pod(phase="Succeeded"), pod(phase="Pending", node="")]
    assert node_capacity.free_amounts([node("6")], pods) == ({"cpu": 2000},)


def test_nothing_is_impossible_where_a_check_provides_nodes():
    cluster_queue = {"spec": {"admissionChecksStrategy": {"admissionChecks": [{"name": "prov"}]}}}
    job_report = answer(
        workload=workload(), explanation=engine_answer(), nodes=(node("2"),), cluster_queue=cluster_queue
    )
    assert not any("can never start" in line for line in job_report.lines)


@pytest.mark.parametrize(
    ("labels", "why"),
    [
        ({}, "it has no label kueue.x-k8s.io/queue-name"),
        (
            {"kueue.x-k8s.io/queue": "q"},
            "it has no label kueue.x-k8s.io/queue-name; its label kueue.x-k8s.io/queue has no meaning",
        ),
        (
            {"kueue.x-k8s.io/queue-name": "q", "kueue.x-k8s.io/priority-class": "nope"},
            "WorkloadPriorityClass nope does not exist (existing: high)",
        ),
    ],
)
def test_a_job_without_a_workload(labels, why):
    existing = {"LocalQueue": ("q",), "WorkloadPriorityClass": ("high",), "PriorityClass": ("system",)}
    assert text(job={"metadata": {"name": "train", "labels": labels}}, existing=existing) == (
        f"Job ns/train is in no queue: {why}."
    )


def test_a_missing_priority_class_of_the_pods_is_named():
    existing = {"LocalQueue": ("q",), "WorkloadPriorityClass": (), "PriorityClass": ("system",)}
    metadata = {"name": "train", "labels": {"kueue.x-k8s.io/queue-name": "q"}}
    spec = {"template": {"spec": {"containers": [{"name": "c"}], "priorityClassName": "nope"}}}
    assert text(job={"metadata": metadata, "spec": spec}, existing=existing) == (
        "Job ns/train is in no queue: PriorityClass nope does not exist (existing: system)."
    )


def test_classes_that_cannot_be_read_are_not_called_missing():
    labels = {"kueue.x-k8s.io/queue-name": "q", "kueue.x-k8s.io/priority-class": "some"}
    assert text(job={"metadata": {"name": "train", "labels": labels}}, existing={"LocalQueue": ("q",)}) == (
        "Job ns/train is in no queue: its Workload does not exist yet."
    )


def test_a_job_that_ended_without_a_queue():
    job = {"metadata": {"name": "train"}, "status": {"conditions": [{"type": "Complete", "status": "True"}]}}
    assert answer(job=job).summary.endswith("it has no label kueue.x-k8s.io/queue-name; it is complete.")


def test_a_missing_local_queue_is_named_with_those_that_exist():
    explanation = engine_answer(Standing.OUTSIDE, obstacle=Obstacle.LOCAL_QUEUE_MISSING)
    assert answer(workload=workload(), explanation=explanation, existing={"LocalQueue": ("main",)}).summary == (
        "Workload ns/w is in no queue: LocalQueue q does not exist in namespace ns (existing: main)."
    )


def test_a_missing_cluster_queue_is_named_with_those_that_exist():
    explanation = engine_answer(Standing.OUTSIDE, obstacle=Obstacle.CLUSTER_QUEUE_MISSING)
    facts = {"target_queue": "taem", "existing": {"ClusterQueue": ("team",)}}
    assert answer(workload=workload(), explanation=explanation, **facts).summary == (
        "Workload ns/w is in no queue: ClusterQueue taem of LocalQueue q does not exist (existing: team)."
    )


def test_the_preemptor_is_named_once():
    message = "Preempted to accommodate a workload (UID: u2, JobUID: j2) due to prioritization in the ClusterQueue"
    preempted = workload(
        condition("Evicted", 5, message=message),
        condition("Preempted", 5, message=message),
        requeueState={"requeueAt": "1970-01-01T00:00:50Z"},
    )
    job_report = answer(workload=preempted, explanation=engine_answer(), workload_names={"u2": "ns/vip"})
    assert job_report.lines[-2:] == (
        "Preempted 15s ago: Preempted to accommodate workload ns/vip due to prioritization in the ClusterQueue",
        "It is tried again at 1970-01-01T00:00:50Z (in 30s).",
    )
    assert not any(line.startswith("Evicted") for line in job_report.lines)


def test_an_inactive_check_says_why_in_its_own_words():
    message = "Can't admit new workloads: references inactive AdmissionCheck(s): far."
    cluster_queue = {"status": {"conditions": [condition("Active", 1, status="False", message=message)]}}
    words = "pykueue does not dispatch"
    check = {
        "metadata": {"name": "far"},
        "status": {"conditions": [condition("Active", 1, status="False", message=words)]},
    }
    inactivity = (Inactivity(reason=InactiveReason.ADMISSION_CHECK_INACTIVE, names=("far",)),)
    job_report = answer(
        workload=workload(),
        explanation=engine_answer(inactivity=inactivity),
        cluster_queue=cluster_queue,
        admission_checks=(check,),
    )
    assert any("AdmissionCheck far: pykueue does not dispatch." in line for line in job_report.lines)


def test_an_inactive_queue_says_why_in_its_own_words_and_names_the_flavors_that_exist():
    message = "Can't admit new workloads: references missing ResourceFlavor(s): nope."
    cluster_queue = {"status": {"conditions": [condition("Active", 1, status="False", message=message)]}}
    inactivity = (Inactivity(reason=InactiveReason.FLAVOR_NOT_FOUND, names=("nope",)),)
    job_report = answer(
        workload=workload(),
        explanation=engine_answer(inactivity=inactivity),
        cluster_queue=cluster_queue,
        existing={"ResourceFlavor": ("spot",)},
    )
    assert f"ClusterQueue a is not active: {message} ResourceFlavors that exist: spot." in job_report.lines


def test_a_stopped_local_queue():
    explanation = engine_answer(Standing.OUTSIDE, obstacle=Obstacle.LOCAL_QUEUE_STOPPED)
    assert answer(workload=workload(), explanation=explanation).summary == (
        "Workload ns/w is in no queue: LocalQueue q is stopped."
    )


def test_a_deactivated_workload_says_who_evicted_it():
    explanation = engine_answer(Standing.OUTSIDE, obstacle=Obstacle.DEACTIVATED)
    evicted = workload(condition("Evicted", 5, message="The maximum execution time is over"))
    assert answer(workload=evicted, explanation=explanation).summary == (
        "Workload ns/w is in no queue: it is deactivated (spec.active is false): The maximum execution time is over."
    )


def test_a_workload_with_quota_names_the_checks_that_it_waits_for():
    checks = [{"name": "prov", "state": "Pending", "message": "two nodes are on their way"}]
    job_report = answer(workload=workload(admissionChecks=checks), explanation=engine_answer(Standing.RESERVED))
    assert job_report.state == "quota reserved"
    assert job_report.lines == ("", "AdmissionCheck prov is Pending: two nodes are on their way")


def test_a_pod_whose_group_is_not_complete():
    labels = {"kueue.x-k8s.io/queue-name": "q", "kueue.x-k8s.io/pod-group-name": "group"}
    metadata = {"name": "p", "labels": labels, "annotations": {"kueue.x-k8s.io/pod-group-total-count": "3"}}
    facts = {"job": {"metadata": metadata}, "pods": (pod("p"), pod("other")), "existing": {"LocalQueue": ("q",)}}
    assert answer(**facts).summary == "Job ns/train is in no queue: its group group has 2 of 3 pods."


def test_a_group_that_waits_for_pods_that_replace_failed_ones():
    failed = pod(phase="Failed", container={"state": {"terminated": {"exitCode": 4}}})
    waiting = workload(condition("WaitingForReplacementPods", 5))
    job_report = answer(workload=waiting, explanation=engine_answer(Standing.ADMITTED), pods=(failed,))
    assert job_report.summary.endswith(", but pods of its group ended: it waits for pods that replace them.")
    assert job_report.lines == ("Exit code 4 of container main in pod p",)
    assert job_report.output_pod == "p"
