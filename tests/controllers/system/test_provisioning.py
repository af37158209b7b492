"""The check that asks the autoscaler first."""

import pytest
from tests.controllers.system.cluster import PYTORCH_JOBS, kueue, pytorch_job, status_of

from pykueue.api import resources

CONTROLLER = "kueue.x-k8s.io/provisioning-request"


async def make_check(cluster, **config):
    await cluster.create(
        resources.PROVISIONING_REQUEST_CONFIG,
        kueue("ProvisioningRequestConfig", "config", provisioningClassName="best-effort", **config),
    )
    parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": "config"}
    await cluster.create(
        resources.ADMISSION_CHECK, kueue("AdmissionCheck", "capacity", controllerName=CONTROLLER, parameters=parameters)
    )
    await cluster.make_queue(admissionChecksStrategy={"admissionChecks": [{"name": "capacity"}]})


async def the_request(cluster, attempt=1):
    for request in (await cluster.client.list(resources.PROVISIONING_REQUEST, "default")).items:
        if request["metadata"]["name"].endswith(f"-capacity-{attempt}"):
            return request
    return None


async def answer(cluster, condition_type, message, attempt=1):
    request = await cluster.until(the_request, cluster, attempt)
    condition = {
        "type": condition_type,
        "status": "True",
        "reason": "R",
        "message": message,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    await cluster.merge(
        resources.PROVISIONING_REQUEST,
        request["metadata"]["name"],
        {"status": {"conditions": [condition]}},
        namespace="default",
        subresource="status",
    )
    return request["metadata"]["name"]


async def check_is(cluster, state):
    workload = await cluster.workload_of("train", "PyTorchJob")
    for check in workload["status"].get("admissionChecks") or ():
        if check["state"] == state:
            return check
    return None


@pytest.fixture
async def train(cluster):
    await make_check(cluster, retryStrategy={"backoffLimitCount": 1, "backoffBaseSeconds": 1, "backoffMaxSeconds": 1})
    await cluster.create(PYTORCH_JOBS, pytorch_job("train"), "default")
    return cluster


async def test_a_job_starts_on_provisioned_capacity(train):
    name = await answer(train, "Provisioned", "machines are there")
    await train.runs("train")
    job = await train.get(PYTORCH_JOBS, "train", "default")
    annotations = job["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["metadata"]["annotations"]
    assert annotations["autoscaling.x-k8s.io/consume-provisioning-request"] == name
    assert annotations["autoscaling.x-k8s.io/provisioning-class-name"] == "best-effort"


async def test_a_request_names_a_template_a_pod_set(train):
    request = await train.until(the_request, train)
    [pod_set] = request["spec"]["podSets"]
    template = await train.get(resources.POD_TEMPLATE, pod_set["podTemplateRef"]["name"], "default")
    assert template["template"]["spec"]["containers"][0]["name"] == "pytorch"


async def test_a_failed_request_is_tried_again_and_then_given_up(train):
    await answer(train, "Failed", "no machines")
    await answer(train, "Failed", "still none", attempt=2)

    async def is_deactivated():
        return (await train.workload_of("train", "PyTorchJob"))["spec"].get("active") is False

    await train.until(is_deactivated)


async def test_a_check_without_configuration_is_inactive(cluster):
    await cluster.create(resources.ADMISSION_CHECK, kueue("AdmissionCheck", "capacity", controllerName=CONTROLLER))

    async def is_inactive():
        return status_of(await cluster.get(resources.ADMISSION_CHECK, "capacity"), "Active") == "False"

    await cluster.until(is_inactive)


async def test_pod_sets_without_managed_resources_need_no_request(cluster):
    await make_check(cluster, managedResources=["example.com/gpu"])
    await cluster.create(PYTORCH_JOBS, pytorch_job("train"), "default")
    await cluster.runs("train")
    assert (await check_is(cluster, "Ready"))["message"] == "the provisioning request is not needed"
