"""Nodes, pods and scheduling passes on a fake API."""

from tests.cluster.fake_api import FakeApi

from pykueue.api import conditions, objects
from pykueue.cluster import pods
from pykueue.cluster.scheduler import scheduling_pass
from pykueue.cluster.scheduler.fleet import Fleet


def node(name, labels=None, taints=(), **allocatable):
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name} | (labels or {})},
        "spec": {"taints": list(taints)},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi"} | allocatable},
    }


def pod(name, requests=None, labels=None, **spec):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"containers": [{"name": "main", "resources": {"requests": requests or {}}}]} | spec,
        "status": {"phase": "Pending"},
    }


class SchedulerFixture:
    def __init__(self, *nodes):
        self.api = FakeApi()
        self.fleet = Fleet()
        for node_object in nodes:
            self.fleet.set_node(self.api.add(node_object))

    def schedule(self, *new):
        for pod_object in new:
            self.api.add(pod_object)
        for pod_object in self.api.of("Pod"):
            self.fleet.set_pod(pod_object)
        waiting = filter(scheduling_pass.is_waiting, self.api.of("Pod"))
        self.api.run(scheduling_pass.schedule(waiting, self.fleet, self.api.now))
        return self

    def node_names(self):
        return {objects.name(pod_object): pods.node_name(pod_object) for pod_object in self.api.of("Pod")}

    def message(self, name):
        return conditions.find(self.api.get("Pod", name), "PodScheduled")["message"]
