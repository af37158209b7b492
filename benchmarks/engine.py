"""The engine alone, in virtual time: the loads of Kueue's own performance tests.

Workloads arrive in intervals of their class, run for the time of their class once they are
admitted, and finish. Cycles run until one decides nothing new; the next run starts after a pause of
5 ms or longer, as in the scheduler: every decision takes 50 µs of virtual time, and the scheduler
takes half of the time at most. An admission is confirmed at once; a preempted workload is evicted,
loses its quota after `--eviction-ms` and starts over.

With `--writes-a-second` the run has the pace of Kueue's scheduler, whose client sends at most so
many writes: a workload runs when its admission is written, and the next cycle begins when the
evictions of the last one are written.

`python benchmarks/engine.py [--full] [LOAD…]`: without `--full` each load has a tenth of its
workloads. Each load runs in a process of its own, with the garbage collector tuned as in the
servers.
"""

import argparse
import asyncio
import dataclasses
import functools
import gc
import heapq
import multiprocessing
import resource
import sys
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

from msgspec import structs

from pykueue.app import process
from pykueue.engine import decisions, events, policy, values
from pykueue.engine.engine import Engine

MILLISECOND_NS = 10**6
TICK_NS = 5 * MILLISECOND_NS
DECISION_NS = 50_000
LONGEST_PAUSE_NS = 500 * MILLISECOND_NS
REQUEUE_INTERVAL_NS = 1000 * MILLISECOND_NS
BURST = 100
"""Writes at once with `--writes-a-second`, as in Kueue's performance tests."""
CYCLES_REMEMBERED = 8
"""As in the scheduler: cycles end when one decides what one of so many last cycles decided."""
CPU = values.ResourceName("cpu")
FLAVOR = values.FlavorName("default")
TOPOLOGY = "default-topology"
BLOCK, RACK = "cloud.provider.com/topology-block", "cloud.provider.com/topology-rack"
HOST = "kubernetes.io/hostname"


@dataclass(frozen=True, kw_only=True)
class WorkloadClass:
    name: str
    count: int
    """A queue."""
    interval_ms: int
    cpu: int
    """Of all pods."""
    priority: int
    runtime_ms: int
    pods: int = 1
    topology_request: values.TopologyRequest | None = None


@dataclass(frozen=True, kw_only=True)
class Load:
    name: str
    cohorts: int
    queues: int
    """A cohort."""
    classes: tuple[WorkloadClass, ...]
    nominal: int = 20
    borrowing_limit: int = 100
    eviction_ms: int = 0
    """How long an evicted workload keeps its quota, as while its pods terminate."""
    writes_a_second: int = 0
    """The pace of the scheduler's writes; 0: they take no time."""
    racks: int = 0
    hosts: int = 0
    """A rack."""


BASELINE = (
    WorkloadClass(name="small", count=350, interval_ms=100, cpu=1, priority=50, runtime_ms=200),
    WorkloadClass(name="medium", count=100, interval_ms=500, cpu=5, priority=100, runtime_ms=500),
    WorkloadClass(name="large", count=50, interval_ms=1200, cpu=20, priority=200, runtime_ms=1000),
)
LARGE_SCALE = (
    WorkloadClass(name="small", count=35, interval_ms=60, cpu=1, priority=50, runtime_ms=150),
    WorkloadClass(name="medium", count=11, interval_ms=300, cpu=5, priority=100, runtime_ms=350),
    WorkloadClass(name="large", count=4, interval_ms=700, cpu=20, priority=200, runtime_ms=700),
)


def with_topology(workload_class: WorkloadClass, pods: int, counts: tuple[int, int, int]) -> Iterator[WorkloadClass]:
    """The class three times: all pods in one rack, preferably in one rack, in slices by rack."""
    requests = {
        "required": values.TopologyRequest(required=RACK),
        "preferred": values.TopologyRequest(preferred=RACK),
        "balanced": values.TopologyRequest(slices=(values.SliceLayer(topology=RACK, size=pods // 2),)),
    }
    for (name, request), count in zip(requests.items(), counts, strict=True):
        yield dataclasses.replace(
            workload_class, name=f"{workload_class.name}-{name}", count=count, pods=pods, topology_request=request
        )


LOADS = {
    load.name: load
    for load in (
        Load(name="baseline", cohorts=5, queues=6, classes=BASELINE),
        Load(name="large-scale", cohorts=10, queues=100, classes=LARGE_SCALE),
        Load(
            name="tas",
            cohorts=5,
            queues=6,
            racks=10,
            hosts=64,
            classes=(
                *with_topology(BASELINE[0], 2, (120, 120, 110)),
                *with_topology(BASELINE[1], 4, (34, 33, 33)),
                *with_topology(BASELINE[2], 8, (17, 17, 16)),
            ),
        ),
    )
}


def scaled(load: Load, factor: float) -> Load:
    """The same load with fewer or more workloads; they arrive in the same intervals."""
    classes = tuple(
        dataclasses.replace(one_class, count=max(1, round(one_class.count * factor))) for one_class in load.classes
    )
    return dataclasses.replace(load, classes=classes)


def setup(load: Load) -> Iterator[events.EngineEvent]:
    has_topology = bool(load.racks)
    if has_topology:
        yield events.TopologyChanged(name=TOPOLOGY, levels=(BLOCK, RACK, HOST))
    for rack in range(load.racks):
        for host in range(load.hosts):
            name = f"node-r{rack}-n{host}"
            labels = {BLOCK: "block-0", RACK: f"rack-{rack}", HOST: name, "tas-node-group": "tas"}
            allocatable = {CPU: 96_000, values.ResourceName("memory"): 256 << 30, values.PODS: 110}
            yield events.NodeChanged(node=values.Node(name=name, labels=labels, allocatable=allocatable))
    flavor = values.ResourceFlavor(
        name=FLAVOR,
        topology=TOPOLOGY if has_topology else None,
        node_labels={"tas-node-group": "tas"} if has_topology else {},
    )
    yield events.FlavorChanged(flavor=flavor)
    for cohort in range(load.cohorts):
        for number in range(load.queues):
            name = values.ClusterQueueName(f"cohort{cohort}-queue{number}")
            yield events.NamespaceChanged(name=name, labels={})
            yield events.ClusterQueueChanged(cluster_queue=cluster_queue(load, name, f"cohort{cohort}"))
            yield events.LocalQueueChanged(
                local_queue=values.LocalQueue(key=values.LocalQueueKey(f"{name}/{name}"), cluster_queue=name)
            )


def cluster_queue(load: Load, name: values.ClusterQueueName, cohort: str) -> values.ClusterQueue:
    quota = values.Quota(nominal=load.nominal * 1000, borrowing_limit=load.borrowing_limit * 1000)
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


Arrival = tuple[int, str, WorkloadClass]
"""When a workload is created, in which queue, and of which class."""


def arrivals(load: Load) -> list[Arrival]:
    """All workloads in order of creation; the queues start at different times."""
    all_arrivals = [
        (
            (one_class.interval_ms * (position + 1) + _delay_ms(cohort * load.queues + queue, one_class))
            * MILLISECOND_NS,
            f"cohort{cohort}-queue{queue}",
            one_class,
        )
        for cohort in range(load.cohorts)
        for queue in range(load.queues)
        for one_class in load.classes
        for position in range(one_class.count)
    ]
    return sorted(all_arrivals, key=lambda arrival: arrival[0])


def _delay_ms(queue: int, one_class: WorkloadClass) -> int:
    return queue * 7919 % one_class.interval_ms


@functools.cache
def pod_set(one_class: WorkloadClass) -> values.PodSet:
    total = one_class.cpu * 1000
    return values.PodSet(
        name=values.PodSetName("main"),
        count=one_class.pods,
        spec_count=one_class.pods,
        requests={CPU: total},
        pod_requests={CPU: total // one_class.pods},
        topology_request=one_class.topology_request,
    )


def pending_workload(number: int, arrival: Arrival) -> values.Workload:
    created_at_ns, queue, one_class = arrival
    return values.Workload(
        key=values.WorkloadKey(f"{queue}/{one_class.name}-{number}"),
        uid=f"uid-{number:08d}",
        namespace=queue,
        local_queue=values.LocalQueueKey(f"{queue}/{queue}"),
        created_at_ns=created_at_ns,
        arrival=number,
        pod_sets=(pod_set(one_class),),
        priority=one_class.priority,
        generation=1,
        scheduling_hash=one_class.name,
    )


class Run:
    def __init__(self, load: Load) -> None:
        self.load = load
        self.engine = Engine(policy.Policy())
        self.arrivals = deque(enumerate(arrivals(load)))
        self.workloads: dict[values.WorkloadKey, values.Workload] = {}
        """Pending and running workloads as the API would show them."""
        self.classes: dict[values.WorkloadKey, WorkloadClass] = {}
        self.ends: list[tuple[int, values.WorkloadKey]] = []
        self.running: dict[values.WorkloadKey, int] = {}
        self.evicted: dict[values.WorkloadKey, None] = {}
        self.now_ns = 0
        self.next_run_ns = 0
        self.last_eviction_ns = 0
        """When the last eviction is written."""
        self.admissions = self.preemptions = self.cycles = self.decisions = 0
        self.longest_cycle = 0.0

    def play(self) -> None:
        for event in setup(self.load):
            self.engine.handle(event)
        while self.arrivals or self.ends or self.engine.next_due_ns is not None:
            self.now_ns = self.next_tick_ns()
            while self.arrivals and self.arrivals[0][1][0] <= self.now_ns:
                self.arrive(*self.arrivals.popleft())
            while self.ends and self.ends[0][0] <= self.now_ns:
                self.finish(*heapq.heappop(self.ends))
            self.next_run_ns = self.schedule()

    def schedule(self) -> int:
        """Run cycles; returns when the next ones run."""
        busy_ns = self.settle() * DECISION_NS
        return self.now_ns + busy_ns + min(max(busy_ns, TICK_NS), LONGEST_PAUSE_NS)

    def next_tick_ns(self) -> int:
        due = [self.arrivals[0][1][0]] if self.arrivals else []
        if self.ends:
            due.append(self.ends[0][0])
        if self.engine.next_due_ns is not None:
            due.append(self.engine.next_due_ns)
        return max(self.next_run_ns, -(-min(due) // TICK_NS) * TICK_NS)

    def arrive(self, number: int, arrival: Arrival) -> None:
        workload = pending_workload(number, arrival)
        self.workloads[workload.key] = workload
        self.classes[workload.key] = arrival[2]
        self.send(events.WorkloadArrived(workload=workload, at_ns=self.now_ns))

    def finish(self, end_ns: int, key: values.WorkloadKey) -> None:
        if key in self.evicted:
            del self.evicted[key]
            self.change(key, admission=None, reserved_at_ns=None, admitted=False)
        elif self.running.get(key) == end_ns:
            del self.running[key]
            self.change(key, finished=True)
            del self.workloads[key]

    def change(self, key: values.WorkloadKey, **fields: object) -> None:
        workload = self.workloads[key] = structs.replace(self.workloads[key], **fields)  # type: ignore[arg-type]
        self.send(events.WorkloadChanged(workload=workload, at_ns=self.now_ns))

    def send(self, event: events.EngineEvent) -> None:
        self.engine.handle(event)

    def settle(self) -> int:
        """Run cycles until one decides nothing new; returns how many decisions they made."""
        before = self.decisions
        recent: deque[list[decisions.Decision]] = deque(maxlen=CYCLES_REMEMBERED)
        while True:
            started = time.process_time()
            decided = self.engine.handle(events.CycleDue(at_ns=self.now_ns, requeue_interval_ns=REQUEUE_INTERVAL_NS))
            self.longest_cycle = max(self.longest_cycle, time.process_time() - started)
            self.decisions += len(decided)
            if not decided or decided in recent:
                return self.decisions - before
            recent.append(decided)
            self.cycles += 1
            self.apply(decided)

    def apply(self, decided: list[decisions.Decision]) -> None:
        for decision in decided:
            if isinstance(decision, decisions.Admit):
                self.admit(decision)
            elif isinstance(decision, decisions.Preempt):
                self.preempt(decision)

    def written_ns(self) -> int:
        """When a write that begins now is done."""
        return self.now_ns

    def admit(self, decision: decisions.Admit) -> None:
        self.admissions += 1
        end_ns = self.written_ns() + self.classes[decision.workload].runtime_ms * MILLISECOND_NS
        self.running[decision.workload] = end_ns
        heapq.heappush(self.ends, (end_ns, decision.workload))
        self.change(
            decision.workload,
            admission=decision.admission,
            reserved_at_ns=decision.reserved_at_ns,
            admitted=True,
            eviction=None,
        )

    def preempt(self, decision: decisions.Preempt) -> None:
        for target in decision.targets:
            if target.workload in self.evicted:
                continue
            self.preemptions += 1
            self.last_eviction_ns = self.written_ns()
            self.running.pop(target.workload, None)
            eviction = values.EvictionCondition(reason="Preempted", at_ns=self.now_ns)
            self.change(target.workload, eviction=eviction)
            end_ns = self.now_ns + self.load.eviction_ms * MILLISECOND_NS
            self.evicted[target.workload] = None
            if end_ns > self.now_ns:
                heapq.heappush(self.ends, (end_ns, target.workload))
            else:
                self.finish(end_ns, target.workload)


class PacedRun(Run):
    """A run at the pace of a client that is limited by a bucket of tokens."""

    def __init__(self, load: Load) -> None:
        super().__init__(load)
        self.pause_ns = 10**9 // load.writes_a_second
        self.token_ns = 0

    def schedule(self) -> int:
        decided = self.engine.handle(events.CycleDue(at_ns=self.now_ns, requeue_interval_ns=REQUEUE_INTERVAL_NS))
        self.cycles += 1
        self.decisions += len(decided)
        self.apply(decided)
        return max(self.last_eviction_ns, self.now_ns + TICK_NS)

    def written_ns(self) -> int:
        self.token_ns = max(self.token_ns + self.pause_ns, self.now_ns - BURST * self.pause_ns)
        return max(self.now_ns, self.token_ns)


def quota_bound_ns(load: Load) -> int:
    """No schedule of one cohort ends earlier: all its quota busy all the time."""
    busy = sum(one_class.count * one_class.cpu * one_class.runtime_ms for one_class in load.classes) * load.queues
    return busy * MILLISECOND_NS // (load.nominal * load.queues)


async def tune_collector() -> None:
    """As in the servers; their timer for full collections ends with the event loop."""
    process.tune_collector()


def measure(load: Load) -> dict[str, float]:
    asyncio.run(tune_collector())
    run = PacedRun(load) if load.writes_a_second else Run(load)
    started = time.process_time()
    run.play()
    cpu = time.process_time() - started
    return {
        "workloads": len(run.classes),
        "cpu": cpu,
        "longest": run.longest_cycle,
        "admissions": run.admissions,
        "preemptions": run.preemptions,
        "cycles": run.cycles,
        "decisions": run.decisions,
        "makespan": run.now_ns / 1e9,
        "blocks": sys.getallocatedblocks(),
        "collections": sum(generation["collections"] for generation in gc.get_stats()),
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def figures_of(load: Load) -> dict[str, float]:
    with ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as pool:
        return pool.submit(measure, load).result()


def report(load: Load, figures: dict[str, float]) -> None:
    cpu, admissions, cycles = figures["cpu"], figures["admissions"], figures["cycles"]
    bound = quota_bound_ns(load) / 1e9
    print(
        f"   {load.name}: {figures['workloads']:,.0f} workloads, {load.cohorts * load.queues:,} queues: CPU {cpu:.1f} s"
        f", {cpu / admissions * 1e6:,.0f} µs an admission\n"
        f"      {admissions:,.0f} admissions, {figures['preemptions']:,.0f} preemptions, {cycles:,.0f} cycles,"
        f" {figures['decisions']:,.0f} decisions, longest cycle {figures['longest'] * 1e3:.1f} ms\n"
        f"      peak {figures['memory']:.0f} MB, {figures['blocks']:,.0f} blocks allocated at the end,"
        f" {figures['collections']:,.0f} garbage collections\n"
        f"      makespan {figures['makespan']:.1f} s, quota-bound minimum {bound:.1f} s",
        flush=True,
    )


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Run the engine alone, in virtual time.")
    parser.add_argument("loads", nargs="*", choices=[*LOADS, []], metavar="LOAD")
    parser.add_argument("--full", action="store_true", help="all workloads instead of a tenth")
    parser.add_argument("--scale", type=float, default=0.1, help="the share of the workloads without --full")
    parser.add_argument("--eviction-ms", type=int, default=0, help="how long an evicted workload keeps its quota")
    parser.add_argument("--writes-a-second", type=int, default=0, help="the pace of the scheduler's writes")
    options = parser.parse_args(arguments or [])
    for name in options.loads or LOADS:
        load = LOADS[name] if options.full else scaled(LOADS[name], options.scale)
        load = dataclasses.replace(load, eviction_ms=options.eviction_ms, writes_a_second=options.writes_a_second)
        report(load, figures_of(load))


if __name__ == "__main__":
    main(sys.argv[1:])
