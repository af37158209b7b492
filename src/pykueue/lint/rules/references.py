"""Names of queues and flavors that nothing in the set has: jobs wait for ever.

A name is judged if the set has objects of its kind; other files belong to a cluster that has them.
"""

import difflib
from collections.abc import Collection, Iterator

from pykueue.api import labels
from pykueue.api.manifest_validation import Severity
from pykueue.engine import values
from pykueue.lint import quotas
from pykueue.lint.findings import LintFinding, LintRule, LintSubject
from pykueue.lint.queue_set import QueueSet

UNKNOWN_CLUSTER_QUEUE = LintRule(
    id="unknown-cluster-queue",
    severity=Severity.WARNING,
    summary="A LocalQueue names a ClusterQueue that does not exist, so its jobs wait for ever.",
    remedy="Correct spec.clusterQueue, or create the ClusterQueue.",
)
UNKNOWN_LOCAL_QUEUE = LintRule(
    id="unknown-local-queue",
    severity=Severity.WARNING,
    summary="A job names a LocalQueue that its namespace does not have, so it waits for ever.",
    remedy=f"Correct the label {labels.QUEUE_NAME}, or create the LocalQueue in the namespace of the job.",
)
UNKNOWN_FLAVOR = LintRule(
    id="unknown-flavor",
    severity=Severity.WARNING,
    summary="Quota is of a ResourceFlavor that does not exist, so the ClusterQueue admits nothing.",
    remedy="Correct the name of the flavor, or create the ResourceFlavor.",
)
RULES = (UNKNOWN_CLUSTER_QUEUE, UNKNOWN_LOCAL_QUEUE, UNKNOWN_FLAVOR)


def check(queue_set: QueueSet) -> Iterator[LintFinding]:
    if queue_set.is_complete or queue_set.cluster_queues:
        yield from _cluster_queues(queue_set)
    if queue_set.is_complete or queue_set.local_queues:
        yield from _local_queues(queue_set)
    if queue_set.is_complete or queue_set.flavors:
        yield from _flavors(queue_set)


def _cluster_queues(queue_set: QueueSet) -> Iterator[LintFinding]:
    for key, local_queue in sorted(queue_set.local_queues.items()):
        cluster_queue = local_queue.cluster_queue
        if cluster_queue not in queue_set.cluster_queues:
            namespace, _, name = key.partition("/")
            yield LintFinding(
                rule=UNKNOWN_CLUSTER_QUEUE,
                subject=LintSubject(kind="LocalQueue", name=name, namespace=namespace),
                field="spec.clusterQueue",
                message=f"there is no ClusterQueue {cluster_queue}{_hint(cluster_queue, queue_set.cluster_queues)}",
            )


def _local_queues(queue_set: QueueSet) -> Iterator[LintFinding]:
    for job in queue_set.jobs:
        key = job.workload.local_queue
        namespace, _, name = key.partition("/")
        if not name or key in queue_set.local_queues:
            continue
        own = [other.partition("/")[2] for other in queue_set.local_queues if other.startswith(f"{namespace}/")]
        elsewhere = sorted(other.partition("/")[0] for other in queue_set.local_queues if other.endswith(f"/{name}"))
        hint = f"; it is in namespace {', '.join(elsewhere)}" if elsewhere else _hint(name, own)
        is_workload = job.subject.kind == "Workload"
        yield LintFinding(
            rule=UNKNOWN_LOCAL_QUEUE,
            subject=job.subject,
            field="spec.queueName" if is_workload else f"metadata.labels[{labels.QUEUE_NAME}]",
            message=f"there is no LocalQueue {name} in namespace {namespace}{hint}",
        )


def _flavors(queue_set: QueueSet) -> Iterator[LintFinding]:
    for owner in queue_set.owners:
        kind = "ClusterQueue" if isinstance(owner, values.ClusterQueue) else "Cohort"
        for flavor in sorted({pair.flavor for pair, _ in quotas.pairs(owner)} - set(queue_set.flavors)):
            yield LintFinding(
                rule=UNKNOWN_FLAVOR,
                subject=LintSubject(kind=kind, name=owner.name),
                field="spec.resourceGroups",
                message=f"there is no ResourceFlavor {flavor}{_hint(flavor, queue_set.flavors)}",
            )


def _hint(name: str, existing: Collection[str]) -> str:
    close = difflib.get_close_matches(name, existing, n=1)
    return f"; did you mean {close[0]}?" if close else f" (existing: {', '.join(sorted(existing)) or 'none'})"
