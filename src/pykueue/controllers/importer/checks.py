"""What an import of one pod writes, or why it cannot be imported.

The checks are those of Kueue's importer, in its words. They run before anything is written.
"""

from collections.abc import Mapping, Sequence

import msgspec

from pykueue.api import conditions, objects
from pykueue.api.labels import MANAGED, POD_SET_LABEL, QUEUE_NAME
from pykueue.api.scheme import Object
from pykueue.controllers.importer import mapping
from pykueue.controllers.jobs import construction
from pykueue.controllers.jobs.context import PriorityClasses
from pykueue.translate import amounts, requests
from pykueue.translate.jobs import pods
from pykueue.translate.jobs.framework import JobOptions


class PodImportError(Exception):
    """The pod cannot be imported; the text says what is missing."""


class ImportContext(msgspec.Struct, frozen=True, kw_only=True):
    """The objects of the cluster that decide about an import."""

    rules: Sequence[mapping.QueueRule]
    local_queues: Mapping[tuple[str, str], Object] = msgspec.field(default_factory=dict)
    """By namespace and name."""
    cluster_queues: Mapping[str, Object] = msgspec.field(default_factory=dict)
    flavors: frozenset[str] = frozenset()
    classes: PriorityClasses = msgspec.field(default_factory=PriorityClasses)
    add_labels: Mapping[str, str] = msgspec.field(default_factory=dict)
    excluded_prefixes: tuple[str, ...] = ()


class PodImport(msgspec.Struct, frozen=True, kw_only=True):
    labels: Mapping[str, str]
    """What the pod gets."""
    workload: Object
    status: Object
    """The status of the Workload: its admission."""


def is_finished(pod: Object) -> bool:
    return pods.phase(pod) in ("Succeeded", "Failed")


def plan(pod: Object, context: ImportContext, now_ns: int) -> PodImport | None:
    """The writes of an import; None if a rule skips the pod, or if its job counts already."""
    if POD_SET_LABEL in objects.labels(pod) and MANAGED not in objects.labels(pod):
        return None
    rule = mapping.find(context.rules, pod)
    if rule is None:
        raise PodImportError("no mapping found: add a rule that matches the labels of the pod")
    if rule.skip:
        return None
    local_queue = context.local_queues.get((objects.namespace(pod), rule.queue))
    if local_queue is None:
        raise PodImportError(f"{rule.queue}: localqueue not found")
    name = str(local_queue["spec"]["clusterQueue"])
    cluster_queue = context.cluster_queues.get(name)
    if cluster_queue is None:
        raise PodImportError(f"cluster queue not found: {name}")
    present = objects.labels(pod).get(QUEUE_NAME, rule.queue)
    if present != rule.queue:
        raise PodImportError(f'another local queue name is set "{present}" expecting "{rule.queue}"')
    labels = {**context.add_labels, QUEUE_NAME: rule.queue, MANAGED: "true"}
    workload = _workload(pod, labels, context)
    return PodImport(labels=labels, workload=workload, status=_status(workload, cluster_queue, context, now_ns))


def _workload(pod: Object, labels: Mapping[str, str], context: ImportContext) -> Object:
    labelled = {**pod, "metadata": {**pod["metadata"], "labels": {**objects.labels(pod), **labels}}}
    group = pods.PodGroup(name="", pods=(labelled,), role_hash=lambda _spec: "main")
    pod_sets = group.pod_sets(JobOptions())
    try:
        priority = construction.priority_of(pods.FRAMEWORK, labelled, pod_sets, context.classes)
    except construction.MissingPriorityClassError as error:
        raise PodImportError(str(error)) from None
    workload = construction.workload_of(pods.FRAMEWORK, labelled, pod_sets, priority=priority)
    workload["metadata"]["labels"] |= context.add_labels
    return workload


def _status(workload: Object, cluster_queue: Object, context: ImportContext, now_ns: int) -> Object:
    rules = requests.RequestRules(excluded_prefixes=context.excluded_prefixes)
    (totals,) = requests.total_requests(workload, rules)
    flavors = _flavors(cluster_queue, context.flavors)
    name = objects.name(cluster_queue)
    for resource in sorted(totals.requests):
        if totals.requests[resource] and resource not in flavors:
            raise PodImportError(f'resource "{resource}" is not covered by ClusterQueue "{name}"')
    used = {resource: amount for resource, amount in sorted(totals.requests.items()) if amount}
    assignment = {
        "name": totals.name,
        "count": 1,
        "flavors": {resource: flavors[resource] for resource in used},
        "resourceUsage": {resource: amounts.to_text(resource, amount) for resource, amount in used.items()},
    }
    admitted: Object = {"status": {"admission": {"clusterQueue": name, "podSetAssignments": [assignment]}}}
    message = f"Imported into ClusterQueue {name}"
    for type_ in ("QuotaReserved", "Admitted"):
        conditions.put(admitted, type_, status=True, reason="Imported", message=message, now_ns=now_ns)
    status: Object = admitted["status"]
    return status


def _flavors(cluster_queue: Object, existing: frozenset[str]) -> dict[str, str]:
    """The first flavor of each resource; every flavor of the queue must exist."""
    name, groups = objects.name(cluster_queue), objects.nested_list(cluster_queue, "spec", "resourceGroups")
    if not groups:
        raise PodImportError(f'"{name}" has no resource groups: clusterqueue invalid')
    named = {flavor["name"] for group in groups for flavor in group.get("flavors") or ()}
    if missing := sorted(named - existing):
        raise PodImportError(f'"{name}" missing flavors [{" ".join(missing)}]: clusterqueue invalid')
    flavors: dict[str, str] = {}
    for group in groups:
        for resource in group.get("coveredResources") or ():
            flavors.setdefault(resource, group["flavors"][0]["name"])
    return flavors
