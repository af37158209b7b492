"""A small world: the queues of a set, a few jobs, and the engine that decides about them.

A rule makes up jobs and lets the engine decide until nothing changes. What happened is the example
of its finding. The queues are those of the set, but they are started, select every namespace and
have no admission checks: what a rule is about is quota, order and preemption.
"""

import dataclasses
from collections.abc import Mapping

from pykueue.api.times import SECOND_NS
from pykueue.engine import decisions, events, reasons, values
from pykueue.engine.engine import Engine
from pykueue.engine.policy import Policy
from pykueue.lint.queue_set import QueueSet
from pykueue.translate import amounts, messages, outcomes

_NAMESPACE = "lint"
_PROBE = "probe"
_MOST_CYCLES = 60
_HUGE = 1 << 60
Amounts = Mapping[values.ResourceName, int]


class SmallWorld:
    def __init__(
        self,
        queue_set: QueueSet,
        *,
        policy: Policy | None = None,
        preempts: bool = True,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        """`labels` are those of the jobs' namespace; without them every selector matches."""
        self._engine = Engine(policy or queue_set.policy)
        self._preempts = preempts
        self._labels = labels
        self._workloads: dict[values.WorkloadKey, values.Workload] = {}
        self._now_ns = 0
        self.story: list[str] = []
        self.preemptions: list[tuple[str, str]] = []
        """The names of preemptor and victim, in order."""
        self.pending: dict[str, reasons.PendingReason] = {}
        """Why jobs wait, by name; a job that was not tried is missing."""
        self._add_queues(queue_set)

    def _add_queues(self, queue_set: QueueSet) -> None:
        handle = self._engine.handle
        handle(events.NamespaceChanged(name=_NAMESPACE, labels=dict(self._labels or {})))
        named = {
            flavor.name for owner in queue_set.owners for group in owner.resource_groups for flavor in group.flavors
        }
        for name in sorted(named | set(queue_set.flavors)):
            flavor = queue_set.flavors.get(name, values.ResourceFlavor(name=name))
            handle(events.FlavorChanged(flavor=dataclasses.replace(flavor, topology=None)))
        for cohort in queue_set.cohorts.values():
            handle(events.CohortChanged(cohort=cohort))
        for queue in queue_set.cluster_queues.values():
            changed = dataclasses.replace(
                queue,
                namespace_selector=values.LabelSelector() if self._labels is None else queue.namespace_selector,
                preemption=queue.preemption if self._preempts else values.Preemption(),
                stop_policy=values.StopPolicy.NONE,
                admission_checks={},
                concurrent_admission=None,
                terminating=False,
            )
            handle(events.ClusterQueueChanged(cluster_queue=changed))
            key = values.LocalQueueKey(f"{_NAMESPACE}/{queue.name}")
            handle(events.LocalQueueChanged(local_queue=values.LocalQueue(key=key, cluster_queue=queue.name)))

    # Jobs.

    def add_local_queue(self, name: str, cluster_queue: values.ClusterQueueName, used: Amounts | None = None) -> None:
        """A LocalQueue, and the usage that admission fair sharing has counted for it."""
        key = values.LocalQueueKey(f"{_NAMESPACE}/{name}")
        self._engine.handle(
            events.LocalQueueChanged(local_queue=values.LocalQueue(key=key, cluster_queue=cluster_queue))
        )
        if used:
            self._engine.handle(events.LocalQueueUsageSampled(key=key, consumed=used))

    def submit(
        self,
        name: str,
        queue: str,
        requests: Amounts,
        *,
        priority: int = 0,
        flavor: values.FlavorName | None = None,
    ) -> None:
        """Submit a job of one pod. A flavor means that the job may have no other."""
        pod_set = values.PodSet(
            name=values.PodSetName("main"), count=1, spec_count=1, requests=requests, tolerations=_TOLERATES_ALL
        )
        self._submit(
            values.Workload(
                key=values.WorkloadKey(f"{_NAMESPACE}/{name}"),
                uid=name,
                namespace=_NAMESPACE,
                local_queue=values.LocalQueueKey(f"{_NAMESPACE}/{queue}"),
                created_at_ns=self._next_second(),
                pod_sets=(pod_set,),
                priority=priority,
                allowed_flavors=None if flavor is None else (flavor,),
                scheduling_hash=name,
            )
        )
        rank = f" (priority {priority})" if priority else ""
        self.story.append(f"job {name}{rank} asks {queue} for {text(requests)}")

    def submit_workload(self, workload: values.Workload, queue: values.ClusterQueueName) -> None:
        """Submit a job of the set."""
        local_queue = values.LocalQueueKey(f"{_NAMESPACE}/{queue}")
        self._submit(
            dataclasses.replace(
                workload, namespace=_NAMESPACE, local_queue=local_queue, created_at_ns=self._next_second()
            )
        )
        requests: dict[values.ResourceName, int] = {}
        for pod_set in workload.pod_sets:
            for resource, amount in pod_set.requests.items():
                requests[resource] = requests.get(resource, 0) + amount
        self.story.append(f"job {name_of(workload.key)} asks {queue} for {text(requests)}, with nothing else admitted")

    def _submit(self, workload: values.Workload) -> None:
        self._workloads[workload.key] = workload
        self._engine.handle(events.WorkloadArrived(workload=workload, at_ns=self._now_ns))

    def finish(self, name: str) -> None:
        workload = self._workloads.pop(values.WorkloadKey(f"{_NAMESPACE}/{name}"))
        finished = dataclasses.replace(workload, finished=True)
        self._engine.handle(events.WorkloadChanged(workload=finished, at_ns=self._next_second()))
        self.story.append(f"job {name} ends")

    def withdraw(self, name: str) -> None:
        """Delete a job that waits."""
        key = values.WorkloadKey(f"{_NAMESPACE}/{name}")
        del self._workloads[key]
        self._engine.handle(events.WorkloadGone(key=key, at_ns=self._next_second()))

    def _next_second(self) -> int:
        self._now_ns += SECOND_NS
        return self._now_ns

    # Decisions.

    def play(self, cycles: int = _MOST_CYCLES) -> None:
        """Run cycles, and write each decision as the controllers would, until nothing changes."""
        tried: set[values.WorkloadKey] = set()
        for _ in range(cycles):
            decided = self._engine.handle(events.CycleDue(at_ns=self._next_second()))
            has_changed = sum(self._apply(decision) for decision in decided) > 0
            new = {decision.workload for decision in decided} - tried
            tried = set() if has_changed else tried | new
            if not has_changed and not new:
                break

    def _apply(self, decision: decisions.Decision) -> bool:
        """Write a decision; whether it changed what is admitted."""
        match decision:
            case decisions.Admit():
                self._admit(decision)
                return True
            case decisions.Preempt():
                return self._preempt(decision)
            case decisions.Requeue() | decisions.MarkInadmissible():
                self.pending[name_of(decision.workload)] = decision.pending
        return False

    def add_waiting(self) -> None:
        """Add to the story why jobs wait."""
        for key, workload in self._workloads.items():
            name = name_of(key)
            if workload.admission is None:
                reason = self.pending.get(name)
                cause = "it is not even tried" if reason is None else messages.pending(reason, outcomes.amount_text)
                self.story.append(f"job {name} waits: {cause}")

    def _admit(self, decision: decisions.Admit) -> None:
        admitted = dataclasses.replace(
            self._workloads[decision.workload],
            admission=decision.admission,
            reserved_at_ns=decision.reserved_at_ns,
            admitted=True,
            pods_ready=True,
        )
        self._write(admitted)
        flavors = sorted({name for pod_set in decision.admission.pod_sets for name in pod_set.flavors.values()})
        self.story.append(f"job {name_of(decision.workload)} is admitted with {', '.join(flavors)}")

    def _preempt(self, decision: decisions.Preempt) -> bool:
        targets = [target for target in decision.targets if self._workloads[target.workload].admission is not None]
        for target in targets:
            self._write(
                dataclasses.replace(
                    self._workloads[target.workload],
                    admission=None,
                    reserved_at_ns=None,
                    admitted=False,
                    eviction=values.EvictionCondition(reason="Preempted", at_ns=self._now_ns),
                )
            )
            pair = (name_of(decision.workload), name_of(target.workload))
            self.preemptions.append(pair)
            self.story.append(f"job {pair[0]} preempts {pair[1]} ({target.reason.value})")
        return bool(targets)

    def _write(self, workload: values.Workload) -> None:
        self._workloads[workload.key] = workload
        self._engine.handle(events.WorkloadChanged(workload=workload, at_ns=self._now_ns))

    # Questions.

    def is_admitted(self, name: str) -> bool:
        workload = next((value for key, value in self._workloads.items() if name_of(key) == name), None)
        return workload is not None and workload.admission is not None

    def usage(self, flavor: values.FlavorName, resource: values.ResourceName) -> int:
        """What all jobs together have of a flavor."""
        pair = values.FlavorResource(flavor, resource)
        return sum(queue.usage.get(pair, 0) for queue in self._engine.view.cluster_queues())

    def is_active(self, name: values.ClusterQueueName) -> bool:
        return self._engine.view.is_active(name)

    def capacity(self, queue: values.ClusterQueueName, pair: values.FlavorResource) -> int:
        """What a queue could have of a flavor and resource if nothing else were admitted.

        The engine says it in the reason why a huge job cannot be admitted.
        """
        probe = values.WorkloadKey(f"{_NAMESPACE}/{_PROBE}")
        self.submit(_PROBE, queue, {pair.resource: _HUGE}, flavor=pair.flavor)
        self.story.pop()
        capacity = 0
        for decision in self._engine.handle(events.CycleDue(at_ns=self._next_second())):
            is_of_probe = decision.workload == probe
            if is_of_probe and isinstance(decision, decisions.Requeue | decisions.MarkInadmissible):
                capacity = _capacity_in(decision.pending)
        del self._workloads[probe]
        self._engine.handle(events.WorkloadGone(key=probe))
        return capacity


def _capacity_in(reason: reasons.PendingReason) -> int:
    shortages = reason.pod_sets if isinstance(reason, reasons.FlavorsShort) else ()
    exceeded = (cause for shortage in shortages for cause in shortage.reasons)
    return next((cause.capacity for cause in exceeded if isinstance(cause, reasons.CapacityExceeded)), 0)


_TOLERATES_ALL = (values.Toleration(operator="Exists"),)


def name_of(key: values.WorkloadKey) -> str:
    return key.partition("/")[2]


def text(requests: Amounts) -> str:
    return ", ".join(f"{amounts.to_text(resource, amount)} {resource}" for resource, amount in sorted(requests.items()))
