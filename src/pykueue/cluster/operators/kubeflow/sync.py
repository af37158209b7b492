"""One sync of a training job: pods by role and index, replica statuses, conditions."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from pykueue.api import conditions as api_conditions
from pykueue.api import objects, reserved_keys, times
from pykueue.api.scheme import Object
from pykueue.cluster import pod_control, pods, statuses
from pykueue.cluster.operators.kubeflow.frameworks import Member, TrainingFramework, counts, pod_name, specs
from pykueue.cluster.runtimes import simulated
from pykueue.kube.controller import writes

_PREFIX = "training.kubeflow.org/"
_ROLE = f"{_PREFIX}replica-type"
_INDEX = f"{_PREFIX}replica-index"
_FIRST_RETRYABLE_EXIT_CODE = 128
_MOST_MEMBERS = 1000
"""Every member has the names of all: what they need grows with the square of their number."""


@dataclass(slots=True, kw_only=True)
class _TrainingJobSync:
    """The state of one sync: the job, its pods by role and index, and the status to write."""

    framework: TrainingFramework
    job: Object
    now: datetime
    status: Object
    members: dict[tuple[str, int], Object]
    events: list[writes.Action] = field(default_factory=list)
    wait: float | None = None

    @property
    def policy(self) -> Object:
        return objects.nested(self.job, "spec", "runPolicy")

    def set_condition(self, type_: str, status: str, reason: str, message: str) -> bool:
        """Set a condition as the last of the list; False if nothing changes."""
        full_reason = f"{self.framework.kind}{reason}"
        conditions = self.status.get("conditions") or []
        current = next((condition for condition in conditions if condition["type"] == type_), None)
        if current is not None and (current["status"], current["reason"]) == (status, full_reason):
            return False
        stamp = times.to_text(self.now)
        since = current["lastTransitionTime"] if current is not None and current["status"] == status else stamp
        others = [
            condition for condition in conditions if condition["type"] != type_ and not _is_replaced(condition, type_)
        ]
        for condition in others:
            if type_ in ("Succeeded", "Failed") and condition["type"] == "Running":
                condition.update(status="False", lastUpdateTime=stamp, lastTransitionTime=stamp)
        new = {"type": type_, "status": status, "reason": full_reason, "message": message}
        self.status["conditions"] = [*others, new | {"lastUpdateTime": stamp, "lastTransitionTime": since}]
        return True

    def record(self, type_: str, reason: str, message: str) -> None:
        full_reason = f"{self.framework.kind}{reason}"
        self.events.append(writes.Event(about=self.job, type=type_, reason=full_reason, message=message))


def _is_replaced(condition: Object, type_: str) -> bool:
    return (condition["type"], type_) in (("Restarting", "Running"), ("Running", "Restarting"))


def reconciler(framework: TrainingFramework) -> Callable[[Object, list[Object], datetime], writes.Sync]:
    def sync(job: Object, owned: list[Object], now: datetime) -> writes.Sync:
        return _sync(framework, job, owned, now)

    return sync


def _sync(framework: TrainingFramework, job: Object, owned: Sequence[Object], now: datetime) -> writes.Sync:
    if objects.is_deleted(job):
        return writes.Done()
    members = {member: pod for pod in owned if (member := _role_and_index(framework, pod)) is not None}
    state = _TrainingJobSync(
        framework=framework, job=job, now=now, status=copy.deepcopy(objects.status(job)), members=members
    )
    if not state.status.get("conditions"):
        state.set_condition("Created", "True", "Created", f"{framework.kind} {objects.name(job)} is created.")
    create: list[Object] = []
    if _is_finished(job):
        remove = _leftovers(state)
    elif state.policy.get("suspend"):
        remove = _suspend(state)
    else:
        _resume(state)
        if (count := sum(counts(framework, job).values())) > _MOST_MEMBERS:
            _fail(state, f"{framework.kind} {objects.name(job)} has {count} members: at most {_MOST_MEMBERS} run here")
            remove = []
        else:
            create, remove = _adjust(state)
            _update_status(state)
        if _is_finished({"status": state.status}):
            create, remove = [], _leftovers(state)
    removed = yield from pod_control.delete(job, [pod for pod in remove if not objects.is_deleted(pod)])
    created = yield from pod_control.create(job, create)
    refused = yield from statuses.write(framework.resource, job, state.status)
    if state.events:
        yield state.events
    expired = _expiry(state)
    if expired:
        yield expired
    return writes.Done(
        requeue_after_ns=writes.after_seconds(state.wait), errors=(*removed.errors, *created.errors, *refused)
    )


def _is_finished(job: Object) -> bool:
    return api_conditions.is_true(job, "Succeeded") or api_conditions.is_true(job, "Failed")


def _suspend(state: _TrainingJobSync) -> list[Object]:
    message = f"{state.framework.kind} {objects.name(state.job)} is suspended."
    if api_conditions.is_true(state.job, "Running"):
        state.set_condition("Running", "False", "Suspended", message)
    if state.set_condition("Suspended", "True", "Suspended", message):
        state.record("Normal", "Suspended", message)
    state.status.pop("startTime", None)
    state.status["replicaStatuses"] = {role: {} for role in specs(state.framework, state.job)}
    return list(state.members.values())


def _resume(state: _TrainingJobSync) -> None:
    if api_conditions.is_true(state.job, "Suspended"):
        message = f"{state.framework.kind} {objects.name(state.job)} is resumed."
        state.set_condition("Suspended", "False", "Resumed", message)
        state.record("Normal", "Resumed", message)
        state.status["startTime"] = times.to_text(state.now)
    state.status.setdefault("startTime", times.to_text(state.now))


def _adjust(state: _TrainingJobSync) -> tuple[list[Object], list[Object]]:
    """Pods to create, and pods to delete: surplus ones, and failed ones that are retried."""
    create: list[Object] = []
    remove: list[Object] = []
    desired = counts(state.framework, state.job)
    annotations = _local_annotations(state.framework, state.job)
    for role, count in desired.items():
        spec = specs(state.framework, state.job)[role]
        for index in range(count):
            pod = state.members.get((role, index))
            if pod is None:
                member = Member(framework=state.framework, job=state.job, role=role, index=index)
                create.append(_pod(member, annotations))
            elif pods.phase(pod) == "Failed" and _may_retry(spec, pod):
                remove.append(pod)
    remove += [pod for (role, index), pod in state.members.items() if index >= desired.get(role, 0)]
    return create, remove


def _may_retry(spec: Object, pod: Object) -> bool:
    policy = spec.get("restartPolicy", "Never")
    if policy == "ExitCode":
        return _exit_code(pod) >= _FIRST_RETRYABLE_EXIT_CODE
    return bool(policy != "Never")


def _exit_code(pod: Object) -> int:
    for container in objects.nested_list(pod, "status", "containerStatuses"):
        if terminated := objects.nested(container, "state", "terminated"):
            return int(terminated.get("exitCode", 0))
    return 0


def _update_status(state: _TrainingJobSync) -> None:
    """Set the replica statuses and the conditions that follow from them."""
    name, kind = objects.name(state.job), state.framework.kind
    roles = specs(state.framework, state.job)
    replica_statuses = {role: _replica_status(state, role) for role in roles}
    state.status["replicaStatuses"] = {
        role: _without_zeros(replica_status) for role, replica_status in replica_statuses.items()
    }
    for role, spec in roles.items():
        failed = replica_statuses[role]["failed"]
        if failed and not any(_may_retry(spec, pod) for pod in _failed(state, role)):
            _fail(state, f"{kind} {name} is failed because {failed} {role} replica(s) failed.")
            return
        if failed:
            message = f"{kind} {name} is restarting because {failed} {role} replica(s) failed."
            if state.set_condition("Restarting", "True", "Restarting", message):
                state.record("Warning", "Restarting", message)
    if _is_past_limits(state):
        return
    if not roles:
        return
    leaders = [role for role in state.framework.leaders if role in roles] or [list(roles)[-1]]
    decisive = leaders[0]
    if replica_statuses[decisive]["succeeded"] >= counts(state.framework, state.job)[decisive]:
        message = f"{kind} {name} is successfully completed."
        if state.set_condition("Succeeded", "True", "Succeeded", message):
            state.record("Normal", "Succeeded", message)
            state.status["completionTime"] = times.to_text(state.now)
    elif replica_statuses[decisive]["active"] and not any(
        replica_status["failed"] for replica_status in replica_statuses.values()
    ):
        state.set_condition("Running", "True", "Running", f"{kind} {name} is running.")


def _failed(state: _TrainingJobSync, role: str) -> list[Object]:
    return [pod for (pod_role, _), pod in state.members.items() if pod_role == role and pods.phase(pod) == "Failed"]


def _replica_status(state: _TrainingJobSync, role: str) -> dict[str, int]:
    phases = [pods.phase(pod) for (pod_role, _), pod in state.members.items() if pod_role == role]
    return {
        "active": phases.count("Running"),
        "succeeded": phases.count("Succeeded"),
        "failed": phases.count("Failed"),
    }


def _without_zeros(replica_status: dict[str, int]) -> dict[str, int]:
    return {key: value for key, value in replica_status.items() if value}


def _is_past_limits(state: _TrainingJobSync) -> bool:
    name = objects.name(state.job)
    limit = state.policy.get("backoffLimit")
    if limit is not None and sum(map(pods.restarts, state.members.values())) > limit:
        _fail(state, f"Job {name} has failed because it has reached the specified backoff limit")
        return True
    deadline = state.policy.get("activeDeadlineSeconds")
    if deadline is None:
        return False
    started = times.parse(state.status["startTime"])
    remaining = (started + times.span(deadline) - state.now).total_seconds()
    if remaining > 0:
        state.wait = remaining
        return False
    _fail(state, f"Job {name} has failed because it was active longer than specified deadline")
    return True


def _fail(state: _TrainingJobSync, message: str) -> None:
    if state.set_condition("Failed", "True", "Failed", message):
        state.record("Normal", "Failed", message)
        state.status["completionTime"] = times.to_text(state.now)


def _leftovers(state: _TrainingJobSync) -> list[Object]:
    """The pods of a finished job that cleanPodPolicy deletes."""
    policy = state.policy.get("cleanPodPolicy", "None")
    if policy == "All":
        return list(state.members.values())
    if policy == "Running":
        return [pod for pod in state.members.values() if not pods.is_finished(pod)]
    return []


def _expiry(state: _TrainingJobSync) -> list[writes.Action]:
    """Delete the finished job when ttlSecondsAfterFinished is over."""
    ttl = state.policy.get("ttlSecondsAfterFinished")
    ended = times.parse_optional(state.status.get("completionTime"))
    if ttl is None or ended is None or not _is_finished({"status": state.status}):
        return []
    remaining = (ended + times.span(ttl) - state.now).total_seconds()
    if remaining > 0:
        state.wait = remaining
        return []
    return [writes.Delete(resource=state.framework.resource, object=state.job)]


def _pod(member: Member, local_annotations: dict[str, str]) -> Object:
    spec = specs(member.framework, member.job)[member.role]
    pod = pods.from_template(objects.nested(spec, "template"), member.job, name=member.name, labels=_labels(member))
    pod["metadata"]["annotations"] = local_annotations | objects.annotations(pod)
    policy = spec.get("restartPolicy", "Never")
    pod["spec"]["restartPolicy"] = "Never" if policy == "ExitCode" else policy
    variables = [{"name": name, "value": value} for name, value in member.framework.variables(member).items()]
    for container in pods.containers(pod["spec"]):
        own = copy.copy(container.get("env") or [])
        own_names = {variable["name"] for variable in own}
        container["env"] = [*own, *(variable for variable in variables if variable["name"] not in own_names)]
    if member.role == member.framework.idle_role:
        _idle(pod)
    return pod


def _idle(pod: Object) -> None:
    """Replace a missing command, or an SSH server, by a sleep until the pod is deleted."""
    if not pod["spec"].get("containers"):
        return  # the API refuses the pod, and says why
    container = pod["spec"]["containers"][0]
    words = [*(container.get("command") or ()), *(container.get("args") or ())]
    if not words or words[0].rpartition("/")[2] == "sshd":
        container["command"] = ["sleep", "infinity"]
        container.pop("args", None)
        pod["metadata"]["annotations"].setdefault(simulated.RUNTIME, simulated.UNTIL_DELETED)


def _labels(member: Member) -> dict[str, str]:
    labels = {
        f"{_PREFIX}job-name": objects.name(member.job),
        f"{_PREFIX}operator-name": member.framework.operator,
        _ROLE: member.role.lower(),
        _INDEX: str(member.index),
    }
    if member.role in member.framework.leaders:
        labels[f"{_PREFIX}job-role"] = "master"
    return labels


def _local_annotations(framework: TrainingFramework, job: Object) -> dict[str, str]:
    """Annotations for this machine: the names and port with which members reach each other."""
    names = [pod_name(job, role, index) for role, count in counts(framework, job).items() for index in range(count)]
    return {
        reserved_keys.PORT_GROUP: objects.uid(job),
        reserved_keys.LOCAL_NAMES: ",".join(names),
        reserved_keys.LOCAL_PORTS: str(framework.port),
    }


def _role_and_index(framework: TrainingFramework, pod: Object) -> tuple[str, int] | None:
    """The role and index of a pod by its labels; None if it has none."""
    labels = objects.labels(pod)
    role = next((name for name in framework.roles if name.lower() == labels.get(_ROLE)), None)
    index = labels.get(_INDEX, "")
    return None if role is None or not index.isdecimal() else (role, int(index))
