"""A small world: the queues of a set, a few jobs, and the engine that decides about them.

A rule makes up jobs and lets them play in virtual time (`simulate.engine_driver`) until nothing
changes. What happened is the example of its finding. The queues are those of the set, but they are
started, select every namespace and have no admission checks: what a rule is about is quota, order
and preemption. A cycle takes a second, and a preempted job stops before the next one.
"""

from collections.abc import Mapping

from msgspec import structs

from pykueue.api.times import SECOND_NS
from pykueue.engine import decisions, events, reasons, values
from pykueue.engine.engine import Engine
from pykueue.engine.policy import Policy
from pykueue.lint.queue_set import QueueSet
from pykueue.simulate.engine_driver.simulation import Simulation, SimulationOptions
from pykueue.simulate.engine_driver.world import World
from pykueue.translate import amounts, messages, outcomes

_NAMESPACE = "lint"
_PROBE = "probe"
_MOST_CYCLES = 60
_HUGE = 1 << 60
_OPTIONS = SimulationOptions(cycle_ns=SECOND_NS, eviction_delay_ns=1, collects_changes=False)
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
        world = World(queue_set.configuration)
        world.engine = self._engine = Engine(policy or queue_set.policy)
        self._simulation = Simulation(world, options=_OPTIONS, on_decision=self._decided)
        self._preempts = preempts
        self._labels = labels
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
            handle(events.FlavorChanged(flavor=structs.replace(flavor, topology=None)))
        for cohort in queue_set.cohorts.values():
            handle(events.CohortChanged(cohort=cohort))
        for queue in queue_set.cluster_queues.values():
            changed = structs.replace(
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
        prototype = values.Workload(
            key=_key(name),
            uid=name,
            namespace=_NAMESPACE,
            local_queue=values.LocalQueueKey(f"{_NAMESPACE}/{queue}"),
            created_at_ns=0,
            pod_sets=(pod_set,),
            priority=priority,
            allowed_flavors=None if flavor is None else (flavor,),
            scheduling_hash=f"{name} {queue} {flavor} {sorted(requests.items())}",
        )
        self._simulation.submit(prototype, run_ns=None, name=name)
        rank = f" (priority {priority})" if priority else ""
        self.story.append(f"job {name}{rank} asks {queue} for {text(requests)}")

    def submit_workload(self, workload: values.Workload, queue: values.ClusterQueueName) -> None:
        """Submit a job of the set."""
        local_queue = values.LocalQueueKey(f"{_NAMESPACE}/{queue}")
        prototype = structs.replace(workload, namespace=_NAMESPACE, local_queue=local_queue)
        self._simulation.submit(prototype, run_ns=None, name=name_of(workload.key))
        requests: dict[values.ResourceName, int] = {}
        for pod_set in workload.pod_sets:
            for resource, amount in pod_set.requests.items():
                requests[resource] = requests.get(resource, 0) + amount
        self.story.append(f"job {name_of(workload.key)} asks {queue} for {text(requests)}, with nothing else admitted")

    def finish(self, name: str) -> None:
        self._simulation.end(self._simulation.runs[_key(name)])
        self.story.append(f"job {name} ends")

    def withdraw(self, name: str) -> None:
        """Delete a job that waits."""
        self._simulation.end(self._simulation.runs[_key(name)])

    # Decisions.

    def play(self, cycles: int = _MOST_CYCLES) -> None:
        """Run cycles until nothing changes."""
        simulation = self._simulation
        most = simulation.cycle_count + cycles
        simulation.run(
            simulation.now_ns + (cycles + 1) * _OPTIONS.cycle_ns, stop=lambda: simulation.cycle_count >= most
        )

    def _decided(self, _at_ns: int, decision: decisions.Decision) -> None:
        match decision:
            case decisions.Admit():
                flavors = sorted({name for pods in decision.admission.pod_sets for name in pods.flavors.values()})
                self.story.append(f"job {name_of(decision.workload)} is admitted with {', '.join(flavors)}")
            case decisions.Preempt():
                for target in decision.targets:
                    if not target.already_evicted:
                        pair = (name_of(decision.workload), name_of(target.workload))
                        self.preemptions.append(pair)
                        self.story.append(f"job {pair[0]} preempts {pair[1]} ({target.reason.value})")
            case decisions.Requeue() | decisions.MarkInadmissible():
                self.pending[name_of(decision.workload)] = decision.pending

    def add_waiting(self) -> None:
        """Add to the story why jobs wait."""
        for key, job in self._simulation.runs.items():
            name = name_of(key)
            if job.workload.admission is None:
                reason = self.pending.get(name)
                cause = "it is not even tried" if reason is None else messages.pending(reason, outcomes.amount_text)
                self.story.append(f"job {name} waits: {cause}")

    # Questions.

    def is_admitted(self, name: str) -> bool:
        job = self._simulation.runs.get(_key(name))
        return job is not None and job.workload.admission is not None and job.workload.eviction is None

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
        self.submit(_PROBE, queue, {pair.resource: _HUGE}, flavor=pair.flavor)
        self.story.pop()
        self.play(1)
        self.withdraw(_PROBE)
        reason = self.pending.pop(_PROBE, None)
        return 0 if reason is None else _capacity_in(reason)


def _capacity_in(reason: reasons.PendingReason) -> int:
    shortages = reason.pod_sets if isinstance(reason, reasons.FlavorsShort) else ()
    exceeded = (cause for shortage in shortages for cause in shortage.reasons)
    return next((cause.capacity for cause in exceeded if isinstance(cause, reasons.CapacityExceeded)), 0)


_TOLERATES_ALL = (values.Toleration(operator="Exists"),)


def _key(name: str) -> values.WorkloadKey:
    return values.WorkloadKey(f"{_NAMESPACE}/{name}")


def name_of(key: values.WorkloadKey) -> str:
    return key.partition("/")[2]


def text(requests: Amounts) -> str:
    return ", ".join(f"{amounts.to_text(resource, amount)} {resource}" for resource, amount in sorted(requests.items()))
