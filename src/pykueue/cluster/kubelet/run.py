"""The containers of one pod as a state machine without I/O.

A pod worker calls `due` for the containers to start or stop now, and reports the outcome
(`started`, `start_delayed`, `exited`). Init containers run in order, sidecars beside all others;
restarts are delayed as the kubelet delays them.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec

from pykueue.api import times
from pykueue.api.scheme import Object
from pykueue.cluster.kubelet import probes

SECOND_RESTART_DELAY = timedelta(seconds=10)
"""The first restart is immediate, the second waits this long, then the delay doubles."""
LONGEST_RESTART_DELAY = timedelta(minutes=5)
BACKOFF_RESET_AFTER = timedelta(minutes=10)
"""A container that ran this long starts again without a restart delay."""
RETRY_DELAY = timedelta(seconds=2)
"""How long a container waits before the next attempt if, for example, a ConfigMap is missing."""

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
    """main, init, sidecar or ephemeral."""
    phase: str = "waiting"
    """waiting, starting, running, stopping or ended."""
    attempt: int = 0
    crashes: int = 0
    started_at: datetime | None = None
    ended_at: datetime | None = None
    exit: Exit | None = None
    container_id: str = ""
    previous: "ContainerRun | None" = None
    """The attempt before this one, for `lastState`."""
    waiting_state: tuple[str, str] = ("", "")
    """Reason and message of the waiting state, when a start was delayed."""
    retry_at: datetime | None = None
    has_started: bool = False
    """Whether its postStart hook and startup probe have succeeded."""
    is_ready: bool = False
    failed_probe: bool = False
    """Whether it failed a probe or its postStart hook, so that it is stopped and restarted."""

    @property
    def name(self) -> str:
        return str(self.spec["name"])

    @property
    def is_completed(self) -> bool:
        return self.phase == "ended" and self.exit is not None and self.exit.code == 0

    def restart_delay(self) -> timedelta:
        if self.crashes == 0:
            return timedelta()
        return min(SECOND_RESTART_DELAY * (1 << min(self.crashes - 1, 8)), LONGEST_RESTART_DELAY)

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
    """When `due` must be called again even if nothing happened."""

    @classmethod
    def begin(cls, pod: Object, now: datetime) -> "PodRun":
        spec = pod["spec"]
        containers = {
            container["name"]: ContainerRun(
                spec=container, role="sidecar" if container.get("restartPolicy") == "Always" else "init"
            )
            for container in spec.get("initContainers") or ()
        }
        containers |= {
            container["name"]: ContainerRun(spec=container, role="main") for container in spec.get("containers") or ()
        }
        run = cls(pod=pod, containers=containers, started_at=now)
        run.add_ephemeral()
        return run

    def add_ephemeral(self) -> bool:
        """Add the ephemeral containers of the pod's spec; False if there are no new ones.

        They start at once, and once only.
        """
        ephemeral = self.pod["spec"].get("ephemeralContainers") or ()
        new = [container for container in ephemeral if container["name"] not in self.containers]
        for container in new:
            self.containers[container["name"]] = ContainerRun(spec=container, role="ephemeral")
        return bool(new)

    @property
    def restart_policy(self) -> str:
        return str(self.pod["spec"].get("restartPolicy", "Always"))

    @property
    def is_over(self) -> bool:
        return self.phase in ("Succeeded", "Failed")

    def of(self, *roles: str) -> list[ContainerRun]:
        return [run for run in self.containers.values() if run.role in roles]

    def stop(self, now: datetime, reason: str = "", message: str = "") -> None:
        """Terminate the pod. Repeated calls keep the first reason."""
        if self.stop_at is None:
            self.stop_at, self.stop_reason, self.stop_message = now, reason, message

    def started(self, name: str, container_id: str, now: datetime) -> None:
        run = self.containers[name]
        run.phase, run.container_id, run.started_at, run.waiting_state = "running", container_id, now, ("", "")
        if not probes.needs_worker(run.spec):
            self.startup_completed(name)
        if run.role == "main":
            self.phase = "Running"

    def startup_completed(self, name: str) -> None:
        run = self.containers[name]
        run.has_started = True
        run.is_ready = probes.of(run.spec, probes.READINESS) is None

    def start_delayed(
        self, name: str, waiting_state: tuple[str, str], now: datetime, wait: timedelta = RETRY_DELAY
    ) -> None:
        """The container cannot start yet, because something is missing that may appear later."""
        run = self.containers[name]
        run.phase, run.waiting_state, run.retry_at = "waiting", waiting_state, now + wait

    def exited(self, name: str, end: Exit, now: datetime) -> None:
        run = self.containers[name]
        run.started_at = run.started_at or now
        if now - run.started_at >= BACKOFF_RESET_AFTER:
            run.crashes = 0
        run.phase, run.exit, run.ended_at = "ended", end, now
        run.has_started = run.is_ready = False
        if run.role == "main":
            self.phase = "Running"

    def due(self, now: datetime) -> list[Action]:
        self.wake_at = None
        if self.is_over:
            return []
        self._check_deadline(now)
        if self.stop_at is not None:
            return self._terminate()
        return [*self._start_ephemeral(now), *self._advance(now)]

    def _start_ephemeral(self, now: datetime) -> list[Action]:
        waiting = [run for run in self.of("ephemeral") if run.phase == "waiting"]
        return [action for run in waiting for action in self._ensure_running(run, now)]

    def _check_deadline(self, now: datetime) -> None:
        seconds = self.pod["spec"].get("activeDeadlineSeconds")
        if seconds is None or self.stop_at is not None:
            return
        deadline = self.started_at + times.span(seconds)
        if now >= deadline:
            self.stop(now, "DeadlineExceeded", "Pod was active on the node longer than the specified deadline")
        else:
            self._wake_by(deadline)

    def _advance(self, now: datetime) -> list[Action]:
        mains = self.of("main")
        if all(map(self._is_done, mains)):
            return self._end("Succeeded" if all(run.is_completed for run in mains) else "Failed")
        actions: list[Action] = []
        for run in self.of("init", "sidecar"):
            if run.role == "sidecar":
                actions += self._ensure_running(run, now)
                current = self.containers[run.name]
                if current.phase in ("waiting", "starting") or (current.phase == "running" and not current.has_started):
                    return actions
            elif not run.is_completed:
                if run.phase == "ended" and self.restart_policy == "Never":
                    return [*actions, *self._end("Failed")]
                return [*actions, *self._ensure_running(run, now)]
        for run in mains:
            if not self._is_done(run):
                actions += self._ensure_running(run, now)
        return actions

    def _is_done(self, run: ContainerRun) -> bool:
        if run.phase != "ended":
            return False
        return self.restart_policy == "Never" or (self.restart_policy == "OnFailure" and run.is_completed)

    def _ensure_running(self, run: ContainerRun, now: datetime) -> list[Action]:
        """Start a container once its delay is over; stop one that failed a probe."""
        if run.phase == "waiting":
            if run.retry_at is not None and now < run.retry_at:
                self._wake_by(run.retry_at)
                return []
            run.phase = "starting"
            return [Start(container=run.name, attempt=run.attempt)]
        if run.phase == "running" and run.failed_probe:
            return _stop([run])
        if run.phase != "ended" or run.ended_at is None:
            return []
        if now < run.ended_at + run.restart_delay():
            self._wake_by(run.ended_at + run.restart_delay())
            return []
        self.containers[run.name] = run.next_attempt()
        return [Start(container=run.name, attempt=run.attempt + 1)]

    def _terminate(self) -> list[Action]:
        """Stop all containers but sidecars first, and sidecars when the others have ended."""
        others = self.of("main", "init", "ephemeral")
        if any(run.phase in _ALIVE for run in others):
            return _stop(others)
        mains = self.of("main")
        is_success = bool(mains) and all(run.is_completed for run in mains) and not self.stop_reason
        return self._end("Succeeded" if is_success else "Failed")

    def _end(self, phase: str) -> list[Action]:
        """Stop what still runs, last started first, and then set the final phase."""
        actions = _stop(list(reversed(self.containers.values())))
        if not any(run.phase in _ALIVE for run in self.containers.values()):
            self.phase = phase
        return actions

    def _wake_by(self, moment: datetime) -> None:
        self.wake_at = moment if self.wake_at is None else min(self.wake_at, moment)


def _stop(runs: list[ContainerRun]) -> list[Action]:
    running = [run for run in runs if run.phase == "running"]
    for run in running:
        run.phase = "stopping"
    return [Stop(container=run.name) for run in running]
