"""Quota against nodes: more quota than the nodes of a flavor have, and flavors without nodes."""

from collections.abc import Iterator

from pykueue.api import objects
from pykueue.api.manifest_validation import Severity
from pykueue.api.scheme import Object
from pykueue.engine import values
from pykueue.lint import quotas
from pykueue.lint.findings import LintFinding, LintRule, LintSubject
from pykueue.lint.queue_set import QueueSet
from pykueue.lint.world import SmallWorld
from pykueue.translate import amounts, node_capacity

MORE_QUOTA_THAN_NODES = LintRule(
    id="more-quota-than-nodes",
    severity=Severity.WARNING,
    summary="The quota of a flavor is more than its nodes have, so admitted jobs may find no node.",
    remedy="Lower nominalQuota to what the nodes have, or add nodes.",
)
FLAVOR_WITHOUT_NODES = LintRule(
    id="flavor-without-nodes",
    severity=Severity.WARNING,
    summary="No node has the labels of the flavor, so jobs that get it never run.",
    remedy="Label nodes as spec.nodeLabels of the flavor says, or correct the labels of the flavor.",
)
RULES = (MORE_QUOTA_THAN_NODES, FLAVOR_WITHOUT_NODES)

_CONTROLLERS_OF_NODES = ("kueue.x-k8s.io/provisioning-request", "kueue.x-k8s.io/multikueue")
_RESOURCES_OF_EVERY_NODE = ("pods",)


def are_fixed(queue_set: QueueSet, queue: values.ClusterQueue) -> bool:
    """Whether the nodes of the set are all nodes that jobs of the queue may get."""
    if not queue_set.nodes or queue_set.nodes_may_grow:
        return False
    checks = (queue_set.checks.get(name) for name in queue.admission_checks)
    return not any(check is None or check.controller in _CONTROLLERS_OF_NODES for check in checks)


def check(queue_set: QueueSet) -> Iterator[LintFinding]:
    owners: dict[values.FlavorResource, list[tuple[quotas.Owner, values.Quota]]] = {}
    for owner in queue_set.owners:
        if isinstance(owner, values.ClusterQueue) and not are_fixed(queue_set, owner):
            return
        for pair, quota in quotas.pairs(owner):
            owners.setdefault(pair, []).append((owner, quota))
    if not queue_set.nodes or queue_set.nodes_may_grow:
        return
    empty = {pair.flavor for pair in owners if not _nodes_of(queue_set, pair.flavor)}
    for name in sorted(empty & set(queue_set.flavors)):
        labels = ", ".join(f"{key}={value}" for key, value in sorted(queue_set.flavors[name].node_labels.items()))
        yield LintFinding(
            rule=FLAVOR_WITHOUT_NODES,
            subject=LintSubject(kind="ResourceFlavor", name=name),
            message=f"none of {len(queue_set.nodes)} nodes has the labels {labels}",
            field="spec.nodeLabels",
        )
    for pair, shares in sorted(owners.items()):
        if pair.flavor not in empty and pair.resource not in _RESOURCES_OF_EVERY_NODE:
            yield from _excess(queue_set, pair, shares)


def _excess(
    queue_set: QueueSet, pair: values.FlavorResource, shares: list[tuple[quotas.Owner, values.Quota]]
) -> Iterator[LintFinding]:
    available = sum(_amount(node, pair.resource) for node in _nodes_of(queue_set, pair.flavor))
    total = sum(quota.nominal for _, quota in shares)
    declared = any(pair.resource in node_capacity.allocatable(node) for node in queue_set.nodes)
    if total <= available or not declared:
        return
    owner = max(shares, key=lambda share: share[1].nominal)[0]
    kind = type(owner).__name__
    world = SmallWorld(queue_set, preempts=False)
    for queue, quota in shares:
        if isinstance(queue, values.ClusterQueue) and quota.nominal:
            world.submit(f"job-of-{queue.name}", queue.name, {pair.resource: quota.nominal}, flavor=pair.flavor)
    world.play()
    used = world.usage(pair.flavor, pair.resource)
    yield LintFinding(
        rule=MORE_QUOTA_THAN_NODES,
        subject=LintSubject(kind=kind, name=owner.name),
        field=quotas.field_of(owner, pair),
        message=(
            f"flavor {pair.flavor} has a quota of {quotas.text(pair, total)} in all,"
            f" and its nodes have {amounts.to_text(pair.resource, available)}"
        ),
        example=tuple(world.story) if used > available else (),
    )


def _nodes_of(queue_set: QueueSet, name: values.FlavorName) -> list[Object]:
    flavor = queue_set.flavors.get(name, values.ResourceFlavor(name=name))
    return [node for node in queue_set.nodes if flavor.node_labels.items() <= objects.labels(node).items()]


def _amount(node: Object, resource: values.ResourceName) -> int:
    return node_capacity.allocatable(node).get(resource, 0)
