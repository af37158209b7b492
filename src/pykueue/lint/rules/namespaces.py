"""Namespace selectors that select nothing, or not the namespaces of the LocalQueues."""

from collections.abc import Iterator

from pykueue.api.manifest_validation import Severity
from pykueue.engine import reasons, values
from pykueue.lint import quotas
from pykueue.lint.findings import LintFinding, LintRule, LintSubject
from pykueue.lint.queue_set import QueueSet
from pykueue.lint.world import SmallWorld

SELECTOR_MATCHES_NOTHING = LintRule(
    id="selector-matches-nothing",
    severity=Severity.WARNING,
    summary="The namespaceSelector matches no namespace, so the ClusterQueue admits nothing.",
    remedy="Correct the selector or label the namespaces; {} selects all namespaces.",
)
NAMESPACE_NOT_SELECTED = LintRule(
    id="namespace-not-selected",
    severity=Severity.ERROR,
    summary="The ClusterQueue of a LocalQueue does not select its namespace, so its jobs wait for ever.",
    remedy="Label the namespace as the namespaceSelector says, or change the selector.",
)
RULES = (SELECTOR_MATCHES_NOTHING, NAMESPACE_NOT_SELECTED)

_FIELD = "spec.namespaceSelector"


def check(queue_set: QueueSet) -> Iterator[LintFinding]:
    for queue in queue_set.cluster_queues.values():
        if queue.namespace_selector == values.LabelSelector():
            continue
        subject = LintSubject(kind="ClusterQueue", name=queue.name)
        if queue.namespace_selector is None:
            message = "there is no namespaceSelector, which selects no namespace"
            example = _refusal(queue_set, queue, {})
            yield LintFinding(
                rule=SELECTOR_MATCHES_NOTHING, subject=subject, field=_FIELD, message=message, example=example
            )
            continue
        names = sorted(queue_set.namespaces)
        if queue_set.knows_namespaces and all(_refusal_in(queue_set, queue, name) for name in names):
            message = f"none of {len(names)} namespaces matches"
            example = _refusal_in(queue_set, queue, names[0]) if names else ()
            yield LintFinding(
                rule=SELECTOR_MATCHES_NOTHING, subject=subject, field=_FIELD, message=message, example=example
            )
            continue
        yield from _not_selected(queue_set, queue)


def _not_selected(queue_set: QueueSet, queue: values.ClusterQueue) -> Iterator[LintFinding]:
    """LocalQueues of other namespaces.

    Only the name of a namespace is certain if the set does not define it; a selector on other
    labels is not judged then.
    """
    assert queue.namespace_selector is not None
    keys = {requirement.key for requirement in queue.namespace_selector.requirements}
    for key, local_queue in sorted(queue_set.local_queues.items()):
        namespace, _, name = key.partition("/")
        labels = queue_set.labels_of(namespace)
        is_certain = namespace in queue_set.namespaces or keys == {"kubernetes.io/metadata.name"}
        if local_queue.cluster_queue != queue.name or labels is None or not is_certain:
            continue
        example = _refusal(queue_set, queue, labels)
        if example:
            yield LintFinding(
                rule=NAMESPACE_NOT_SELECTED,
                subject=LintSubject(kind="LocalQueue", name=name, namespace=namespace),
                field="spec.clusterQueue",
                message=f"ClusterQueue {queue.name} does not select namespace {namespace}",
                example=example,
            )


def _refusal_in(queue_set: QueueSet, queue: values.ClusterQueue, namespace: str) -> tuple[str, ...]:
    return _refusal(queue_set, queue, queue_set.labels_of(namespace) or {})


def _refusal(queue_set: QueueSet, queue: values.ClusterQueue, labels: dict[str, str]) -> tuple[str, ...]:
    """What happens to a job of a namespace with these labels; nothing if it is selected."""
    pair = next((pair for pair, _ in quotas.pairs(queue)), None)
    world = SmallWorld(queue_set, labels=labels)
    world.submit("small", queue.name, {} if pair is None else {pair.resource: 1})
    world.play()
    if not isinstance(world.pending.get("small"), reasons.NamespaceMismatch):
        return ()
    world.add_waiting()
    return tuple(world.story)
