"""A cluster in memory: recorded objects, the engine,
and the writes that follow from its decisions.

It takes the place of the scheduler controller: objects become events of the engine, and decisions
become statuses of the workloads. Used by the replays of whole scheduling cycles.
"""

import copy
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pykueue.api import conditions, limit_range, times
from pykueue.api.scheme import Object
from pykueue.controllers.workloads import predicates, transitions
from pykueue.engine import decisions, events, reasons, values
from pykueue.engine.engine import Engine
from pykueue.engine.queues import pending_queue as queues_of_engine
from pykueue.engine.queues.cluster_queue import ClusterQueueState
from pykueue.engine.quota import quota_tree
from pykueue.translate import nodes, outcomes, policy, queues, workload

_DEFAULT_NOW = "2026-01-15T12:00:00Z"


class RecordedCluster:
    def __init__(self, recorded: Mapping[str, Any], *, watches_writes: bool = True) -> None:
        """Without `watches_writes` the engine gets no events about its own decisions."""
        self._watches_writes = watches_writes
        configuration = scenario_configuration(recorded.get("config") or {})
        self.now_ns = times.to_ns(recorded.get("now") or _DEFAULT_NOW)
        self.policy = policy.engine_policy(configuration)
        self.engine = Engine(self.policy)
        self.state = self.engine._state  # noqa: SLF001 - replays of Kueue's unit tests run single steps of a cycle
        self.workloads: dict[values.WorkloadKey, Object] = {}
        self.preemptions: list[tuple[decisions.Preempt, decisions.PreemptedWorkload]] = []
        self.events: list[outcomes.WorkloadEvent] = []
        self._options = policy.workload_options(configuration)
        self._limit_ranges = _limit_ranges(recorded.get("otherObjects") or ())
        self._load(recorded)

    def handle(self, event: events.EngineEvent) -> list[decisions.Decision]:
        return list(self.engine.handle(event))

    def cycle(self) -> list[decisions.Decision]:
        """Runs one scheduling cycle and writes its decisions."""
        decided = self.handle(events.CycleDue(at_ns=self.now_ns))
        self.write(decided)
        return decided

    def write(self, decided: Iterable[decisions.Decision]) -> None:
        for decision in decided:
            match decision:
                case decisions.Admit():
                    self._reserve(decision)
                case decisions.Preempt():
                    self.preempt(decision, self.value(decision.workload))
                case decisions.AssignTopology():
                    self._assign_topology(decision)
                case decisions.RetrySecondPass():
                    self.events.append(outcomes.no_place_event(decision))
                case decisions.Evict():
                    self._evict(decision)
                case decisions.Migrate():
                    self._migrate(decision)
                case decisions.Requeue() | decisions.MarkInadmissible():
                    self._set_pending(decision)

    def has_heads(self) -> bool:
        self.state.settle()
        return any(queue.is_active and queue.pending.active_count for queue in self.state.cluster_queues.values())

    def reactivate(self, *names: str) -> None:
        """Requeues the inadmissible workloads of these cluster queues' trees (default: all)."""
        for name in names or tuple(self.state.cluster_queues):
            self.state.reactivate_queue(values.ClusterQueueName(name))

    def pending(self) -> dict[str, list[str]]:
        """The workloads in the heap of each cluster queue."""
        return self._queued(lambda queue: queue.pending.in_heap())

    def inadmissible(self) -> dict[str, list[str]]:
        return self._queued(lambda queue: queue.pending.inadmissible())

    def usage(self) -> dict[str, dict[str, int]]:
        """The usage of each active cluster queue."""
        return {
            name: self.by_name(queue.node.usage)
            for name, queue in self.state.cluster_queues.items()
            if queue.node.participates
        }

    def by_name(self, usage: Mapping[quota_tree.Index, int]) -> dict[str, int]:
        """The amounts by `flavor/resource`, without zeros."""
        names = self.state.tree.flavor_resources.names
        return outcomes.usage_by_name((names[index], amount) for index, amount in usage.items() if amount)

    def charge(self, usage: Mapping[str, Mapping[str, int]]) -> None:
        """Adds usage that belongs to no workload."""
        self.state.settle()
        for name, amounts in usage.items():
            node = self.state.tree.cluster_queues[name]
            self.state.ledger.charge(node, {self.index(key): amount for key, amount in amounts.items()})

    def index(self, name: str) -> quota_tree.Index:
        """The index of `flavor/resource`; the resource name may contain a slash."""
        flavor, _, resource = name.partition("/")
        return self.state.tree.flavor_resources.index(values.FlavorName(flavor), values.ResourceName(resource))

    def put_cluster_queue(self, obj: Object) -> None:
        self.handle(events.ClusterQueueChanged(at_ns=self.now_ns, cluster_queue=queues.cluster_queue(obj)))

    def put_cohort(self, obj: Object) -> None:
        self.handle(events.CohortChanged(at_ns=self.now_ns, cohort=queues.cohort(obj)))

    def create(self, obj: Object) -> None:
        key = workload.key(obj)
        self.workloads[key] = copy.deepcopy(obj)
        self.handle(events.WorkloadArrived(at_ns=self.now_ns, workload=self.value(key)))

    def delete(self, key: values.WorkloadKey) -> None:
        if self.workloads.pop(key, None) is not None:
            self.handle(events.WorkloadGone(at_ns=self.now_ns, key=key))

    def finish(self, key: values.WorkloadKey) -> None:
        """Finishes the job of a workload; ignores unknown and finished workloads."""
        obj = self.workloads.get(key)
        if obj is None:
            return
        finished = transitions.finish(obj, reason="Succeeded", message="Job finished successfully", now_ns=self.now_ns)
        if finished:
            self.changed(key)

    def stop_evicted(self) -> list[values.WorkloadKey]:
        """Stops every evicted workload that holds quota, releases the quota and requeues it."""
        stopped = [
            key
            for key, obj in sorted(self.workloads.items())
            if predicates.is_evicted(obj) and predicates.holds_quota(obj)
        ]
        for key in stopped:
            obj = self.workloads[key]
            evicted = conditions.find(obj, "Evicted")
            assert evicted is not None
            reason, message = evicted["reason"], evicted["message"]
            transitions.set_requeued(obj, allowed=True, reason=reason, message=message, now_ns=self.now_ns)
            transitions.release_quota(obj, reason="Pending", message=message, now_ns=self.now_ns)
            self.changed(key)
        return stopped

    def changed(self, key: values.WorkloadKey) -> None:
        self.handle(events.WorkloadChanged(at_ns=self.now_ns, workload=self.value(key)))

    def value(self, key: values.WorkloadKey) -> values.Workload:
        return self.translated(self.workloads[key])

    def translated(self, obj: Object) -> values.Workload:
        return workload.workload(obj, self._options, self._limit_ranges.get(obj["metadata"].get("namespace", "")))

    def _queued(
        self, select: Callable[[ClusterQueueState], list[queues_of_engine.PendingWorkload]]
    ) -> dict[str, list[str]]:
        self.state.settle()
        queued = {
            str(name): sorted(str(pending.key) for pending in select(queue))
            for name, queue in self.state.cluster_queues.items()
        }
        return {name: keys for name, keys in queued.items() if keys}

    def _load(self, recorded: Mapping[str, Any]) -> None:
        for obj in recorded.get("namespaces") or ():
            labels = obj["metadata"].get("labels") or {}
            self.handle(events.NamespaceChanged(at_ns=self.now_ns, name=obj["metadata"]["name"], labels=labels))
        for obj in recorded.get("resourceFlavors") or ():
            self.handle(events.FlavorChanged(at_ns=self.now_ns, flavor=queues.resource_flavor(obj)))
        for obj in recorded.get("admissionChecks") or ():
            self.handle(events.AdmissionCheckChanged(at_ns=self.now_ns, check=queues.admission_check(obj)))
        self._load_topology(recorded)
        for obj in recorded.get("cohorts") or ():
            self.put_cohort(obj)
        for obj in recorded.get("clusterQueues") or ():
            self.put_cluster_queue(obj)
        for obj in recorded.get("localQueues") or ():
            self.handle(events.LocalQueueChanged(at_ns=self.now_ns, local_queue=queues.local_queue(obj)))
        for obj in recorded.get("workloads") or ():
            self.create(obj)

    def _load_topology(self, recorded: Mapping[str, Any]) -> None:
        for obj in recorded.get("topologies") or ():
            levels = nodes.levels(obj)
            self.handle(events.TopologyChanged(at_ns=self.now_ns, name=obj["metadata"]["name"], levels=levels))
        for obj in recorded.get("nodes") or ():
            if (node := nodes.node(obj)) is not None:
                self.handle(events.NodeChanged(at_ns=self.now_ns, node=node))
        for obj in recorded.get("otherObjects") or ():
            if obj["kind"] == "Pod" and nodes.uses_node(obj) and not nodes.is_topology_aware(obj):
                self.handle(
                    events.PodBound(
                        at_ns=self.now_ns,
                        key=str(workload.key(obj)),
                        node=obj["spec"]["nodeName"],
                        requests=nodes.pod_requests(obj["spec"]),
                    )
                )

    def _written(self, key: values.WorkloadKey) -> None:
        if self._watches_writes:
            self.changed(key)

    def _reserve(self, decision: decisions.Admit) -> None:
        obj = self.workloads[decision.workload]
        waited_ns = self.now_ns - predicates.queued_since_ns(obj)
        transitions.reserve_quota(obj, outcomes.admission(decision.admission), self.now_ns)
        if decision.admitted:
            transitions.sync_admitted(obj, self.now_ns)
        self.events += outcomes.admission_events(decision, waited_ns=waited_ns)
        self._written(decision.workload)
        if decision.replaces is not None:
            self._finish_slice(decision.replaces, self.value(decision.workload))

    def _finish_slice(self, key: values.WorkloadKey, replacement: values.Workload) -> None:
        event = outcomes.slice_replaced_event(key, replacement)
        transitions.finish(self.workloads[key], reason=event.reason, message=event.message, now_ns=self.now_ns)
        self.events.append(event)
        if self._watches_writes:
            self.changed(key)

    def _assign_topology(self, decision: decisions.AssignTopology) -> None:
        transitions.assign_topology(
            self.workloads[decision.workload], outcomes.admission(decision.admission), self.now_ns
        )
        self.events += outcomes.placement_events(decision)
        self._written(decision.workload)

    def _evict(self, decision: decisions.Evict) -> None:
        transitions.evict(
            self.workloads[decision.workload],
            reason="NodeFailures",
            message=outcomes.no_replacement_message(decision),
            now_ns=self.now_ns,
        )
        self.events.append(outcomes.no_replacement_event(decision))
        self._written(decision.workload)

    def _migrate(self, decision: decisions.Migrate) -> None:
        event = outcomes.migration_event(decision, self.value(decision.workload))
        transitions.evict(
            self.workloads[decision.victim],
            reason=outcomes.FLAVOR_MIGRATION,
            message=event.message,
            now_ns=self.now_ns,
        )
        self.events.append(event)
        self._written(decision.victim)

    def preempt(self, decision: decisions.Preempt, preemptor: values.Workload) -> None:
        for target in decision.targets:
            if target.already_evicted:
                continue
            victim = self.value(target.workload)
            message = outcomes.preemption_message(preemptor, decision, target)
            transitions.preempt(
                self.workloads[target.workload], reason=target.reason, message=message, now_ns=self.now_ns
            )
            self.preemptions.append((decision, target))
            self.events += outcomes.preemption_events(decision, target, preemptor=preemptor, victim=victim)
            self._written(target.workload)

    def _set_pending(self, decision: decisions.Requeue | decisions.MarkInadmissible) -> None:
        obj = self.workloads[decision.workload]
        is_granular = self.policy.unadmitted_workloads_observability
        transitions.release_quota(
            obj,
            reason=outcomes.pending_reason(decision, is_granular=is_granular),
            message=outcomes.pending_message(decision),
            now_ns=self.now_ns,
        )
        if isinstance(decision.pending, reasons.PreemptionGated):
            transitions.block_on_preemption_gates(obj, message=outcomes.pending_message(decision), now_ns=self.now_ns)
        value = self.value(decision.workload)
        obj["status"]["resourceRequests"] = outcomes.resource_requests(value)
        self.events.append(outcomes.pending_event(decision, is_granular=is_granular))
        if self._watches_writes:
            self.handle(events.WorkloadChanged(at_ns=self.now_ns, workload=value))


def scenario_configuration(recorded: Mapping[str, Any]) -> dict[str, Any]:
    transformations = recorded.get("resourceTransformations") or ()
    requeuing = {"timestamp": recorded.get("requeuingTimestamp")}
    admission_fair_sharing = recorded.get("admissionFairSharing")
    return {
        **recorded,
        "resources": {"transformations": list(transformations)},
        "waitForPodsReady": recorded.get("waitForPodsReady") or {"requeuingStrategy": requeuing},
        "admissionFairSharing": admission_fair_sharing if isinstance(admission_fair_sharing, dict) else None,
    }


def _limit_ranges(objects: Iterable[Object]) -> dict[str, limit_range.Summary]:
    by_namespace: dict[str, list[Object]] = {}
    for obj in objects:
        if obj["kind"] == "LimitRange":
            by_namespace.setdefault(obj["metadata"].get("namespace", ""), []).append(obj)
    return {namespace: limit_range.summarize(limit_ranges) for namespace, limit_ranges in by_namespace.items()}
