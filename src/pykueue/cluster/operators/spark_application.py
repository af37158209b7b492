"""One sync of a SparkApplication: creates the driver's pod, then the executors' pods, and restarts
or ends the application with its driver.

Spark's own driver creates its executors and connects to them. Here the operator creates both, so
that they use the quota and the nodes of the admission. The driver runs the program with
`spark-submit` in local mode, with as many threads as driver and executors have cores; executors
only hold their places. A container that the template gives a command of its own runs that.
"""

import copy
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from pykueue.api import objects, quantity, resources, times
from pykueue.api.scheme import Object
from pykueue.cluster import pod_control, pods, statuses
from pykueue.kube.controller import writes
from pykueue.translate.jobs.framework import JobOptions
from pykueue.translate.jobs.spark_application import FRAMEWORK, ROLES

ROLE = "spark-role"
_APP_NAME = "sparkoperator.k8s.io/app-name"
_SUBMISSION = "sparkoperator.k8s.io/submission-id"
FINAL_STATES = ("COMPLETED", "FAILED")
_EXECUTOR_STATES = {"Pending": "PENDING", "Running": "RUNNING", "Succeeded": "COMPLETED", "Failed": "FAILED"}


def sync(application: Object, owned: Sequence[Object], now: datetime) -> writes.Sync:
    if objects.is_deleted(application) or _state(application) in FINAL_STATES:
        return writes.Done()
    status = copy.deepcopy(objects.status(application))
    if application["spec"].get("suspend"):
        removed = yield from pod_control.delete(application, [pod for pod in owned if not objects.is_deleted(pod)])
        errors = removed.errors
        _set_state(status, "SUSPENDING" if owned else "SUSPENDED")
        status.pop("executorState", None)
    else:
        errors = yield from _run(application, owned, status, now)
        if _state({"status": status}) in FINAL_STATES:
            status["terminationTime"] = times.to_text(now)
    refused = yield from statuses.write(resources.SPARK_APPLICATION, application, status)
    return writes.Done(errors=(*errors, *refused))


def _run(application: Object, owned: Sequence[Object], status: Object, now: datetime) -> Any:
    """Create what is missing, and set the state that follows from the driver's phase."""
    attempt = int(status.get("executionAttempts") or 0)
    current = [pod for pod in owned if objects.labels(pod).get(_SUBMISSION) == str(attempt)]
    driver = next((pod for pod in current if objects.labels(pod).get(ROLE) == "driver"), None)
    executors = [pod for pod in current if objects.labels(pod).get(ROLE) == "executor"]
    if driver is None:
        return (yield from _submit(application, owned, status, now))
    status["driverInfo"] = {"podName": objects.name(driver)}
    status["executorState"] = {objects.name(pod): _EXECUTOR_STATES.get(pods.phase(pod), "UNKNOWN") for pod in executors}
    if pods.is_finished(driver):
        return (yield from _end(application, driver, current, status))
    if pods.phase(driver) != "Running":
        return []
    _set_state(status, "RUNNING")
    count = int(application["spec"]["executor"].get("instances") or 0)
    used = {objects.name(pod) for pod in executors}
    names = (f"{objects.name(application)}-exec-{number + 1}" for number in range(count))
    missing = pod_control.batch((name for name in names if name not in used), pod_control.waiting(executors))
    new = [_pod(application, "executor", name, attempt) for name in missing]
    return (yield from pod_control.create(application, new)).errors


def _submit(application: Object, owned: Sequence[Object], status: Object, now: datetime) -> Any:
    """Create the driver of the next attempt when no pod of the former one is left."""
    if owned:
        removed = yield from pod_control.delete(application, [pod for pod in owned if not objects.is_deleted(pod)])
        return removed.errors
    attempt = int(status.get("executionAttempts") or 0) + 1
    name = application["spec"]["driver"].get("podName") or f"{objects.name(application)}-driver"
    created = yield from pod_control.create(application, [_pod(application, "driver", name, attempt)])
    if created.errors:
        return created.errors
    _set_state(status, "SUBMITTED")
    status |= {
        "executionAttempts": attempt,
        "submissionAttempts": 1,
        "lastSubmissionAttemptTime": times.to_text(now),
        "sparkApplicationId": f"spark-{objects.uid(application)}",
        "submissionID": f"{objects.uid(application)}-{attempt}",
    }
    return []


def _end(application: Object, driver: Object, current: Sequence[Object], status: Object) -> Any:
    """End or restart the application: the executors go with their driver."""
    executors = [pod for pod in current if pod is not driver and not objects.is_deleted(pod)]
    removed = yield from pod_control.delete(application, executors)
    is_success = pods.phase(driver) == "Succeeded"
    status["executorState"] = dict.fromkeys(status["executorState"], "COMPLETED" if is_success else "FAILED")
    if _is_restarted(application, int(status["executionAttempts"]), is_success=is_success):
        _set_state(status, "PENDING_RERUN")
        removed_driver = yield from pod_control.delete(application, [driver] if not objects.is_deleted(driver) else [])
        return [*removed.errors, *removed_driver.errors]
    _set_state(status, "COMPLETED" if is_success else "FAILED", "" if is_success else _cause(driver))
    return removed.errors


def _cause(driver: Object) -> str:
    """Why the driver failed: in the words of the Spark operator, and those of its container."""
    for container in pods.container_statuses(driver):
        ended = objects.nested(container, "state", "terminated")
        if ended.get("exitCode"):
            text = f"driver container failed with ExitCode: {ended['exitCode']}, Reason: {ended.get('reason', '')}"
            return f"{text}: {ended['message']}" if ended.get("message") else text
    return f"driver pod {objects.name(driver)} failed"


def _is_restarted(application: Object, attempts: int, *, is_success: bool) -> bool:
    policy = objects.nested(application, "spec", "restartPolicy")
    if policy.get("type") == "Always":
        return True
    retries = int(policy.get("onFailureRetries") or 0)
    return policy.get("type") == "OnFailure" and not is_success and attempts <= retries


def _state(application: Object) -> str:
    return str(objects.nested(application, "status", "applicationState").get("state", ""))


def _set_state(status: Object, state: str, message: str = "") -> None:
    status["applicationState"] = {"state": state} | ({"errorMessage": message} if message else {})


def _pod(application: Object, role: str, name: str, attempt: int) -> Object:
    index = ROLES.index(role)
    template = copy.deepcopy(FRAMEWORK.pod_set_templates(application, JobOptions())[index].template)
    assert template is not None, "the framework makes templates of its own"
    fields, spec = application["spec"][role], template["spec"]
    named = f"spark-kubernetes-{role}"
    container = next((entry for entry in spec["containers"] if entry.get("name") == named), spec["containers"][0])
    container.setdefault("image", fields.get("image") or application["spec"].get("image") or "spark")
    if not container.get("command"):
        container["command"] = ["sleep", "infinity"] if role == "executor" else _command(application)
    env = [{"name": key, "value": value} for key, value in (fields.get("envVars") or {}).items()]
    container["env"] = [*(container.get("env") or ()), *(fields.get("env") or ()), *env]
    for source, target, key in (
        (fields, container, "envFrom"),
        (fields, container, "volumeMounts"),
        (fields, container, "securityContext"),
        (application["spec"], spec, "volumes"),
    ):
        if source.get(key):
            target[key] = copy.deepcopy(source[key])
    spec["restartPolicy"] = "Never"
    for key, field in (("serviceAccountName", "serviceAccount"), ("schedulerName", "schedulerName")):
        if fields.get(field):
            spec[key] = fields[field]
    labels = {ROLE: role, _APP_NAME: objects.name(application), _SUBMISSION: str(attempt)}
    return pods.from_template(template, application, name=name, labels=labels)


def _command(application: Object) -> list[str]:
    spec = application["spec"]
    command = ["spark-submit", "--master", f"local[{_cores(application)}]", "--name", objects.name(application)]
    command += ["--class", spec["mainClass"]] if spec.get("mainClass") else []
    for name, value in sorted((spec.get("sparkConf") or {}).items()):
        command += ["--conf", f"{name}={value}"]
    file = str(spec.get("mainApplicationFile") or "").removeprefix("local://")
    return [*command, file, *(spec.get("arguments") or ())]


def _cores(application: Object) -> int:
    """The cores of the driver and of all executors."""
    spec = application["spec"]
    counts = {"driver": 1, "executor": int(spec["executor"].get("instances") or 0)}
    return sum(_cores_of(spec[role]) * count for role, count in counts.items())


def _cores_of(fields: Object) -> int:
    if fields.get("cores"):
        return int(fields["cores"])
    return max(1, quantity.parse(str(fields.get("coreRequest") or "1")).milli() // 1000)
