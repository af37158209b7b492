"""A cluster to webhooks: the embedded API in memory, and the reviews that a real API server would send."""

import base64
import copy
import json
from contextlib import asynccontextmanager

import jsonpatch

from pykueue.api import registry
from pykueue.api.configuration import loading
from pykueue.apiserver.core import Core
from pykueue.apiserver.local_client import LocalClient
from pykueue.apiserver.store.memory import MemoryLog
from pykueue.apiserver.store.store import Store

QUEUE_NAME = "kueue.x-k8s.io/queue-name"
FRAMEWORKS = ["batch/job", "pod", "deployment", "kubeflow.org/pytorchjob", "ray.io/rayjob"]
CONFIGURATION = loading.complete({"integrations": {"frameworks": FRAMEWORKS}}).value


class Nothing:
    """No other objects at all."""

    def get(self, resource, namespace, name):
        return None

    def list(self, resource, namespace=""):
        return []


class Objects:
    """Other objects by (kind, name)."""

    def __init__(self, *objects):
        self._objects = {(each["kind"], each["metadata"]["name"]): each for each in objects}

    def get(self, resource, namespace, name):
        return self._objects.get((resource.kind, name))

    def list(self, resource, namespace=""):
        return [each for (kind, _), each in self._objects.items() if kind == resource.kind]


def asked(obj, old=None, subresource=""):
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
    """What the API server makes of the object."""
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
