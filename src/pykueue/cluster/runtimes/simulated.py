"""The simulated runtime: containers run no command, they only wait on the clock.

A pod runs for the time in its annotation `pykueue.dev/runtime` (`90`, `30s`, `1h30m`,
`until-deleted`). Without it, a pod runs as long as a `sleep N` in its command, or else until it is
deleted. Annotation `pykueue.dev/exit-code` is its exit code. Annotation `pykueue.dev/pull` is the
time that a node needs to pull an image for the first time.
"""

import asyncio
import re

from pykueue.api import durations, objects, times
from pykueue.api.scheme import Object
from pykueue.api.times import SECOND_NS
from pykueue.cluster import pods
from pykueue.cluster.kubelet.run import Exit
from pykueue.cluster.runtimes.protocol import Connection, ContainerRequest, Execution, StartError, StillPulling
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
    has_files = False

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._pulled_at_ns: dict[tuple[str, str], int] = {}

    async def start(self, request: ContainerRequest) -> "SimulatedContainer":
        self._pull(request)
        return self._container(request, seconds(request.pod, request.container))

    async def adopt(self, request: ContainerRequest, container_id: str) -> "SimulatedContainer | None":
        if not container_id:
            return None
        remaining = seconds(request.pod, request.container)
        if remaining is not None:
            remaining = max(0.0, remaining - self._age(request))
        return self._container(request, remaining)

    async def clear(self, _pod_uid: str) -> None:
        return

    async def forget(self, _pod_uid: str) -> None:
        return

    async def execute(
        self,
        _request: ContainerRequest,
        *,
        terminal: bool,  # noqa: ARG002
        wants_input: bool,  # noqa: ARG002
    ) -> Execution:
        raise StartError("the simulated runtime runs no commands; see pykueue up --runtime process")

    async def handle(self, _request: ContainerRequest, _handler: Object) -> str:
        """Probes and hooks always succeed."""
        return ""

    async def connect(self, _pod: Object, _port: int) -> Connection:
        raise ConnectionRefusedError(0, "simulated containers do not listen")

    def pods(self) -> set[str]:
        return set()

    def log(self, pod: Object, container: str, attempt: int) -> bytes:
        return (
            f"simulated: container {container} of {objects.name(pod)}, attempt {attempt + 1}, ran no command\n".encode()
        )

    def _container(self, request: ContainerRequest, remaining: float | None) -> "SimulatedContainer":
        code = exit_code(request.pod)
        name = f"simulated://{objects.uid(request.pod)}/{request.container['name']}/{request.attempt}"
        return SimulatedContainer(name, remaining, Exit(code=code), self._clock)

    def _pull(self, request: ContainerRequest) -> None:
        """Raise StillPulling until the image is pulled; the first pod starts the pull."""
        pull_time = objects.annotations(request.pod).get(PULL)
        if not pull_time:
            return
        image, now_ns = request.container.get("image", ""), self._clock.now_ns()
        ready_ns = self._pulled_at_ns.setdefault((pods.node_name(request.pod), image), now_ns + _ns(pull_time))
        if now_ns < ready_ns:
            raise StillPulling(image, times.span((ready_ns - now_ns) / SECOND_NS))

    def _age(self, request: ContainerRequest) -> float:
        for status in (*pods.container_statuses(request.pod), *pods.ephemeral_statuses(request.pod)):
            since = objects.nested(status, "state", "running").get("startedAt")
            if status["name"] == request.container["name"] and since:
                return self._clock.now_ns() / SECOND_NS - times.parse(since).timestamp()
        return 0.0


class SimulatedContainer:
    def __init__(self, container_id: str, remaining: float | None, end: Exit, clock: Clock) -> None:
        self.id = container_id
        self._remaining = remaining
        self._end = end
        self._clock = clock
        self._stopped = asyncio.Event()

    async def wait(self) -> Exit:
        if self._remaining is None:
            await self._stopped.wait()
            return TERMINATED
        sleeping = asyncio.ensure_future(self._clock.sleep(self._remaining))
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
    """How long the container runs; None: until it is stopped."""
    annotation = objects.annotations(pod).get(RUNTIME)
    if annotation == UNTIL_DELETED:
        return None
    if annotation:
        return _ns(annotation) / SECOND_NS
    return seconds_of_text(" ".join(map(str, [*(container.get("command") or ()), *(container.get("args") or ())])))


def exit_code(pod: Object) -> int:
    """The code of the annotation; 0 if it is none."""
    text = objects.annotations(pod).get(EXIT_CODE, "0")
    return int(text) if re.fullmatch(r"\d{1,3}", text) else 0


def seconds_of_text(command: str) -> float | None:
    """The sum of all `sleep N` in a command; None if there is none."""
    sleeps = [float(number) * _UNITS[unit] for number, unit in _SLEEP.findall(command)]
    return min(sum(sleeps), times.LONGEST_SECONDS) if sleeps else None


def _ns(text: str) -> int:
    """The duration in nanoseconds; a plain number is in seconds."""
    is_number = re.fullmatch(r"\d+(\.\d+)?", text) is not None
    return int(min(float(text), times.LONGEST_SECONDS) * SECOND_NS) if is_number else durations.to_ns(text)
