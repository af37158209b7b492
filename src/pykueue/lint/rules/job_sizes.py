"""Jobs of a size that can never run: more than their queue may have, or than any node has."""

from collections.abc import Iterator

from pykueue.api.manifest_validation import Severity
from pykueue.engine import values
from pykueue.lint.findings import LintFinding, LintRule
from pykueue.lint.queue_set import QueuedJob, QueueSet
from pykueue.lint.rules import nodes
from pykueue.lint.world import SmallWorld, name_of
from pykueue.translate import amounts, node_capacity

JOB_TOO_LARGE = LintRule(
    id="job-too-large",
    severity=Severity.ERROR,
    summary="The job asks for more than its ClusterQueue may ever have, so it waits for ever.",
    remedy="Ask for less, or give the ClusterQueue (or its cohort) the quota.",
)
POD_TOO_LARGE = LintRule(
    id="pod-too-large",
    severity=Severity.ERROR,
    summary="One pod of the job asks for more than any node has, so the job uses quota and never runs.",
    remedy="Ask for less in each pod, or add a larger node.",
)
RULES = (JOB_TOO_LARGE, POD_TOO_LARGE)


def check(queue_set: QueueSet) -> Iterator[LintFinding]:
    for job in queue_set.jobs:
        local_queue = queue_set.local_queues.get(job.workload.local_queue)
        if local_queue is None or local_queue.cluster_queue not in queue_set.cluster_queues:
            continue
        yield from _never_admitted(queue_set, job, local_queue.cluster_queue)
        yield from _never_placed(queue_set, job, local_queue.cluster_queue)


def _never_admitted(queue_set: QueueSet, job: QueuedJob, queue: values.ClusterQueueName) -> Iterator[LintFinding]:
    world = SmallWorld(queue_set)
    if not world.is_active(queue):
        return
    world.submit_workload(job.workload, queue)
    world.play()
    if not world.is_admitted(name_of(job.workload.key)):
        world.add_waiting()
        reason = world.story[-1].partition(" waits: ")[2]
        yield LintFinding(
            rule=JOB_TOO_LARGE,
            subject=job.subject,
            message=f"ClusterQueue {queue} never admits it, even when nothing else is admitted: {reason}",
            example=tuple(world.story),
        )


def _never_placed(queue_set: QueueSet, job: QueuedJob, queue: values.ClusterQueueName) -> Iterator[LintFinding]:
    if not nodes.are_fixed(queue_set, queue_set.cluster_queues[queue]):
        return
    largest = node_capacity.largest_node(queue_set.nodes)
    for pod_set in job.workload.pod_sets:
        for resource, amount in sorted(pod_set.pod_requests.items()):
            if amount > largest.get(resource, 0):
                requested, most = (amounts.to_text(resource, value) for value in (amount, largest.get(resource, 0)))
                message = f"a pod asks for {requested} {resource}, the largest node has {most}"
                yield LintFinding(rule=POD_TOO_LARGE, subject=job.subject, message=message)
                return
