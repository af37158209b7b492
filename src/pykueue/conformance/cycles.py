"""Recorded scenarios, cycle by cycle: who is admitted, preempted, pending and parked, until nothing more happens.

Between cycles the world is played as the recorder played it: evicted workloads stop at once, time moves one second.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any

from pykueue.api import quantity, times
from pykueue.api.kueue import topology_encoding
from pykueue.api.scheme import Object
from pykueue.conformance import differences
from pykueue.conformance.cluster import Cluster
from pykueue.conformance.corpus import DECISIONS, Case
from pykueue.conformance.differences import Difference
from pykueue.controllers.workloads import predicates
from pykueue.engine import decisions
from pykueue.translate import outcomes

_UNPLACED = re.compile(r"pod set (leader|workers): topology")
_SECOND_NS = 10**9
_QUIET_CYCLES = 6


def scenario(case: Case) -> list[Difference]:
    expected = case["expected"]
    recorded = expected["cycles"]
    run = Run(case["scenario"])
    limit = case["scenario"]["maxCycles"] if expected["converged"] else len(recorded)
    for index, (wanted, cycle) in enumerate(zip_longest(recorded, run.cycles(limit), fillvalue=differences.ABSENT)):
        if found := differences.between(wanted, cycle, f"cycles[{index}]"):
            return found
    return differences.between(_without_unused(expected["final"]), run.final(), "final") if "final" in expected else []


class Run:
    """One scenario being played."""

    def __init__(self, recorded: Mapping[str, Any]) -> None:
        self.cluster = Cluster(recorded)
        self._timeline = recorded.get("timeline") or []
        self._sorts_admissions = (recorded.get("config") or {}).get("fairSharing") is not None

    def cycles(self, limit: int) -> Iterator[dict[str, Any]]:
        """Until nothing happened for a while; of the quiet cycles at the end only the first is kept."""
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
            if _is_respelled(obj):
                self.cluster.reactivate(obj["metadata"]["name"])
        if obj := entry.get("updateCohort"):
            self.cluster.put_cohort(obj)


def _is_respelled(cluster_queue: Object) -> bool:
    """The recorder compared specs as text: one with a quota like `0Gi`, stored as `0`, always looked new to it."""
    return any(
        str(quantity.parse(entry[name])) != entry[name]
        for group in cluster_queue["spec"].get("resourceGroups") or ()
        for flavor in group["flavors"]
        for entry in flavor["resources"]
        for name in ("nominalQuota", "borrowingLimit", "lendingLimit")
        if name in entry
    )


def _without_unused(final: Mapping[str, Any]) -> dict[str, Any]:
    """The recorder also shows what was used once and is free again."""
    usage = {name: {key: amount for key, amount in used.items() if amount} for name, used in final["usage"].items()}
    conditions = {key: [_anonymous(condition) for condition in found] for key, found in final["conditions"].items()}
    return {**final, "usage": usage, "conditions": conditions}


def _anonymous(condition: dict[str, str]) -> dict[str, str]:
    """Of pod sets that find no place together, a leader and its workers, the recorder names either."""
    return {**condition, "message": _UNPLACED.sub("pod set …: topology", condition["message"])}


def _admission(decision: decisions.Admit) -> dict[str, Any]:
    shown = outcomes.admission(decision.admission)
    return {
        "workload": decision.workload,
        "clusterQueue": decision.cluster_queue,
        "borrows": decision.borrowing,
        "podSets": [_with_domains(pod_set) for pod_set in shown["podSetAssignments"]],
    }


def _assignment(obj: Object) -> dict[str, Any]:
    admission = obj["status"]["admission"]
    pod_sets = [_with_domains(pod_set) for pod_set in admission["podSetAssignments"]]
    return {"clusterQueue": admission["clusterQueue"], "podSets": pod_sets}


def _with_domains(pod_set: Object) -> Object:
    """The recorder shows places in full beside their compact form."""
    if "topologyAssignment" not in pod_set:
        return pod_set
    domains = [
        {"values": list(domain.values), "count": domain.count}
        for domain in topology_encoding.decode(pod_set["topologyAssignment"])
    ]
    return {**pod_set, "topologyDomains": domains}


def _conditions(obj: Object) -> list[dict[str, str]]:
    shown = [
        _anonymous({name: condition.get(name, "") for name in ("type", "status", "reason", "message")})
        for condition in (obj.get("status") or {}).get("conditions") or ()
    ]
    return sorted(shown, key=lambda condition: condition["type"])


RUNNERS = {DECISIONS: scenario}
