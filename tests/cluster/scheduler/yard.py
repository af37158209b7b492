"""Nodes, pods and one scheduling pass in a small world."""

from tests.cluster.world import World

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


class Yard:
    def __init__(self, *nodes):
        self.world = World()
        self.fleet = Fleet()
        for found in nodes:
            self.fleet.set_node(self.world.add(found))

    def place(self, *new):
        for found in new:
            self.world.add(found)
        for found in self.world.of("Pod"):
            self.fleet.set_pod(found)
        waiting = filter(scheduling_pass.is_waiting, self.world.of("Pod"))
        self.world.run(scheduling_pass.place(waiting, self.fleet, self.world.now))
        return self

    def where(self):
        return {objects.name(found): pods.node_name(found) for found in self.world.of("Pod")}

    def why(self, name):
        return conditions.find(self.world.get("Pod", name), "PodScheduled")["message"]
