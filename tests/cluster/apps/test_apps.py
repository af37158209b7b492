import copy

from tests.cluster.world import World

from pykueue.api import conditions, objects
from pykueue.cluster import pods
from pykueue.cluster.apps import deployment, replica_set, stateful_set

TEMPLATE = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "nginx"}]}}


class Garden:
    """One owner of pods in a small world; a Deployment's ReplicaSets are synced with it."""

    def __init__(self, kind, **spec):
        self.world = World()
        self.kind = kind
        selector = {"matchLabels": {"app": "web"}}
        self.world.add(
            {
                "apiVersion": "apps/v1",
                "kind": kind,
                "metadata": {"name": "web"},
                "spec": {"replicas": 2, "selector": selector, "template": copy.deepcopy(TEMPLATE)} | spec,
            }
        )

    @property
    def owner(self):
        return self.world.get(self.kind, "web")

    @property
    def status(self):
        return self.owner["status"]

    def names(self):
        return sorted(objects.name(pod) for pod in self.world.of("Pod"))

    def sync(self, module):
        children = self.world.of("ReplicaSet" if self.kind == "Deployment" else "Pod")
        self.world.run(module.sync(copy.deepcopy(self.owner), children, self.world.now))
        if self.kind == "Deployment":
            for found in self.world.of("ReplicaSet"):
                owned = [pod for pod in self.world.of("Pod") if objects.is_controlled_by(pod, found)]
                self.world.run(replica_set.sync(found, owned, self.world.now))
        return self

    def start_all(self):
        for pod in self.world.of("Pod"):
            if pods.phase(pod) == "Pending":
                self.world.start_pod(pod)
        return self

    def finish_deleted(self):
        for pod in self.world.of("Pod"):
            if objects.is_deleted(pod):
                self.world.end_pod(pod)
        return self


def test_a_replica_set_keeps_its_number_of_pods():
    garden = Garden("ReplicaSet").sync(replica_set)
    assert len(garden.names()) == 2
    garden.owner["spec"]["replicas"] = 1
    assert len(garden.sync(replica_set).names()) == 1


def test_a_replica_set_replaces_a_finished_pod():
    garden = Garden("ReplicaSet").sync(replica_set)
    garden.world.end_pod(garden.world.of("Pod")[0], 1)
    garden.sync(replica_set)
    assert len([pod for pod in garden.world.of("Pod") if pods.is_active(pod)]) == 2


def test_a_replica_set_counts_ready_pods():
    garden = Garden("ReplicaSet").sync(replica_set).start_all().sync(replica_set)
    assert (garden.status["replicas"], garden.status["readyReplicas"]) == (2, 2)


def test_a_deployment_makes_a_replica_set_named_by_its_template():
    garden = Garden("Deployment").sync(deployment)
    (found,) = garden.world.of("ReplicaSet")
    assert objects.name(found) == f"web-{objects.labels(found)['pod-template-hash']}"
    assert len(garden.names()) == 2


def test_a_deployment_with_ready_pods_is_available():
    garden = Garden("Deployment").sync(deployment).start_all().sync(deployment).sync(deployment)
    assert conditions.is_true(garden.owner, "Available")
    assert conditions.find(garden.owner, "Progressing")["reason"] == "NewReplicaSetAvailable"


def test_a_new_template_rolls_out_until_the_old_pods_are_gone():
    garden = Garden("Deployment").sync(deployment).start_all().sync(deployment)
    garden.owner["spec"]["template"]["spec"]["containers"][0]["image"] = "nginx:2"
    for _ in range(12):
        garden.sync(deployment).finish_deleted().start_all()
    images = {pod["spec"]["containers"][0]["image"] for pod in garden.world.of("Pod") if pods.is_active(pod)}
    assert images == {"nginx:2"}
    assert garden.status["updatedReplicas"] == 2


def test_recreate_ends_the_old_pods_before_the_new_start():
    garden = Garden("Deployment", strategy={"type": "Recreate"}).sync(deployment).start_all().sync(deployment)
    garden.owner["spec"]["template"]["spec"]["containers"][0]["image"] = "nginx:2"
    garden.sync(deployment).sync(deployment)
    assert {pod["spec"]["containers"][0]["image"] for pod in garden.world.of("Pod")} == {"nginx"}


def test_a_stateful_set_starts_its_pods_in_order():
    garden = Garden("StatefulSet").sync(stateful_set).sync(stateful_set)
    assert garden.names() == ["web-0"]
    assert garden.start_all().sync(stateful_set).names() == ["web-0", "web-1"]


def test_a_parallel_stateful_set_starts_them_at_once():
    garden = Garden("StatefulSet", podManagementPolicy="Parallel").sync(stateful_set)
    assert garden.names() == ["web-0", "web-1"]


def test_a_stateful_set_shrinks_from_the_top():
    garden = Garden("StatefulSet", podManagementPolicy="Parallel").sync(stateful_set)
    garden.owner["spec"]["replicas"] = 1
    assert garden.sync(stateful_set).names() == ["web-0"]
