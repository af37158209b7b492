"""Deployments for the components that run inside pykueue, as a real cluster would have them.

`kubectl get all -n kueue-system` shows a controller manager, and `kubectl logs` of its pod reads
the component's log. The pods run no command: they are Running while pykueue runs.
"""

import asyncio
import logging
import logging.handlers
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pykueue.api import objects, reserved_keys, resources
from pykueue.api.errors import ApiError
from pykueue.api.scheme import Object
from pykueue.cluster import paths
from pykueue.cluster.kubelet.run import Exit
from pykueue.cluster.runtimes.protocol import (
    Connection,
    Container,
    ContainerRequest,
    Execution,
    Runtime,
    StartError,
)
from pykueue.kube.client import Client
from pykueue.kube.log_format import EscapingFormatter

_LARGEST_LOG = 4 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentDeployment:
    namespace: str
    name: str
    image: str
    loggers: tuple[str, ...]

    def deployment(self) -> Object:
        """Its selector is that of Kueue's own Deployment, so that Kueue's manifests may be applied
        over it.
        """
        selected = {"control-plane": "controller-manager"}
        labels = {"app.kubernetes.io/name": self.name} | selected
        container = {"name": "manager", "image": self.image}
        template = {
            "metadata": {"labels": labels, "annotations": {reserved_keys.COMPONENT: self.name}},
            "spec": {"containers": [container], "tolerations": [{"operator": "Exists"}]},
        }
        return {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": self.name, "namespace": self.namespace, "labels": labels},
            "spec": {"replicas": 1, "selector": {"matchLabels": selected}, "template": template},
        }


COMPONENTS = (
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
        loggers=("pykueue.cluster.raycluster-controller", "pykueue.cluster.rayjob-controller"),
    ),
    ComponentDeployment(
        namespace="kubeflow",
        name="training-operator",
        image="pykueue/training-operator",
        loggers=("pykueue.cluster.pytorchjob-controller", "pykueue.cluster.tfjob-controller"),
    ),
    ComponentDeployment(
        namespace="jobset-system",
        name="jobset-controller-manager",
        image="pykueue/jobset-operator",
        loggers=("pykueue.cluster.jobset",),
    ),
    ComponentDeployment(
        namespace="kubeflow-system",
        name="kubeflow-trainer-controller-manager",
        image="pykueue/trainer",
        loggers=("pykueue.cluster.trainjob",),
    ),
    ComponentDeployment(
        namespace="appwrapper-system",
        name="appwrapper-controller-manager",
        image="pykueue/appwrapper-operator",
        loggers=("pykueue.cluster.appwrapper",),
    ),
    ComponentDeployment(
        namespace="spark-operator",
        name="spark-operator-controller",
        image="pykueue/spark-operator",
        loggers=("pykueue.cluster.spark-operator",),
    ),
)
_BY_NAME = {component.name: component for component in COMPONENTS}


async def ensure(client: Client, components: Iterable[ComponentDeployment] = COMPONENTS) -> None:
    """Create the namespaces and deployments that do not exist yet."""
    for component in components:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": component.namespace}}
        for resource, obj, namespace_name in (
            (resources.NAMESPACE, namespace, ""),
            (resources.DEPLOYMENT, component.deployment(), component.namespace),
        ):
            try:
                await client.create(resource, obj, namespace_name)
            except ApiError as error:
                if error.code != 409:
                    raise


def of(pod: Object) -> ComponentDeployment | None:
    """The component that a pod in its namespace stands for; None for other pods."""
    component = _BY_NAME.get(objects.annotations(pod).get(reserved_keys.COMPONENT, ""))
    return component if component is not None and component.namespace == objects.namespace(pod) else None


class ComponentLogs:
    """The log files of the components: handlers on their loggers write there as well."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._handlers: list[tuple[logging.Logger, logging.Handler]] = []

    def open(self) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        for component in COMPONENTS:
            handler = logging.handlers.RotatingFileHandler(
                self.path(component), maxBytes=_LARGEST_LOG, backupCount=1, encoding="utf-8", delay=False
            )
            handler.setFormatter(EscapingFormatter())
            for name in component.loggers:
                logger = logging.getLogger(name)
                logger.addHandler(handler)
                self._handlers.append((logger, handler))
            logging.getLogger(component.loggers[0]).info("%s runs inside pykueue", component.name)

    def close(self) -> None:
        for logger, handler in self._handlers:
            logger.removeHandler(handler)
            handler.close()
        self._handlers.clear()

    def path(self, component: ComponentDeployment) -> Path:
        return paths.inside(self._directory, f"{component.name}.log")


class ComponentRuntime:
    """Wraps a runtime: containers of component pods only wait, all others run on it."""

    def __init__(self, inner: Runtime, logs: ComponentLogs) -> None:
        self.name = inner.name
        self.has_files = inner.has_files
        self._inner = inner
        self._logs = logs

    async def start(self, request: ContainerRequest) -> Container:
        if (component := of(request.pod)) is not None:
            return _ComponentContainer(f"mirror://{component.name}/{request.attempt}")
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

    async def connect(self, pod: Object, port: int) -> Connection:
        return await self._inner.connect(pod, port)

    def pods(self) -> set[str]:
        return self._inner.pods()

    def log(self, pod: Object, container: str, attempt: int) -> Path | bytes | None:
        component = of(pod)
        return self._inner.log(pod, container, attempt) if component is None else self._logs.path(component)


class _ComponentContainer:
    def __init__(self, container_id: str) -> None:
        self.id = container_id
        self._stopped = asyncio.Event()

    async def wait(self) -> Exit:
        await self._stopped.wait()
        return Exit(code=0)

    async def stop(self, _grace_seconds: float) -> None:
        self._stopped.set()
