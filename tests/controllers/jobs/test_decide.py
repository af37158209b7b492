import copy

import pytest

from pykueue.api import conditions
from pykueue.api.times import SECOND_NS, to_ns
from pykueue.controllers.jobs import construction, context, decide, matching
from pykueue.controllers.jobs.context import JobContext, JobPolicy
from pykueue.controllers.workloads import predicates, transitions
from pykueue.kube.controller.writes import Create, Delete, Event, Update
from pykueue.translate.jobs import batch_job, kubeflow, registry

NOW = to_ns("2026-01-15T12:00:00Z")
JOB = batch_job.FRAMEWORK
PYTORCH = kubeflow.FRAMEWORKS[0]
FLAVORS = {"gpu": {"metadata": {"name": "gpu"}, "spec": {"nodeLabels": {"pool": "gpu"}}}}


def job(*, suspend=True, labels=None, annotations=None, **spec):
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "a",
            "namespace": "ns",
            "uid": "u1",
            "labels": {"kueue.x-k8s.io/queue-name": "lq", **(labels or {})},
            "annotations": annotations or {},
        },
        "spec": {
            "suspend": suspend,
            "parallelism": 2,
            "template": {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}},
            **spec,
        },
    }


def workload(of, *, is_admitted=False):
    pod_sets = matching.pod_sets(JobContext(kind=JOB, job=of), of)
    obj = construction.workload_of(JOB, of, pod_sets, priority={"priority": 0})
    if is_admitted:
        assignment = {"name": "main", "count": 2, "flavors": {"cpu": "gpu"}}
        transitions.reserve_quota(obj, {"clusterQueue": "cq", "podSetAssignments": [assignment]}, NOW)
        transitions.sync_admitted(obj, NOW)
    return obj


def plan(obj, *workloads, **changes):
    changes.setdefault("policy", JobPolicy(waits_for_pods_ready=False))
    context = {"kind": JOB, "namespace_labels": {}, "flavors": FLAVORS, "now_ns": NOW, **changes}
    return decide.plan(JobContext(job=obj, workloads=workloads, **context))


def written(result, kind):
    return [action.new for action in result.actions if isinstance(action, Update) and action.resource.kind == kind][-1]


def events(result):
    return [action.reason for action in result.actions if isinstance(action, Event)]


def test_a_labelled_job_gets_a_workload():
    [create, event] = plan(job()).actions
    assert isinstance(create, Create)
    assert create.object["spec"]["queueName"] == "lq"
    assert event.message == f"Created Workload: ns/{create.object['metadata']['name']}"


def test_the_workload_has_the_labels_of_the_job_that_are_to_be_copied():
    policy = JobPolicy(waits_for_pods_ready=False, label_keys_to_copy=("team", "absent"))
    [create, _] = plan(job(labels={"team": "red", "other": "x"}), policy=policy).actions
    labels = create.object["metadata"]["labels"]
    assert labels["team"] == "red"
    assert not {"other", "absent"} & labels.keys()


def test_a_job_without_queue_name_is_left_alone():
    obj = job()
    del obj["metadata"]["labels"]
    assert plan(obj).actions == ()


def test_every_job_is_managed_when_so_configured():
    obj = job()
    del obj["metadata"]["labels"]
    assert plan(obj, policy=JobPolicy(manage_jobs_without_queue_name=True)).actions


def test_an_unmanaged_namespace_is_left_alone():
    policy = JobPolicy(namespace_selector={"matchLabels": {"managed": "yes"}})
    assert plan(job(), policy=policy).actions == ()


def test_an_admitted_job_starts_on_its_flavor():
    result = plan(job(), workload(job(), is_admitted=True))
    started = written(result, "Job")
    assert started["spec"]["suspend"] is False
    assert started["spec"]["template"]["spec"]["nodeSelector"] == {"pool": "gpu"}
    assert started["spec"]["template"]["metadata"]["labels"]["kueue.x-k8s.io/cluster-queue-name"] == "cq"
    assert events(result) == ["Started"]


def test_a_running_job_with_its_workload_needs_nothing():
    wl = workload(job(), is_admitted=True)
    running = written(plan(job(), wl), "Job")
    assert plan(running, wl).actions == ()


def test_a_conflict_with_the_template_is_permanent():
    obj = job()
    obj["spec"]["template"]["spec"]["nodeSelector"] = {"pool": "cpu"}
    result = plan(obj, workload(obj, is_admitted=True))
    assert conditions.find(written(result, "Workload"), "Finished")["reason"] == "FailedToStart"


def test_an_evicted_job_is_stopped_and_restored():
    wl = workload(job(), is_admitted=True)
    running = written(plan(job(), wl), "Job")
    running["status"] = {"startTime": "2026-01-15T12:00:00Z"}
    transitions.preempt(wl, reason="InClusterQueue", message="Preempted", now_ns=NOW)
    result = plan(running, wl)
    stopped = written(result, "Job")
    assert stopped["spec"] == job()["spec"] | {"template": stopped["spec"]["template"]}
    assert "nodeSelector" not in stopped["spec"]["template"]["spec"]
    assert "kueue.x-k8s.io/stopping" not in stopped["metadata"]["annotations"]
    assert "startTime" not in stopped["status"]


def test_a_template_is_restored_when_the_last_pod_is_gone():
    wl = workload(job(), is_admitted=True)
    running = written(plan(job(), wl), "Job")
    running["status"] = {"startTime": "2026-01-15T12:00:00Z", "active": 2}
    transitions.preempt(wl, reason="InClusterQueue", message="Preempted", now_ns=NOW)
    stopping = written(plan(running, wl), "Job")
    assert stopping["spec"] == running["spec"] | {"suspend": True}
    del stopping["status"]["active"]
    result = plan(stopping, wl)
    assert "nodeSelector" not in written(result, "Job")["spec"]["template"]["spec"]
    assert events(result) == []


def test_quota_is_kept_while_pods_are_active():
    wl = workload(job(), is_admitted=True)
    transitions.preempt(wl, reason="InClusterQueue", message="Preempted", now_ns=NOW)
    stopped = job()
    stopped["status"] = {"active": 1}
    assert plan(stopped, wl).actions == ()


def test_quota_goes_back_when_no_pod_is_active():
    wl = workload(job(), is_admitted=True)
    transitions.preempt(wl, reason="InClusterQueue", message="Preempted", now_ns=NOW)
    released = written(plan(job(), wl), "Workload")
    assert not predicates.has_quota_reservation(released)
    assert conditions.is_true(released, "Requeued")


def test_other_evictions_wait_before_they_queue_again():
    wl = workload(job(), is_admitted=True)
    transitions.evict(wl, reason="PodsReadyTimeout", message="late", now_ns=NOW)
    assert conditions.is_false_because(written(plan(job(), wl), "Workload"), "Requeued", "PodsReadyTimeout")


def test_a_job_that_is_resumed_while_it_stops_is_suspended_again():
    running = job(suspend=False, annotations={"kueue.x-k8s.io/stopping": "true"})
    running["status"] = {"active": 2, "startTime": "2026-01-15T11:00:00Z"}
    first = plan(running, workload(running)).actions[0]
    assert not first.status
    assert first.new["spec"]["suspend"] is True


def test_a_workload_deleted_with_an_earlier_job_of_the_same_name_loses_its_finalizer():
    earlier, again = job(), job()
    again["metadata"]["uid"] = "u2"
    outdated = workload(earlier)
    outdated["metadata"]["deletionTimestamp"] = "2026-01-15T12:00:00Z"
    assert written(plan(again, outdated), "Workload")["metadata"].get("finalizers", []) == []


def test_a_running_job_that_is_not_admitted_is_stopped():
    result = plan(job(suspend=False), workload(job()))
    assert written(result, "Job")["spec"]["suspend"] is True
    assert events(result) == ["Stopped"]


def test_growing_after_admission_stops_the_job():
    wl = workload(job(), is_admitted=True)
    running = written(plan(job(), wl), "Job")
    running["spec"]["parallelism"] = 5
    result = plan(running, wl)
    assert written(result, "Job")["spec"]["suspend"] is True
    assert any(isinstance(action, Delete) for action in result.actions)


def test_removing_the_label_of_a_running_job_leaves_its_workload_to_the_webhook():
    wl = workload(job(), is_admitted=True)
    running = written(plan(job(), wl), "Job")
    del running["metadata"]["labels"]
    assert plan(running, wl).actions == ()


def test_a_pending_job_may_change():
    changed = job(parallelism=3)
    result = plan(changed, workload(job()))
    assert written(result, "Workload")["spec"]["podSets"][0]["count"] == 3
    assert events(result) == ["UpdatedWorkload"]


def test_quantities_are_compared_by_value():
    other = job()
    other["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "1000m"
    assert plan(other, workload(job())).actions == ()


def test_the_queue_name_of_a_pending_job_may_change():
    moved = job(labels={"kueue.x-k8s.io/queue-name": "other"})
    assert written(plan(moved, workload(job())), "Workload")["spec"]["queueName"] == "other"


def test_a_finished_job_finishes_its_workload():
    done = job()
    done["status"] = {"conditions": [{"type": "Failed", "status": "True", "message": "boom"}]}
    finished = conditions.find(written(plan(done, workload(job(), is_admitted=True)), "Workload"), "Finished")
    assert (finished["reason"], finished["message"]) == ("Failed", "boom")


@pytest.mark.parametrize("finalizers", [["kueue.x-k8s.io/resource-in-use"], []])
def test_a_job_that_finishes_has_one_event(finalizers):
    done = job()
    done["status"] = {"conditions": [{"type": "Complete", "status": "True", "message": "done"}]}
    admitted = workload(job(), is_admitted=True)
    admitted["metadata"]["finalizers"] = finalizers
    finishing = plan(done, admitted)
    finished = written(finishing, "Workload")
    assert predicates.is_finished(finished)
    assert events(finishing) + events(plan(done, finished)) == ["FinishedWorkload"]


def test_a_deleted_job_lets_its_workload_go():
    [status, metadata] = plan(None, workload(job())).actions
    assert conditions.find(status.new, "Finished")["reason"] == "OwnerNotFound"
    assert "finalizers" not in metadata.new["metadata"]


def test_a_child_runs_only_while_its_ancestor_is_admitted():
    ancestor = {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "lq"}}}
    child = job(suspend=False)
    assert events(plan(child, ancestor=ancestor)) == ["Suspended"]
    assert plan(child, ancestor=ancestor, ancestor_workloads=(workload(job(), is_admitted=True),)).actions == ()


def test_a_child_of_an_elastic_ancestor_runs_while_the_ancestor_grows():
    elastic = {"kueue.x-k8s.io/elastic-job": "true"}
    ancestor = {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "lq"}, "annotations": elastic}}
    child = job(suspend=False)
    old, new = workload(job(), is_admitted=True), workload(job())
    assert plan(child, ancestor=ancestor, ancestor_workloads=(old, new)).actions == ()
    replaced = copy.deepcopy(old)
    transitions.finish(replaced, reason="WorkloadSliceReplaced", message="", now_ns=NOW)
    assert plan(child, ancestor=ancestor, ancestor_workloads=(replaced, new)).actions == ()
    conditions.put(new, "Evicted", status=True, reason="Preempted", message="", now_ns=NOW)
    assert events(plan(child, ancestor=ancestor, ancestor_workloads=(replaced, new))) == ["Suspended"]
    assert events(plan(child, ancestor=ancestor)) == ["Suspended"]


def test_a_deleted_slice_loses_its_finalizer_when_it_is_replaced():
    """Somebody deleted it while it still held the quota of the growing job."""
    obj = job(suspend=False, annotations={"kueue.x-k8s.io/elastic-job": "true"})
    first, second = (workload(obj, is_admitted=True) for _ in range(2))
    first["metadata"] |= {"name": "first", "uid": "w1", "deletionTimestamp": "2026-01-15T11:00:00Z"}
    transitions.finish(first, reason="WorkloadSliceReplaced", message="", now_ns=NOW)
    second["metadata"] |= {"name": "second", "uid": "w2"}
    policy = JobPolicy(waits_for_pods_ready=False, slices_workloads=True)
    [update] = plan(obj, first, second, policy=policy).actions
    assert update.new["metadata"]["name"] == "first"
    assert "finalizers" not in update.new["metadata"]


def test_partial_admission_runs_with_what_was_admitted():
    obj = job(annotations={"kueue.x-k8s.io/job-min-parallelism": "1"})
    wl = workload(obj, is_admitted=True)
    wl["status"]["admission"]["podSetAssignments"][0]["count"] = 1
    started = written(plan(obj, wl), "Job")
    assert started["spec"]["parallelism"] == 1
    assert plan(started, wl).actions == ()


def test_a_missing_workload_priority_class_is_an_error():
    with pytest.raises(construction.MissingPriorityClassError):
        plan(job(labels={"kueue.x-k8s.io/priority-class": "none"}))


def test_the_priority_class_label_is_followed():
    classes = context.PriorityClasses(workload={"high": {"metadata": {"name": "high"}, "value": 9}})
    obj = job(labels={"kueue.x-k8s.io/priority-class": "high"})
    wl = workload(obj)
    assert written(plan(obj, wl, classes=classes), "Workload")["spec"]["priority"] == 9


def test_a_foreign_prebuilt_workload_is_not_taken():
    obj = job(labels={"kueue.x-k8s.io/prebuilt-workload-name": "pre"})
    foreign = workload(job(), is_admitted=True)
    foreign["metadata"]["name"] = "pre"
    foreign["metadata"]["ownerReferences"][0]["uid"] = "someone else"
    assert all(not isinstance(action, Update) or action.resource.kind == "Job" for action in plan(obj, foreign).actions)


def test_an_out_of_sync_prebuilt_workload_is_finished():
    obj = job(labels={"kueue.x-k8s.io/prebuilt-workload-name": "pre"})
    wl = workload(job(parallelism=1))
    wl["metadata"]["name"] = "pre"
    assert conditions.find(written(plan(obj, wl), "Workload"), "Finished")["reason"] == "OutOfSync"


def test_a_job_deactivated_by_kueue_is_deleted_after_its_retention():
    wl = workload(job())
    wl["spec"]["active"] = False
    transitions.evict(wl, reason="Deactivated", cause="AdmissionCheck", message="", now_ns=NOW)
    policy = JobPolicy(waits_for_pods_ready=False, retain_deactivated_ns=5 * SECOND_NS)
    assert plan(job(), wl, policy=policy).requeue_after_ns == 5 * SECOND_NS
    late = plan(job(), wl, policy=policy, now_ns=NOW + 5 * SECOND_NS)
    assert isinstance(late.actions[0], Delete)


def test_pods_ready_is_told_before_anything_else():
    result = plan(job(), workload(job()), policy=JobPolicy())
    assert conditions.find(written(result, "Workload"), "PodsReady")["reason"] == "WaitForStart"


def test_reclaimable_pods_are_told():
    wl = workload(job(completions=2), is_admitted=True)
    running = written(plan(job(completions=2), wl), "Job")
    running["status"] = {"succeeded": 1}
    assert written(plan(running, wl), "Workload")["status"]["reclaimablePods"] == [{"name": "main", "count": 1}]


def test_names_of_workloads_are_kueues():
    assert construction.workload_name(JOB.resource, "victim", "u").startswith("job-victim-")
    assert len(construction.workload_name(JOB.resource, "x" * 300, "u")) == 253


def test_short_names_fit_into_a_label():
    name = construction.workload_name(JOB.resource, "x" * 300, "u", max_length=construction.SHORT_NAME_LENGTH)
    assert len(name) == 63
    assert name.startswith("job-xxx")
    assert construction.workload_name(JOB.resource, "a", "u") == construction.workload_name(
        JOB.resource, "a", "u", max_length=construction.SHORT_NAME_LENGTH
    )


def test_a_kind_that_suspends_elsewhere_is_stopped_in_one_write():
    torch = {
        "metadata": copy.deepcopy(job()["metadata"]),
        "spec": {"runPolicy": {"suspend": False}, "pytorchReplicaSpecs": {"Master": {"template": {"spec": {}}}}},
    }
    result = plan(torch, kind=PYTORCH)
    assert written(result, "PyTorchJob")["spec"]["runPolicy"]["suspend"] is True


def ray_service(*, deleted=True, **cluster):
    metadata = {"name": "r", "namespace": "ns", "uid": "u", "labels": {"kueue.x-k8s.io/queue-name": "lq"}}
    if deleted:
        metadata["deletionTimestamp"] = "2026-01-15T12:00:00Z"
    return {"metadata": metadata, "spec": {"rayClusterConfig": cluster}}


@pytest.mark.parametrize(
    ("defers", "cluster"), [(True, {}), (False, {"gcsFaultToleranceOptions": {"redisAddress": "r"}})]
)
def test_the_workload_of_a_deleted_ray_service_is_released(defers, cluster):
    policy = JobPolicy(defers_finalization=defers)
    result = plan(ray_service(**cluster), workload(job()), kind=registry.FRAMEWORKS["ray.io/rayservice"], policy=policy)
    assert result.actions


def test_the_workload_of_a_deleted_ray_service_stays_until_redis_is_clean():
    service = ray_service(gcsFaultToleranceOptions={"redisAddress": "r"})
    kind = registry.FRAMEWORKS["ray.io/rayservice"]
    assert plan(service, workload(job()), kind=kind).actions == ()
    assert plan(None, workload(job()), kind=kind).actions
