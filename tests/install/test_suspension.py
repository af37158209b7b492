"""The policies and the rules of the embedded API change a created job in the same way."""

import copy

import pytest
from tests.install import job_objects, policy_mutations, policy_verdicts
from tests.install.job_objects import JOBS, changed, marked, placed

from pykueue.api.rules import table
from pykueue.api.scheme import AdmissionRequest, Settings

ROLE_HASH = "kueue.x-k8s.io/role-hash"
PARENT, INDEX = "kueue.x-k8s.io/pod-suspending-parent", "kueue.x-k8s.io/pod-group-pod-index-label"
PARENTS = (
    ("ray.io/v1", "RayJob"),
    ("jobset.x-k8s.io/v1alpha2", "JobSet"),
    ("batch/v1", "Job"),
    ("apps/v1", "StatefulSet"),
)
STRANGERS = (("batch/v1", "CronJob"), ("v1", "ReplicationController"), ("apps/v1", "ReplicaSet"))
KINDS = (
    "Job", "Pod", "Deployment", "StatefulSet", "LeaderWorkerSet", "RayCluster", "RayService", "JobSet", "PyTorchJob", "MPIJob",
    "AppWrapper", "TrainJob", "SparkApplication",
)  # fmt: skip
OF_KUEUE = {*JOBS, "Namespace"}


class Cluster:
    """The parents of jobs, all of which have a queue, and perhaps a default queue and class."""

    def __init__(self, *, has_defaults):
        self.has_defaults = has_defaults

    def get(self, resource, namespace, name):
        if resource.kind in ("LocalQueue", "WorkloadPriorityClass"):
            return {"metadata": {"name": name}} if self.has_defaults and name == "default" else None
        return (
            {"metadata": {"name": name, "uid": "u", "labels": {job_objects.QUEUE: "q"}}}
            if resource.kind in OF_KUEUE
            else {}
        )

    def list(self, resource, namespace=""):
        return []


def owned(job, api_version, kind):
    owner = {"apiVersion": api_version, "kind": kind, "name": "parent", "uid": "u", "controller": True}
    return changed(job, ("metadata", "ownerReferences"), [owner])


def by_policies(obj, old=None, of=None, *, has_defaults=False):
    parameters = ("LocalQueue", "WorkloadPriorityClass") if has_defaults else ()
    return without_hash(policy_mutations.applied(policy_verdicts.policies(of), obj, old, parameters=parameters))


def by_rules(obj, old=None, of=None, *, has_defaults=False):
    obj = copy.deepcopy(obj)
    operation = "CREATE" if old is None else "UPDATE"
    lookup = Cluster(has_defaults=has_defaults)
    table.webhook_of(*policy_verdicts.group_and_kind(obj)).defaulter(
        AdmissionRequest(
            operation=operation, object=obj, old=old, lookup=lookup, settings=of or policy_verdicts.settings()
        )
    )
    return without_hash(obj)


def without_hash(pod):
    """CEL has no hash function."""
    pod["metadata"].get("annotations", {}).pop(ROLE_HASH, None)
    return pod


LABELS = (
    {},
    {"a": "b"},
    {job_objects.QUEUE: ""},
    {job_objects.QUEUE: "q"},
    {job_objects.QUEUE: "q", job_objects.CLASS: "high"},
)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("has_defaults", [True, False])
def test_policies_make_of_a_new_job_what_the_rules_make(kind, has_defaults):
    created = [marked(JOBS[kind], labels) for labels in LABELS]
    admitted = [by_policies(job, has_defaults=has_defaults) for job in created]
    assert admitted == [by_rules(job, has_defaults=has_defaults) for job in created]


@pytest.mark.parametrize("kind", ["Job", "Pod", "RayCluster"])
@pytest.mark.parametrize("owner", [*PARENTS, *STRANGERS])
def test_policies_leave_to_an_owner_what_the_rules_leave(kind, owner):
    job = owned(JOBS[kind], *owner)
    assert by_policies(job) == by_rules(job)


SPECIAL = {
    "elastic job": marked(JOBS["Job"], None, {job_objects.ELASTIC: "true"}),
    "elastic cluster": marked(JOBS["RayCluster"], None, {job_objects.ELASTIC: "true"}),
    "elastic service": marked(JOBS["RayService"], None, {job_objects.ELASTIC: "true"}),
    "pod of a parent": marked(JOBS["Pod"], {}, {PARENT: "deployment"}),
    "pod with an index": marked(JOBS["Pod"], {job_objects.QUEUE: "q", "app/index": "7"}, {INDEX: "app/index"}),
    "pod without its index": marked(JOBS["Pod"], None, {INDEX: "app/index"}),
    "pod with another gate": changed(JOBS["Pod"], ("spec", "schedulingGates"), [{"name": "mine"}]),
    "stateful set of another": changed(
        JOBS["StatefulSet"], ("spec", "template", "metadata", "annotations"), {PARENT: "another"}
    ),
    "workers alone": changed(JOBS["LeaderWorkerSet"], ("spec", "leaderWorkerTemplate", "leaderTemplate"), None),
    "group of leader and workers": placed(JOBS["LeaderWorkerSet"], {job_objects.TOGETHER: "g"}),
    "working launcher": changed(JOBS["MPIJob"], ("spec", "runLauncherAsWorker"), True),
    "grouped launcher": placed(
        changed(JOBS["MPIJob"], ("spec", "runLauncherAsWorker"), True), {job_objects.TOGETHER: "g"}
    ),
    "patched train job": changed(JOBS["TrainJob"], ("spec", "runtimePatches"), [{"manager": "mine"}]),
}


@pytest.mark.parametrize("name", SPECIAL)
def test_policies_add_what_the_rules_add(name):
    assert by_policies(SPECIAL[name]) == by_rules(SPECIAL[name])


@pytest.mark.parametrize(
    "gate", ["-TopologyAwareScheduling", "-ElasticJobsViaWorkloadSlices", "WorkloadPriorityClassDefaulting"]
)
def test_a_gate_is_the_same_to_policies_and_rules(gate):
    of = policy_verdicts.settings(gate)
    admitted = [by_policies(job, of=of, has_defaults=True) for job in SPECIAL.values()]
    assert admitted == [by_rules(job, of=of, has_defaults=True) for job in SPECIAL.values()]


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "LeaderWorkerSet"])
def test_what_gets_a_queue_later_is_marked_later(kind):
    old = marked(JOBS[kind], {})
    assert by_policies(JOBS[kind], old) == by_rules(JOBS[kind], old) != JOBS[kind]


def test_all_jobs_are_suspended_where_all_are_managed():
    of = policy_verdicts.settings(manages_all=True)
    created = [marked(JOBS[kind], {}) for kind in KINDS]
    assert [by_policies(job, of=of) for job in created] == [by_rules(job, of=of) for job in created]


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_changed_twice(kind):
    once = by_policies(JOBS[kind])
    assert by_policies(once) == once


def test_only_what_depends_on_other_objects_may_fail_quietly():
    policies = [policy for policy in policy_verdicts.policies() if policy["kind"] == "MutatingAdmissionPolicy"]
    quiet = [policy["spec"]["failurePolicy"] == "Ignore" for policy in policies]
    assert quiet == ["paramKind" in policy["spec"] for policy in policies]


def test_a_described_kind_is_known_by_its_plural():
    key = ("example.com", "Mouse")
    settings = Settings(frameworks=frozenset(), custom_jobs={key: ("spec", "halt")}, custom_plurals={key: "mice"})
    (policy, *_) = (policy for policy in policy_verdicts.policies(settings) if "example" in policy["metadata"]["name"])
    rule = policy["spec"]["matchConstraints"]["resourceRules"][0]
    assert (rule["resources"], rule["apiVersions"]) == (["mice"], ["*"])
