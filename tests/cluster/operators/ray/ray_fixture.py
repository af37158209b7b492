"""Ray objects, their syncs, and their Jobs and pods on a fake API."""

import copy

from tests.cluster.fake_api import FakeApi

from pykueue.api import objects
from pykueue.cluster import pods
from pykueue.cluster.operators.ray import cluster, job, service


def template(cpu="1", memory="4G", gpu=None, containers=1):
    resources = {"requests": {"cpu": cpu, "memory": memory}}
    if gpu:
        resources["limits"] = {"nvidia.com/gpu": gpu}
    extra = [{"name": f"side-{number}", "image": "x"} for number in range(containers - 1)]
    return {"spec": {"containers": [{"name": "ray", "image": "rayproject/ray", "resources": resources}, *extra]}}


def cluster_spec(replicas=2, **head):
    worker = {
        "groupName": "small-group-test",
        "replicas": replicas,
        "rayStartParams": {},
        "template": template("2", "6G"),
    }
    return {
        "headGroupSpec": {"rayStartParams": {"dashboard-host": "0.0.0.0"}, "template": template("2", "4G", **head)},
        "workerGroupSpecs": [worker],
    }


SERVE = """
applications:
- name: fruit
  import_path: fruit:app
"""


class RayFixture:
    def __init__(self):
        self.api = FakeApi()

    def add_cluster(self, name="raycluster-dev", **spec):
        self.api.add(
            {
                "apiVersion": "ray.io/v1",
                "kind": "RayCluster",
                "metadata": {"name": name},
                "spec": cluster_spec() | spec,
            }
        )
        return self

    def add_job(self, name="dev", **spec):
        self.api.add(
            {
                "apiVersion": "ray.io/v1",
                "kind": "RayJob",
                "metadata": {"name": name},
                "spec": {"entrypoint": "python train.py; sleep 30", "rayClusterSpec": cluster_spec(1)} | spec,
            }
        )
        return self

    def add_service(self, name="app", **spec):
        self.api.add(
            {
                "apiVersion": "ray.io/v1",
                "kind": "RayService",
                "metadata": {"name": name},
                "spec": {"serveConfigV2": SERVE, "rayClusterConfig": cluster_spec(1)} | spec,
            }
        )
        return self

    def one(self, kind):
        (only,) = self.api.of(kind)
        return self.api.get(kind, objects.name(only))

    def sync(self, times=4):
        for _ in range(times):
            for kind, sync, children in (
                ("RayJob", job.sync, ("RayCluster", "Job")),
                ("RayService", service.sync, ("RayCluster", "Job", "Service")),
                ("RayCluster", cluster.sync, ("Pod", "Service")),
            ):
                for owner in self.api.of(kind):
                    owned = [
                        child
                        for name in children
                        for child in self.api.of(name)
                        if objects.is_controlled_by(child, owner)
                    ]
                    self.api.run(sync(copy.deepcopy(owner), owned, self.api.now))
        return self

    def start_pods(self):
        for pod in self.api.of("Pod"):
            if pods.phase(pod) == "Pending":
                self.api.start_pod(pod)
        return self.sync()

    def collect(self):
        """Remove what the garbage collector and kubelets would remove."""
        owners = {objects.uid(obj) for obj in self.api.objects.values()}
        for kind, name in list(self.api.objects):
            obj = self.api.objects[kind, name]
            reference = objects.controller_of(obj)
            if objects.is_deleted(obj) or (reference and reference["uid"] not in owners):
                del self.api.objects[kind, name]
        return self.sync()

    def end_submitter(self, type_="Complete"):
        job_object = self.one("Job")
        job_object["status"] = {"conditions": [{"type": type_, "status": "True", "message": "because"}]}
        return self.sync()
