"""Replays recorded tests of the whole scheduler: one or a few cycles over recorded objects.

Compares assignments, evictions, queues, usage, the status of each workload and the events.
"""

import copy
import re
from collections.abc import Mapping
from typing import Any

from pykueue.api import objects, resource_lists
from pykueue.api.scheme import Object
from pykueue.api.times import SECOND_NS
from pykueue.conformance import differences
from pykueue.conformance.cluster import RecordedCluster
from pykueue.conformance.corpus import Case
from pykueue.conformance.differences import Difference
from pykueue.controllers.workloads import predicates
from pykueue.engine import decisions, events, values
from pykueue.translate import outcomes

_WAIT = re.compile(r"was \d+s")


def schedule(case: Case) -> list[Difference]:
    run = ScheduleRun(case)
    if "steps" in case:
        return _steps(run, case)
    config = case["config"]
    for cycle in range(config.get("cycles") or 1):
        run.cycle()
        if config.get("churn"):
            run.churn(cycle)
    return run.compare(case["expect"])


def _steps(run: "ScheduleRun", case: Case) -> list[Difference]:
    mismatches: list[Difference] = []
    for number, step in enumerate(case["steps"]):
        if "schedule" in step:
            run.cycle()
        for key in step.get("deleteWorkloads") or ():
            run.cluster.delete(key)
        if step.get("reactivateInadmissible"):
            run.cluster.reactivate()
        if number == 0:
            mismatches += run.compare(case["expect"]["afterStep1"], "afterStep1")
    final = {name: value for name, value in case["expect"].items() if name != "afterStep1"}
    return mismatches + run.compare(final)


class ScheduleRun:
    def __init__(self, case: Case) -> None:
        self.cluster = RecordedCluster(case, watches_writes=False)
        self._write_error: str = case["config"].get("admissionError") or ""
        for _ in case.get("secondPass") or ():
            self.cluster.now_ns += SECOND_NS
        self._cluster_queues = case["clusterQueues"]
        self._set_up_fair_admission(case)
        self._before = copy.deepcopy(self.cluster.workloads)

    def cycle(self) -> None:
        self.cluster.write(
            decision
            for decision in self.cluster.handle(events.CycleDue(at_ns=self.cluster.now_ns))
            if not self._is_refused(decision)
        )

    def _is_refused(self, decision: decisions.Decision) -> bool:
        """Whether the API refuses the write; an eviction of a deleted workload has no event."""
        if not self._write_error:
            return False
        now_ns, key = self.cluster.now_ns, decision.workload
        if isinstance(decision, decisions.Admit):
            self.cluster.handle(events.AdmissionRefused(at_ns=now_ns, key=key))
            return True
        if isinstance(decision, decisions.Evict):
            self.cluster.handle(events.EvictionRefused(at_ns=now_ns, key=key))
            if "not found" not in self._write_error:
                self.cluster.events.append(outcomes.no_place_event(decision))
            return True
        return False

    def churn(self, cycle: int) -> None:
        """Changes the quota of the second flavor between cycles, down and up again."""
        for obj in self._cluster_queues:
            flavors = obj["spec"]["resourceGroups"][0]["flavors"]
            flavors[1]["resources"][0]["nominalQuota"] = "4" if cycle % 2 else "5"
            self.cluster.put_cluster_queue(obj)

    def compare(self, expected: Case, path: str = "") -> list[Difference]:
        answer = self.answer()
        return [
            difference
            for name, value in expected.items()
            if name in answer
            for difference in differences.between(
                _comparable(name, value), _comparable(name, answer[name]), f"{path}.{name}" if path else name
            )
        ]

    def answer(self) -> dict[str, Any]:
        cluster = self.cluster
        assignments = {
            key: obj["status"]["admission"]
            for key, obj in cluster.workloads.items()
            if key in cluster.state.reservations and "admission" in obj["status"]
        }
        assignments_before = {
            key: obj["status"]["admission"] for key, obj in self._before.items() if predicates.holds_quota(obj)
        }
        return {
            "assignments": assignments,
            "admittedThisCycle": sorted(assignments.keys() - assignments_before.keys()),
            "reassignedThisCycle": sorted(
                key
                for key in assignments.keys() & assignments_before.keys()
                if assignments[key] != assignments_before[key]
            ),
            "preempted": [
                {"workload": target.workload, "reason": target.reason.value, "preemptor": decision.workload}
                for decision, target in cluster.preemptions
            ],
            "evicted": self._evicted(),
            "left": cluster.pending(),
            "inadmissible": cluster.inadmissible(),
            "skippedPreemptions": cluster.engine.view.skipped_preemptions,
            "clusterQueueUsage": cluster.usage(),
            "conditions": {
                key: objects.nested_list(obj, "status", "conditions") for key, obj in cluster.workloads.items()
            },
            "workloadStatus": {key: obj.get("status") or {} for key, obj in cluster.workloads.items()},
            "events": [
                {
                    "object": event.workload,
                    "type": "Warning" if event.is_warning else "Normal",
                    "reason": event.reason,
                    "message": event.message,
                }
                for event in cluster.events
            ],
        }

    def _evicted(self) -> list[Object]:
        return [
            {"workload": key, "reason": evicted["reason"], "message": evicted["message"]}
            for key, obj in self.cluster.workloads.items()
            if predicates.is_evicted(obj) and not predicates.is_evicted(self._before[key])
            for evicted in obj["status"]["conditions"]
            if evicted["type"] == "Evicted"
        ]

    def _set_up_fair_admission(self, case: Case) -> None:
        """Sets the recorded usage of LocalQueues for admission fair sharing."""
        keys = {
            obj["metadata"]["name"]: values.LocalQueueKey(f"{obj['metadata']['namespace']}/{obj['metadata']['name']}")
            for obj in case.get("localQueues") or ()
        }
        for name, consumed in (case["config"].get("initialLocalQueueUsage") or {}).items():
            nano = {
                values.ResourceName(resource): quantity.nano
                for resource, quantity in resource_lists.parse(consumed).items()
            }
            self.cluster.handle(events.LocalQueueUsageSampled(at_ns=self.cluster.now_ns, key=keys[name], consumed=nano))


def _comparable(name: str, value: Any) -> Any:
    """Sorts unordered lists and masks waiting times, which depend on the recorder's clock."""
    match name:
        case "conditions":
            return {key: _by_type(conditions) for key, conditions in value.items()}
        case "workloadStatus":
            return {key: _comparable_status(status) for key, status in value.items()}
        case "events":
            masked = [{**event, "message": _WAIT.sub("was …s", event["message"])} for event in value]
            return sorted(masked, key=lambda event: (event["object"], event["type"], event["reason"], event["message"]))
        case "clusterQueueUsage":
            return {
                key: {flavor_resource: amount for flavor_resource, amount in usage.items() if amount}
                for key, usage in value.items()
            }
        case "skippedPreemptions":
            return {key: count for key, count in value.items() if count}
        case "preempted" | "evicted":
            return sorted(value, key=lambda entry: str(entry["workload"]))
        case _:
            return value


def _comparable_status(status: Mapping[str, Any]) -> dict[str, Any]:
    """Drops artifacts of the recorder's client.

    The client sets the time of checks without one, and cannot remove `resourceRequests` and
    `unhealthyNodes`.
    """
    compared = {**status, "conditions": _by_type(status.get("conditions") or ())}
    if "admission" in status:
        compared.pop("resourceRequests", None)
        compared.pop("unhealthyNodes", None)
    if "admissionChecks" in status:
        compared["admissionChecks"] = [
            {name: value for name, value in check.items() if name != "lastTransitionTime"}
            for check in status["admissionChecks"]
        ]
    return compared


def _by_type(conditions: Any) -> list[Object]:
    return sorted(conditions, key=lambda condition: str(condition["type"]))


RUNNERS = dict.fromkeys(
    (
        "TestSchedule",
        "TestScheduleForFairSharing",
        "TestScheduleForAFS",
        "TestScheduleForPreserveFlavorScanProgress",
        "TestLastSchedulingContext",
        "TestScheduleRecomputePreemptionTargets",
        "TestScheduleConcurrentAdmission",
        "TestScheduleForTASCohorts",
        "TestScheduleForTASPreemption",
        "TestScheduleForTAS",
    ),
    schedule,
)
