"""Claims of devices are made from templates, once for each pod, and end with the pod."""

import pytest

from pykueue.api import resources
from pykueue.cluster.resource_claims import CLAIM_NAME, ResourceClaimController, claim_of
from pykueue.kube.controller import writes
from pykueue.kube.controller.cache import ObjectCache

TEMPLATE = {
    "metadata": {"name": "gpu", "namespace": "default"},
    "spec": {
        "metadata": {"labels": {"team": "a"}},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu.example.com"}}]}},
    },
}
CLAIMS = {"resourceClaims": [{"name": "device", "resourceClaimTemplateName": "gpu"}]}


class Executor:
    """Performs writes by naming what is created."""

    def __init__(self):
        self.actions = []

    async def run(self, sync):
        results = None
        try:
            while True:
                batch = sync.send(results)
                self.actions += batch
                results = [self.result(action) for action in batch]
        except StopIteration as stop:
            return stop.value

    def result(self, action):
        return {"metadata": {"name": "made"}} if isinstance(action, writes.Create) else {}


class Clock:
    def now_ns(self):
        return 0


def metadata(name, version, **fields):
    return {"name": name, "uid": f"uid-{name}", "namespace": "default", "resourceVersion": version, **fields}


def claim(name="made"):
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "uid-p", "controller": True}
    return {"metadata": metadata(name, "3", annotations={CLAIM_NAME: "device"}, ownerReferences=[owner])}


@pytest.fixture
def controlled():
    """The kinds and objects of what the controller does for a pod with these objects around it."""

    async def controlled(*others, phase="Pending", **status):
        cache, executor = ObjectCache(), Executor()
        controller = ResourceClaimController(cache, executor, Clock())
        cache.observe(
            resources.POD, {"metadata": metadata("p", "1"), "spec": CLAIMS, "status": {"phase": phase, **status}}
        )
        for resource, obj in others:
            cache.observe(resource, obj)
        await controller.reconcile(("default", "p"))
        return executor.actions

    return controlled


STORED = (resources.RESOURCE_CLAIM_TEMPLATE, {**TEMPLATE, "metadata": metadata("gpu", "2")})


async def test_a_claim_is_created_and_named_in_the_status(controlled):
    create, patch = await controlled(STORED)
    assert create.object["spec"] == TEMPLATE["spec"]["spec"]
    assert patch.patch == {"status": {"resourceClaimStatuses": [{"name": "device", "resourceClaimName": "made"}]}}


async def test_a_claim_that_was_created_before_is_named_and_not_created_again(controlled):
    (patch,) = await controlled(STORED, (resources.RESOURCE_CLAIM, claim()))
    assert patch.patch["status"]["resourceClaimStatuses"][0]["resourceClaimName"] == "made"
    statuses = patch.patch["status"]
    assert await controlled(STORED, (resources.RESOURCE_CLAIM, claim()), **statuses) == []


async def test_a_missing_template_is_an_event(controlled):
    (event,) = await controlled()
    assert (event.type, event.reason) == ("Warning", "FailedResourceClaimCreation")
    assert event.message == 'PodResourceClaim device: resourceclaimtemplates.resource.k8s.io "gpu" not found'


async def test_claims_of_a_finished_pod_are_deleted(controlled):
    (delete,) = await controlled(STORED, (resources.RESOURCE_CLAIM, claim()), phase="Succeeded")
    assert isinstance(delete, writes.Delete)
    assert delete.object["metadata"]["name"] == "made"


def test_long_names_are_cut_in_proportion():
    pod = {"metadata": metadata("p" * 60, "1")}
    name = claim_of(pod, "c" * 60, TEMPLATE)["metadata"]["generateName"]
    assert len(name) <= 57
    assert name.count("p") == name.count("c")
