"""Controllers of this process write statuses: types are checked, the rules they keep are not."""

import pytest

from pykueue.api import resources
from pykueue.api.errors import ApiError
from pykueue.api.registry import scheme
from pykueue.apiserver.core import Core
from pykueue.apiserver.local_client import LocalClient
from pykueue.apiserver.store.memory import MemoryLog
from pykueue.apiserver.store.store import Store

QUEUE = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "LocalQueue",
    "metadata": {"name": "queue", "namespace": "default"},
    "spec": {"clusterQueue": "shared"},
}
TWICE = {
    "type": "Active",
    "status": "True",
    "reason": "Ready",
    "message": "",
    "lastTransitionTime": "2026-01-15T12:00:00Z",
}


@pytest.fixture
async def core():
    core = Core(Store(MemoryLog()), scheme())
    await core.start()
    client = LocalClient(core, core.scheme)
    await client.create(resources.NAMESPACE, {"metadata": {"name": "default"}})
    await client.create(resources.LOCAL_QUEUE, QUEUE)
    yield core
    await core.stop()


async def patch_status(core, status, *, is_trusted):
    client = LocalClient(core, core.scheme, is_trusted=is_trusted)
    return await client.patch(resources.LOCAL_QUEUE, "queue", "default", {"status": status}, subresource="status")


@pytest.mark.parametrize("is_trusted", [True, False])
async def test_types_are_checked_for_everybody(core, is_trusted):
    with pytest.raises(ApiError) as refusal:
        await patch_status(core, {"pendingWorkloads": "many"}, is_trusted=is_trusted)
    assert refusal.value.code == 422


async def test_rules_are_checked_for_users_only(core):
    with pytest.raises(ApiError):
        await patch_status(core, {"conditions": [TWICE, TWICE]}, is_trusted=False)
    written = await patch_status(core, {"conditions": [TWICE]}, is_trusted=True)
    assert written["status"]["conditions"] == [TWICE]


@pytest.mark.parametrize("is_trusted", [True, False])
async def test_the_spec_is_checked_for_everybody(core, is_trusted):
    client = LocalClient(core, core.scheme, is_trusted=is_trusted)
    with pytest.raises(ApiError):
        await client.patch(resources.LOCAL_QUEUE, "queue", "default", {"spec": {"clusterQueue": "No Name"}})
