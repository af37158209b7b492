"""The cluster of a demo: `pykueue up` in a temporary directory, on any free port."""

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pykueue.api import objects
from pykueue.api.errors import ApiError
from pykueue.api.resources import CLUSTER_QUEUE, WORKLOAD
from pykueue.api.scheme import Kind, Object
from pykueue.apiserver.paths import ServerPaths
from pykueue.app import process, up
from pykueue.cli.demo.scenario import Scenario
from pykueue.cli.demo.state import DemoState
from pykueue.kube.client import Client, DeleteOptions, PatchType, WriteOptions
from pykueue.kube.informer import Change, Informer

_TIMEOUT_SECONDS = 60.0
_WITH_DEPENDENTS = DeleteOptions(propagation_policy="Background")
_APPLY = WriteOptions(field_manager="pykueue-demo", force=True)


KUEUE_NAMESPACE = "kueue-system"


@dataclass(slots=True)
class DemoCluster:
    client: Client
    kind_of: Callable[[Object], Kind | None]
    state: DemoState = field(default_factory=DemoState)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _generated: dict[str, list[str]] = field(default_factory=dict)

    async def apply(self, obj: Object) -> str:
        """Apply or create an object. Returns its name, which the server may have generated."""
        kind, namespace = self._kind_and_namespace(obj)
        metadata = obj["metadata"]
        if "name" in metadata:
            await self.client.patch(
                kind.resource, metadata["name"], namespace, obj, patch_type=PatchType.APPLY, options=_APPLY
            )
            return str(metadata["name"])
        name = objects.name(await self.client.create(kind.resource, obj, namespace))
        self._generated.setdefault(metadata["generateName"], []).append(name)
        return name

    async def delete(self, obj: Object) -> None:
        kind, namespace = self._kind_and_namespace(obj)
        metadata = obj["metadata"]
        names = [metadata["name"]] if "name" in metadata else self._generated.pop(metadata["generateName"], [])
        for name in names:
            with contextlib.suppress(ApiError):
                await self.client.delete(kind.resource, name, namespace, _WITH_DEPENDENTS)

    def _kind_and_namespace(self, obj: Object) -> tuple[Kind, str]:
        kind = self.kind_of(obj)
        assert kind is not None, obj["kind"]
        return kind, obj["metadata"].get("namespace", "default") if kind.namespaced else ""

    async def until(self, is_reached: Callable[[DemoState], bool]) -> None:
        """Wait for a state. TimeoutError if the cluster does not reach it in a minute."""
        async with asyncio.timeout(_TIMEOUT_SECONDS):
            while not is_reached(self.state):
                self._changed.clear()
                await self._changed.wait()

    def follow(self) -> list[Coroutine[Any, Any, None]]:
        """The coroutines that keep `state` up to date."""
        handlers = ((WORKLOAD, self.state.workload_changed), (CLUSTER_QUEUE, self.state.queue_changed))
        informers = []
        for resource, handler in handlers:
            informer = Informer(self.client, resource)
            informer.add_handler(handler)
            informer.add_handler(self._notify)
            informers.append(informer)
        return [informer.run() for informer in informers]

    def _notify(self, _change: Change) -> None:
        self._changed.set()


@contextlib.asynccontextmanager
async def open_cluster(scenario: Scenario) -> AsyncIterator[DemoCluster]:
    with tempfile.TemporaryDirectory(prefix="pykueue-demo-", ignore_cleanup_errors=True) as directory:
        async with contextlib.AsyncExitStack() as stack:
            secrets = [
                await _start_worker(scenario, stack, Path(directory) / name, file)
                for name, file in scenario.workers.items()
            ]
            server = await stack.enter_async_context(up.started(_options(scenario, Path(directory) / "cluster")))
            cluster = DemoCluster(server.api.client(), server.api.scheme.for_object)
            for secret in secrets:
                await cluster.apply(secret)
            tasks = [asyncio.create_task(coroutine) for coroutine in cluster.follow()]
            try:
                yield cluster
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)


def _options(scenario: Scenario, directory: Path) -> up.UpOptions:
    directory.mkdir(mode=0o700)
    return up.UpOptions(
        paths=ServerPaths(directory=directory),
        configuration=process.load_configuration(scenario.configuration),
        runtime="simulated",
        nodes=scenario.nodes,
    )


async def _start_worker(scenario: Scenario, stack: contextlib.AsyncExitStack, directory: Path, file: str) -> Object:
    """Start a worker; return the Secret by which the cluster of the demo reaches it."""
    options = _options(scenario, directory)
    server = await stack.enter_async_context(up.started(options))
    worker = DemoCluster(server.api.client(), server.api.scheme.for_object)
    for obj in scenario.objects(file):
        await worker.apply(obj)
    kubeconfig = await asyncio.to_thread(options.paths.kubeconfig.read_text)
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": f"{directory.name}-secret", "namespace": KUEUE_NAMESPACE},
        "stringData": {"kubeconfig": kubeconfig},
    }
