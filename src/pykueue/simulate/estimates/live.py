"""The estimated start of a Workload of a cluster, from the objects of the cluster."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from pykueue.api import conditions, objects
from pykueue.api.scheme import Object
from pykueue.api.times import SECOND_NS
from pykueue.engine import values
from pykueue.engine.engine import Engine
from pykueue.simulate.estimates import starts
from pykueue.simulate.estimates.run_times import JobTraits, RemainingTime, RunTimes, name_prefix
from pykueue.simulate.estimates.starts import EstimatedStart
from pykueue.simulate.sources import cluster


def estimate(
    engine: Engine,
    workloads: Mapping[values.WorkloadKey, Object],
    key: values.WorkloadKey,
    *,
    now_ns: int,
    configuration: Mapping[str, Any],
) -> EstimatedStart:
    """When a pending Workload starts; `workloads` has the finished ones, too."""
    learned = learn(workloads.values())
    remaining = {
        other: remaining_time(obj, learned, now_ns)
        for other, obj in workloads.items()
        if not conditions.is_true(obj, "Finished")
    }
    return starts.estimate(engine, key, remaining, now_ns=now_ns, configuration=configuration)


def learn(workloads: Iterable[Object]) -> RunTimes:
    learned = RunTimes()
    for obj in workloads:
        run_ns = cluster.run_ns(obj)
        if run_ns is not None:
            learned.add(traits(obj), run_ns)
    return learned


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
    admitted = conditions.find(workload, "Admitted")
    is_running = conditions.has_status_true(admitted)
    elapsed_ns = max(0, now_ns - conditions.since_ns(admitted)) if admitted is not None and is_running else 0
    limit = objects.spec(workload).get("maximumExecutionTimeSeconds")
    used = objects.nested(workload, "status").get("accumulatedPastExecutionTimeSeconds", 0)
    return RemainingTime(
        samples_ns=tuple(learned.samples_ns(traits(workload), longer_than_ns=elapsed_ns)),
        elapsed_ns=elapsed_ns,
        limit_ns=None if limit is None else max(0, int(limit) - int(used)) * SECOND_NS,
    )
