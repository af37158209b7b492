"""Any body leads to an object or an ApiError below 500, never to another exception."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pykueue.api import registry
from pykueue.api.errors import ApiError
from pykueue.apiserver.calls import PatchBody, ResourceTarget, WriteCall
from pykueue.apiserver.core import Core
from pykueue.apiserver.store.memory import MemoryLog
from pykueue.apiserver.store.store import Store
from pykueue.kube.client import PatchType

KINDS = [
    ("v1", "Pod"),
    ("apps/v1", "Deployment"),
    ("batch/v1", "Job"),
    ("kueue.x-k8s.io/v1beta2", "ClusterQueue"),
    ("kueue.x-k8s.io/v1beta1", "Workload"),
]
WORDS = (
    "name metadata spec status labels finalizers ownerReferences managedFields template containers "
    "resourceGroups flavors podSets $patch $setElementOrder/containers kind uid"
)
NAMES = st.sampled_from(WORDS.split())
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["", "a", "1Gi", "-1", "\u0000"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)


@pytest.fixture
async def core():
    core = Core(Store(MemoryLog()), registry.scheme())
    namespace = core.scheme.for_kind("v1", "Namespace")
    await core.create(ResourceTarget(kind=namespace), {"metadata": {"name": "default"}}, WriteCall())
    yield core
    await core.store.close()


async def answered(awaitable):
    try:
        await awaitable
    except ApiError as error:
        if error.code >= 500:
            raise AssertionError(error.message) from error


@pytest.mark.parametrize(("api_version", "name"), KINDS)
@given(
    body=VALUES,
    patch=VALUES,
    patch_type=st.sampled_from(PatchType),
    subresource=st.sampled_from(["", "status", "scale"]),
)
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_any_body_is_answered(core, *, api_version, name, body, patch, patch_type, subresource):
    kind = core.scheme.for_kind(api_version, name)
    namespace = "default" if kind.namespaced else ""
    call = WriteCall(field_manager="m", force=True)
    target = ResourceTarget(kind=kind, namespace=namespace, name="a", subresource=subresource)
    fresh = {"metadata": {"name": "a"}, "spec": body, "status": body}
    await answered(core.create(ResourceTarget(kind=kind, namespace=namespace), fresh, call))
    await answered(core.create(ResourceTarget(kind=kind, namespace=namespace), body, call))
    await answered(core.update(target, body, call))
    await answered(core.patch(target, PatchBody(type=patch_type, body=patch), call))
