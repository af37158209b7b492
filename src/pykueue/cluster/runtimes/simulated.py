"""A runtime in which containers only take time: real or virtual, as the clock has it.

A pod runs as long as its annotation `pykueue.dev/runtime` says (`90`, `30s`, `1h30m`), else as long as a `sleep N`
in its command would, else until it is deleted (as with `until-deleted`). Annotation `pykueue.dev/exit-code` makes it fail.
Annotation `pykueue.dev/pull` is the time that a node needs to get an image; it has it from then on.
"""

import asyncio
import re
from datetime import timedelta

from pykueue.api import durations, objects, times
from pykueue.api.scheme import Object
from pykueue.api.times import SECOND_NS
from pykueue.cluster import pods
from pykueue.cluster.kubelet.run import Exit
from pykueue.cluster.runtimes.protocol import ContainerRequest, Execution, StartError, StillPulling
from pykueue.kube.clock import Clock

RUNTIME = "pykueue.dev/runtime"
EXIT_CODE = "pykueue.dev/exit-code"
PULL = "pykueue.dev/pull"
_SLEEP = re.compile(r"\bsleep\s+(\d+(?:\.\d+)?)([smhd]?)(?=$|[\s;&|\"')])")
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
TERMINATED = Exit(code=143)
UNTIL_DELETED = "until-deleted"


class SimulatedRuntime:
    name = "simulated"

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._pulled_at_ns: dict[tuple[str, str], int] = {}

    async def start(self, request: ContainerRequest) -> "SimulatedContainer":
        self._pull(request)
        return self._container(request, seconds(request.pod, request.container))

    async def adopt(self, request: ContainerRequest, container_id: str) -> "SimulatedContainer | None":
        if not container_id:
            return None
        whole = seconds(request.pod, request.container)
        if whole is not None:
            whole = max(0.0, whole - self._age(request))
        return self._container(request, whole)

    async def clear(self, _pod_uid: str) -> None:
        return

    async def forget(self, _pod_uid: str) -> None:
        return

    async def execute(self, _request: ContainerRequest, *, terminal: bool, wants_input: bool) -> Execution:  # noqa: ARG002
        raise StartError("the simulated runtime runs no commands; see pykueue up --runtime process")

    async def handle(self, _request: ContainerRequest, _handler: Object) -> str:
        """Nothing runs that could be unwell."""
        return ""

    def ports(self, _pod: Object) -> dict[int, int]:
        return {}

    def pods(self) -> set[str]:
        return set()

    def log(self, pod: Object, container: str, attempt: int) -> bytes:
        return (
            f"simulated: container {container} of {objects.name(pod)}, attempt {attempt + 1}, ran no command\n".encode()
        )

    def _container(self, request: ContainerRequest, left: float | None) -> "SimulatedContainer":
        code = int(objects.annotations(request.pod).get(EXIT_CODE, "0"))
        name = f"simulated://{objects.uid(request.pod)}/{request.container['name']}/{request.attempt}"
        return SimulatedContainer(name, left, Exit(code=code), self._clock)

    def _pull(self, request: ContainerRequest) -> None:
        """The first pod with an image on a node begins to pull it; all wait until it is there."""
        stated = objects.annotations(request.pod).get(PULL)
        if not stated:
            return
        image, now_ns = request.container.get("image", ""), self._clock.now_ns()
        ready_ns = self._pulled_at_ns.setdefault((pods.node_name(request.pod), image), now_ns + _ns(stated))
        if now_ns < ready_ns:
            raise StillPulling(image, timedelta(microseconds=(ready_ns - now_ns) / 1000))

    def _age(self, request: ContainerRequest) -> float:
        status = request.pod.get("status", {})
        for shown in [*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())]:
            since = ((shown.get("state") or {}).get("running") or {}).get("startedAt")
            if shown["name"] == request.container["name"] and since:
                return self._clock.now_ns() / SECOND_NS - times.parse(since).timestamp()
        return 0.0


class SimulatedContainer:
    def __init__(self, container_id: str, left: float | None, end: Exit, clock: Clock) -> None:
        self.id = container_id
        self._left = left
        self._end = end
        self._clock = clock
        self._stopped = asyncio.Event()

    async def wait(self) -> Exit:
        if self._left is None:
            await self._stopped.wait()
            return TERMINATED
        sleeping = asyncio.ensure_future(self._clock.sleep(self._left))
        stopping = asyncio.ensure_future(self._stopped.wait())
        try:
            await asyncio.wait((sleeping, stopping), return_when=asyncio.FIRST_COMPLETED)
            return self._end if sleeping.done() else TERMINATED
        finally:
            sleeping.cancel()
            stopping.cancel()

    async def stop(self, _grace_seconds: float) -> None:
        self._stopped.set()


def seconds(pod: Object, container: Object) -> float | None:
    """How long this container runs; None: until it is stopped."""
    stated = objects.annotations(pod).get(RUNTIME)
    if stated == UNTIL_DELETED:
        return None
    if stated:
        return _ns(stated) / SECOND_NS
    return seconds_of_text(" ".join(map(str, [*(container.get("command") or ()), *(container.get("args") or ())])))


def seconds_of_text(command: str) -> float | None:
    """The sum of every `sleep N` in a command; None if there is none."""
    naps = [float(number) * _UNITS[unit] for number, unit in _SLEEP.findall(command)]
    return sum(naps) if naps else None


def _ns(text: str) -> int:
    """Plain numbers are seconds."""
    is_number = re.fullmatch(r"\d+(\.\d+)?", text) is not None
    return int(float(text) * SECOND_NS) if is_number else durations.to_ns(text)
