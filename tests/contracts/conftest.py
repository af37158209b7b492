"""One cluster per test, and each of the clients on it."""

from contextlib import asynccontextmanager

import pytest

from pykueue.api.scheme import Kind, Scheme
from pykueue.apiserver.calls import ADMIN
from pykueue.apiserver.core import Core
from pykueue.apiserver.http.app import Application
from pykueue.apiserver.http.listener import Listener
from pykueue.apiserver.local_client import LocalClient
from pykueue.apiserver.security.authorizer import Authorizer
from pykueue.apiserver.store.memory import MemoryLog
from pykueue.apiserver.store.store import Store
from pykueue.kube.access import Access
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


@pytest.fixture(params=["local", "http"])
async def client(request, core, scheme):
    await LocalClient(core, scheme).create(
        scheme.for_kind("v1", "Namespace").resource, {"metadata": {"name": "default"}}
    )
    if request.param == "local":
        yield LocalClient(core, scheme)
    else:
        async with over_http(core, scheme) as client:
            yield client
