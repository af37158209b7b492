"""The engine alone, in virtual time: admissions a second, makespan against the quota, peak memory.

Each case runs in a process of its own, with the garbage collector tuned as in the servers. All
workloads exist at the start; those that run end after their time, and cycles are run until nothing
more is admitted. An admission is confirmed as the API would confirm it; a preempted workload stops
at once and starts over.
"""

import dataclasses
import heapq
import multiprocessing
import resource
import time
from collections.abc import Iterator
from dataclasses import dataclass

from pykueue.app import process
from pykueue.engine import decisions, events, policy, values
from pykueue.engine.engine import Engine

MILLISECOND_NS = 10**6
CPU = values.ResourceName("cpu")
FLAVOR = values.FlavorName("default")


@dataclass(frozen=True, kw_only=True)
class Kind:
    count: int
    cpu: int
    priority: int
    runtime_ms: int


BASELINE = (
    Kind(count=350, cpu=1, priority=50, runtime_ms=200),
    Kind(count=100, cpu=5, priority=100, runtime_ms=500),
    Kind(count=50, cpu=20, priority=200, runtime_ms=1000),
)


@dataclass(frozen=True, kw_only=True)
class Case:
    name: str
    cohorts: int
    queues: int
    """A cohort."""
    kinds: tuple[Kind, ...]
    """A queue."""
    nominal: int = 20
    borrowing_limit: int = 100
    runs: bool = True
    """Whether workloads end; else only the first round of cycles is measured."""


def scaled(kinds: tuple[Kind, ...], factor: float) -> tuple[Kind, ...]:
    return tuple(dataclasses.replace(kind, count=max(1, round(kind.count * factor))) for kind in kinds)


CASES = (
    Case(name="a: 5 x 6 queues, 15,000 workloads", cohorts=5, queues=6, kinds=BASELINE),
    Case(name="b: 10 x 100 queues, 50,000 workloads", cohorts=10, queues=100, kinds=scaled(BASELINE, 0.1)),
    Case(
        name="c: one queue 10,000 deep, 1 in 3 fits",
        cohorts=1,
        queues=1,
        nominal=3_400,
        kinds=(
            Kind(count=3_333, cpu=10_000, priority=100, runtime_ms=1000),
            Kind(count=3_333, cpu=5_000, priority=50, runtime_ms=1000),
            Kind(count=3_334, cpu=1, priority=0, runtime_ms=1000),
        ),
        runs=False,
    ),
    Case(name="d: 10 x 100 queues, 100,000 pending", cohorts=10, queues=100, kinds=scaled(BASELINE, 0.2)),
)


def setup(case: Case) -> Iterator[events.EngineEvent]:
    yield events.NamespaceChanged(name="default", labels={})
    yield events.FlavorChanged(flavor=values.ResourceFlavor(name=FLAVOR))
    for cohort in range(case.cohorts):
        for number in range(case.queues):
            name = values.ClusterQueueName(f"cohort{cohort}-queue{number}")
            yield events.ClusterQueueChanged(cluster_queue=cluster_queue(case, name, f"cohort{cohort}"))
            yield events.LocalQueueChanged(
                local_queue=values.LocalQueue(key=values.LocalQueueKey(f"default/{name}"), cluster_queue=name)
            )


def cluster_queue(case: Case, name: values.ClusterQueueName, cohort: str) -> values.ClusterQueue:
    quota = values.Quota(nominal=case.nominal * 1000, borrowing_limit=case.borrowing_limit * 1000)
    group = values.ResourceGroup(
        covered_resources=(CPU,), flavors=(values.FlavorQuotas(name=FLAVOR, resources={CPU: quota}),)
    )
    return values.ClusterQueue(
        name=name,
        cohort=values.CohortName(cohort),
        namespace_selector=values.LabelSelector(),
        resource_groups=(group,),
        preemption=values.Preemption(
            within_cluster_queue=values.PreemptionPolicy.LOWER_PRIORITY,
            reclaim_within_cohort=values.PreemptionPolicy.ANY,
        ),
    )


Facts = tuple[str, int, Kind]
"""Queue, number and kind of a workload."""


def workloads(case: Case) -> Iterator[Facts]:
    number = 0
    for cohort in range(case.cohorts):
        for queue in range(case.queues):
            for kind in case.kinds:
                for _ in range(kind.count):
                    number += 1
                    yield f"cohort{cohort}-queue{queue}", number, kind


def workload(
    queue: str, number: int, kind: Kind, decision: decisions.Admit | None = None, *, finished: bool = False
) -> values.Workload:
    """A pending, admitted or finished workload."""
    pod_set = values.PodSet(name=values.PodSetName("main"), count=1, spec_count=1, requests={CPU: kind.cpu * 1000})
    return values.Workload(
        key=values.WorkloadKey(f"default/workload-{number}"),
        uid=f"uid-{number:08d}",
        namespace="default",
        local_queue=values.LocalQueueKey(f"default/{queue}"),
        created_at_ns=number,
        pod_sets=(pod_set,),
        priority=kind.priority,
        generation=1,
        scheduling_hash=f"{kind.cpu}-{kind.priority}",
        admission=None if decision is None else decision.admission,
        reserved_at_ns=None if decision is None else decision.reserved_at_ns,
        admitted=decision is not None,
        finished=finished,
    )


class Run:
    def __init__(self, case: Case) -> None:
        self.case = case
        self.engine = Engine(policy.Policy())
        self.facts: dict[values.WorkloadKey, Facts] = {}
        self.ends: list[tuple[int, values.WorkloadKey]] = []
        self.running: dict[values.WorkloadKey, int] = {}
        self.now_ns = 0
        self.admissions = self.preemptions = self.cycles = 0

    def load(self) -> None:
        for event in setup(self.case):
            self.engine.handle(event)
        for facts in workloads(self.case):
            value = workload(*facts)
            self.facts[value.key] = facts
            self.engine.handle(events.WorkloadArrived(workload=value))

    def play(self) -> None:
        self.settle()
        while self.case.runs and self.ends:
            self.now_ns = self.ends[0][0]
            while self.ends and self.ends[0][0] == self.now_ns:
                end_ns, key = heapq.heappop(self.ends)
                if self.running.get(key) == end_ns:
                    del self.running[key]
                    finished = workload(*self.facts[key], finished=True)
                    self.engine.handle(events.WorkloadChanged(workload=finished, at_ns=self.now_ns))
                    self.engine.handle(events.WorkloadGone(key=key, at_ns=self.now_ns))
            self.settle()

    def settle(self) -> None:
        """Cycles until the queues are at rest."""
        while decided := self.engine.handle(events.CycleDue(at_ns=self.now_ns)):
            self.cycles += 1
            for decision in decided:
                if isinstance(decision, decisions.Admit):
                    self.admit(decision)
                elif isinstance(decision, decisions.Preempt):
                    self.preempt(decision)

    def admit(self, decision: decisions.Admit) -> None:
        self.admissions += 1
        end_ns = self.now_ns + self.facts[decision.workload][2].runtime_ms * MILLISECOND_NS
        self.running[decision.workload] = end_ns
        heapq.heappush(self.ends, (end_ns, decision.workload))
        admitted = workload(*self.facts[decision.workload], decision)
        self.engine.handle(events.WorkloadChanged(workload=admitted, at_ns=self.now_ns))

    def preempt(self, decision: decisions.Preempt) -> None:
        for target in decision.targets:
            self.preemptions += 1
            self.running.pop(target.workload, None)
            stopped = workload(*self.facts[target.workload])
            self.engine.handle(events.WorkloadChanged(workload=stopped, at_ns=self.now_ns))


def quota_bound_ns(case: Case) -> int:
    """No schedule of one cohort ends earlier: all its quota busy all the time."""
    busy = sum(kind.count * kind.cpu * kind.runtime_ms for kind in case.kinds) * case.queues
    return busy * MILLISECOND_NS // (case.nominal * case.queues)


def measure(case: Case, results: "multiprocessing.Queue[dict[str, float]]") -> None:
    run = Run(case)
    start = time.process_time()
    run.load()
    loaded = time.process_time()
    process.tune_collector()
    run.play()
    played = time.process_time()
    results.put(
        {
            "workloads": len(run.facts),
            "load": loaded - start,
            "play": played - loaded,
            "admissions": run.admissions,
            "preemptions": run.preemptions,
            "cycles": run.cycles,
            "makespan": run.now_ns / 1e9,
            "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }
    )


def report(case: Case, figures: dict[str, float]) -> None:
    print(
        f"   {case.name}: {figures['admissions'] / figures['play']:,.0f} admissions/s"
        f" ({figures['play'] / figures['admissions'] * 1e6:.0f} µs each, {figures['admissions']:,.0f} admissions,"
        f" {figures['preemptions']:,.0f} preemptions, {figures['cycles']:,.0f} cycles in {figures['play']:.1f} s);"
        f" loaded {figures['workloads'] / figures['load']:,.0f} workloads/s; peak {figures['memory']:.0f} MB"
    )
    if case.runs:
        bound = quota_bound_ns(case) / 1e9
        ratio = figures["makespan"] / bound
        print(f"      makespan {figures['makespan']:.1f} s, quota-bound minimum {bound:.1f} s ({ratio:.2f}x)")


def main() -> None:
    context = multiprocessing.get_context("fork")
    for case in CASES:
        results: multiprocessing.Queue[dict[str, float]] = context.Queue()
        worker = context.Process(target=measure, args=(case, results))
        worker.start()
        report(case, results.get())
        worker.join()


if __name__ == "__main__":
    main()
