"""The cluster shows itself: the parts that run inside pykueue appear as the deployments that a cluster would have.

`kubectl get all -n kueue-system` then shows a controller manager, and `kubectl logs` of its pod reads the part's real log.
The pods run nothing: they are up while pykueue is.
"""

import asyncio
import logging
import logging.handlers
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pykueue.api import objects, resources
from pykueue.api.errors import ApiError
from pykueue.api.scheme import Object
from pykueue.cluster.kubelet.agent import MIRROR
from pykueue.cluster.kubelet.run import Exit
from pykueue.cluster.runtimes.protocol import (
    Container,
    ContainerRequest,
    Execution,
    Runtime,
    StartError,
)
from pykueue.kube.client import Client

_LARGEST_LOG = 4 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentDeployment:
    namespace: str
    name: str
    image: str
    loggers: tuple[str, ...]

    def deployment(self) -> Object:
        labels = {"app.kubernetes.io/name": self.name, "control-plane": "controller-manager"}
        container = {"name": "manager", "image": self.image}
        template = {
            "metadata": {"labels": labels, "annotations": {MIRROR: self.name}},
            "spec": {"containers": [container], "tolerations": [{"operator": "Exists"}]},
        }
        return {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": self.name, "namespace": self.namespace, "labels": labels},
            "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template},
        }


MIRRORS = (
    ComponentDeployment(
        namespace="kueue-system",
        name="kueue-controller-manager",
        image="pykueue/controllers",
        loggers=("pykueue.controllers",),
    ),
    ComponentDeployment(
        namespace="kuberay-operator",
        name="kuberay-operator",
        image="pykueue/ray-operator",
        loggers=("pykueue.room.raycluster-controller", "pykueue.room.rayjob-controller"),
    ),
    ComponentDeployment(
        namespace="kubeflow",
        name="training-operator",
        image="pykueue/training-operator",
        loggers=("pykueue.room.pytorchjob-controller", "pykueue.room.tfjob-controller"),
    ),
    ComponentDeployment(
        namespace="jobset-system",
        name="jobset-controller-manager",
        image="pykueue/jobset-operator",
        loggers=("pykueue.room.jobset",),
    ),
)
_BY_NAME = {mirror.name: mirror for mirror in MIRRORS}


async def ensure(client: Client, mirrors: Iterable[ComponentDeployment] = MIRRORS) -> None:
    """Namespaces and deployments that are not there yet."""
    for mirror in mirrors:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": mirror.namespace}}
        for resource, obj, inside in (
            (resources.NAMESPACE, namespace, ""),
            (resources.DEPLOYMENT, mirror.deployment(), mirror.namespace),
        ):
            try:
                await client.create(resource, obj, inside)
            except ApiError as error:
                if error.code != 409:
                    raise


def of(pod: Object) -> ComponentDeployment | None:
    """The mirror that a pod is of; a pod elsewhere that only says so is none."""
    found = _BY_NAME.get(objects.annotations(pod).get(MIRROR, ""))
    return found if found is not None and found.namespace == objects.namespace(pod) else None


class Journal:
    """The log files behind the mirrors: what the parts log goes there as well."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._handlers: list[tuple[logging.Logger, logging.Handler]] = []

    def open(self) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        for mirror in MIRRORS:
            handler = logging.handlers.RotatingFileHandler(
                self.path(mirror), maxBytes=_LARGEST_LOG, backupCount=1, encoding="utf-8", delay=False
            )
            handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
            for name in mirror.loggers:
                logger = logging.getLogger(name)
                logger.addHandler(handler)
                self._handlers.append((logger, handler))
            logging.getLogger(mirror.loggers[0]).info("%s runs inside pykueue", mirror.name)

    def close(self) -> None:
        for logger, handler in self._handlers:
            logger.removeHandler(handler)
            handler.close()
        self._handlers.clear()

    def path(self, mirror: ComponentDeployment) -> Path:
        return self._directory / f"{mirror.name}.log"


class ComponentRuntime:
    """A runtime beside another one: pods that mirror a part wait, all others run as they did."""

    def __init__(self, inner: Runtime, journal: Journal) -> None:
        self.name = inner.name
        self._inner = inner
        self._journal = journal

    async def start(self, request: ContainerRequest) -> Container:
        if (mirror := of(request.pod)) is not None:
            return _MirrorContainer(f"mirror://{mirror.name}/{request.attempt}")
        return await self._inner.start(request)

    async def adopt(self, request: ContainerRequest, container_id: str) -> Container | None:
        return None if of(request.pod) is not None else await self._inner.adopt(request, container_id)

    async def clear(self, pod_uid: str) -> None:
        await self._inner.clear(pod_uid)

    async def forget(self, pod_uid: str) -> None:
        await self._inner.forget(pod_uid)

    async def execute(self, request: ContainerRequest, *, terminal: bool, wants_input: bool) -> Execution:
        if of(request.pod) is not None:
            raise StartError("this pod only mirrors a part of pykueue")
        return await self._inner.execute(request, terminal=terminal, wants_input=wants_input)

    async def handle(self, request: ContainerRequest, handler: Object) -> str:
        return "" if of(request.pod) is not None else await self._inner.handle(request, handler)

    def ports(self, pod: Object) -> dict[int, int]:
        return self._inner.ports(pod)

    def pods(self) -> set[str]:
        return self._inner.pods()

    def log(self, pod: Object, container: str, attempt: int) -> Path | bytes | None:
        mirror = of(pod)
        return self._inner.log(pod, container, attempt) if mirror is None else self._journal.path(mirror)


class _MirrorContainer:
    def __init__(self, container_id: str) -> None:
        self.id = container_id
        self._stopped = asyncio.Event()

    async def wait(self) -> Exit:
        await self._stopped.wait()
        return Exit(code=0)

    async def stop(self, _grace_seconds: float) -> None:
        self._stopped.set()
