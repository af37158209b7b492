import copy

from tests.cluster.fake_api import FakeApi

from pykueue.api import conditions, objects
from pykueue.cluster import pods
from pykueue.cluster.apps import deployment, replica_set, stateful_set

TEMPLATE = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "nginx"}]}}


class AppsFixture:
    """One owner of pods on a fake API; a Deployment's ReplicaSets are synced with it."""

    def __init__(self, kind, **spec):
        self.api = FakeApi()
        self.kind = kind
        selector = {"matchLabels": {"app": "web"}}
        self.api.add(
            {
                "apiVersion": "apps/v1",
                "kind": kind,
                "metadata": {"name": "web"},
                "spec": {"replicas": 2, "selector": selector, "template": copy.deepcopy(TEMPLATE)} | spec,
            }
        )

    @property
    def owner(self):
        return self.api.get(self.kind, "web")

    @property
    def status(self):
        return self.owner["status"]

    def names(self):
        return sorted(objects.name(pod) for pod in self.api.of("Pod"))

    def sync(self, module):
        children = self.api.of("ReplicaSet" if self.kind == "Deployment" else "Pod")
        self.api.run(module.sync(copy.deepcopy(self.owner), children, self.api.now))
        if self.kind == "Deployment":
            for child in self.api.of("ReplicaSet"):
                owned = [pod for pod in self.api.of("Pod") if objects.is_controlled_by(pod, child)]
                self.api.run(replica_set.sync(child, owned, self.api.now))
        return self

    def start_all(self):
        for pod in self.api.of("Pod"):
            if pods.phase(pod) == "Pending":
                self.api.start_pod(pod)
        return self

    def finish_deleted(self):
        for pod in self.api.of("Pod"):
            if objects.is_deleted(pod):
                self.api.end_pod(pod)
        return self


def test_a_replica_set_keeps_its_number_of_pods():
    fixture = AppsFixture("ReplicaSet").sync(replica_set)
    assert len(fixture.names()) == 2
    fixture.owner["spec"]["replicas"] = 1
    assert len(fixture.sync(replica_set).names()) == 1


def test_a_replica_set_replaces_a_finished_pod():
    fixture = AppsFixture("ReplicaSet").sync(replica_set)
    fixture.api.end_pod(fixture.api.of("Pod")[0], 1)
    fixture.sync(replica_set)
    assert len([pod for pod in fixture.api.of("Pod") if pods.is_active(pod)]) == 2


def test_a_replica_set_counts_ready_pods():
    fixture = AppsFixture("ReplicaSet").sync(replica_set).start_all().sync(replica_set)
    assert (fixture.status["replicas"], fixture.status["readyReplicas"]) == (2, 2)


def test_a_replication_controller_keeps_its_number_of_pods():
    fixture = AppsFixture("ReplicationController").sync(replica_set).start_all().sync(replica_set)
    assert len(fixture.names()) == 2
    assert fixture.status == {
        "replicas": 2,
        "fullyLabeledReplicas": 2,
        "readyReplicas": 2,
        "availableReplicas": 2,
        "observedGeneration": 1,
    }


def test_a_deployment_makes_a_replica_set_named_by_its_template():
    fixture = AppsFixture("Deployment").sync(deployment)
    (child,) = fixture.api.of("ReplicaSet")
    assert objects.name(child) == f"web-{objects.labels(child)['pod-template-hash']}"
    assert len(fixture.names()) == 2


def test_a_deployment_with_ready_pods_is_available():
    fixture = AppsFixture("Deployment").sync(deployment).start_all().sync(deployment).sync(deployment)
    assert conditions.is_true(fixture.owner, "Available")
    assert conditions.find(fixture.owner, "Progressing")["reason"] == "NewReplicaSetAvailable"


def test_a_new_template_rolls_out_until_the_old_pods_are_gone():
    fixture = AppsFixture("Deployment").sync(deployment).start_all().sync(deployment)
    fixture.owner["spec"]["template"]["spec"]["containers"][0]["image"] = "nginx:2"
    for _ in range(12):
        fixture.sync(deployment).finish_deleted().start_all()
    images = {pod["spec"]["containers"][0]["image"] for pod in fixture.api.of("Pod") if pods.is_active(pod)}
    assert images == {"nginx:2"}
    assert fixture.status["updatedReplicas"] == 2


def test_recreate_ends_the_old_pods_before_the_new_start():
    fixture = AppsFixture("Deployment", strategy={"type": "Recreate"}).sync(deployment).start_all().sync(deployment)
    fixture.owner["spec"]["template"]["spec"]["containers"][0]["image"] = "nginx:2"
    fixture.sync(deployment).sync(deployment)
    assert {pod["spec"]["containers"][0]["image"] for pod in fixture.api.of("Pod")} == {"nginx"}


def test_a_stateful_set_starts_its_pods_in_order():
    fixture = AppsFixture("StatefulSet").sync(stateful_set).sync(stateful_set)
    assert fixture.names() == ["web-0"]
    assert fixture.start_all().sync(stateful_set).names() == ["web-0", "web-1"]


def test_a_parallel_stateful_set_starts_them_at_once():
    fixture = AppsFixture("StatefulSet", podManagementPolicy="Parallel").sync(stateful_set)
    assert fixture.names() == ["web-0", "web-1"]


def test_the_pods_of_a_stateful_set_use_its_claims():
    templates = [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}]
    fixture = AppsFixture("StatefulSet", volumeClaimTemplates=templates).sync(stateful_set)
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data-web-0"}}
    assert fixture.api.get("Pod", "web-0")["spec"]["volumes"] == [volume]


def test_a_stateful_set_shrinks_from_the_top():
    fixture = AppsFixture("StatefulSet", podManagementPolicy="Parallel").sync(stateful_set)
    fixture.owner["spec"]["replicas"] = 1
    assert fixture.sync(stateful_set).names() == ["web-0"]
