"""Short ways to say what a test is about: objects with everything else left at its default."""

import dataclasses

from pykueue.engine import decisions, events, values
from pykueue.engine.engine import Engine
from pykueue.engine.policy import Policy
from pykueue.engine.values import PreemptionPolicy, QueueingStrategy

CPU = values.ResourceName("cpu")
SECOND_NS = 10**9


def quota(nominal, borrowing_limit=None, lending_limit=None):
    return values.Quota(nominal=nominal, borrowing_limit=borrowing_limit, lending_limit=lending_limit)


def group(flavors, resources=("cpu",)):
    """`flavors`: name to a quota of the first resource, or to a mapping of quotas."""
    return values.ResourceGroup(
        covered_resources=tuple(resources),
        flavors=tuple(
            values.FlavorQuotas(name=name, resources=found if isinstance(found, dict) else {resources[0]: found})
            for name, found in flavors.items()
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
                    name=each.name,
                    flavors=dict.fromkeys(each.requests, admitted_to),
                    usage=each.requests,
                    count=each.count,
                )
                for each in pod_sets
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
        shape=fields.pop("shape", f"{priority}-{pod_sets}"),
        generation=1,
        **fields,
    )


class Cluster:
    """An engine with one namespace; flavors and local queues come with the cluster queues that need them."""

    def __init__(self, *queues, policy=None, cohorts=()):
        self.engine = Engine(policy or Policy())
        self.now_ns = 0
        self.tell(events.NamespaceChanged(name="default", labels={}))
        for cohort in cohorts:
            self.tell(events.CohortChanged(cohort=cohort))
        for queue in queues:
            self.put(queue)

    @property
    def world(self):
        return self.engine.world

    def tell(self, event):
        return self.engine.handle(event)

    def put(self, queue):
        for each in queue.resource_groups:
            for flavor in each.flavors:
                if flavor.name not in self.world.flavors:
                    self.tell(events.FlavorChanged(flavor=values.ResourceFlavor(name=flavor.name)))
        self.tell(events.ClusterQueueChanged(cluster_queue=queue))
        key = f"default/{queue.name}"
        if key not in self.world.local_queues:
            self.tell(events.LocalQueueChanged(local_queue=values.LocalQueue(key=key, cluster_queue=queue.name)))

    def add(self, *workloads):
        for each in workloads:
            self.tell(events.WorkloadArrived(workload=each, at_ns=self.now_ns))

    def cycle(self):
        self.now_ns += SECOND_NS
        return self.tell(events.CycleDue(at_ns=self.now_ns))

    def admitted(self):
        """Names admitted in one cycle, in order."""
        return [name(each.workload) for each in self.cycle() if isinstance(each, decisions.Admit)]

    def preempted(self):
        return [
            (name(target.workload), target.reason.value)
            for each in self.cycle()
            if isinstance(each, decisions.Preempt)
            for target in each.targets
        ]

    def waiting(self, queue="queue"):
        self.world.settle()
        return [name(each.key) for each in self.world.cluster_queues[queue].pending.in_heap()]

    def parked(self, queue="queue"):
        self.world.settle()
        return [name(each.key) for each in self.world.cluster_queues[queue].pending.parked()]


def name(key):
    return key.partition("/")[2]


def replaced(value, **fields):
    return dataclasses.replace(value, **fields)
