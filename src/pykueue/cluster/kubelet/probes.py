"""Probes and lifecycle hooks of containers.

A `ProbeWorker` runs beside each container that has any of them. It decides when to probe, and
`ProbeResults` decides when enough results in a row make a success or a failure. The runtime
performs the handlers (`runtimes.handlers`).
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import msgspec

from pykueue.api import objects
from pykueue.api.scheme import Object
from pykueue.kube.clock import Clock

STARTUP, LIVENESS, READINESS = "startup", "liveness", "readiness"
POST_START, PRE_STOP = "postStart", "preStop"
RESTARTING_PROBES = (STARTUP, LIVENESS)
"""A container that fails one of these is stopped, and restarted if restartPolicy allows it."""

RunHandler = Callable[[Object], Awaitable[str]]
"""Performs a handler; returns an error message, or "" for success."""
ReportResult = Callable[[str, bool | None, str], None]
"""Takes the kind of probe or `postStart`, the verdict (None: undecided) and the error message."""


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    kind: str
    handler: Object
    delay_seconds: float
    period_seconds: float
    timeout_seconds: float
    successes: int
    failures: int


def of(container: Object, kind: str) -> Probe | None:
    spec = container.get(f"{kind}Probe")
    if not spec:
        return None
    return Probe(
        kind=kind,
        handler=spec,
        delay_seconds=float(spec.get("initialDelaySeconds") or 0),
        period_seconds=float(spec.get("periodSeconds") or 10),
        timeout_seconds=float(spec.get("timeoutSeconds") or 1),
        successes=int(spec.get("successThreshold") or 1),
        failures=int(spec.get("failureThreshold") or 3),
    )


def lifecycle_hook(container: Object, moment: str) -> Object | None:
    """The handler of POST_START or PRE_STOP, if the container has one."""
    return objects.nested(container, "lifecycle").get(moment)


def needs_worker(container: Object) -> bool:
    """Whether the container has probes or a postStart hook. Otherwise it is ready at once."""
    probe_specs = (container.get(f"{kind}Probe") for kind in (STARTUP, LIVENESS, READINESS))
    return any(probe_specs) or lifecycle_hook(container, POST_START) is not None


@dataclass(slots=True)
class ProbeResults:
    """The last result of a probe, and how often it came in a row."""

    probe: Probe
    last: bool | None = None
    in_a_row: int = 0

    def add(self, *, is_success: bool) -> bool | None:
        """Add a result; return True or False once a threshold is reached, else None."""
        self.in_a_row = self.in_a_row + 1 if self.last is is_success else 1
        self.last = is_success
        needed = self.probe.successes if is_success else self.probe.failures
        return is_success if self.in_a_row >= needed else None


class ProbeWorker:
    """Probes a running container: postStart hook, startup probe, then liveness and readiness."""

    def __init__(
        self,
        container: Object,
        clock: Clock,
        run_handler: RunHandler,
        report: ReportResult,
        *,
        has_started: bool = False,
    ) -> None:
        """`has_started`: the container passed its startup probe under an earlier worker."""
        self._container = container
        self._clock = clock
        self._run_handler = run_handler
        self._report = report
        self._has_started = has_started

    async def run(self) -> None:
        if not self._has_started and not await self._starts():
            return
        await asyncio.gather(*(self._probe_forever(kind) for kind in (LIVENESS, READINESS)))

    async def _starts(self) -> bool:
        handler = lifecycle_hook(self._container, POST_START)
        if handler is not None:
            error = await self._run_handler(handler)
            self._report(POST_START, not error, error)
            if error:
                return False
        startup = of(self._container, STARTUP)
        is_success = True if startup is None else await self._verdict(startup)
        if startup is None:
            self._report(STARTUP, True, "")  # noqa: FBT003 - the verdict
        return is_success

    async def _verdict(self, probe: Probe) -> bool:
        """Probe until the first threshold is reached."""
        results = ProbeResults(probe)
        await self._clock.sleep(probe.delay_seconds)
        while (verdict := await self._probe(results)) is None:
            await self._clock.sleep(probe.period_seconds)
        return verdict

    async def _probe_forever(self, kind: str) -> None:
        probe = of(self._container, kind)
        if probe is None:
            return
        results = ProbeResults(probe)
        await self._clock.sleep(probe.delay_seconds)
        while True:
            verdict = await self._probe(results)
            if verdict is False and kind in RESTARTING_PROBES:
                return
            await self._clock.sleep(probe.period_seconds)

    async def _probe(self, results: ProbeResults) -> bool | None:
        probe = results.probe
        try:
            error = await asyncio.wait_for(self._run_handler(probe.handler), probe.timeout_seconds)
        except TimeoutError:
            error = f"timed out after {probe.timeout_seconds:g}s"
        verdict = results.add(is_success=not error)
        if verdict is not None or error:
            self._report(probe.kind, verdict, error)
        return verdict
