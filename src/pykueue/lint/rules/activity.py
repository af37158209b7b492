"""Queues that are stopped: they take jobs and start none."""

from collections.abc import Iterator

from pykueue.api.manifest_validation import Severity
from pykueue.engine import values
from pykueue.lint.findings import LintFinding, LintRule, LintSubject
from pykueue.lint.queue_set import QueueSet

QUEUE_STOPPED = LintRule(
    id="queue-stopped",
    severity=Severity.WARNING,
    summary="A queue is stopped, so its jobs wait until somebody resumes it.",
    remedy="Run `pykueue resume clusterqueue NAME` (or localqueue), or set spec.stopPolicy to None.",
)
RULES = (QUEUE_STOPPED,)

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


def _stopped(subject: LintSubject, policy: values.StopPolicy) -> Iterator[LintFinding]:
    if policy in _EFFECTS:
        message = f"stopPolicy {policy.value}: it {_EFFECTS[policy]}"
        yield LintFinding(rule=QUEUE_STOPPED, subject=subject, field="spec.stopPolicy", message=message)
