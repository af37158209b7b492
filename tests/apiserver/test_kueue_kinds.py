"""The verbs with the real register of kinds: defaults, schema, webhook rules, both versions."""

import pytest

from pykueue.api import registry
from pykueue.api.errors import ApiError
from pykueue.apiserver.core import Core
from pykueue.apiserver.local_client import LocalClient
from pykueue.apiserver.store.memory import MemoryLog
from pykueue.apiserver.store.store import Store
from pykueue.kube.client import WriteOptions

SCHEME = registry.scheme()
GROUP = "kueue.x-k8s.io"
FLAVORS = SCHEME.for_path(GROUP, "v1beta2", "resourceflavors").resource
CLUSTER_QUEUES = SCHEME.for_path(GROUP, "v1beta2", "clusterqueues").resource
OLD_CLUSTER_QUEUES = SCHEME.for_path(GROUP, "v1beta1", "clusterqueues").resource
NAMESPACES = SCHEME.for_path("", "v1", "namespaces").resource
JOBS = SCHEME.for_path("batch", "v1", "jobs").resource
STRICT = WriteOptions(field_validation="Strict")


@pytest.fixture
async def client():
    core = Core(Store(MemoryLog()), registry.scheme())
    await core.start()
    client = LocalClient(core, core.scheme)
    await client.create(NAMESPACES, {"metadata": {"name": "default"}})
    yield client
    await core.stop()


def queue(name="q", **spec):
    return {"metadata": {"name": name}, "spec": spec}


def group(**quota):
    return [{"coveredResources": ["cpu"], "flavors": [{"name": "f", "resources": [{"name": "cpu", **quota}]}]}]


async def test_schema_defaults_are_stored(client):
    stored = await client.create(CLUSTER_QUEUES, queue(resourceGroups=group(nominalQuota="4")))
    assert stored["spec"]["queueingStrategy"] == "BestEffortFIFO"
    assert stored["metadata"]["finalizers"] == ["kueue.x-k8s.io/resource-in-use"]


async def test_a_schema_fault_is_invalid_with_causes(client):
    with pytest.raises(ApiError) as refusal:
        await client.create(CLUSTER_QUEUES, queue(queueingStrategy="Random"))
    assert (refusal.value.code, refusal.value.details["causes"][0]["field"]) == (422, "spec.queueingStrategy")


async def test_a_webhook_fault_is_forbidden(client):
    with pytest.raises(ApiError) as refusal:
        await client.create(CLUSTER_QUEUES, queue(resourceGroups=group(nominalQuota="-1")))
    assert refusal.value.code == 403
    assert refusal.value.message.startswith('admission webhook "vclusterqueue.kb.io" denied the request: spec.')


async def test_an_unknown_field_is_refused_when_strict(client):
    with pytest.raises(ApiError) as refusal:
        await client.create(CLUSTER_QUEUES, queue(kohort="x"), options=STRICT)
    assert refusal.value.message == (
        'ClusterQueue in version "v1beta2" cannot be handled as a ClusterQueue: '
        'strict decoding error: unknown field "spec.kohort"'
    )


async def test_an_unknown_field_is_dropped_otherwise(client):
    assert "kohort" not in (await client.create(CLUSTER_QUEUES, queue(kohort="x")))["spec"]


async def test_a_lenient_reading_passes_strict_validation(client):
    flavor = {"metadata": {"name": "f"}, "spec": {"nodeSelector": {"a": "b"}}}
    assert (await client.create(FLAVORS, flavor, options=STRICT))["spec"]["nodeLabels"] == {"a": "b"}


async def test_a_status_write_keeps_unknown_names_out_too(client):
    await client.create(CLUSTER_QUEUES, queue())
    patch = {"status": {"pendingWorkloads": 3, "nonsense": 1}}
    patched = await client.patch(CLUSTER_QUEUES, "q", "", patch, subresource="status")
    assert patched["status"] == {"pendingWorkloads": 3}


async def test_a_job_with_a_queue_is_created_suspended(client):
    container = {"name": "c", "image": "i"}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    labels = {"kueue.x-k8s.io/queue-name": "q"}
    job = {"metadata": {"name": "j", "namespace": "default", "labels": labels}, "spec": {"template": template}}
    assert (await client.create(JOBS, job))["spec"]["suspend"] is True


async def test_an_old_version_is_converted_both_ways(client):
    old = OLD_CLUSTER_QUEUES
    await client.create(old, queue(cohort="team", resourceGroups=group(nominalQuota="1")))
    assert (await client.get(CLUSTER_QUEUES, "q"))["spec"]["cohortName"] == "team"
    assert (await client.get(old, "q"))["spec"]["cohort"] == "team"
    events = client.watch(old)
    assert (await anext(events)).object["apiVersion"] == "kueue.x-k8s.io/v1beta1"
    await events.aclose()


async def test_a_patch_speaks_the_version_that_it_is_sent_to(client):
    await client.create(CLUSTER_QUEUES, queue(cohortName="team"))
    await client.patch(OLD_CLUSTER_QUEUES, "q", "", {"spec": {"cohort": "other"}})
    assert (await client.get(CLUSTER_QUEUES, "q"))["spec"]["cohortName"] == "other"
