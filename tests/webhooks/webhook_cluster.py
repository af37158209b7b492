"""The embedded API in memory with webhook configurations, and the reviews of an API server."""

import asyncio
import base64
import copy
import inspect
import json
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import jsonpatch

from pykueue.api import registry, resources
from pykueue.api.configuration import loading
from pykueue.apiserver.core import Core
from pykueue.apiserver.local_client import LocalClient
from pykueue.apiserver.store.memory import MemoryLog
from pykueue.apiserver.store.store import Store
from pykueue.install import webhooks
from pykueue.install.webhooks import Endpoint
from pykueue.webhooks.certificate_controller import WebhookService
from pykueue.webhooks.service import ListenAddress, Webhooks

QUEUE_NAME = "kueue.x-k8s.io/queue-name"
FRAMEWORKS = ["batch/job", "pod", "deployment", "kubeflow.org/pytorchjob", "ray.io/rayjob"]
CONFIGURATION = loading.complete({"integrations": {"frameworks": FRAMEWORKS}}).value


class EmptyLookup:
    """A `Lookup` that finds nothing."""

    def get(self, resource, namespace, name):
        return None

    def list(self, resource, namespace=""):
        return []


class ObjectLookup:
    """A `Lookup` by (kind, name)."""

    def __init__(self, *objects):
        self._objects = {(obj["kind"], obj["metadata"]["name"]): obj for obj in objects}

    def get(self, resource, namespace, name):
        return self._objects.get((resource.kind, name))

    def list(self, resource, namespace=""):
        return [obj for (kind, _), obj in self._objects.items() if kind == resource.kind]


def review_request(obj, old=None, subresource=""):
    """The request of a review of this write."""
    group, _, version = obj["apiVersion"].rpartition("/")
    return {
        "uid": "u",
        "kind": {"group": group, "version": version, "kind": obj["kind"]},
        "operation": "CREATE" if old is None else "UPDATE",
        "object": obj,
        "oldObject": old,
        "subResource": subresource,
    }


def patched(obj, response):
    """The object after the patch of the response."""
    if "patch" not in response:
        return copy.deepcopy(obj)
    return jsonpatch.apply_patch(obj, json.loads(base64.b64decode(response["patch"])))


def job(*, queue="", **metadata):
    labels = {QUEUE_NAME: queue} if queue else {}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j", "namespace": "team", "labels": labels, **metadata},
        "spec": {"parallelism": 1, "template": {"spec": {"restartPolicy": "Never", "containers": []}}},
    }


@asynccontextmanager
async def api(settings=None):
    scheme = registry.scheme()
    core = Core(Store(MemoryLog()), scheme, settings=settings)
    await core.start()
    try:
        yield LocalClient(core, scheme)
    finally:
        await core.stop()


NAMESPACES = resources.NAMESPACE
ENDPOINT = Endpoint(namespace=CONFIGURATION.namespace, service="kueue-webhook-service")
SERVICE = WebhookService(namespace=ENDPOINT.namespace, secret="kueue-webhook-server-cert", service=ENDPOINT.service)
HOST = f"{ENDPOINT.service}.{ENDPOINT.namespace}.svc"


class VirtualClock:
    """Time stands still until `advance`."""

    def __init__(self):
        self.now = datetime.now(UTC).replace(microsecond=0)
        self._sleepers = []

    def now_ns(self):
        return int(self.now.timestamp()) * 1_000_000_000

    async def sleep(self, seconds):
        woken = asyncio.get_running_loop().create_future()
        self._sleepers.append((self.now + timedelta(seconds=seconds), woken))
        if seconds <= 0:
            woken.set_result(None)
        await woken

    @property
    def sleeps(self):
        """Whether somebody waits for a time that has not come yet."""
        return any(not woken.done() for _, woken in self._sleepers)

    def advance(self, span):
        self.now += span
        waiting = [(time, woken) for time, woken in self._sleepers if not woken.done()]
        self._sleepers = [(time, woken) for time, woken in waiting if time > self.now]
        for time, woken in waiting:
            if time <= self.now:
                woken.set_result(None)


async def until(claim):
    """What the claim returns once it is true."""
    async with asyncio.timeout(20):
        while True:
            value = claim()
            if inspect.isawaitable(value):
                value = await value
            if value:
                return value
            await asyncio.sleep(0.005)


@asynccontextmanager
async def cluster(endpoint=ENDPOINT):
    """An API with the webhook configurations in it."""
    async with api() as client:
        for name in (ENDPOINT.namespace, "team"):
            await client.create(NAMESPACES, {"metadata": {"name": name}})
        for configuration in webhooks.configurations(CONFIGURATION.settings(), endpoint):
            await client.create(_resource(configuration), configuration)
        yield client


def _resource(configuration):
    return webhooks.MUTATING if configuration["kind"] == webhooks.MUTATING.kind else webhooks.VALIDATING


async def configurations(client):
    items = [
        configuration
        for kind in (webhooks.MUTATING, webhooks.VALIDATING)
        for configuration in (await client.list(kind)).items
    ]
    assert len(items) == 4
    return items


async def bundles(client):
    """The `caBundle` of each webhook."""
    return [
        base64.b64decode(webhook["clientConfig"].get("caBundle", ""))
        for configuration in await configurations(client)
        for webhook in configuration["webhooks"]
    ]


@asynccontextmanager
async def replica(client, clock=None, **options):
    service = Webhooks(client, CONFIGURATION, address=ListenAddress(host="127.0.0.1", port=0), clock=clock, **options)
    running = asyncio.create_task(service.run())
    try:
        await until(lambda: service.is_ready or running.done())
        yield service
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
