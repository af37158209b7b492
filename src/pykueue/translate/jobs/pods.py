"""Single pods and pod groups: their pod sets, and whether they run, are ready or have finished.

A single pod is a group of one. A scheduling gate keeps a pod from running, as it has no suspend
field. A pod cannot be restored: stopping it deletes it. `controllers.pods.decide` decides about
groups.
"""

from collections.abc import Callable

import msgspec

from pykueue.api import conditions, objects, times
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
from pykueue.api.rules.jobs import job_kinds
from pykueue.api.scheme import Object
from pykueue.translate import nodes
from pykueue.translate.jobs import topology_request
from pykueue.translate.jobs.framework import JobFramework, JobOptions, JobResult, PodSetTemplate
from pykueue.translate.pod_set_info import PodSetInfo, merged_template

RoleHash = Callable[[Object], str]

is_terminated = nodes.is_terminated


def group_name(pod: Object, *, by_annotation: bool = True) -> str:
    """The name of the pod's group; an annotation counts with WorkloadIdentifierAnnotations."""
    annotation = objects.annotations(pod).get(POD_GROUP_NAME) if by_annotation else None
    return str(annotation or objects.labels(pod).get(POD_GROUP_NAME, ""))


def is_gated(pod: Object) -> bool:
    return has_gate(pod, ADMISSION_GATE)


def has_gate(pod: Object, name: str) -> bool:
    return any(gate.get("name") == name for gate in pod["spec"].get("schedulingGates") or ())


def remove_gates(pod: Object, *names: str) -> None:
    """Removes scheduling gates in place."""
    gates = [gate for gate in pod["spec"].get("schedulingGates") or () if gate.get("name") not in names]
    if gates:
        pod["spec"]["schedulingGates"] = gates
    else:
        pod["spec"].pop("schedulingGates", None)


def phase(pod: Object) -> str:
    return str(objects.status(pod).get("phase", ""))


def is_suspended(pod: Object) -> bool:
    return is_terminated(pod) or is_gated(pod)


def is_runnable_or_succeeded(pod: Object) -> bool:
    """Whether the pod can run, runs or has succeeded.

    A pod that is deleted before it got a node never runs.
    """
    if objects.is_deleted(pod) and not pod["spec"].get("nodeName"):
        return False
    return phase(pod) != "Failed"


def is_ready(pod: Object) -> bool:
    return conditions.is_true(pod, "Ready")


def is_running(pod: Object, now_ns: int) -> bool:
    """Whether the pod runs.

    A deleted pod whose grace period has passed does not count as running.
    """
    if phase(pod) != "Running":
        return False
    metadata = pod["metadata"]
    grace = metadata.get("deletionGracePeriodSeconds")
    if not objects.is_deleted(pod) or grace is None:
        return True
    return now_ns <= times.to_ns(metadata["deletionTimestamp"]) + int(grace) * 10**9


class PodGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A pod group; `name` is "" for a single pod."""

    name: str
    pods: tuple[Object, ...]
    role_hash: RoleHash
    """Computes the role of a pod without the annotation `role-hash` from its spec."""

    @property
    def lead(self) -> Object:
        return self.pods[0]

    def role(self, pod: Object) -> str:
        return str(objects.annotations(pod).get(ROLE_HASH) or self.role_hash(pod["spec"]))

    @property
    def total_count(self) -> int:
        text = objects.annotations(self.lead).get(POD_GROUP_TOTAL_COUNT, "")
        return int(text) if text.isdigit() else 0

    @property
    def is_fast(self) -> bool:
        return objects.annotations(self.lead).get(POD_GROUP_FAST_ADMISSION) == "true"

    @property
    def is_serving(self) -> bool:
        return bool(self.name) and objects.annotations(self.lead).get(POD_GROUP_SERVING) == "true"

    @property
    def is_suspended(self) -> bool:
        return any(is_suspended(pod) for pod in self.pods)

    def is_active(self, now_ns: int) -> bool:
        """Whether pods still use quota. A single pod releases its quota at once."""
        return bool(self.name) and any(is_running(pod, now_ns) for pod in self.pods)

    @property
    def is_ready(self) -> bool:
        if self.name and len(self.pods) < self.total_count:
            return False
        return all(is_ready(pod) for pod in self.pods)

    def finished(self) -> JobResult | None:
        if self.is_serving:
            return None
        if not self.name:
            if not is_terminated(self.lead):
                return None
            return JobResult(
                is_success=phase(self.lead) == "Succeeded", message=str(objects.status(self.lead).get("message", ""))
            )
        succeeded = sum(phase(pod) == "Succeeded" for pod in self.pods)
        is_final = any(objects.annotations(pod).get(RETRIABLE_IN_GROUP) == "false" for pod in self.pods)
        all_terminated = all(is_terminated(pod) for pod in self.pods)
        if succeeded == self.total_count or (all_terminated and is_final):
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
            objects.annotations(pod), pod_index_label=POD_GROUP_POD_INDEX
        )
    return pod_set


def released(pod: Object, info: PodSetInfo) -> Object:
    """The pod with the pod set info merged in and without the admission gate."""
    pod = merged_template(pod, info)
    remove_gates(pod, ADMISSION_GATE)
    if all(gate["name"] != TOPOLOGY_GATE for gate in info.scheduling_gates):
        remove_gates(pod, TOPOLOGY_GATE)
    return pod


def set_role(pod: Object, role: str) -> None:
    """Record the role, because it is a hash of the spec and the admission changes the spec."""
    pod["metadata"].setdefault("annotations", {}).setdefault(ROLE_HASH, role)


def _no_templates(_job: Object, _options: JobOptions) -> list[PodSetTemplate]:
    return []


FRAMEWORK = JobFramework(
    description=job_kinds.POD,
    pod_set_templates=_no_templates,
    finished=lambda pod: PodGroup(name="", pods=(pod,), role_hash=str).finished(),
    is_active=lambda _pod: False,
    pods_ready=is_ready,
)
"""The name and the resource of pods; `PodGroup` reads everything else."""
