"""One cluster per test, and each of the clients on it."""

import asyncio
import os
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from pykueue.api.errors import ApiError
from pykueue.api.scheme import Kind, Scheme
from pykueue.apiserver.calls import ADMIN
from pykueue.apiserver.core import Core
from pykueue.apiserver.http.app import Application
from pykueue.apiserver.http.listener import Listener
from pykueue.apiserver.local_client import LocalClient
from pykueue.apiserver.security.authorizer import Authorizer
from pykueue.apiserver.store.memory import MemoryLog
from pykueue.apiserver.store.store import Store
from pykueue.kube import access
from pykueue.kube.access import Access
from pykueue.kube.client import DeleteOptions
from pykueue.kube.http_client import HttpClient

WIDGET_SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "size": {"type": "integer"},
                "parts": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {
                        "type": "object",
                        "properties": {"name": {"type": "string"}, "count": {"type": "integer"}},
                        "required": ["name"],
                    },
                },
                "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                "steps": {"type": "array", "items": {"type": "string"}},
                "notes": {"type": "object", "additionalProperties": {"type": "string"}},
                "replicas": {"type": "integer"},
            },
        },
        "status": {
            "type": "object",
            "properties": {"phase": {"type": "string"}, "replicas": {"type": "integer"}, "ready": {"type": "integer"}},
        },
    },
}


@pytest.fixture
def scheme():
    return Scheme(
        [
            Kind(group="", version="v1", kind="Namespace", plural="namespaces", namespaced=False),
            Kind(group="", version="v1", kind="Pod", plural="pods", namespaced=True),
            Kind(group="", version="v1", kind="ConfigMap", plural="configmaps", namespaced=True, has_status=False),
            Kind(group="", version="v1", kind="Event", plural="events", namespaced=True, has_status=False),
            Kind(group="events.k8s.io", version="v1", kind="Event", plural="events", namespaced=True, has_status=False),
            Kind(
                group="coordination.k8s.io",
                version="v1",
                kind="Lease",
                plural="leases",
                namespaced=True,
                has_status=False,
            ),
            Kind(group="batch", version="v1", kind="Job", plural="jobs", namespaced=True),
            Kind(
                group="example.dev",
                version="v1",
                kind="Widget",
                plural="widgets",
                namespaced=True,
                schema=WIDGET_SCHEMA,
                is_builtin=False,
                scale={"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
            ),
        ]
    )


@pytest.fixture
async def core(scheme):
    core = Core(Store(MemoryLog()), scheme)
    await core.start()
    yield core
    await core.stop()


@asynccontextmanager
async def over_http(core, scheme):
    application = Application(
        scheme=scheme, verbs=core, authorizer=Authorizer(), authenticate=lambda token: ADMIN if token == "t" else None
    )
    listener = Listener(application)
    port = await listener.start("127.0.0.1", 0, None)

    async def token():
        return "t"

    client = HttpClient(Access(server=f"http://127.0.0.1:{port}", token=token))
    yield client
    await client.close()
    await listener.stop()


@asynccontextmanager
async def of_a_cluster(scheme):
    """A real cluster, emptied of what earlier tests left in the namespace `default`."""
    client = HttpClient(await access.from_kubeconfig(Path(CLUSTER)), user_agent="contracts/1")
    await ensure_widgets(client)
    for kind in scheme:
        if not kind.namespaced or kind.group == "events.k8s.io":
            continue
        for obj in (await client.list(kind.resource, "default")).items:
            place = (kind.resource, obj["metadata"]["name"], "default")
            if obj["metadata"].get("finalizers"):
                await client.patch(*place, {"metadata": {"finalizers": None}})
            with suppress(ApiError):
                await client.delete(*place, DeleteOptions(grace_period_seconds=0, propagation_policy="Background"))
    yield client
    await client.close()


async def ensure_widgets(client):
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": WIDGET_SCHEMA},
        "subresources": {
            "status": {},
            "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
        },
    }
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.dev"},
        "spec": {
            "group": "example.dev",
            "names": {"kind": "Widget", "plural": "widgets"},
            "scope": "Namespaced",
            "versions": [version],
        },
    }
    try:
        await client.raw("POST", path, definition)
    except ApiError as error:
        if error.code != 409:
            raise
    async with asyncio.timeout(30):
        while True:
            with suppress(ApiError):
                await client.raw("GET", "/apis/example.dev/v1/widgets")
                return
            await asyncio.sleep(0.1)


CLUSTER = os.environ.get("PYKUEUE_CONTRACT_KUBECONFIG", "")
"""A cluster to hold to the same contract: any Kubernetes whose namespace `default` may be emptied.
"""


@pytest.fixture(params=["local", "http", *(["cluster"] if CLUSTER else [])])
async def client(request, core, scheme):
    if request.param == "cluster":
        async with of_a_cluster(scheme) as client:
            yield client
        return
    await LocalClient(core, scheme).create(
        scheme.for_kind("v1", "Namespace").resource, {"metadata": {"name": "default"}}
    )
    if request.param == "local":
        yield LocalClient(core, scheme)
    else:
        async with over_http(core, scheme) as client:
            yield client
