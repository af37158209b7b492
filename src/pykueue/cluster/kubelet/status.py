"""The pod status as the kubelet writes it, from a `PodRun`.

After a restart, `restore` makes the `PodRun` from the status.
"""

from datetime import datetime

from pykueue.api import conditions, objects, times
from pykueue.api.scheme import Object
from pykueue.cluster import pods
from pykueue.cluster.kubelet.run import ContainerRun, Exit, PodRun


def render(run: PodRun, now: datetime, address: str) -> Object:
    """The status to write. Conditions keep their transition times."""
    status: Object = {
        "phase": run.phase,
        "conditions": _conditions(run, now),
        "hostIP": address,
        "hostIPs": [{"ip": address}],
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": times.to_text(run.started_at),
        "containerStatuses": [_container(container, is_over=run.is_over) for container in run.of("main")],
        "qosClass": quality_of_service(run.pod["spec"]),
    }
    if inits := run.of("init", "sidecar"):
        status["initContainerStatuses"] = [_container(container, is_over=run.is_over) for container in inits]
    if ephemeral := run.of("ephemeral"):
        status["ephemeralContainerStatuses"] = [_container(container, is_over=run.is_over) for container in ephemeral]
    if run.is_over and run.stop_reason:
        status |= {"reason": run.stop_reason, "message": run.stop_message}
    return status


def _container(run: ContainerRun, *, is_over: bool) -> Object:
    is_running = run.phase in ("running", "stopping")
    ready = (is_running and run.is_ready and run.role != "ephemeral") or (run.role == "init" and run.is_completed)
    status = {
        "name": run.name,
        "image": run.spec.get("image", ""),
        "imageID": run.spec.get("image", ""),
        "containerID": run.container_id,
        "ready": ready,
        "started": is_running and run.has_started,
        "restartCount": run.attempt,
        "state": _state(run, is_over=is_over),
        "lastState": {} if run.previous is None else {"terminated": _terminated(run.previous)},
    }
    if not run.container_id and run.previous is not None:
        status["containerID"] = run.previous.container_id
    return status


def _state(run: ContainerRun, *, is_over: bool) -> Object:
    if run.phase in ("running", "stopping"):
        return {"running": {"startedAt": times.to_text(run.started_at) if run.started_at else ""}}
    if run.phase == "ended":
        if run.crashes and not is_over and run.exit is not None and run.exit.code:
            delay = int(run.restart_delay().total_seconds())
            message = f"back-off {delay}s restarting failed container={run.name}"
            return {"waiting": {"reason": "CrashLoopBackOff", "message": message}}
        return {"terminated": _terminated(run)}
    reason, message = run.waiting_state
    waiting = {"reason": reason or ("PodInitializing" if run.role == "main" else "ContainerCreating")}
    return {"waiting": waiting | ({"message": message} if message else {})}


def _terminated(run: ContainerRun) -> Object:
    end = run.exit or Exit(code=0)
    status: Object = {
        "exitCode": end.code,
        "reason": end.reason or ("Error" if end.code else "Completed"),
        "containerID": run.container_id,
    }
    if run.started_at is not None:
        status["startedAt"] = times.to_text(run.started_at)
    if run.ended_at is not None:
        status["finishedAt"] = times.to_text(run.ended_at)
    if end.message:
        status["message"] = end.message
    return status


def _conditions(run: PodRun, now: datetime) -> list[Object]:
    stored = objects.nested_list(run.pod, "status", "conditions")
    is_initialized = run.phase != "Pending" or all(
        container.is_completed if container.role == "init" else container.phase == "running" and container.has_started
        for container in run.of("init", "sidecar")
    )
    unready = [container.name for container in run.of("main", "sidecar") if not _is_ready(container)]
    updates = [
        {"type": "PodReadyToStartContainers", "status": "False" if run.is_over else "True"},
        {"type": "Initialized", "status": "True" if is_initialized else "False"} | _completed(run),
        {"type": "Ready"} | _readiness(run, unready),
        {"type": "ContainersReady"} | _readiness(run, unready),
    ]
    if not is_initialized:
        names = " ".join(container.name for container in run.of("init") if not container.is_completed)
        updates[1] |= {"reason": "ContainersNotInitialized", "message": f"containers with incomplete status: [{names}]"}
    if run.stop_reason == "Terminated":
        updates.append(
            {
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "TerminationByKubelet",
                "message": run.stop_message,
            }
        )
    for condition in updates:
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
    resources = [objects.nested(container, "resources") for container in pods.containers(spec)]
    if not any(entry.get("requests") or entry.get("limits") for entry in resources):
        return "BestEffort"
    for entry in resources:
        limits, requests = objects.nested(entry, "limits"), objects.nested(entry, "requests")
        for name in ("cpu", "memory"):
            if name not in limits or requests.get(name, limits[name]) != limits[name]:
                return "Burstable"
    return "Guaranteed"


def restore(pod: Object, now: datetime) -> PodRun:
    """The `PodRun` that the pod's status describes."""
    status = objects.status(pod)
    run = PodRun.begin(pod, times.parse_optional(status.get("startTime")) or now)
    run.phase = status.get("phase", "Pending")
    for container_status in (*pods.container_statuses(pod), *pods.ephemeral_statuses(pod)):
        if (container := run.containers.get(container_status["name"])) is not None:
            _restore_container(container, container_status)
    return run


def _restore_container(run: ContainerRun, container_status: Object) -> None:
    state = objects.nested(container_status, "state")
    last_terminated = objects.nested(container_status, "lastState").get("terminated")
    run.attempt = int(container_status.get("restartCount", 0))
    run.crashes = run.attempt
    if last_terminated:
        run.previous = ContainerRun(spec=run.spec, role=run.role, attempt=run.attempt - 1)
        _set_ended(run.previous, last_terminated)
    if "running" in state:
        run.phase, run.container_id = "running", container_status.get("containerID", "")
        run.has_started, run.is_ready = bool(container_status.get("started")), bool(container_status.get("ready"))
        run.started_at = times.parse_optional(state["running"].get("startedAt"))
    elif "terminated" in state:
        _set_ended(run, state["terminated"])
    elif state.get("waiting", {}).get("reason") == "CrashLoopBackOff" and last_terminated:
        _set_ended(run, last_terminated)


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
