"""Replays recorded reconciles of Kueue's workload controller: Workload and events."""

import copy
from collections.abc import Mapping
from typing import Any

from pykueue.api import durations, objects
from pykueue.api.scheme import Object
from pykueue.api.times import SECOND_NS, to_ns
from pykueue.conformance import differences
from pykueue.conformance.corpus import Case, feature_gates
from pykueue.conformance.differences import Difference
from pykueue.controllers.workloads import context, decide, predicates
from pykueue.controllers.workloads.context import LifecyclePolicy, PodsReadyPolicy
from pykueue.translate import devices, policy

DEVICES = "WorkloadTestReconcileDRA"
_MAPPINGS = [
    {"name": "foo", "deviceClassNames": ["foo.example.com"]},
    {"name": "gpu", "deviceClassNames": ["gpu.example.com"]},
]
"""The recorder's configuration."""

MISSING_TEMPLATE = ("resourceclaimtemplates.resource.k8s.io", "ResourceClaimTemplate.resource.k8s.io")
"""The error text of the recorder's client, and that of Kueue's own."""

NOT_REMOVED_BY_RECORDER = ("requeueState", "unhealthyNodes", "admission")
"""Fields that the server-side apply of the recorder's client could not remove."""


def reconciled(case: Case) -> list[Difference]:
    if case["expect"]["error"] and case["suite"] != DEVICES:
        return []  # the recorder's client refused a write, so there is nothing to compare
    plan = decide.decide(case["workload"], _context(case), _policy(case), to_ns(case["now"]))
    key = predicates.key(case["workload"])
    events = [
        {
            "object": key,
            "type": event.type,
            "reason": event.reason,
            "message": event.message,
        }
        for event in plan.events
    ]
    answer = {
        "events": events,
        "requeueAfter": plan.requeue_after_ns,
        "workload": _comparable(plan.workload, plan.workload),
    }
    expected = {
        "events": case["expect"]["events"],
        "requeueAfter": durations.to_ns(case["expect"]["requeueAfter"]),
        "workload": _comparable(case["expect"]["workload"], plan.workload),
    }
    if case["expect"]["workload"] is None:
        is_deleted = plan.delete or not plan.workload["metadata"].get("finalizers")
        expected["workload"], answer["workload"] = "deleted", "deleted" if is_deleted else "present"
    return differences.between(expected, answer)


def _context(case: Case) -> context.WorkloadContext:
    metadata, queue_name = case["workload"]["metadata"], case["workload"]["spec"].get("queueName")
    local_queue = _find(case["localQueues"], queue_name, metadata["namespace"], case["localQueueTerminating"])
    name = local_queue["spec"].get("clusterQueue", "") if local_queue else ""
    return context.WorkloadContext(
        local_queue=local_queue,
        cluster_queue_name=name,
        cluster_queue=_find(case["clusterQueues"], name, None, case["clusterQueueTerminating"]),
        is_cluster_queue_active=False,  # the recorder's cache has no ClusterQueues
        device_fault=_device_fault(case) if case["suite"] == DEVICES else None,
    )


def _device_fault(case: Case) -> devices.DeviceFault | None:
    rules = policy.device_rules({"featureGates": feature_gates(case), "resources": {"deviceClassMappings": _MAPPINGS}})
    counted = devices.count(case["workload"], rules, _RecordedDevices(case))
    return counted if isinstance(counted, devices.DeviceFault) else None


class _RecordedDevices:
    """The device inventory of a recording."""

    def __init__(self, case: Case) -> None:
        self._objects: list[Object] = case["otherObjects"]
        self._list_error: str = case.get("listError") or ""

    def template(self, namespace: str, name: str) -> Object | None:
        for obj in self._of("ResourceClaimTemplate"):
            if (obj["metadata"]["namespace"], obj["metadata"]["name"]) == (namespace, name):
                return obj
        return None

    def classes(self) -> list[Object]:
        return self._of("DeviceClass")

    def slices(self) -> list[Object]:
        if self._list_error:
            raise LookupError(self._list_error)
        return self._of("ResourceSlice")

    def _of(self, kind: str) -> list[Object]:
        return [obj for obj in self._objects if obj["kind"] == kind]


def _find(queues: list[Object], name: str | None, namespace: str | None, is_terminating: Any) -> Object | None:
    for queue in queues:
        if queue["metadata"]["name"] == name and queue["metadata"].get("namespace") == namespace:
            copy_of_queue = copy.deepcopy(queue)
            if is_terminating:
                copy_of_queue["metadata"]["deletionTimestamp"] = "set"
            return copy_of_queue
    return None


def _policy(case: Case) -> LifecyclePolicy:
    retention: Mapping[str, Any] = case["config"]["workloadRetention"] or {}
    return LifecyclePolicy(
        pods_ready=_pods_ready(case["config"]["waitForPodsReady"]),
        retain_finished_ns=durations.to_ns(retention["afterFinished"]) if "afterFinished" in retention else None,
        finish_orphans=feature_gates(case).get("FinishOrphanedWorkloads", True),
        syncs_preemption_gates=feature_gates(case).get("MultiKueueOrchestratedPreemption", False),
    )


def _pods_ready(section: Mapping[str, Any] | None) -> PodsReadyPolicy | None:
    if not section:
        return None
    recovery = section.get("recoveryTimeout")
    return PodsReadyPolicy(
        timeout_ns=durations.to_ns(section["timeout"]),
        recovery_timeout_ns=durations.to_ns(recovery) if recovery else None,
        backoff_limit_count=section["requeuingBackoffLimitCount"],
        backoff_base_seconds=section["requeuingBackoffBaseSeconds"],
        backoff_max_seconds=durations.to_ns(section["requeuingBackoffMaxDuration"]) // SECOND_NS,
    )


def _comparable(workload: Object | None, ours: Object) -> Any:
    """Sorts the conditions and drops the fields that the recorder's client could not remove."""
    if workload is None:
        return None
    workload = copy.deepcopy(workload)
    status = workload.setdefault("status", {})
    our_status = ours.get("status") or {}
    our_types = {condition["type"] for condition in our_status.get("conditions") or ()}
    for name in NOT_REMOVED_BY_RECORDER:
        if name not in our_status:
            status.pop(name, None)
    status["conditions"] = sorted(
        (
            condition
            for condition in status.get("conditions") or ()
            if condition["type"] != "DeactivationTarget" or "DeactivationTarget" in our_types
        ),
        key=lambda condition: str(condition["type"]),
    )
    for condition in status["conditions"]:
        condition["message"] = condition["message"].replace(*MISSING_TEMPLATE)
    for check in status.get("admissionChecks") or ():
        check.pop("lastTransitionTime", None)
    for eviction in objects.nested_list(status, "schedulingStats", "evictions"):
        eviction.setdefault("underlyingCause", "")
    return workload


RUNNERS = {f"WorkloadTestReconcile{part}": reconciled for part in ("", "DRA", "Eviction", "Inadmissible", "Requeue")}
