"""One sync of a training job: pods by role and index, replica statuses, and the training operator's conditions."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from pykueue.api import conditions as api_conditions
from pykueue.api import objects, times
from pykueue.api.scheme import Object
from pykueue.cluster import pod_control, pods, statuses
from pykueue.cluster.operators.kubeflow import pods as training_pods
from pykueue.cluster.operators.kubeflow.frameworks import Member, TrainingFramework, counts, specs
from pykueue.kube.controller import writes

_RETRYABLE_EXIT = 128


@dataclass(slots=True, kw_only=True)
class _Course:
    framework: TrainingFramework
    job: Object
    now: datetime
    status: Object
    members: dict[tuple[str, int], Object]
    events: list[writes.Write] = field(default_factory=list)
    wait: float | None = None

    @property
    def policy(self) -> Object:
        return self.job["spec"].get("runPolicy") or {}

    def tell(self, type_: str, status: str, reason: str, message: str) -> bool:
        """Sets a condition as the operator does: the newest stands last. False if it says so already."""
        full_reason = f"{self.framework.kind}{reason}"
        conditions = self.status.get("conditions") or []
        current = next((found for found in conditions if found["type"] == type_), None)
        if current is not None and (current["status"], current["reason"]) == (status, full_reason):
            return False
        stamp = times.to_text(self.now)
        since = current["lastTransitionTime"] if current is not None and current["status"] == status else stamp
        kept = [found for found in conditions if found["type"] != type_ and not _is_replaced(found, type_)]
        for found in kept:
            if type_ in ("Succeeded", "Failed") and found["type"] == "Running":
                found.update(status="False", lastUpdateTime=stamp, lastTransitionTime=stamp)
        told = {"type": type_, "status": status, "reason": full_reason, "message": message}
        self.status["conditions"] = [*kept, told | {"lastUpdateTime": stamp, "lastTransitionTime": since}]
        return True

    def record(self, type_: str, reason: str, message: str) -> None:
        told = f"{self.framework.kind}{reason}"
        self.events.append(writes.Event(about=self.job, type=type_, reason=told, message=message))


def _is_replaced(found: Object, type_: str) -> bool:
    return (found["type"], type_) in (("Restarting", "Running"), ("Running", "Restarting"))


def reconciler(framework: TrainingFramework) -> Callable[[Object, list[Object], datetime], writes.Sync]:
    def sync(job: Object, owned: list[Object], now: datetime) -> writes.Sync:
        return _sync(framework, job, owned, now)

    return sync


def _sync(framework: TrainingFramework, job: Object, owned: Sequence[Object], now: datetime) -> writes.Sync:
    if objects.is_deleted(job):
        return writes.Done()
    members = {place: pod for pod in owned if (place := training_pods.place(framework, pod)) is not None}
    course = _Course(
        framework=framework, job=job, now=now, status=copy.deepcopy(job.get("status") or {}), members=members
    )
    if not course.status.get("conditions"):
        course.tell("Created", "True", "Created", f"{framework.kind} {objects.name(job)} is created.")
    create: list[Object] = []
    if _is_over(job):
        remove = _leftovers(course)
    elif course.policy.get("suspend"):
        remove = _suspend(course)
    else:
        _resume(course)
        create, remove = _adjust(course)
        _judge(course)
        if _is_over({"status": course.status}):
            create, remove = [], _leftovers(course)
    removed = yield from pod_control.delete(job, [pod for pod in remove if not objects.is_deleted(pod)])
    created = yield from pod_control.create(job, create)
    refused = yield from statuses.write(framework.resource, job, course.status)
    if course.events:
        yield course.events
    expired = _expiry(course)
    if expired:
        yield expired
    return writes.Done(look_again_after=course.wait, errors=(*removed.errors, *created.errors, *refused))


def _is_over(job: Object) -> bool:
    return api_conditions.is_true(job, "Succeeded") or api_conditions.is_true(job, "Failed")


def _suspend(course: _Course) -> list[Object]:
    message = f"{course.framework.kind} {objects.name(course.job)} is suspended."
    if api_conditions.is_true(course.job, "Running"):
        course.tell("Running", "False", "Suspended", message)
    if course.tell("Suspended", "True", "Suspended", message):
        course.record("Normal", "Suspended", message)
    course.status.pop("startTime", None)
    course.status["replicaStatuses"] = {role: {} for role in specs(course.framework, course.job)}
    return list(course.members.values())


def _resume(course: _Course) -> None:
    if api_conditions.is_true(course.job, "Suspended"):
        message = f"{course.framework.kind} {objects.name(course.job)} is resumed."
        course.tell("Suspended", "False", "Resumed", message)
        course.record("Normal", "Resumed", message)
        course.status["startTime"] = times.to_text(course.now)
    course.status.setdefault("startTime", times.to_text(course.now))


def _adjust(course: _Course) -> tuple[list[Object], list[Object]]:
    """Pods to create, and pods to remove: surplus ones, and failed ones that the policy lets try again."""
    create: list[Object] = []
    remove: list[Object] = []
    wanted = counts(course.framework, course.job)
    for role, count in wanted.items():
        spec = specs(course.framework, course.job)[role]
        for index in range(count):
            pod = course.members.get((role, index))
            if pod is None:
                member = Member(framework=course.framework, job=course.job, role=role, index=index)
                create.append(training_pods.make(member))
            elif pods.phase(pod) == "Failed" and _may_retry(spec, pod):
                remove.append(pod)
    remove += [pod for (role, index), pod in course.members.items() if index >= wanted.get(role, 0)]
    return create, remove


def _may_retry(spec: Object, pod: Object) -> bool:
    policy = spec.get("restartPolicy", "Never")
    if policy == "ExitCode":
        return _exit_code(pod) >= _RETRYABLE_EXIT
    return bool(policy != "Never")


def _exit_code(pod: Object) -> int:
    for container in pod.get("status", {}).get("containerStatuses") or ():
        if terminated := (container.get("state") or {}).get("terminated"):
            return int(terminated.get("exitCode", 0))
    return 0


def _judge(course: _Course) -> None:
    """Replica statuses, and what they mean for the job."""
    name, kind = objects.name(course.job), course.framework.kind
    roles = specs(course.framework, course.job)
    shown = {role: _replica_status(course, role) for role in roles}
    course.status["replicaStatuses"] = {role: _without_zeros(found) for role, found in shown.items()}
    for role, spec in roles.items():
        failed = shown[role]["failed"]
        if failed and not any(_may_retry(spec, pod) for pod in _failed(course, role)):
            _fail(course, f"{kind} {name} is failed because {failed} {role} replica(s) failed.")
            return
        if failed:
            message = f"{kind} {name} is restarting because {failed} {role} replica(s) failed."
            if course.tell("Restarting", "True", "Restarting", message):
                course.record("Warning", "Restarting", message)
    if _is_past_limits(course):
        return
    leaders = [role for role in course.framework.leaders if role in roles] or [list(roles)[-1]]
    decisive = leaders[0]
    if shown[decisive]["succeeded"] >= counts(course.framework, course.job)[decisive]:
        message = f"{kind} {name} is successfully completed."
        if course.tell("Succeeded", "True", "Succeeded", message):
            course.record("Normal", "Succeeded", message)
            course.status["completionTime"] = times.to_text(course.now)
    elif shown[decisive]["active"] and not any(found["failed"] for found in shown.values()):
        course.tell("Running", "True", "Running", f"{kind} {name} is running.")


def _failed(course: _Course, role: str) -> list[Object]:
    return [pod for (found, _), pod in course.members.items() if found == role and pods.phase(pod) == "Failed"]


def _replica_status(course: _Course, role: str) -> dict[str, int]:
    phases = [pods.phase(pod) for (found, _), pod in course.members.items() if found == role]
    return {
        "active": phases.count("Running"),
        "succeeded": phases.count("Succeeded"),
        "failed": phases.count("Failed"),
    }


def _without_zeros(found: dict[str, int]) -> dict[str, int]:
    return {key: value for key, value in found.items() if value}


def _is_past_limits(course: _Course) -> bool:
    name = objects.name(course.job)
    limit = course.policy.get("backoffLimit")
    if limit is not None and sum(map(pods.restarts, course.members.values())) > limit:
        _fail(course, f"Job {name} has failed because it has reached the specified backoff limit")
        return True
    deadline = course.policy.get("activeDeadlineSeconds")
    if deadline is None:
        return False
    started = times.parse(course.status["startTime"])
    left = (started + timedelta(seconds=deadline) - course.now).total_seconds()
    if left > 0:
        course.wait = left
        return False
    _fail(course, f"Job {name} has failed because it was active longer than specified deadline")
    return True


def _fail(course: _Course, message: str) -> None:
    if course.tell("Failed", "True", "Failed", message):
        course.record("Normal", "Failed", message)
        course.status["completionTime"] = times.to_text(course.now)


def _leftovers(course: _Course) -> list[Object]:
    """Pods that cleanPodPolicy takes away when the job is over."""
    policy = course.policy.get("cleanPodPolicy", "None")
    if policy == "All":
        return list(course.members.values())
    if policy == "Running":
        return [pod for pod in course.members.values() if not pods.is_finished(pod)]
    return []


def _expiry(course: _Course) -> list[writes.Write]:
    """The job itself goes when its time to live is over."""
    ttl = course.policy.get("ttlSecondsAfterFinished")
    ended = times.parse_optional(course.status.get("completionTime"))
    if ttl is None or ended is None or not _is_over({"status": course.status}):
        return []
    left = (ended + timedelta(seconds=ttl) - course.now).total_seconds()
    if left > 0:
        course.wait = left
        return []
    return [writes.Delete(resource=course.framework.resource, object=course.job)]
