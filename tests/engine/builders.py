"""Builders of engine values and engines, with a default for everything that a test is not about.

The invariants of every engine that is built here are checked when the test ends (`conftest.py`).
"""

from msgspec import structs

from pykueue.engine import decisions, events, values
from pykueue.engine.engine import Engine
from pykueue.engine.policy import Policy
from pykueue.engine.values import PreemptionPolicy, QueueingStrategy

CPU = values.ResourceName("cpu")
SECOND_NS = 10**9

BUILT: list[Engine] = []
"""The engines that the running test built."""
OVER_QUOTA: list[Engine] = []
"""Engines whose usage may exceed the limits, because their quota shrank or they were built so."""


def engine(policy=None):
    built = Engine(policy or Policy())
    BUILT.append(built)
    return built


def quota(nominal, borrowing_limit=None, lending_limit=None):
    return values.Quota(nominal=nominal, borrowing_limit=borrowing_limit, lending_limit=lending_limit)


def group(flavors, resources=("cpu",)):
    """`flavors`: name to a quota of the first resource, or to a mapping of quotas."""
    return values.ResourceGroup(
        covered_resources=tuple(resources),
        flavors=tuple(
            values.FlavorQuotas(name=name, resources=quotas if isinstance(quotas, dict) else {resources[0]: quotas})
            for name, quotas in flavors.items()
        ),
    )


def cluster_queue(name="queue", cohort=None, *, groups=None, nominal=10, **fields):
    preemption = values.Preemption(
        within_cluster_queue=PreemptionPolicy(fields.pop("within", "Never")),
        reclaim_within_cohort=PreemptionPolicy(fields.pop("reclaim", "Never")),
        borrow_within_cohort=fields.pop("borrow_within_cohort", None),
    )
    if fields.pop("strict", False):
        fields["queueing_strategy"] = QueueingStrategy.STRICT_FIFO
    return values.ClusterQueue(
        name=name,
        cohort=cohort,
        namespace_selector=values.LabelSelector(),
        resource_groups=tuple(groups) if groups is not None else (group({"default": quota(nominal)}),),
        preemption=preemption,
        **fields,
    )


def pod_set(requests=None, *, name="main", count=1, min_count=None, **fields):
    requests = {CPU: 1} if requests is None else requests
    return values.PodSet(
        name=name,
        count=count,
        spec_count=count,
        min_count=min_count,
        requests={resource: amount * count for resource, amount in requests.items()},
        **fields,
    )


def workload(name, queue="queue", *, cpu=1, pod_sets=None, priority=0, created=0, admitted_to=None, **fields):
    pod_sets = tuple(pod_sets) if pod_sets is not None else (pod_set({CPU: cpu}),)
    if admitted_to is not None:
        fields["admission"] = values.Admission(
            cluster_queue=queue,
            pod_sets=tuple(
                values.PodSetAdmission(
                    name=admitted.name,
                    flavors=dict.fromkeys(admitted.requests, admitted_to),
                    usage=admitted.requests,
                    count=admitted.count,
                )
                for admitted in pod_sets
            ),
        )
        fields.setdefault("reserved_at_ns", created)
        fields.setdefault("admitted", True)
    return values.Workload(
        key=f"default/{name}",
        uid=f"uid-{name}",
        namespace="default",
        local_queue=f"default/{queue}",
        created_at_ns=created,
        pod_sets=pod_sets,
        priority=priority,
        scheduling_hash=fields.pop("scheduling_hash", f"{priority}-{pod_sets}"),
        generation=1,
        **fields,
    )


class Cluster:
    """An engine with one namespace; `put` adds the flavors and local queue of a cluster queue."""

    def __init__(self, *queues, policy=None, cohorts=()):
        self.engine = engine(policy)
        self.now_ns = 0
        self.handle(events.NamespaceChanged(name="default", labels={}))
        for cohort in cohorts:
            self.handle(events.CohortChanged(cohort=cohort))
        for queue in queues:
            self.put(queue)

    @property
    def state(self):
        return self.engine._state

    def may_exceed_quota(self):
        """Do not check the limits of usage when the test ends."""
        OVER_QUOTA.append(self.engine)

    def handle(self, event):
        return self.engine.handle(event)

    def put(self, queue):
        for resource_group in queue.resource_groups:
            for flavor in resource_group.flavors:
                if flavor.name not in self.state.flavors:
                    self.handle(events.FlavorChanged(flavor=values.ResourceFlavor(name=flavor.name)))
        self.handle(events.ClusterQueueChanged(cluster_queue=queue))
        key = f"default/{queue.name}"
        if key not in self.state.local_queues:
            self.handle(events.LocalQueueChanged(local_queue=values.LocalQueue(key=key, cluster_queue=queue.name)))

    def add(self, *workloads):
        for added in workloads:
            self.handle(events.WorkloadArrived(workload=added, at_ns=self.now_ns))

    def cycle(self):
        self.now_ns += SECOND_NS
        return self.handle(events.CycleDue(at_ns=self.now_ns))

    def admitted(self):
        """Names admitted in one cycle, in order."""
        return [name(decision.workload) for decision in self.cycle() if isinstance(decision, decisions.Admit)]

    def preempted(self):
        return [
            (name(target.workload), target.reason.value)
            for decision in self.cycle()
            if isinstance(decision, decisions.Preempt)
            for target in decision.targets
        ]

    def waiting(self, queue="queue"):
        self.state.settle()
        return [name(pending.key) for pending in self.state.cluster_queues[queue].pending.in_heap()]

    def inadmissible(self, queue="queue"):
        self.state.settle()
        return [name(pending.key) for pending in self.state.cluster_queues[queue].pending.inadmissible()]


def name(key):
    return key.partition("/")[2]


def replaced(value, **fields):
    return structs.replace(value, **fields)
