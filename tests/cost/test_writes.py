"""Writes through the verbs: their work grows with the body, and depth is an error of the client."""

import contextlib
import json
import time

import pytest

from pykueue.api import json_text, registry
from pykueue.api.errors import ApiError
from pykueue.apiserver.calls import PatchBody, ResourceTarget, WriteCall
from pykueue.apiserver.core import Core
from pykueue.apiserver.store.memory import MemoryLog
from pykueue.apiserver.store.store import Store
from pykueue.kube.client import PatchType

SHORT, LONG = 400, 1600
LARGEST_RATIO = 8.0
CALL = WriteCall(field_manager="m", force=True, field_validation="Warn")
PATCHES = (PatchType.MERGE, PatchType.STRATEGIC, PatchType.APPLY)


def metadata(**fields):
    return {"metadata": {"name": "a", **fields}}


def pod(**spec):
    return {**metadata(), "spec": {"containers": [{"name": "c", "image": "x"}], **spec}}


def container(**fields):
    return pod(containers=[{"name": "c", "image": "x", **fields}])


BODIES = {
    "keys": ("v1", "ConfigMap", lambda n: {**metadata(), "data": {f"k{i}": "v" for i in range(n)}}),
    "labels": ("v1", "ConfigMap", lambda n: metadata(labels={f"k{i}": "v" for i in range(n)})),
    "wrong labels": ("v1", "ConfigMap", lambda n: metadata(labels={f"-k{i}": "v!" for i in range(n)})),
    "finalizers": ("v1", "ConfigMap", lambda n: metadata(finalizers=[f"k.io/{i}" for i in range(n)])),
    "managers": (
        "v1",
        "ConfigMap",
        lambda n: metadata(
            managedFields=[
                {"manager": f"m{i}", "operation": "Update", "apiVersion": "v1", "fieldsV1": {f"f:a{i}": {}}}
                for i in range(n)
            ]
        ),
    ),
    "unknown fields": ("v1", "Pod", lambda n: container(**{f"unknown{i}": 1 for i in range(n)})),
    "a long unknown field": ("v1", "ConfigMap", lambda n: {**metadata(), "x" * n * 100: 1}),
    "environment": ("v1", "Pod", lambda n: container(env=[{"name": f"A{i}", "value": "x"} for i in range(n)])),
    "containers": ("v1", "Pod", lambda n: pod(containers=[{"name": f"c{i}", "image": "x"} for i in range(n)])),
    "tolerations": ("v1", "Pod", lambda n: pod(tolerations=[{"key": f"k{i}"} for i in range(n)])),
    "gates": ("v1", "Pod", lambda n: pod(schedulingGates=[{"name": f"k{i}"} for i in range(n)])),
    "flavors": (
        "kueue.x-k8s.io/v1beta2",
        "ClusterQueue",
        lambda n: {
            **metadata(),
            "spec": {
                "resourceGroups": [
                    {"coveredResources": ["r"], "flavors": [{"name": f"f{i}", "resources": []} for i in range(n)]}
                ]
            },
        },
    ),
    "rules": (
        "rbac.authorization.k8s.io/v1",
        "Role",
        lambda n: {
            **metadata(),
            "rules": [{"apiGroups": [""], "resources": [f"r{i}"], "verbs": ["get"]} for i in range(n)],
        },
    ),
}


async def server():
    core = Core(Store(MemoryLog()), registry.scheme())
    namespaces = ResourceTarget(kind=core.scheme.for_kind("v1", "Namespace"))
    await core.create(namespaces, {"metadata": {"name": "default"}}, WriteCall())
    return core


async def seconds(api_version, kind_name, body):
    """Processor time of a create, an update and every patch with this body, each alone."""
    core = await server()
    kind = core.scheme.for_kind(api_version, kind_name)
    namespace = "default" if kind.namespaced else ""
    target = ResourceTarget(kind=kind, namespace=namespace, name="a")
    data = json.dumps(body)
    times = []

    async def timed(action):
        began = time.thread_time()
        with contextlib.suppress(ApiError):
            await action(json.loads(data))
        times.append(time.thread_time() - began)

    await timed(lambda value: core.create(ResourceTarget(kind=kind, namespace=namespace), value, CALL))
    await timed(lambda value: core.update(target, value, CALL))
    for patch_type in PATCHES:
        patch = {"apiVersion": api_version, "kind": kind_name}
        await timed(lambda value, t=patch_type, p=patch: core.patch(target, PatchBody(type=t, body=value | p), CALL))
    await core.store.close()
    return times


@pytest.mark.parametrize("name", BODIES)
async def test_work_grows_with_the_body(name):
    api_version, kind, build = BODIES[name]
    best: list[list[float]] = [[], []]
    for _ in range(4):
        for index, length in enumerate((SHORT, LONG)):
            times = await seconds(api_version, kind, build(length))
            best[index] = [min(pair) for pair in zip(best[index] or times, times, strict=True)]
        if all(long < max(LARGEST_RATIO * short, 0.02) for short, long in zip(*best, strict=True)):
            return
    pytest.fail(f"create, update, {PATCHES}: {best}")


def nested(depth):
    value: dict = {}
    for _ in range(depth):
        value = {"a": value}
    return value


@pytest.mark.parametrize("kind_name", ["ConfigMap", "Pod"])
@pytest.mark.parametrize("patch_type", PATCHES)
async def test_the_deepest_body_is_handled_everywhere(kind_name, patch_type):
    core = await server()
    target = ResourceTarget(kind=core.scheme.for_kind("v1", kind_name), namespace="default", name="a")
    collection = ResourceTarget(kind=target.kind, namespace="default")
    await core.create(collection, pod() if kind_name == "Pod" else metadata(), CALL)
    deep = nested(json_text.DEEPEST - 1)
    for body in ({"spec": deep}, {"data": deep}, {"metadata": {"annotations": deep}}, deep):
        whole = {**metadata(), "apiVersion": "v1", "kind": kind_name, **json.loads(json.dumps(body))}
        for attempt in (
            core.create(collection, json.loads(json.dumps(whole)), CALL),
            core.update(target, json.loads(json.dumps(whole)), CALL),
            core.patch(target, PatchBody(type=patch_type, body=whole), CALL),
        ):
            try:
                await attempt
            except ApiError as error:
                assert error.code < 500  # noqa: PT017 - any answer below 500 is right
    await core.store.close()


async def test_patches_cannot_nest_an_object_deeper_and_deeper():
    core = await server()
    target = ResourceTarget(kind=core.scheme.for_kind("v1", "ConfigMap"), namespace="default", name="a")
    await core.create(ResourceTarget(kind=target.kind, namespace="default"), metadata(), CALL)
    for depth in range(4):
        path = "/x" + "/a" * (depth * 60)
        patch = [{"op": "add", "path": path, "value": nested(60)}]
        with contextlib.suppress(ApiError):
            await core.patch(target, PatchBody(type=PatchType.JSON, body=patch), CALL)
    json_text.check((await core.get(target)).data)
    await core.store.close()
