"""Pods by themselves and in groups: what they ask for together, whether they run, are ready, are done.

A pod by itself is read as a group of one. Pods are held back by a scheduling gate, not by a suspend field, and cannot be
restored: stopping a pod ends it. `controllers.pods.decide` decides about groups.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pykueue.api import times
from pykueue.api.json_copy import copied
from pykueue.api.labels import (
    ADMISSION_GATE,
    POD_GROUP_FAST_ADMISSION,
    POD_GROUP_NAME,
    POD_GROUP_POD_INDEX,
    POD_GROUP_SERVING,
    POD_GROUP_TOTAL_COUNT,
    RETRIABLE_IN_GROUP,
    ROLE_HASH,
    TOPOLOGY_GATE,
)
from pykueue.api.scheme import Object, Resource
from pykueue.translate.jobs import topology_request
from pykueue.translate.jobs.framework import JobFramework, JobOptions, JobResult, PodSetTemplate
from pykueue.translate.pod_set_info import PodSetInfo, merged_template

RoleHash = Callable[[Object], str]


def _annotations(pod: Object) -> Mapping[str, str]:
    found: Mapping[str, str] = pod["metadata"].get("annotations") or {}
    return found


def group_name(pod: Object) -> str:
    return str(_annotations(pod).get(POD_GROUP_NAME) or (pod["metadata"].get("labels") or {}).get(POD_GROUP_NAME, ""))


def is_gated(pod: Object) -> bool:
    return any(gate.get("name") == ADMISSION_GATE for gate in pod["spec"].get("schedulingGates") or ())


def phase(pod: Object) -> str:
    return str((pod.get("status") or {}).get("phase", ""))


def is_terminated(pod: Object) -> bool:
    return phase(pod) in ("Succeeded", "Failed")


def is_suspended(pod: Object) -> bool:
    return is_terminated(pod) or is_gated(pod)


def is_deleted(pod: Object) -> bool:
    return bool(pod["metadata"].get("deletionTimestamp"))


def is_runnable_or_succeeded(pod: Object) -> bool:
    """Can run, runs, or has done its work. Deleted before it got a node, it never will."""
    if is_deleted(pod) and not pod["spec"].get("nodeName"):
        return False
    return phase(pod) != "Failed"


def is_ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def is_running_for_long(pod: Object, now_ns: int) -> bool:
    """Running, and not stuck past its grace period."""
    if phase(pod) != "Running":
        return False
    metadata = pod["metadata"]
    grace = metadata.get("deletionGracePeriodSeconds")
    if not is_deleted(pod) or grace is None:
        return True
    return now_ns <= times.to_ns(metadata["deletionTimestamp"]) + int(grace) * 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class PodGroup:
    """`name` is "" for a pod by itself."""

    name: str
    pods: tuple[Object, ...]
    role_hash: RoleHash
    """Of a pod's spec, when the pod does not carry it."""

    @property
    def lead(self) -> Object:
        return self.pods[0]

    def role(self, pod: Object) -> str:
        return str(_annotations(pod).get(ROLE_HASH) or self.role_hash(pod["spec"]))

    @property
    def total_count(self) -> int:
        text = _annotations(self.lead).get(POD_GROUP_TOTAL_COUNT, "")
        return int(text) if text.isdigit() else 0

    @property
    def is_fast(self) -> bool:
        return _annotations(self.lead).get(POD_GROUP_FAST_ADMISSION) == "true"

    @property
    def is_serving(self) -> bool:
        return bool(self.name) and _annotations(self.lead).get(POD_GROUP_SERVING) == "true"

    @property
    def is_suspended(self) -> bool:
        return any(is_suspended(pod) for pod in self.pods)

    def is_active(self, now_ns: int) -> bool:
        """A pod by itself gives its quota back at once."""
        return bool(self.name) and any(is_running_for_long(pod, now_ns) for pod in self.pods)

    @property
    def is_ready(self) -> bool:
        if self.name and len(self.pods) < self.total_count:
            return False
        return all(is_ready(pod) for pod in self.pods)

    def finished(self) -> JobResult | None:
        if self.is_serving:
            return None
        if not self.name:
            status = self.lead.get("status") or {}
            if not is_terminated(self.lead):
                return None
            return JobResult(is_success=phase(self.lead) == "Succeeded", message=str(status.get("message", "")))
        succeeded = sum(phase(pod) == "Succeeded" for pod in self.pods)
        is_final = any(_annotations(pod).get(RETRIABLE_IN_GROUP) == "false" for pod in self.pods)
        nobody_runs = all(is_terminated(pod) for pod in self.pods)
        if succeeded == self.total_count or (nobody_runs and is_final):
            return JobResult(is_success=True, message=f"Pods succeeded: {succeeded}/{self.total_count}.")
        return None

    def reclaimable(self) -> list[Object]:
        if not self.name or self.is_serving:
            return []
        counts: dict[str, int] = {}
        for pod in self.pods:
            if phase(pod) == "Succeeded":
                counts[self.role(pod)] = counts.get(self.role(pod), 0) + 1
        return [{"name": role, "count": count} for role, count in counts.items()]

    def pod_sets(self, options: JobOptions) -> list[Object]:
        if not self.name:
            return [_pod_set(self.lead, "main", options)]
        runnable = [pod for pod in self.pods if is_runnable_or_succeeded(pod)]
        if self.is_fast:
            return [{**_pod_set(pod, self.role(pod), options), "count": self.total_count} for pod in runnable[:1]]
        roles: dict[str, Object] = {}
        for pod in runnable:
            role = self.role(pod)
            if role in roles:
                roles[role]["count"] += 1
            else:
                roles[role] = _pod_set(pod, role, options)
        return [roles[role] for role in sorted(roles)]


def _pod_set(pod: Object, name: str, options: JobOptions) -> Object:
    pod_set: Object = {"name": name, "count": 1, "template": {"spec": copied(pod["spec"])}}
    if options.topology_aware:
        pod_set["topologyRequest"] = topology_request.from_annotations(
            _annotations(pod), pod_index_label=POD_GROUP_POD_INDEX
        )
    return pod_set


def released(pod: Object, info: PodSetInfo) -> Object:
    """The pod with what its admission gives, and without the gate. PodSetConflictError if that contradicts the pod."""
    pod = merged_template(pod, info)
    kept = {gate["name"] for gate in info.scheduling_gates}
    gates = [
        gate
        for gate in pod["spec"].get("schedulingGates") or ()
        if gate["name"] != ADMISSION_GATE and (gate["name"] != TOPOLOGY_GATE or TOPOLOGY_GATE in kept)
    ]
    if gates:
        pod["spec"]["schedulingGates"] = gates
    else:
        pod["spec"].pop("schedulingGates", None)
    return pod


def keep_role(pod: Object, role: str) -> None:
    """What an admission gives changes the spec, of which a role is the hash. An admission policy cannot write it down."""
    annotations = pod["metadata"].setdefault("annotations", {})
    annotations.setdefault(ROLE_HASH, role)


def _no_places(_job: Object, _options: JobOptions) -> list[PodSetTemplate]:
    return []


FRAMEWORK = JobFramework(
    name="pod",
    resource=Resource("", "v1", "pods", "Pod", namespaced=True),
    suspend_path=("spec", "schedulingGates"),
    places=_no_places,
    finished=lambda pod: PodGroup(name="", pods=(pod,), role_hash=str).finished(),
    is_active=lambda _pod: False,
    pods_ready=is_ready,
)
"""How a pod is called and owned; what it asks for and when it is done is told by `Group`."""
