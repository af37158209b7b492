"""What must hold when the system has come to rest: nothing fails, nothing was written for a
while.

Then the stored objects are the whole truth: nobody waits for a deletion, the engine agrees with
the API, and a fresh start from the stored objects changes nothing.
"""

from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterator
from typing import Any

from pykueue.api import conditions, objects
from pykueue.api.scheme import Object
from pykueue.controllers.scheduler import snapshot
from pykueue.controllers.workloads import predicates
from pykueue.engine import decisions, events, invariants, values
from pykueue.engine.engine import Engine
from pykueue.simulate import check_controller
from pykueue.simulate.monitor import holds_quota
from pykueue.simulate.pending_reasons import PendingReasons, message_of
from pykueue.simulate.system import System
from pykueue.translate import workload

POD_GROUP = "kueue.x-k8s.io/pod-group-name"


async def faults_at_rest(system: System) -> list[str]:
    return [
        *_deletions(system),
        *_orphans(system),
        *_running_without_admission(system),
        *_leaders(system),
        *_queue_statuses(system),
        *[fault async for fault in _engine_faults(system)],
        *[fault async for fault in _audits(system)],
    ]


async def _audits(system: System) -> AsyncIterator[str]:
    """The audits find nothing, and found nothing since the controllers lead."""
    for controllers in system.leading.values():
        await controllers.cache_audit.audit()
        await controllers.engine_audit.audit()
        for metric in controllers.metrics.instruments.registry.collect():
            if metric.name == "pykueue_audit_differences":
                for sample in metric.samples:
                    yield f"the audit found {sample.value} differences: {sample.labels}"


def _stored(system: System) -> Iterator[Object]:
    for group, plural in system.store.collections():
        for stored in system.store.select(group, plural):
            yield stored.shared_or_decoded()


def _deletions(system: System) -> Iterator[str]:
    in_use = _in_use(system)
    for obj in _stored(system):
        if objects.is_deleted(obj) and _title(obj) not in in_use:
            yield f"{_title(obj)} is still being deleted, finalizers {objects.finalizers(obj)}"


def _in_use(system: System) -> set[str]:
    """Objects whose deletion waits, as in Kueue: flavors, checks and queues for what uses them,
    and pods of a group, with their namespace, for pods that replace them.
    """
    in_use: set[str] = set()
    waiting = _waiting_for_pods(system)
    for obj in _stored(system):
        match obj["kind"]:
            case "ClusterQueue":
                in_use |= {f"ResourceFlavor /{flavor}" for flavor in _flavors(obj)}
                in_use.add(f"AdmissionCheck /{check_controller.NAME}")
            case "ResourceFlavor":
                in_use.add(f"Topology /{objects.spec(obj).get('topologyName')}")
            case "Workload" if holds_quota(obj):
                in_use.add(f"ClusterQueue /{objects.nested(obj, 'status', 'admission')['clusterQueue']}")
            case "Pod" if objects.labels(obj).get(POD_GROUP) in waiting:
                in_use |= {_title(obj), f"Namespace /{objects.namespace(obj)}"}
            case "Workload" if objects.name(obj) in waiting:
                in_use |= {_title(obj), f"Namespace /{objects.namespace(obj)}"}
    return in_use


def _flavors(cluster_queue: Object) -> list[str]:
    groups = objects.spec(cluster_queue).get("resourceGroups") or ()
    return [flavor["name"] for group in groups for flavor in group["flavors"]]


def _waiting_for_pods(system: System) -> set[str]:
    """Names of pod groups that wait for somebody to replace their failed or evicted pods, as in
    Kueue.

    Such a Workload keeps its place in the queue of a running engine, but a fresh engine does not
    queue it.
    """
    return {
        objects.name(obj)
        for obj in _stored(system)
        if obj["kind"] == "Workload"
        and conditions.is_true(obj, "WaitingForReplacementPods")
        and not conditions.is_true(obj, "Finished")
    }


def may_differ_after_restart(system: System) -> bool:
    is_scanning = any(
        reasons.is_scanning(workload.key(obj)) for reasons in _reasons(system) for obj in _kind(system, "Workload")
    )
    is_reordered = any(reasons.reordered_queues() for reasons in _reasons(system))
    is_inherited = system.monitor.had_stopped_queues or bool(_waiting_for_pods(system)) or _began_late(system)
    return is_inherited or is_scanning or is_reordered


def _began_late(system: System) -> bool:
    """Whether a reason does not name the first flavor: the scan went on after it.

    As in Kueue, quota of the first flavor that becomes free in the meantime is not seen, and the
    workload waits until something else changes.
    """
    first = {objects.name(queue): flavors[0] for queue in _kind(system, "ClusterQueue") if (flavors := _flavors(queue))}
    return any(
        message is not None
        and " flavor " in message
        and first.get(objects.spec(obj).get("queueName", ""), "") not in message
        for obj in _kind(system, "Workload")
        if predicates.is_admissible(obj)
        for message in [_pending_message(obj)]
    )


def check_engine(system: System, engine: Engine) -> None:
    """Check a live engine in the middle of a run."""
    if not system.monitor.waits_for_pods():
        invariants.check(engine, quota_shrank=True)


def _orphans(system: System) -> Iterator[str]:
    uids = {objects.uid(obj) for obj in _stored(system)}
    for obj in _stored(system):
        owners = objects.owner_references(obj)
        if obj["kind"] in ("Workload", "Pod", "Job") and owners and not any(owner["uid"] in uids for owner in owners):
            yield f"{_title(obj)} outlives its owner"


def _running_without_admission(system: System) -> Iterator[str]:
    pods = {objects.uid(obj): obj for obj in _stored(system) if obj["kind"] == "Pod"}
    for process in system.machine.running():
        pod = pods.get(objects.uid(process.pod))
        if pod is None:
            yield f"{objects.name(process.pod)} runs, but the API has no such pod"
        elif objects.status(pod).get("phase") != "Running":
            yield f"{objects.name(pod)} runs, but its phase is {objects.status(pod).get('phase')}"
        elif (
            system.monitor.needs_admission(pod)
            and not system.monitor.is_admitted(pod)
            and not _outlives_job(system, pod)
        ):
            yield f"{objects.name(pod)} runs without an admission"


def _outlives_job(system: System, pod: Object) -> bool:
    """Whether the PyTorchJob of a pod has ended. As in Kubeflow, its other pods then run on."""
    uids = {owner["uid"] for owner in objects.owner_references(pod) if owner["kind"] == "PyTorchJob"}
    ended = ("Succeeded", "Failed")
    return any(
        objects.uid(job) in uids and any(conditions.is_true(job, condition) for condition in ended)
        for job in _kind(system, "PyTorchJob")
    )


def _queue_statuses(system: System) -> Iterator[str]:
    """The status of a ClusterQueue counts the Workloads that hold quota in it."""
    workloads = [obj for obj in _stored(system) if obj["kind"] == "Workload" and holds_quota(obj)]
    counts = Counter(objects.nested(obj, "status", "admission")["clusterQueue"] for obj in workloads)
    for obj in _stored(system):
        if obj["kind"] == "ClusterQueue":
            name, count = objects.name(obj), objects.status(obj).get("reservingWorkloads", 0)
            if count != counts[name]:
                yield f"the status of {name} counts {count} Workloads with quota, there are {counts[name]}"


def _leaders(system: System) -> Iterator[str]:
    if len(system.leading) != 1:
        yield f"{sorted(system.leading)} lead"


async def _engine_faults(system: System) -> AsyncIterator[str]:
    """The live engine, the API and a fresh engine agree, and the fresh one decides nothing new."""
    for replica, controllers in system.leading.items():
        live = controllers.scheduler.engine
        check_engine(system, live)
        observed = await snapshot.observe(system.client, system.profile.configuration, now_ns=system.clock.now_ns())
        if _usage(live) != _usage(observed.engine):
            yield f"the engine uses {_usage(live)}, the API says {_usage(observed.engine)}"
        reasons = system.pending_reasons[replica]
        for fault in _unwritten(reasons, observed.workloads):
            yield fault
        if system.monitor.had_stopped_queues or _waiting_for_pods(system) or _began_late(system):
            return
        for fault in _decisions(observed.engine, observed.workloads, reasons, system.clock.now_ns()):
            yield fault


def _unwritten(reasons: PendingReasons, workloads: dict[values.WorkloadKey, Object]) -> Iterator[str]:
    """What the live engine decided last about a pending Workload is in its status."""
    for key, obj in workloads.items():
        decided, written = reasons.messages.get(key), _pending_message(obj)
        is_pending = predicates.is_admissible(obj) and reasons.is_pending(key)
        if decided is not None and is_pending and decided != written:
            yield f"{key} says {written!r}, its engine decided {decided!r}"


def _usage(engine: Engine) -> dict[str, dict[str, int]]:
    return {
        queue.name: {str(index): amount for index, amount in sorted(queue.usage.items()) if amount}
        for queue in engine.view.cluster_queues()
    }


def _pending_message(obj: Object) -> str | None:
    return (conditions.find(obj, "QuotaReserved") or {}).get("message")


def _decisions(
    engine: Engine, workloads: dict[values.WorkloadKey, Object], reasons: PendingReasons, now_ns: int
) -> Iterator[str]:
    """A fresh engine admits nothing, and gives the reasons that are written.

    As in Kueue, a reason may alternate from cycle to cycle; one of them is written.
    """
    reordered = reasons.reordered_queues()
    messages: dict[values.WorkloadKey, list[str]] = defaultdict(list)
    cycles: list[list[decisions.Decision]] = []
    while (decided := engine.handle(events.CycleDue(at_ns=now_ns))) and decided not in cycles:
        cycles.append(decided)
        for decision in decided:
            is_pending = isinstance(decision, decisions.Requeue | decisions.MarkInadmissible)
            if decision.cluster_queue in reordered:
                if not is_pending:
                    return
                continue
            match decision:
                case decisions.Requeue() | decisions.MarkInadmissible():
                    messages[decision.workload].append(message_of(decision))
                case _:
                    if not reasons.is_scanning(decision.workload):
                        yield f"a fresh engine decides {decision}"
                    return
    for key, expected in messages.items():
        written = _pending_message(workloads[key])
        if written not in expected and not reasons.may_be_outdated(key):
            yield f"{key} says {written!r}, a fresh engine {expected}"


def state(system: System) -> dict[str, Object]:
    """Every stored object by its name, without what a restart may change."""
    return {_title(obj): _comparable(obj) for obj in _stored(system) if obj["kind"] not in ("Lease", "Event", "Node")}


def nodes(system: System) -> set[str]:
    return {objects.name(node) for node in _kind(system, "Node")}


def leftovers(system: System) -> list[str]:
    """Pods, and Workloads that are not finished: when every job is deleted, nothing has a use for
    them.
    """
    return [
        _title(obj)
        for obj in _stored(system)
        if obj["kind"] == "Pod" or (obj["kind"] == "Workload" and not conditions.is_true(obj, "Finished"))
    ]


def _comparable(obj: Object) -> Object:
    metadata = {key: value for key, value in obj["metadata"].items() if key not in ("resourceVersion", "managedFields")}
    return obj | {"metadata": metadata}


def outdated(system: System) -> set[str]:
    """Pending Workloads whose reasons a fresh start may write anew, as in Kueue."""
    return {
        _title(obj)
        for obj in _stored(system)
        if obj["kind"] == "Workload"
        and not predicates.has_quota_reservation(obj)
        and (_is_without_queue(system, obj) or (predicates.is_admissible(obj) and _is_outdated(system, obj)))
    }


def _reasons(system: System) -> list[PendingReasons]:
    return [system.pending_reasons[replica] for replica in system.leading]


def _is_outdated(system: System, obj: Object) -> bool:
    return any(reasons.may_be_outdated(workload.key(obj)) for reasons in _reasons(system))


def _is_without_queue(system: System, obj: Object) -> bool:
    """Whether the ClusterQueue of a Workload is gone: as in Kueue, the reason stays as it was."""
    queues = {(objects.namespace(queue), objects.name(queue)): queue for queue in _kind(system, "LocalQueue")}
    queue = queues.get((objects.namespace(obj), objects.spec(obj).get("queueName", "")))
    names = {objects.name(cluster_queue) for cluster_queue in _kind(system, "ClusterQueue")}
    return queue is not None and objects.spec(queue).get("clusterQueue") not in names


def _kind(system: System, kind: str) -> Iterator[Object]:
    return (obj for obj in _stored(system) if obj["kind"] == kind)


def differences(before: dict[str, Object], after: dict[str, Object], outdated: set[str]) -> list[str]:
    """What differs, but for the reasons of Workloads that are `outdated`."""
    return [
        f"{title}: {_difference(before.get(title), after.get(title))}"
        for title in sorted(before.keys() | after.keys())
        if before.get(title) != after.get(title)
        and not (title in outdated and _without_status(before.get(title)) == _without_status(after.get(title)))
    ]


def _without_status(obj: Object | None) -> Object | None:
    return None if obj is None else obj | {"status": None}


def _difference(before: Any, after: Any) -> str:
    if isinstance(before, dict) and isinstance(after, dict):
        return ", ".join(
            f"{key}: {_difference(before.get(key), after.get(key))}"
            for key in sorted(before.keys() | after.keys())
            if before.get(key) != after.get(key)
        )
    return f"{before!r} became {after!r}"


def _title(obj: Object) -> str:
    return f"{obj['kind']} {objects.namespace(obj)}/{objects.name(obj)}"
