"""A status that a controller of this process patches is the one that an ordinary write stores."""

import pytest

from pykueue.api import resources
from pykueue.api.errors import ApiError
from pykueue.api.registry import scheme
from pykueue.apiserver.core import Core
from pykueue.apiserver.local_client import LocalClient
from pykueue.apiserver.store.memory import MemoryLog
from pykueue.apiserver.store.store import Store
from pykueue.kube.client import PatchType, WriteOptions

CONTAINER = {"name": "main", "image": "local"}
POD = {"metadata": {"name": "p", "namespace": "default", "labels": {"a": "b"}}, "spec": {"containers": [CONTAINER]}}
QUEUE = {"metadata": {"name": "q", "namespace": "default"}, "spec": {"clusterQueue": "shared"}}
OWN = {"uid", "creationTimestamp"}
AT = "2026-01-15T12:00:00Z"


def condition(name, status="True"):
    return {"type": name, "status": status, "reason": "R", "message": "", "lastTransitionTime": AT}


def listed(*conditions):
    return {"status": {"conditions": list(conditions)}}


STEPS = [
    (resources.LOCAL_QUEUE, "q", PatchType.MERGE, "one", listed(condition("Active"))),
    (resources.LOCAL_QUEUE, "q", PatchType.MERGE, "one", listed(condition("Active"))),
    (resources.LOCAL_QUEUE, "q", PatchType.MERGE, "two", {"status": {"pendingWorkloads": 3, "admittedWorkloads": 1}}),
    (resources.LOCAL_QUEUE, "q", PatchType.MERGE, "one", {"status": {"pendingWorkloads": None, "conditions": []}}),
    (resources.LOCAL_QUEUE, "q", PatchType.MERGE, "one", {"metadata": {"labels": {"x": "y"}}, "status": {}}),
    (resources.LOCAL_QUEUE, "q", PatchType.MERGE, "two", {"status": None}),
    (
        resources.LOCAL_QUEUE,
        "q",
        PatchType.MERGE,
        "two",
        {"status": {"flavorsUsage": []}, "spec": {"stopPolicy": "Hold"}},
    ),
    (resources.POD, "p", PatchType.STRATEGIC, "one", listed(condition("Ready", "False"))),
    (resources.POD, "p", PatchType.STRATEGIC, "two", listed(condition("Initialized"))),
    (
        resources.POD,
        "p",
        PatchType.STRATEGIC,
        "one",
        {"status": {"phase": "Running", **listed(condition("Ready"))["status"]}},
    ),
    (resources.POD, "p", PatchType.STRATEGIC, "one", listed({"type": "Initialized", "$patch": "delete"})),
    (
        resources.POD,
        "p",
        PatchType.MERGE,
        "one",
        {"metadata": {"annotations": {"x": "y"}}, "status": {"phase": "Failed"}},
    ),
]


@pytest.fixture
async def cores():
    """Two APIs with the same objects."""
    cores = [Core(Store(MemoryLog()), scheme()) for _ in range(2)]
    for core in cores:
        await core.start()
        client = LocalClient(core, core.scheme)
        await client.create(resources.NAMESPACE, {"metadata": {"name": "default"}})
        await client.create(resources.POD, POD, "default")
        await client.create(resources.LOCAL_QUEUE, QUEUE, "default")
    yield cores
    for core in cores:
        await core.stop()


def comparable(obj):
    managers = [manager | {"time": ""} for manager in obj["metadata"]["managedFields"]]
    metadata = {name: value for name, value in obj["metadata"].items() if name not in OWN}
    return obj | {"metadata": metadata | {"managedFields": managers}}


async def test_all_patches_store_what_ordinary_ones_store(cores):
    trusted, ordinary = (LocalClient(core, core.scheme, is_trusted=core is cores[0]) for core in cores)
    for resource, name, patch_type, manager, patch in STEPS:
        written = [
            await client.patch(
                resource,
                name,
                "default",
                patch,
                patch_type=patch_type,
                subresource="status",
                options=WriteOptions(field_manager=manager),
            )
            for client in (trusted, ordinary)
        ]
        assert comparable(written[0]) == comparable(written[1]), patch
    assert cores[0].store.revision == cores[1].store.revision


@pytest.mark.parametrize(
    ("patch", "code"),
    [
        ({"metadata": {"resourceVersion": "1"}, **listed()}, 409),
        ({"metadata": {"uid": "another"}, **listed()}, 422),
        ({"status": {"pendingWorkloads": "many"}}, 422),
    ],
)
async def test_a_refusal_is_the_same(cores, patch, code):
    for core in cores:
        client = LocalClient(core, core.scheme, is_trusted=core is cores[0])
        with pytest.raises(ApiError) as refusal:
            await client.patch(resources.LOCAL_QUEUE, "q", "default", patch, subresource="status")
        assert refusal.value.code == code
