"""A whole cluster in this process and in virtual time: API, Kueue's controllers, simulated nodes.

Nothing waits: an hour passes in the time that its events take.
"""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, Self

from pykueue.api import registry, resources
from pykueue.api.scheme import Object
from pykueue.api.times import SECOND_NS
from pykueue.apiserver.core import Core
from pykueue.apiserver.local_client import LocalClient
from pykueue.apiserver.store.memory import MemoryLog
from pykueue.apiserver.store.store import Store
from pykueue.app import default_queues, process
from pykueue.cluster.local_cluster import ClusterOptions, LocalCluster
from pykueue.controllers import settings
from pykueue.controllers.system import Controllers
from pykueue.kube.client import Client
from pykueue.kube.clock import Clock
from pykueue.library import event_loops
from pykueue.library.operations import Answer, ClusterError, Duration, Operations, _seconds
from pykueue.simulate.event_loop import SimulationLoop, VirtualClock

_NAMESPACES = ("default", resources.KUEUE_NAMESPACE)


class Cluster(Operations):
    """A cluster with one node and a queue `default`, both of the given size.

    with pykueue.Cluster(cpu=8, gpus=2) as cluster:
        cluster.submit(name="train", gpus=2, duration="10m")
        cluster.wait("train")

    `nodes` are Node manifests instead of that node; `bare` leaves the queue away; `configuration`
    is a Kueue Configuration (a file or an object). Each change takes a second of virtual time, in
    which the controllers react.
    """

    settle_seconds = 1.0

    def __init__(
        self,
        *,
        cpu: float = 8,
        memory: str = "32Gi",
        gpus: int = 0,
        nodes: Sequence[Object] = (),
        bare: bool = False,
        configuration: Mapping[str, Any] | str | Path | None = None,
    ) -> None:
        self._nodes = tuple(nodes) or (_node(cpu, memory, gpus),)
        self._is_bare = bare
        self._document = _configuration(configuration)
        order = Random(0)  # noqa: S311 - guards nothing
        self._loop = SimulationLoop(order, window=1)  # type: ignore[abstract] # without I/O
        self._virtual_clock = VirtualClock(self._loop)
        self._directory: tempfile.TemporaryDirectory[str] | None = None
        self._client: Client | None = None
        self._parts: list[Controllers | LocalCluster] = []

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def start(self) -> None:
        event_loops.complete(self._loop.run_until_complete, self._start())

    def close(self) -> None:
        """End everything; the cluster cannot be started again."""
        if not self._loop.is_closed():
            event_loops.complete(self._loop.run_until_complete, self._stop())
            event_loops.call(self._loop.close)
            if self._directory is not None:
                self._directory.cleanup()

    def advance(self, duration: Duration) -> datetime:
        """Let virtual time pass, and return the new time."""
        seconds = _seconds(duration)
        self._run(lambda _client: asyncio.sleep(seconds))
        return self.now

    @property
    def _clock(self) -> Clock:
        return self._virtual_clock

    def _run(self, action: Callable[[Client], Awaitable[Answer]]) -> Answer:
        client = self._client
        if client is None or self._loop.is_closed():
            raise ClusterError("the cluster does not run; use it inside `with pykueue.Cluster() as cluster:`")
        return event_loops.complete(self._loop.run_until_complete, action(client))

    async def _configuration(self, _client: Client) -> Mapping[str, Any]:
        return self._document

    async def _start(self) -> None:
        now = lambda: datetime.fromtimestamp(self._virtual_clock.now_ns() / SECOND_NS, UTC)  # noqa: E731
        scheme = registry.scheme()
        core = Core(Store(MemoryLog()), scheme, settings=settings.admission_settings(self._document), clock=now)
        await core.start()
        client = LocalClient(core, scheme, shows_managers=False)
        for name in _NAMESPACES:
            metadata = {"name": name, "labels": {"kubernetes.io/metadata.name": name}}
            await client.create(resources.NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        self._directory = tempfile.TemporaryDirectory(prefix="pykueue-", ignore_cleanup_errors=True)
        options = ClusterOptions(runtime="simulated", directory=Path(self._directory.name), nodes=self._nodes)
        cluster = LocalCluster(client, self._virtual_clock, options)
        await cluster.start()
        self._parts.append(cluster)
        if not self._is_bare:
            await default_queues.ensure(client)
        controllers = Controllers(client, self._document, self._virtual_clock)
        await controllers.start()
        self._parts.append(controllers)
        self._client = client
        await asyncio.sleep(self.settle_seconds)

    async def _stop(self) -> None:
        for part in reversed(self._parts):
            await part.stop()


def _node(cpu: float, memory: str, gpus: int) -> Object:
    capacity = {"cpu": f"{cpu:g}", "memory": memory, "pods": "10000"}
    if gpus:
        capacity["nvidia.com/gpu"] = str(gpus)
    metadata = {"name": "node", "labels": {"kubernetes.io/hostname": "node"}}
    status = {"capacity": capacity, "allocatable": capacity}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}


def _configuration(source: Mapping[str, Any] | str | Path | None) -> Mapping[str, Any]:
    from pykueue.api.configuration import loading

    if isinstance(source, Mapping):
        return loading.complete(dict(source)).document
    return process.load_configuration(None if source is None else Path(source)).document
