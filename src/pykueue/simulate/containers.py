"""Containers that only take virtual time and outlive the kubelet, as the processes of a machine
do.

The kubelet of the simulation starts, adopts and stops them. Each attempt at a container may start
once.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from pykueue.api import objects
from pykueue.api.scheme import Object
from pykueue.api.times import SECOND_NS
from pykueue.cluster.kubelet.run import Exit
from pykueue.cluster.runtimes import simulated
from pykueue.cluster.runtimes.protocol import Connection, ContainerRequest, Execution, StartError
from pykueue.kube.clock import Clock


@dataclass(slots=True, kw_only=True)
class SimulatedProcess:
    """One attempt at a container."""

    id: str
    pod: Object
    ends_ns: int | None
    """None: when it is stopped."""
    exit: Exit
    stopped: asyncio.Event = field(default_factory=asyncio.Event)


class Machine:
    """The `Runtime` of every node. `on_start` is called with each process that starts."""

    name = "simulated"
    has_files = False

    def __init__(self, clock: Clock, on_start: Callable[[SimulatedProcess], None]) -> None:
        self._clock = clock
        self._on_start = on_start
        self._processes: dict[str, dict[str, SimulatedProcess]] = {}
        """By the uid of the pod, then by id."""

    def running(self) -> list[SimulatedProcess]:
        return [process for pod in self._processes.values() for process in pod.values() if self.is_running(process)]

    def is_running(self, process: SimulatedProcess) -> bool:
        is_over = process.ends_ns is not None and process.ends_ns <= self._clock.now_ns()
        return not is_over and not process.stopped.is_set()

    # The protocol of a runtime

    async def start(self, request: ContainerRequest) -> "MachineContainer":
        seconds = simulated.seconds(request.pod, request.container)
        process = SimulatedProcess(
            id=_id(request),
            pod=request.pod,
            ends_ns=None if seconds is None else self._clock.now_ns() + int(seconds * SECOND_NS),
            exit=Exit(code=simulated.exit_code(request.pod)),
        )
        self._processes.setdefault(objects.uid(request.pod), {})[process.id] = process
        self._on_start(process)
        return MachineContainer(process, self._clock)

    async def adopt(self, request: ContainerRequest, _container_id: str) -> "MachineContainer | None":
        process = self._processes.get(objects.uid(request.pod), {}).get(_id(request))
        return None if process is None else MachineContainer(process, self._clock)

    async def clear(self, pod_uid: str) -> None:
        for process in self._processes.get(pod_uid, {}).values():
            process.stopped.set()

    async def forget(self, pod_uid: str) -> None:
        await self.clear(pod_uid)
        self._processes.pop(pod_uid, None)

    def pods(self) -> set[str]:
        return set(self._processes)

    async def execute(self, _request: ContainerRequest, *, terminal: bool, wants_input: bool) -> Execution:  # noqa: ARG002
        raise StartError("the simulation runs no commands")

    async def handle(self, _request: ContainerRequest, _handler: Object) -> str:
        return ""

    async def connect(self, _pod: Object, _port: int) -> Connection:
        raise ConnectionRefusedError(0, "simulated containers do not listen")

    def log(self, _pod: Object, _container: str, _attempt: int) -> bytes:
        return b""


class MachineContainer:
    """A process as one kubelet sees it."""

    def __init__(self, process: SimulatedProcess, clock: Clock) -> None:
        self.id = process.id
        self._process = process
        self._clock = clock

    async def wait(self) -> Exit:
        process = self._process
        if process.ends_ns is None:
            await process.stopped.wait()
            return simulated.TERMINATED
        seconds = max(0.0, (process.ends_ns - self._clock.now_ns()) / SECOND_NS)
        try:
            await asyncio.wait_for(process.stopped.wait(), seconds)
        except TimeoutError:
            return process.exit
        return process.exit if process.ends_ns <= self._clock.now_ns() else simulated.TERMINATED

    async def stop(self, _grace_seconds: float) -> None:
        self._process.stopped.set()


def _id(request: ContainerRequest) -> str:
    return f"simulated://{objects.uid(request.pod)}/{request.container['name']}/{request.attempt}"
