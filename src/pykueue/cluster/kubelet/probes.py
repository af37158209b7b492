"""Probes and hooks of containers: what a spec asks for, and what a row of answers means. Without I/O.

The agent asks a runtime at the right moments (`attendant`), and tells the answers here.
"""

from dataclasses import dataclass

import msgspec

from pykueue.api.scheme import Object

STARTUP, LIVENESS, READINESS = "startup", "liveness", "readiness"
POST_START, PRE_STOP = "postStart", "preStop"
DEADLY = (STARTUP, LIVENESS)
"""A container that fails one of these is stopped, and restarted as its pod's policy says."""


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


def hook(container: Object, moment: str) -> Object | None:
    """POST_START or PRE_STOP."""
    found: Object | None = (container.get("lifecycle") or {}).get(moment)
    return found


def needs_attention(container: Object) -> bool:
    """While it runs; otherwise it is up and ready as soon as it runs."""
    wanted = (container.get(f"{kind}Probe") for kind in (STARTUP, LIVENESS, READINESS))
    return any(wanted) or hook(container, POST_START) is not None


@dataclass(slots=True)
class Answers:
    """How often a probe has gone the same way in a row."""

    probe: Probe
    last: bool | None = None
    in_a_row: int = 0

    def add(self, *, is_good: bool) -> bool | None:
        """Good, bad, or not decided yet."""
        self.in_a_row = self.in_a_row + 1 if self.last is is_good else 1
        self.last = is_good
        needed = self.probe.successes if is_good else self.probe.failures
        return is_good if self.in_a_row >= needed else None
