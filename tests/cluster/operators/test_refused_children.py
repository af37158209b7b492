"""An owner says so when the API refuses a child that its operator creates."""

import pytest
from tests.cluster.fake_api import FakeApi

from pykueue.api import conditions, errors, resources
from pykueue.cluster import refused_children
from pykueue.cluster.operators import job_set, leader_worker_set
from pykueue.cluster.operators.kubeflow import sync as training
from pykueue.cluster.operators.kubeflow.frameworks import FRAMEWORKS
from pykueue.cluster.operators.ray import cluster as ray_cluster
from pykueue.cluster.operators.ray import job as ray_job
from pykueue.cluster.operators.ray import service as ray_service
from pykueue.kube.controller import writes

TEMPLATE = {"metadata": {}, "spec": {"containers": [{"name": "main", "image": "x"}]}}
RAY_CLUSTER = {"headGroupSpec": {"rayStartParams": {}, "template": TEMPLATE}}
SPECS = {
    "JobSet": {"replicatedJobs": [{"name": "w", "template": {"spec": {"template": TEMPLATE}}}]},
    "LeaderWorkerSet": {"leaderWorkerTemplate": {"size": 2, "workerTemplate": TEMPLATE}},
    "RayCluster": RAY_CLUSTER,
    "RayService": {"rayClusterConfig": RAY_CLUSTER},
    "RayJob": {"entrypoint": "true", "rayClusterSpec": RAY_CLUSTER},
    "PyTorchJob": {"pytorchReplicaSpecs": {"Worker": {"replicas": 1, "template": TEMPLATE}}},
}
PYTORCH = next(framework for framework in FRAMEWORKS if framework.kind == "PyTorchJob")
SYNCS = {
    "JobSet": (resources.JOB_SET, job_set.sync),
    "LeaderWorkerSet": (resources.LEADER_WORKER_SET, leader_worker_set.sync),
    "RayCluster": (resources.RAY_CLUSTER, ray_cluster.sync),
    "RayService": (resources.RAY_SERVICE, ray_service.sync),
    "RayJob": (resources.RAY_JOB, ray_job.sync),
    "PyTorchJob": (PYTORCH.resource, training.reconciler(PYTORCH)),
}


class Owner:
    """An owner of a kind, whose children the API refuses while `is_refusing`."""

    def __init__(self, kind):
        self.api = FakeApi()
        self.is_refusing = True
        self.api.refuse = lambda write: self.is_refusing and isinstance(write, writes.Create)
        self._kind = kind
        resource, sync = SYNCS[kind]
        self._sync = refused_children.reporting(resource, sync)
        self.api.add({"apiVersion": resource.api_version, "kind": kind, "metadata": {"name": "o"}, "spec": SPECS[kind]})

    @property
    def object(self):
        return self.api.get(self._kind, "o")

    def sync(self):
        children = [
            child
            for (kind, _), child in self.api.objects.items()
            if kind != self._kind and child["metadata"].get("ownerReferences")
        ]
        return self.api.run(self._sync(self.object, children, self.api.now))

    def sync_until_stable(self):
        version = None
        while version != self.object["metadata"]["resourceVersion"]:
            version = self.object["metadata"]["resourceVersion"]
            done = self.sync()
        return done

    @property
    def report(self):
        if self._kind == "RayJob":
            return self.object["status"].get("message", "")
        return (conditions.find(self.object, "ReplicaFailure") or {}).get("message", "")


@pytest.mark.parametrize("kind", SYNCS)
def test_a_refused_child_is_reported(kind):
    owner = Owner(kind)
    done = owner.sync_until_stable()
    assert done.errors
    assert "forbidden" in owner.report
    failures = {event for event in owner.api.events if event[0] == "Warning"}
    assert {reason for _, reason, _ in failures} == {"FailedCreate"}
    assert all("forbidden" in message for _, _, message in failures)


@pytest.mark.parametrize("kind", SYNCS)
def test_the_report_goes_when_the_child_is_created(kind):
    owner = Owner(kind)
    owner.sync_until_stable()
    owner.is_refusing = False
    owner.sync()
    assert owner.report == ""


def test_a_conflict_is_no_refusal():
    owner = Owner("JobSet")
    sync = refused_children.reporting(resources.JOB_SET, job_set.sync)(owner.object, [], owner.api.now)
    (creation,) = next(sync)
    assert isinstance(creation, writes.Create)
    batch = sync.send([writes.Refused(errors.conflict("batch", "jobs", "o-w-0", "exists"))])
    assert "ReplicaFailure" not in str(batch)
    assert "FailedCreate" not in str(batch)
