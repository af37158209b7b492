"""Queues that take jobs and start none: their ClusterQueue does not exist, or they are stopped."""

from collections.abc import Iterator

from pykueue.api.manifest_validation import Severity
from pykueue.engine import values
from pykueue.lint.findings import LintFinding, LintRule, LintSubject
from pykueue.lint.queue_set import QueueSet

UNKNOWN_CLUSTER_QUEUE = LintRule(
    id="unknown-cluster-queue",
    severity=Severity.WARNING,
    summary="A LocalQueue names a ClusterQueue that does not exist, so its jobs wait for ever.",
    remedy="Correct spec.clusterQueue, or create the ClusterQueue.",
)
QUEUE_STOPPED = LintRule(
    id="queue-stopped",
    severity=Severity.WARNING,
    summary="A queue is stopped, so its jobs wait until somebody resumes it.",
    remedy="Run `pykueue resume clusterqueue NAME` (or localqueue), or set spec.stopPolicy to None.",
)
RULES = (UNKNOWN_CLUSTER_QUEUE, QUEUE_STOPPED)

_EFFECTS = {
    values.StopPolicy.HOLD: "starts no job; those that run go on",
    values.StopPolicy.HOLD_AND_DRAIN: "starts no job, and those that ran were evicted",
}


def check(queue_set: QueueSet) -> Iterator[LintFinding]:
    for queue in queue_set.cluster_queues.values():
        yield from _stopped(LintSubject(kind="ClusterQueue", name=queue.name), queue.stop_policy)
    for key, local_queue in sorted(queue_set.local_queues.items()):
        namespace, _, name = key.partition("/")
        subject = LintSubject(kind="LocalQueue", name=name, namespace=namespace)
        yield from _stopped(subject, local_queue.stop_policy)
        yield from _unknown(queue_set, subject, local_queue.cluster_queue)


def _unknown(queue_set: QueueSet, subject: LintSubject, name: values.ClusterQueueName) -> Iterator[LintFinding]:
    """Files without a ClusterQueue belong to a cluster that has them."""
    is_judged = queue_set.is_complete or bool(queue_set.cluster_queues)
    if is_judged and name not in queue_set.cluster_queues:
        existing = ", ".join(sorted(queue_set.cluster_queues)) or "none"
        yield LintFinding(
            rule=UNKNOWN_CLUSTER_QUEUE,
            subject=subject,
            field="spec.clusterQueue",
            message=f"there is no ClusterQueue {name} (existing: {existing})",
        )


def _stopped(subject: LintSubject, policy: values.StopPolicy) -> Iterator[LintFinding]:
    if policy in _EFFECTS:
        message = f"stopPolicy {policy.value}: it {_EFFECTS[policy]}"
        yield LintFinding(rule=QUEUE_STOPPED, subject=subject, field="spec.stopPolicy", message=message)
