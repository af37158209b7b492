"""The columns of pods. READY, STATUS and RESTARTS follow from the container statuses."""

from typing import Any

from pykueue.api import conditions, objects
from pykueue.api.scheme import Object
from pykueue.apiserver.tables import ages, printer
from pykueue.apiserver.tables.printer import count, text, value


class _Summary:
    """The result of a walk over the container statuses."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        self.ready = 0
        self.restarts = 0
        self.last_restart = 0.0
        self.last_restart_text = ""

    def count_restarts(self, status: dict[str, Any]) -> None:
        self.restarts += count(status, "restartCount")
        finished = value(status, "lastState", "terminated", "finishedAt")
        moment = ages.parse(finished) or 0.0
        if moment > self.last_restart:
            self.last_restart, self.last_restart_text = moment, str(finished)


def _cells(pod: Object, now: float) -> list[Any]:
    sidecars = {
        text(container, "name")
        for container in objects.nested_list(pod, "spec", "initContainers")
        if container.get("restartPolicy") == "Always"
    }
    total = len(objects.nested_list(pod, "spec", "containers")) + len(sidecars)
    summary = _summarise(pod, sidecars)
    restarts: Any = str(summary.restarts)
    if summary.restarts and summary.last_restart:
        restarts = f"{summary.restarts} ({ages.age(summary.last_restart_text, now)} ago)"
    addresses = objects.nested_list(pod, "status", "podIPs")
    address = text(addresses[0], "ip") if addresses else text(pod, "status", "podIP")
    return [
        objects.name(pod),
        f"{summary.ready}/{total}",
        summary.reason,
        restarts,
        printer.age(pod, now),
        address or printer.NONE,
        text(pod, "spec", "nodeName", absent=printer.NONE),
        text(pod, "status", "nominatedNodeName", absent=printer.NONE),
        _readiness_gates(pod),
    ]


def _summarise(pod: Object, sidecars: set[str]) -> _Summary:
    reason = text(pod, "status", "reason") or text(pod, "status", "phase")
    if (conditions.find(pod, "PodScheduled") or {}).get("reason") == "SchedulingGated":
        reason = "SchedulingGated"
    summary = _Summary(reason)
    after_init = _Summary(reason)
    initializing = _walk_init_containers(pod, sidecars, summary, after_init)
    if not initializing or conditions.is_true(pod, "Initialized"):
        after_init.ready = summary.ready
        after_init.reason = summary.reason
        summary = after_init
        _walk_containers(pod, summary)
    summary.reason = _reason_while_deleted(pod, summary.reason)
    return summary


def _walk_init_containers(pod: Object, sidecars: set[str], summary: _Summary, after_init: _Summary) -> bool:
    """Whether an init container still runs. `after_init` counts only the restarts of sidecars."""
    statuses = objects.nested_list(pod, "status", "initContainerStatuses")
    for position, status in enumerate(statuses):
        summary.count_restarts(status)
        is_sidecar = text(status, "name") in sidecars
        if is_sidecar:
            after_init.count_restarts(status)
        terminated = value(status, "state", "terminated")
        waiting = text(status, "state", "waiting", "reason")
        if terminated is not None and not count(terminated, "exitCode"):
            continue
        if is_sidecar and status.get("started"):
            summary.ready += bool(status.get("ready"))
            continue
        if terminated is not None:
            summary.reason = f"Init:{text(terminated, 'reason') or _exit(terminated)}"
        elif waiting and waiting != "PodInitializing":
            summary.reason = f"Init:{waiting}"
        else:
            summary.reason = f"Init:{position}/{len(objects.nested_list(pod, 'spec', 'initContainers'))}"
        return True
    return False


def _walk_containers(pod: Object, summary: _Summary) -> None:
    has_running = False
    for status in reversed(objects.nested_list(pod, "status", "containerStatuses")):
        summary.count_restarts(status)
        state = objects.nested(status, "state")
        if waiting := text(state, "waiting", "reason"):
            summary.reason = waiting
        elif "terminated" in state:
            summary.reason = text(state, "terminated", "reason") or _exit(objects.nested(state, "terminated"))
        elif status.get("ready") and "running" in state:
            has_running = True
            summary.ready += 1
    if summary.reason == "Completed" and has_running:
        summary.reason = "Running" if conditions.is_true(pod, "Ready") else "NotReady"


def _exit(terminated: dict[str, Any]) -> str:
    signal = count(terminated, "signal")
    return f"Signal:{signal}" if signal else f"ExitCode:{count(terminated, 'exitCode')}"


def _reason_while_deleted(pod: Object, reason: str) -> str:
    if not objects.is_deleted(pod):
        return reason
    if text(pod, "status", "reason") == "NodeLost":
        return "Unknown"
    return reason if text(pod, "status", "phase") in ("Succeeded", "Failed") else "Terminating"


def _readiness_gates(pod: Object) -> str:
    gates = objects.nested_list(pod, "spec", "readinessGates")
    if not gates:
        return printer.NONE
    return f"{sum(conditions.is_true(pod, text(gate, 'conditionType')) for gate in gates)}/{len(gates)}"


PRINTERS = {
    ("", "Pod"): printer.Printer(
        printer.headers(
            "Name", "Ready", "Status", "Restarts", "Age", "~IP", "~Node", "~Nominated Node", "~Readiness Gates"
        ),
        _cells,
    )
}
