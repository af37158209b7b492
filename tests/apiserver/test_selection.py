"""Field selectors compare absent fields as Kubernetes does, for every field of every kind."""

import pytest

from pykueue.api import registry
from pykueue.api.errors import ApiError
from pykueue.apiserver import selection
from pykueue.apiserver.calls import ResourceTarget
from pykueue.apiserver.core import Core
from pykueue.apiserver.local_client import LocalClient
from pykueue.apiserver.store.memory import MemoryLog
from pykueue.apiserver.store.store import Store
from pykueue.kube.client import ListOptions

SCHEME = registry.scheme()
ZEROS = {
    ("v1", "Pod"): {"spec.hostNetwork": "false", "status.podIP": "", "spec.nodeName": "", "spec.host": "", "status.phase": "Pending", "spec.restartPolicy": "Always", "spec.schedulerName": "default-scheduler", "spec.serviceAccountName": "default", "status.nominatedNodeName": "", "status.podIPs": ""},
    ("v1", "Node"): {"spec.unschedulable": "false"},
    ("v1", "Namespace"): {"status.phase": "Active"},
    ("v1", "Secret"): {"type": "Opaque"},
    ("apps/v1", "ReplicaSet"): {"status.replicas": "0"},
    ("batch/v1", "Job"): {"status.successful": "0"},
}  # fmt: skip
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
SPECS = {
    "Pod": TEMPLATE["spec"],
    "ReplicaSet": {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE},
    "Job": {"template": {**TEMPLATE, "spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}},
}


@pytest.fixture
async def client():
    core = Core(Store(MemoryLog()), registry.scheme())
    await core.start()
    client = LocalClient(core, core.scheme)
    await client.create(SCHEME.for_kind("v1", "Namespace").resource, {"metadata": {"name": "default"}})
    yield client
    await core.stop()


async def names(client, kind, selector):
    namespace = "default" if kind.namespaced else ""
    listed = await client.list(kind.resource, namespace, ListOptions(field_selector=selector))
    return [item["metadata"]["name"] for item in listed.items]


@pytest.mark.parametrize(
    ("kind_key", "path", "value"),
    [(kind_key, path, value) for kind_key, fields in ZEROS.items() for path, value in fields.items()],
)
async def test_an_absent_field_has_its_zero_value(client, kind_key, path, value):
    kind = SCHEME.for_kind(*kind_key)
    if kind.kind != "Namespace":
        obj = {"apiVersion": kind_key[0], "kind": kind_key[1], "metadata": {"name": "default"}}
        obj |= {"spec": SPECS[kind.kind]} if kind.kind in SPECS else {}
        await client.create(kind.resource, obj, "default" if kind.namespaced else "")
    assert await names(client, kind, f"{path}={value}") == ["default"]
    assert await names(client, kind, f"{path}!={value}") == []


@pytest.mark.parametrize("kind_key", ZEROS)
def test_every_supported_field_is_tested(kind_key):
    fields = selection.supported_fields(SCHEME.for_kind(*kind_key)) - {"metadata.name", "metadata.namespace"}
    assert fields == ZEROS[kind_key].keys()


def test_a_field_that_kubernetes_does_not_select_by_is_refused():
    kind = SCHEME.for_kind("v1", "Pod")
    with pytest.raises(ApiError, match="field label not supported"):
        selection.parse(ResourceTarget(kind=kind), "", "spec.hostname=a")
