"""Estimated starts of Workloads of a cluster, from the objects of the cluster."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from pykueue.api import conditions, objects, times
from pykueue.api.scheme import Object
from pykueue.api.times import SECOND_NS
from pykueue.engine import values
from pykueue.engine.engine import Engine
from pykueue.simulate.engine_driver.world import World
from pykueue.simulate.estimates import starts
from pykueue.simulate.estimates.run_times import JobTraits, RemainingTime, RunTimes, name_prefix
from pykueue.simulate.estimates.starts import MOST_ARRIVALS, Arrival, EstimatedStart, RecentArrivals
from pykueue.simulate.sources import cluster

Workloads = Mapping[values.WorkloadKey, Object]


def estimate(
    engine: Engine,
    workloads: Workloads,
    key: values.WorkloadKey,
    *,
    now_ns: int,
    configuration: Mapping[str, Any],
) -> EstimatedStart:
    """When a pending Workload starts; `workloads` has the finished ones, too."""
    learned = learn(workloads.values(), now_ns)
    return starts.estimate(
        engine,
        key,
        _remaining_times(workloads, learned, now_ns),
        now_ns=now_ns,
        configuration=configuration,
        recent=_recent_arrivals(engine, workloads, learned, now_ns),
    )


def estimate_all(
    engine: Engine, workloads: Workloads, *, now_ns: int, configuration: Mapping[str, Any]
) -> dict[values.WorkloadKey, EstimatedStart]:
    """When all pending Workloads of an engine start."""
    learned = learn(workloads.values(), now_ns)
    return starts.estimate_all(
        engine,
        _remaining_times(workloads, learned, now_ns),
        now_ns=now_ns,
        configuration=configuration,
        recent=_recent_arrivals(engine, workloads, learned, now_ns),
    )


def _remaining_times(workloads: Workloads, learned: RunTimes, now_ns: int) -> dict[values.WorkloadKey, RemainingTime]:
    return {
        key: remaining_time(obj, learned, now_ns)
        for key, obj in workloads.items()
        if not conditions.is_true(obj, "Finished")
    }


def _recent_arrivals(engine: Engine, workloads: Workloads, learned: RunTimes, now_ns: int) -> RecentArrivals:
    """The Workloads that were created lately in queues of the engine, as they arrived.

    One whose run time nobody knows is left out: its copy would stay for ever.
    """
    world = World()
    latest = sorted(workloads.values(), key=lambda obj: (-_created_ns(obj), objects.name(obj)))[:MOST_ARRIVALS]
    arrivals = []
    for obj in latest:
        queue = values.LocalQueueKey(f"{objects.namespace(obj)}/{objects.spec(obj).get('queueName', '')}")
        new = {name: part for name, part in obj.items() if name != "status"}
        time = remaining_time(new, learned, now_ns)
        if engine.view.local_queue(queue) is not None and time.draw_ns(0) is not None:
            ago_ns = max(0, now_ns - _created_ns(obj))
            arrivals.append(Arrival(prototype=world.workload_value(new), ago_ns=ago_ns, time=time))
    return RecentArrivals.of(arrivals)


def _created_ns(workload: Object) -> int:
    return times.to_ns(workload["metadata"]["creationTimestamp"])


def learn(workloads: Iterable[Object], now_ns: int) -> RunTimes:
    learned = RunTimes()
    running = []
    for obj in workloads:
        run_ns = cluster.run_ns(obj)
        if run_ns is not None:
            learned.add(traits(obj), run_ns)
        elif elapsed_ns := _elapsed_ns(obj, now_ns):
            running.append((traits(obj), elapsed_ns))
    learned.set_running(running)
    return learned


def _elapsed_ns(workload: Object, now_ns: int) -> int:
    """How long a Workload has been admitted; 0 if it is not."""
    admitted = conditions.find(workload, "Admitted")
    if admitted is None or not conditions.has_status_true(admitted):
        return 0
    return max(0, now_ns - conditions.since_ns(admitted))


def traits(workload: Object) -> JobTraits:
    owner = next((owner["name"] for owner in objects.owner_references(workload) if owner.get("controller")), None)
    spec = objects.spec(workload)
    return JobTraits(
        queue=f"{objects.namespace(workload)}/{spec.get('queueName', '')}",
        name_prefix=name_prefix(owner or objects.name(workload)),
        size=json.dumps([_size(pod_set) for pod_set in spec.get("podSets", ())], sort_keys=True),
    )


def _size(pod_set: Object) -> Any:
    containers = objects.nested_list(pod_set, "template", "spec", "containers")
    return [pod_set.get("count", 1), *(objects.nested(container, "resources", "requests") for container in containers)]


def remaining_time(workload: Object, learned: RunTimes, now_ns: int) -> RemainingTime:
    elapsed_ns = _elapsed_ns(workload, now_ns)
    limit = objects.spec(workload).get("maximumExecutionTimeSeconds")
    used = objects.nested(workload, "status").get("accumulatedPastExecutionTimeSeconds", 0)
    return RemainingTime(
        samples_ns=tuple(learned.samples_ns(traits(workload), longer_than_ns=elapsed_ns)),
        elapsed_ns=elapsed_ns,
        limit_ns=None if limit is None else max(0, int(limit) - int(used)) * SECOND_NS,
    )
