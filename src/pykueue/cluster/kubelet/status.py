"""A pod's status as the kubelet words it, from the state of its containers; and the way back after a restart."""

from datetime import datetime

from pykueue.api import conditions, times
from pykueue.api.scheme import Object
from pykueue.cluster.kubelet.run import ContainerRun, Exit, PodRun


def render(run: PodRun, now: datetime, address: str) -> Object:
    """The status to write; conditions keep their transition times."""
    shown: Object = {
        "phase": run.phase,
        "conditions": _conditions(run, now),
        "hostIP": address,
        "hostIPs": [{"ip": address}],
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": times.to_text(run.started_at),
        "containerStatuses": [_container(found, is_over=run.is_over) for found in run.of("main")],
        "qosClass": quality_of_service(run.pod["spec"]),
    }
    if inits := run.of("init", "sidecar"):
        shown["initContainerStatuses"] = [_container(found, is_over=run.is_over) for found in inits]
    if run.is_over and run.stop_reason:
        shown |= {"reason": run.stop_reason, "message": run.stop_message}
    return shown


def _container(run: ContainerRun, *, is_over: bool) -> Object:
    is_running = run.phase in ("running", "stopping")
    ready = (is_running and run.is_ready) or (run.role == "init" and run.is_completed)
    shown = {
        "name": run.name,
        "image": run.spec.get("image", ""),
        "imageID": run.spec.get("image", ""),
        "containerID": run.container_id,
        "ready": ready,
        "started": is_running and run.is_up,
        "restartCount": run.attempt,
        "state": _state(run, is_over=is_over),
        "lastState": {} if run.previous is None else {"terminated": _terminated(run.previous)},
    }
    if not run.container_id and run.previous is not None:
        shown["containerID"] = run.previous.container_id
    return shown


def _state(run: ContainerRun, *, is_over: bool) -> Object:
    if run.phase in ("running", "stopping"):
        return {"running": {"startedAt": times.to_text(run.started_at) if run.started_at else ""}}
    if run.phase == "ended":
        if run.crashes and not is_over and run.exit is not None and run.exit.code:
            delay = int(run.restart_delay().total_seconds())
            message = f"back-off {delay}s restarting failed container={run.name}"
            return {"waiting": {"reason": "CrashLoopBackOff", "message": message}}
        return {"terminated": _terminated(run)}
    reason, message = run.lacks
    waiting = {"reason": reason or ("PodInitializing" if run.role == "main" else "ContainerCreating")}
    return {"waiting": waiting | ({"message": message} if message else {})}


def _terminated(run: ContainerRun) -> Object:
    end = run.exit or Exit(code=0)
    shown: Object = {
        "exitCode": end.code,
        "reason": end.reason or ("Error" if end.code else "Completed"),
        "containerID": run.container_id,
    }
    if run.started_at is not None:
        shown["startedAt"] = times.to_text(run.started_at)
    if run.ended_at is not None:
        shown["finishedAt"] = times.to_text(run.ended_at)
    if end.message:
        shown["message"] = end.message
    return shown


def _conditions(run: PodRun, now: datetime) -> list[Object]:
    stored = run.pod.get("status", {}).get("conditions") or []
    is_initialized = run.phase != "Pending" or all(
        found.is_completed if found.role == "init" else found.phase == "running" and found.is_up
        for found in run.of("init", "sidecar")
    )
    unready = [found.name for found in run.of("main", "sidecar") if not _is_ready(found)]
    told = [
        {"type": "PodReadyToStartContainers", "status": "False" if run.is_over else "True"},
        {"type": "Initialized", "status": "True" if is_initialized else "False"} | _completed(run),
        {"type": "Ready"} | _readiness(run, unready),
        {"type": "ContainersReady"} | _readiness(run, unready),
    ]
    if not is_initialized:
        names = " ".join(found.name for found in run.of("init") if not found.is_completed)
        told[1] |= {"reason": "ContainersNotInitialized", "message": f"containers with incomplete status: [{names}]"}
    if run.stop_reason == "Terminated":
        told.append(
            {
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "TerminationByKubelet",
                "message": run.stop_message,
            }
        )
    for condition in told:
        stored = conditions.replaced(stored, condition, now)
    if conditions.find({"status": {"conditions": stored}}, "PodScheduled") is None:
        stored = conditions.replaced(stored, {"type": "PodScheduled", "status": "True"}, now)
    return stored


def _is_ready(run: ContainerRun) -> bool:
    return run.phase == "running" and run.is_ready


def _completed(run: PodRun) -> Object:
    return {"reason": "PodCompleted"} if run.phase == "Succeeded" else {}


def _readiness(run: PodRun, unready: list[str]) -> Object:
    if run.phase == "Succeeded":
        return {"status": "False", "reason": "PodCompleted"}
    if run.phase == "Failed":
        return {"status": "False", "reason": "PodFailed"}
    if not unready:
        return {"status": "True"}
    message = f"containers with unready status: [{' '.join(unready)}]"
    return {"status": "False", "reason": "ContainersNotReady", "message": message}


def quality_of_service(spec: Object) -> str:
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    resources = [found.get("resources") or {} for found in containers]
    if not any(found.get("requests") or found.get("limits") for found in resources):
        return "BestEffort"
    for found in resources:
        limits, requests = found.get("limits") or {}, found.get("requests") or {}
        for name in ("cpu", "memory"):
            if name not in limits or requests.get(name, limits[name]) != limits[name]:
                return "Burstable"
    return "Guaranteed"


def restore(pod: Object, now: datetime) -> PodRun:
    """The run that this status tells of: what the agent knew when it last wrote."""
    status = pod.get("status", {})
    run = PodRun.begin(pod, times.parse_optional(status.get("startTime")) or now)
    run.phase = status.get("phase", "Pending")
    for shown in [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]:
        if (found := run.containers.get(shown["name"])) is not None:
            _restore_container(found, shown)
    return run


def _restore_container(run: ContainerRun, shown: Object) -> None:
    state = shown.get("state") or {}
    last = (shown.get("lastState") or {}).get("terminated")
    run.attempt = int(shown.get("restartCount", 0))
    run.crashes = run.attempt
    if last:
        run.previous = ContainerRun(spec=run.spec, role=run.role, attempt=run.attempt - 1)
        _set_ended(run.previous, last)
    if "running" in state:
        run.phase, run.container_id = "running", shown.get("containerID", "")
        run.is_up, run.is_ready = bool(shown.get("started")), bool(shown.get("ready"))
        run.started_at = times.parse_optional(state["running"].get("startedAt"))
    elif "terminated" in state:
        _set_ended(run, state["terminated"])
    elif state.get("waiting", {}).get("reason") == "CrashLoopBackOff" and last:
        _set_ended(run, last)


def _set_ended(run: ContainerRun, terminated: Object) -> None:
    run.phase = "ended"
    run.exit = Exit(
        code=int(terminated.get("exitCode", 0)),
        reason=terminated.get("reason", ""),
        message=terminated.get("message", ""),
    )
    run.container_id = terminated.get("containerID", "")
    run.started_at = times.parse_optional(terminated.get("startedAt"))
    run.ended_at = times.parse_optional(terminated.get("finishedAt"))
