"""Replays recorded scenarios cycle by cycle, and recorded tests of single steps of a cycle.

A scenario runs until nothing changes. Between cycles it does what the recorder did: evicted
workloads stop at once and the clock advances by one second.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any

from msgspec import structs

from pykueue.api import objects, quantity, times
from pykueue.api.kueue import topology_encoding
from pykueue.api.scheme import Object
from pykueue.conformance import differences
from pykueue.conformance.cluster import RecordedCluster
from pykueue.conformance.corpus import DECISIONS, Case
from pykueue.conformance.differences import Difference
from pykueue.controllers.workloads import predicates
from pykueue.engine import decisions, values
from pykueue.engine.cycle import order, process
from pykueue.engine.cycle.entries import CycleEntry
from pykueue.engine.flavors.assignment import Assignment
from pykueue.engine.queues import pending_queue
from pykueue.engine.queues.cluster_queue import ClusterQueueState
from pykueue.engine.quota import quota_tree
from pykueue.translate import messages, outcomes

_TOPOLOGY_FAILURE = re.compile(r"pod set (leader|workers): topology")
_SECOND_NS = 10**9
_QUIET_CYCLES = 6


def scenario(case: Case) -> list[Difference]:
    expected = case["expected"]
    recorded = expected["cycles"]
    run = ScenarioRun(case["scenario"])
    limit = case["scenario"]["maxCycles"] if expected["converged"] else len(recorded)
    for index, (expected_cycle, cycle) in enumerate(
        zip_longest(recorded, run.cycles(limit), fillvalue=differences.ABSENT)
    ):
        if mismatches := differences.between(expected_cycle, cycle, f"cycles[{index}]"):
            return mismatches
    return differences.between(_without_unused(expected["final"]), run.final(), "final") if "final" in expected else []


class ScenarioRun:
    """The replay of one scenario."""

    def __init__(self, recorded: Mapping[str, Any]) -> None:
        self.cluster = RecordedCluster(recorded)
        self._timeline = recorded.get("timeline") or []
        self._sorts_admissions = (recorded.get("config") or {}).get("fairSharing") is not None

    def cycles(self, limit: int) -> Iterator[dict[str, Any]]:
        """Runs until nothing changes for some cycles; of those only the first is returned."""
        last_event = max((entry["atCycle"] for entry in self._timeline), default=0)
        quiet: list[dict[str, Any]] = []
        for number in range(1, limit + 1):
            self._play_timeline(number)
            is_idle = not self.cluster.has_heads()
            if is_idle and number > last_event:
                break
            before = (self.cluster.pending(), self.cluster.inadmissible())
            cycle = self._cycle(number, is_idle=is_idle)
            changed = before != (cycle["pending"], cycle["inadmissible"])
            if changed or cycle["admissions"] or cycle["preemptions"] or number < last_event:
                yield from (*quiet, cycle)
                quiet = []
            else:
                quiet.append(cycle)
            if len(quiet) == _QUIET_CYCLES:
                break
            self.cluster.now_ns += _SECOND_NS
        yield from quiet if len(quiet) < _QUIET_CYCLES else quiet[:1]

    def final(self) -> dict[str, Any]:
        cluster = self.cluster
        return {
            "assignments": {
                key: _assignment(obj) for key, obj in sorted(cluster.workloads.items()) if predicates.holds_quota(obj)
            },
            "pending": cluster.pending(),
            "inadmissible": cluster.inadmissible(),
            "usage": cluster.usage(),
            "conditions": {key: _conditions(obj) for key, obj in sorted(cluster.workloads.items())},
        }

    def _cycle(self, number: int, *, is_idle: bool) -> dict[str, Any]:
        cluster = self.cluster
        cluster.preemptions.clear()
        at = times.from_ns(cluster.now_ns)
        decided = [] if is_idle else cluster.cycle()
        cluster.stop_evicted()
        admissions = [_admission(decision) for decision in decided if isinstance(decision, decisions.Admit)]
        if self._sorts_admissions:
            admissions.sort(key=lambda admission: str(admission["workload"]))
        return {
            "cycle": number,
            "time": at,
            **({"idle": True} if is_idle else {}),
            "admissions": admissions,
            "preemptions": sorted(
                (
                    {"workload": target.workload, "reason": target.reason.value, "preemptor": decision.workload}
                    for decision, target in cluster.preemptions
                ),
                key=lambda entry: (entry["preemptor"], entry["workload"]),
            ),
            "pending": cluster.pending(),
            "inadmissible": cluster.inadmissible(),
        }

    def _play_timeline(self, number: int) -> None:
        for entry in self._timeline:
            if entry["atCycle"] == number:
                self._play(entry)

    def _play(self, entry: Mapping[str, Any]) -> None:
        for key in entry.get("finish") or ():
            self.cluster.finish(key)
        for key in entry.get("delete") or ():
            self.cluster.delete(key)
        for obj in entry.get("create") or ():
            self.cluster.create(obj)
        if obj := entry.get("updateClusterQueue"):
            self.cluster.put_cluster_queue(obj)
            if _looks_changed(obj):
                self.cluster.reactivate(obj["metadata"]["name"])
        if obj := entry.get("updateCohort"):
            self.cluster.put_cohort(obj)


def _looks_changed(cluster_queue: Object) -> bool:
    """The recorder compared specs as text, so a quota `0Gi`, stored as `0`, always differed."""
    return any(
        str(quantity.parse(entry[name])) != entry[name]
        for group in cluster_queue["spec"].get("resourceGroups") or ()
        for flavor in group["flavors"]
        for entry in flavor["resources"]
        for name in ("nominalQuota", "borrowingLimit", "lendingLimit")
        if name in entry
    )


def _without_unused(final: Mapping[str, Any]) -> dict[str, Any]:
    """Removes zero amounts: the recorder also lists usage that was released."""
    usage = {name: {key: amount for key, amount in used.items() if amount} for name, used in final["usage"].items()}
    conditions = {
        key: [_anonymous(condition) for condition in recorded_conditions]
        for key, recorded_conditions in final["conditions"].items()
    }
    return {**final, "usage": usage, "conditions": conditions}


def _anonymous(condition: dict[str, str]) -> dict[str, str]:
    """Hides the name of the pod set: of a leader and its workers the recorder names either one."""
    return {**condition, "message": _TOPOLOGY_FAILURE.sub("pod set …: topology", condition["message"])}


def _admission(decision: decisions.Admit) -> dict[str, Any]:
    admission = outcomes.admission(decision.admission)
    return {
        "workload": decision.workload,
        "clusterQueue": decision.cluster_queue,
        "borrows": decision.borrowing,
        "podSets": [_with_domains(pod_set) for pod_set in admission["podSetAssignments"]],
    }


def _assignment(obj: Object) -> dict[str, Any]:
    admission = obj["status"]["admission"]
    pod_sets = [_with_domains(pod_set) for pod_set in admission["podSetAssignments"]]
    return {"clusterQueue": admission["clusterQueue"], "podSets": pod_sets}


def _with_domains(pod_set: Object) -> Object:
    """Adds the decoded domains, which the recorder lists beside the compact form."""
    if "topologyAssignment" not in pod_set:
        return pod_set
    domains = [
        {"values": list(domain.values), "count": domain.count}
        for domain in topology_encoding.decode(pod_set["topologyAssignment"])
    ]
    return {**pod_set, "topologyDomains": domains}


def _conditions(obj: Object) -> list[dict[str, str]]:
    compared = [
        _anonymous({name: condition.get(name, "") for name in ("type", "status", "reason", "message")})
        for condition in objects.nested_list(obj, "status", "conditions")
    ]
    return sorted(compared, key=lambda condition: condition["type"])


_MODES = {word: mode for mode, word in messages.MODES.items()}


def entry_order(case: Case) -> list[Difference]:
    cluster = RecordedCluster(case)
    name = values.ClusterQueueName("queue")
    queue = ClusterQueueState(
        values.ClusterQueue(name=name), quota_tree.QuotaNode(name, is_cluster_queue=True), cluster.policy
    )
    cycle_entries = []
    for number, entry in enumerate(case["entries"]):
        workload = _numbered(cluster.translated(entry["workload"]), number)
        pending = pending_queue.PendingWorkload(workload, cluster.policy)
        cycle_entry = CycleEntry(pending, queue, is_preemptor=entry["isPreemptor"])
        cycle_entry.assignment = Assignment(borrowing=entry["borrowing"])
        cycle_entries.append(cycle_entry)
    ordered = [entry.pending.key.rpartition("/")[2] for entry in order.ordered(cluster.state, cycle_entries)]
    return differences.between(case["expect"]["order"], ordered)


def _numbered(workload: values.Workload, number: int) -> values.Workload:
    """Sets a uid by position, because recorded workloads have none to break ties."""
    return structs.replace(workload, uid=workload.uid or f"{number:06}")


def reserved_resources(case: Case) -> list[Difference]:
    cluster = RecordedCluster(case)
    cluster.charge(case["usage"])
    recorded = case["assignment"]
    assignment = Assignment(
        mode=_MODES[recorded["mode"]],
        borrowing=recorded["borrowing"],
        usage={cluster.index(name): amount for name, amount in recorded["usage"].items()},
    )
    reservation = process.reserved_usage(cluster.state.tree.cluster_queues["cq"], assignment)
    names = cluster.state.tree.flavor_resources.names
    amounts = {f"{names[index].flavor}/{names[index].resource}": amount for index, amount in reservation.items()}
    return differences.between(case["expect"]["reserved"], amounts)


RUNNERS = {DECISIONS: scenario, "TestEntryOrdering": entry_order, "TestResourcesToReserve": reserved_resources}
