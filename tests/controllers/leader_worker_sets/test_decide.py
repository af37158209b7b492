import copy

from pykueue.api import objects
from pykueue.controllers.jobs.context import JobContext, PriorityClasses
from pykueue.controllers.leader_worker_sets import decide as groups
from pykueue.kube.controller.writes import Create, Delete, Update
from pykueue.translate.jobs import pods
from pykueue.translate.jobs.framework import JobOptions

QUEUE = "kueue.x-k8s.io/queue-name"
PRIORITY = "kueue.x-k8s.io/priority-class"
GATED = {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}, {"name": "mine"}]}


def template(cpu):
    return {
        "metadata": {"labels": {"app": "llm"}, "annotations": {"leaderworkerset.sigs.k8s.io/size": "3"}},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]},
    }


def leader_worker_set(*, replicas=1, leader=True, labels=None, **more):
    templates = {"size": 3, "workerTemplate": template("2")} | ({"leaderTemplate": template("1")} if leader else {})
    labels = {QUEUE: "lq"} | (labels or {})
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "llm", "namespace": "ns", "uid": "u", "labels": labels},
        "spec": {"replicas": replicas, "leaderWorkerTemplate": templates},
    } | more


def job_context(*workloads, **classes):
    return JobContext(kind=pods.FRAMEWORK, job=None, workloads=workloads, classes=PriorityClasses(workload=classes))


def workloads(count):
    return [groups.workload_of(job_context(), leader_worker_set(), index) for index in range(count)]


def pod(annotations=None, **labels):
    names = {f"leaderworkerset.sigs.k8s.io/{name}": value for name, value in labels.items()}
    return {"metadata": {"name": "p", "labels": names, "annotations": annotations or {}}, "spec": GATED}


def counts(pod_sets):
    return [(pod_set["name"], pod_set["count"]) for pod_set in pod_sets]


def test_a_group_is_a_leader_and_its_workers():
    assert counts(groups.pod_sets(leader_worker_set(), JobOptions())) == [("leader", 1), ("worker", 2)]


def test_without_a_leader_template_all_pods_are_alike():
    assert counts(groups.pod_sets(leader_worker_set(leader=False), JobOptions())) == [("main", 3)]


def test_what_the_operator_notes_in_templates_is_not_shown():
    [leader, _] = groups.pod_sets(leader_worker_set(), JobOptions())
    assert leader["template"]["metadata"] == {"labels": {"app": "llm"}, "annotations": {}}


def test_workers_are_ranked_by_their_index():
    [leader, worker] = groups.pod_sets(leader_worker_set(), JobOptions())
    assert "topologyRequest" not in leader
    assert worker["topologyRequest"] == {"podIndexLabel": "leaderworkerset.sigs.k8s.io/worker-index"}


def test_every_replica_gets_a_workload_of_its_own():
    created = [
        action.object
        for action in groups.plan(job_context(), leader_worker_set(replicas=2))
        if isinstance(action, Create)
    ]
    indexes = [workload["metadata"]["annotations"]["kueue.x-k8s.io/component-workload-index"] for workload in created]
    assert indexes == ["0", "1"]
    assert len({workload["metadata"]["name"] for workload in created}) == 2


def test_the_set_owns_its_workloads_but_does_not_control_them():
    [workload] = workloads(1)
    assert objects.controller_of(workload) is None
    assert workload["metadata"]["ownerReferences"][0]["kind"] == "LeaderWorkerSet"


def test_scaling_down_deletes_the_workloads_of_the_last_groups():
    first, second = workloads(2)
    released, deleted = groups.plan(job_context(first, second), leader_worker_set(replicas=1))
    assert "finalizers" not in released.new["metadata"]
    assert isinstance(deleted, Delete)
    assert deleted.object["metadata"]["name"] == second["metadata"]["name"]


def test_groups_that_a_rollout_adds_have_workloads_too():
    rollout = leader_worker_set(replicas=2, status={"replicas": 3, "updatedReplicas": 1})
    rollout["spec"]["rolloutStrategy"] = {"rollingUpdateConfiguration": {"maxSurge": 1}}
    assert groups.compare_workloads(rollout, ()).missing == (0, 1, 2)


def test_a_scale_down_does_not_wait_for_the_status():
    shrinking = leader_worker_set(replicas=1, status={"replicas": 3, "updatedReplicas": 1})
    assert groups.compare_workloads(shrinking, ()).missing == (0,)


def test_workloads_follow_their_set_to_another_queue():
    [write] = groups.plan(job_context(*workloads(1)), leader_worker_set(labels={QUEUE: "other"}))
    assert write.new["spec"]["queueName"] == "other"


def test_workloads_follow_a_change_of_the_priority_class():
    case = job_context(*workloads(1), high={"value": 9})
    [write, _] = groups.plan(case, leader_worker_set(labels={PRIORITY: "high"}))
    assert isinstance(write, Update)
    assert (write.new["spec"]["priorityClassRef"]["name"], write.new["spec"]["priority"]) == ("high", 9)


def test_pods_become_members_of_their_group():
    member = groups.with_group_labels(
        pod({"leaderworkerset.sigs.k8s.io/leader-name": "llm-0"}, **{"group-index": "1"}), leader_worker_set()
    )
    annotations = member["metadata"]["annotations"]
    assert annotations["kueue.x-k8s.io/pod-group-name"] == groups.workload_name(leader_worker_set(), 1)
    assert annotations["kueue.x-k8s.io/pod-group-total-count"] == "3"
    assert annotations["kueue.x-k8s.io/role-hash"] == "worker"


def test_the_pod_that_names_no_leader_is_the_leader():
    member = groups.with_group_labels(pod(**{"group-index": "0"}), leader_worker_set())
    assert member["metadata"]["annotations"]["kueue.x-k8s.io/role-hash"] == "leader"


def test_a_pod_is_not_marked_before_its_group_is_known():
    unknown = pod(name="llm")
    assert groups.with_group_labels(copy.deepcopy(unknown), leader_worker_set()) == unknown


def test_a_waiting_pod_of_an_old_revision_is_let_go():
    old = pod()
    old["metadata"]["labels"]["controller-revision-hash"] = "one"
    assert groups.is_outdated(old, {"status": {"currentRevision": "one", "updateRevision": "two"}})
    assert groups.ungated(old)["spec"] == {"schedulingGates": [{"name": "mine"}]}
