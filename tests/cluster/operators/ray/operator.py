"""Ray objects, their syncs and the Jobs and pods under them in a small world."""

import copy

from tests.cluster.world import World

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


class Operator:
    def __init__(self):
        self.world = World()

    def add_cluster(self, name="raycluster-dev", **spec):
        self.world.add(
            {
                "apiVersion": "ray.io/v1",
                "kind": "RayCluster",
                "metadata": {"name": name},
                "spec": cluster_spec() | spec,
            }
        )
        return self

    def add_job(self, name="dev", **spec):
        self.world.add(
            {
                "apiVersion": "ray.io/v1",
                "kind": "RayJob",
                "metadata": {"name": name},
                "spec": {"entrypoint": "python train.py; sleep 30", "rayClusterSpec": cluster_spec(1)} | spec,
            }
        )
        return self

    def add_service(self, name="app", **spec):
        self.world.add(
            {
                "apiVersion": "ray.io/v1",
                "kind": "RayService",
                "metadata": {"name": name},
                "spec": {"serveConfigV2": SERVE, "rayClusterConfig": cluster_spec(1)} | spec,
            }
        )
        return self

    def one(self, kind):
        (found,) = self.world.of(kind)
        return self.world.get(kind, objects.name(found))

    def sync(self, times=4):
        for _ in range(times):
            for kind, sync, children in (
                ("RayJob", job.sync, ("RayCluster", "Job")),
                ("RayService", service.sync, ("RayCluster", "Job", "Service")),
                ("RayCluster", cluster.sync, ("Pod", "Service")),
            ):
                for owner in self.world.of(kind):
                    owned = [
                        child
                        for name in children
                        for child in self.world.of(name)
                        if objects.is_controlled_by(child, owner)
                    ]
                    self.world.run(sync(copy.deepcopy(owner), owned, self.world.now))
        return self

    def start_pods(self):
        for pod in self.world.of("Pod"):
            if pods.phase(pod) == "Pending":
                self.world.start_pod(pod)
        return self.sync()

    def collect(self):
        """What the garbage collector and kubelets would remove."""
        owners = {objects.uid(obj) for obj in self.world.objects.values()}
        for kind, name in list(self.world.objects):
            obj = self.world.objects[kind, name]
            reference = objects.controller_of(obj)
            if objects.is_deleted(obj) or (reference and reference["uid"] not in owners):
                del self.world.objects[kind, name]
        return self.sync()

    def end_submitter(self, type_="Complete"):
        found = self.one("Job")
        found["status"] = {"conditions": [{"type": type_, "status": "True", "message": "because"}]}
        return self.sync()
