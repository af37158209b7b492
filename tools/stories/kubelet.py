"""The kubelet of a story: a cluster without nodes gets its pod statuses from the player."""

import time
from typing import Any

Json = dict[str, Any]

_PHASES = {"running": "Running", "ready": "Running", "succeeded": "Succeeded", "failed": "Failed"}


def now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def pod_order(pod: Json) -> tuple[str, str]:
    annotations = pod["metadata"].get("annotations") or {}
    return annotations.get("batch.kubernetes.io/job-completion-index", ""), pod["metadata"]["name"]


def has_state(pod: Json, state: str) -> bool:
    """Whether a pod that has not ended is in the state already."""
    if state not in ("running", "ready") or pod["status"].get("phase") != "Running":
        return False
    is_ready = any(
        condition["type"] == "Ready" and condition["status"] == "True"
        for condition in pod["status"].get("conditions") or ()
    )
    return state == "running" or is_ready


def pod_status(pod: Json, state: str) -> Json:
    at = now()
    if state in ("running", "ready"):
        container_state: Json = {"running": {"startedAt": at}}
    else:
        has_succeeded = state == "succeeded"
        ended = {"exitCode": 0 if has_succeeded else 1, "reason": "Completed" if has_succeeded else "Error"}
        container_state = {"terminated": {**ended, "startedAt": at, "finishedAt": at}}
    container_status = {
        "name": pod["spec"]["containers"][0]["name"],
        "image": "none",
        "imageID": "none",
        "ready": state == "ready",
        "restartCount": 0,
        "state": container_state,
    }
    replaced = ("Ready", "ContainersReady")
    conditions = [old for old in pod["status"].get("conditions") or () if old["type"] not in replaced]
    ready = "True" if state == "ready" else "False"
    conditions += [{"type": name, "status": ready, "lastTransitionTime": at} for name in replaced]
    return {
        "phase": _PHASES[state],
        "startTime": pod["status"].get("startTime") or at,
        "containerStatuses": [container_status],
        "conditions": conditions,
    }
