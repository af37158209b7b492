"""The objects of a new cluster: namespaces, roles, the `kubernetes` service, priority classes.

`ensure` runs at each start and creates missing objects. It does not change existing ones.
`NamespaceDefaults` creates the default objects of every new namespace.
"""

import asyncio
import contextlib
from collections.abc import Iterable

from pykueue.api import objects
from pykueue.api.errors import ApiError
from pykueue.api.scheme import Object, Scheme
from pykueue.apiserver.calls import (
    PatchBody,
    ResourceTarget,
    Sink,
    Subscription,
    UserInfo,
    Verbs,
    WatchCall,
    WatchFrame,
    WriteCall,
)
from pykueue.apiserver.security import roles
from pykueue.kube.client import PatchType
from pykueue.kube.supervisor import BackgroundTasks

NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease", "kueue-system")
_WRITER = WriteCall(user=UserInfo(name="system:apiserver", groups=("system:masters",)), field_manager="kubectl")
"""The field manager of kubectl, so that manifests with the same objects apply without conflict."""


async def ensure(verbs: Verbs, scheme: Scheme, port: int) -> None:
    await _create(verbs, scheme, [_namespace(name) for name in NAMESPACES])
    await _create(verbs, scheme, [*roles.defaults(), _service(port), *_priority_classes()])


async def _create(verbs: Verbs, scheme: Scheme, manifests: Iterable[Object]) -> None:
    """Create concurrently, so that all objects share one commit."""
    await asyncio.gather(*(_create_one(verbs, scheme, obj) for obj in manifests))


async def _create_one(verbs: Verbs, scheme: Scheme, obj: Object) -> None:
    kind = scheme.for_object(obj)
    assert kind is not None, f"{obj['kind']} must be registered"
    target = ResourceTarget(kind=kind, namespace=objects.namespace(obj), name=objects.name(obj))
    try:
        await verbs.get(target)
    except ApiError as error:
        if error.code != 404:
            raise
        await verbs.patch(target, PatchBody(type=PatchType.APPLY, body=obj), _WRITER)


def _namespace(name: str) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def _service(port: int) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "type": "ClusterIP",
            "clusterIP": "10.96.0.1",
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": port}],
        },
    }


def _priority_classes() -> Iterable[Object]:
    for name, value in (("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)):
        yield {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
            "description": "For parts that the cluster itself depends on.",
            "preemptionPolicy": "PreemptLowerPriority",
        }


class NamespaceDefaults(Sink):
    """Creates the `default` service account and the CA certificate of every new namespace."""

    def __init__(self, verbs: Verbs, scheme: Scheme, authority: str) -> None:
        self._verbs = verbs
        self._scheme = scheme
        self._authority = authority
        self._tasks = BackgroundTasks()
        self._subscription: Subscription | None = None

    async def start(self) -> None:
        kind = self._scheme.for_kind("v1", "Namespace")
        assert kind is not None
        self._subscription = await self._verbs.watch(ResourceTarget(kind=kind), WatchCall(), self)

    async def stop(self) -> None:
        if self._subscription:
            self._subscription.cancel()
        with contextlib.suppress(ApiError):
            await self._tasks.wait()

    def send(self, frame: WatchFrame) -> None:
        if frame.type == "ADDED":
            self._tasks.start(self._create_defaults(objects.name(frame.decode())))

    def close(self) -> None:
        """The server stops."""

    async def _create_defaults(self, namespace: str) -> None:
        account: Object = {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": "default", "namespace": namespace},
        }
        certificate = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "kube-root-ca.crt", "namespace": namespace},
            "data": {"ca.crt": self._authority},
        }
        with contextlib.suppress(ApiError):  # the namespace may be deleted at once
            await _create(self._verbs, self._scheme, [account, certificate])
