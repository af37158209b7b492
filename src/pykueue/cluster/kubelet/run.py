"""The life of one pod's containers as a state machine without I/O.

The agent asks `due` what to start or stop now, performs it, and tells what happened (`started`, `held_back`,
`exited`). Init containers run in order, sidecars beside everything; restarts wait as the kubelet's do.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec

from pykueue.api.scheme import Object
from pykueue.cluster.kubelet import probes

SECOND_RESTART = timedelta(seconds=10)
"""The first restart is immediate, the second waits this long, then it doubles."""
LONGEST_RESTART = timedelta(minutes=5)
FORGETS_AFTER = timedelta(minutes=10)
"""A container that ran this long starts its restart delays anew."""
LOOKS_AGAIN = timedelta(seconds=2)
"""How long a container that lacks something (a ConfigMap) waits before it is tried again."""

_ALIVE = ("starting", "running", "stopping")


class Exit(msgspec.Struct, frozen=True, kw_only=True):
    code: int
    reason: str = ""
    message: str = ""


class Start(msgspec.Struct, frozen=True, kw_only=True):
    container: str
    attempt: int


class Stop(msgspec.Struct, frozen=True, kw_only=True):
    container: str


Action = Start | Stop


@dataclass(slots=True, kw_only=True)
class ContainerRun:
    spec: Object
    role: str
    """main, init or sidecar."""
    phase: str = "waiting"
    """waiting, starting, running, stopping or ended."""
    attempt: int = 0
    crashes: int = 0
    started_at: datetime | None = None
    ended_at: datetime | None = None
    exit: Exit | None = None
    container_id: str = ""
    previous: "ContainerRun | None" = None
    """The attempt before, for `lastState`."""
    lacks: tuple[str, str] = ("", "")
    """Reason and message of a start that could not be made."""
    retry_at: datetime | None = None
    is_up: bool = False
    """Its postStart hook and startup probe are done."""
    is_ready: bool = False
    is_doomed: bool = False
    """It failed a probe, and is stopped to be restarted."""

    @property
    def name(self) -> str:
        return str(self.spec["name"])

    @property
    def is_completed(self) -> bool:
        return self.phase == "ended" and self.exit is not None and self.exit.code == 0

    def restart_delay(self) -> timedelta:
        if self.crashes == 0:
            return timedelta()
        return min(SECOND_RESTART * (1 << min(self.crashes - 1, 8)), LONGEST_RESTART)

    def next_attempt(self) -> "ContainerRun":
        return ContainerRun(
            spec=self.spec,
            role=self.role,
            phase="starting",
            attempt=self.attempt + 1,
            crashes=self.crashes + 1,
            previous=self,
        )


@dataclass(slots=True, kw_only=True)
class PodRun:
    pod: Object
    containers: dict[str, ContainerRun]
    started_at: datetime
    phase: str = "Pending"
    stop_at: datetime | None = None
    stop_reason: str = ""
    stop_message: str = ""
    wake_at: datetime | None = None
    """When `due` should be asked again though nothing happened."""

    @classmethod
    def begin(cls, pod: Object, now: datetime) -> "PodRun":
        spec = pod["spec"]
        containers = {
            found["name"]: ContainerRun(
                spec=found, role="sidecar" if found.get("restartPolicy") == "Always" else "init"
            )
            for found in spec.get("initContainers") or ()
        }
        containers |= {found["name"]: ContainerRun(spec=found, role="main") for found in spec.get("containers") or ()}
        return cls(pod=pod, containers=containers, started_at=now)

    @property
    def restart_policy(self) -> str:
        return str(self.pod["spec"].get("restartPolicy", "Always"))

    @property
    def is_over(self) -> bool:
        return self.phase in ("Succeeded", "Failed")

    def of(self, *roles: str) -> list[ContainerRun]:
        return [run for run in self.containers.values() if run.role in roles]

    def stop(self, now: datetime, reason: str = "", message: str = "") -> None:
        """The pod shall end; repeated calls keep the first reason."""
        if self.stop_at is None:
            self.stop_at, self.stop_reason, self.stop_message = now, reason, message

    def started(self, name: str, container_id: str, now: datetime) -> None:
        run = self.containers[name]
        run.phase, run.container_id, run.started_at, run.lacks = "running", container_id, now, ("", "")
        if not probes.needs_attention(run.spec):
            self.came_up(name)
        if run.role == "main":
            self.phase = "Running"

    def came_up(self, name: str) -> None:
        run = self.containers[name]
        run.is_up = True
        run.is_ready = probes.of(run.spec, probes.READINESS) is None

    def held_back(self, name: str, lacks: tuple[str, str], now: datetime, wait: timedelta = LOOKS_AGAIN) -> None:
        """The container could not be started for want of something that may yet come."""
        run = self.containers[name]
        run.phase, run.lacks, run.retry_at = "waiting", lacks, now + wait

    def exited(self, name: str, end: Exit, now: datetime) -> None:
        run = self.containers[name]
        run.started_at = run.started_at or now
        if now - run.started_at >= FORGETS_AFTER:
            run.crashes = 0
        run.phase, run.exit, run.ended_at = "ended", end, now
        run.is_up = run.is_ready = False
        if run.role == "main":
            self.phase = "Running"

    def due(self, now: datetime) -> list[Action]:
        self.wake_at = None
        if self.is_over:
            return []
        self._check_deadline(now)
        if self.stop_at is not None:
            return self._wind_down()
        return self._advance(now)

    def _check_deadline(self, now: datetime) -> None:
        seconds = self.pod["spec"].get("activeDeadlineSeconds")
        if seconds is None or self.stop_at is not None:
            return
        deadline = self.started_at + timedelta(seconds=int(seconds))
        if now >= deadline:
            self.stop(now, "DeadlineExceeded", "Pod was active on the node longer than the specified deadline")
        else:
            self._wake(deadline)

    def _advance(self, now: datetime) -> list[Action]:
        mains = self.of("main")
        if all(map(self._is_done, mains)):
            return self._end("Succeeded" if all(run.is_completed for run in mains) else "Failed")
        actions: list[Action] = []
        for run in self.of("init", "sidecar"):
            if run.role == "sidecar":
                actions += self._keep_up(run, now)
                current = self.containers[run.name]
                if current.phase in ("waiting", "starting") or (current.phase == "running" and not current.is_up):
                    return actions
            elif not run.is_completed:
                if run.phase == "ended" and self.restart_policy == "Never":
                    return [*actions, *self._end("Failed")]
                return [*actions, *self._keep_up(run, now)]
        for run in mains:
            if not self._is_done(run):
                actions += self._keep_up(run, now)
        return actions

    def _is_done(self, run: ContainerRun) -> bool:
        if run.phase != "ended":
            return False
        return self.restart_policy == "Never" or (self.restart_policy == "OnFailure" and run.is_completed)

    def _keep_up(self, run: ContainerRun, now: datetime) -> list[Action]:
        """Starts a container that does not run, once its delay is over."""
        if run.phase == "waiting":
            if run.retry_at is not None and now < run.retry_at:
                self._wake(run.retry_at)
                return []
            run.phase = "starting"
            return [Start(container=run.name, attempt=run.attempt)]
        if run.phase == "running" and run.is_doomed:
            return _stop([run])
        if run.phase != "ended" or run.ended_at is None:
            return []
        if now < run.ended_at + run.restart_delay():
            self._wake(run.ended_at + run.restart_delay())
            return []
        self.containers[run.name] = run.next_attempt()
        return [Start(container=run.name, attempt=run.attempt + 1)]

    def _wind_down(self) -> list[Action]:
        """Main and init containers first, sidecars when those are gone."""
        others = self.of("main", "init")
        if any(run.phase in _ALIVE for run in others):
            return _stop(others)
        mains = self.of("main")
        is_success = bool(mains) and all(run.is_completed for run in mains) and not self.stop_reason
        return self._end("Succeeded" if is_success else "Failed")

    def _end(self, phase: str) -> list[Action]:
        """The outcome is clear; whatever still runs (sidecars) is stopped before it is told, last started first."""
        actions = _stop(list(reversed(self.containers.values())))
        if not any(run.phase in _ALIVE for run in self.containers.values()):
            self.phase = phase
        return actions

    def _wake(self, moment: datetime) -> None:
        self.wake_at = moment if self.wake_at is None else min(self.wake_at, moment)


def _stop(some: list[ContainerRun]) -> list[Action]:
    running = [run for run in some if run.phase == "running"]
    for run in running:
        run.phase = "stopping"
    return [Stop(container=run.name) for run in running]
