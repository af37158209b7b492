"""Questions about quota that several rules ask."""

from collections.abc import Iterator

from pykueue.engine import values
from pykueue.lint.queue_set import QueueSet
from pykueue.translate import amounts

Owner = values.ClusterQueue | values.Cohort


def pairs(owner: Owner) -> Iterator[tuple[values.FlavorResource, values.Quota]]:
    """Every flavor and resource of a ClusterQueue or Cohort, with its quota."""
    for group in owner.resource_groups:
        for flavor in group.flavors:
            for resource, quota in flavor.resources.items():
                yield values.FlavorResource(flavor.name, resource), quota


def quota_of(owner: Owner, pair: values.FlavorResource) -> values.Quota | None:
    return next((quota for other, quota in pairs(owner) if other == pair), None)


def trees(queue_set: QueueSet) -> Iterator[tuple[list[Owner], list[values.ClusterQueue]]]:
    """Every cohort tree: the owners of its quota, and the ClusterQueues among them."""
    by_root: dict[str, list[values.ClusterQueue]] = {}
    for queue in queue_set.cluster_queues.values():
        root = f"cohort {queue_set.root(queue.cohort)}" if queue.cohort else f"queue {queue.name}"
        by_root.setdefault(root, []).append(queue)
    cohorts: dict[str, list[values.Cohort]] = {}
    for cohort in queue_set.cohorts.values():
        cohorts.setdefault(f"cohort {queue_set.root(cohort.name)}", []).append(cohort)
    for root in sorted({*by_root, *cohorts}):
        queues = by_root.get(root, [])
        yield [*queues, *cohorts.get(root, [])], queues


def field_of(owner: Owner, pair: values.FlavorResource, name: str = "nominalQuota") -> str:
    """The path of a quota in the object."""
    for group_index, group in enumerate(owner.resource_groups):
        for flavor_index, flavor in enumerate(group.flavors):
            if flavor.name == pair.flavor and pair.resource in flavor.resources:
                resource_index = list(flavor.resources).index(pair.resource)
                path = f"spec.resourceGroups[{group_index}].flavors[{flavor_index}]"
                return f"{path}.resources[{resource_index}].{name}"
    return "spec.resourceGroups"


def flavor_field(owner: Owner, name: values.FlavorName) -> str:
    for group_index, group in enumerate(owner.resource_groups):
        for flavor_index, flavor in enumerate(group.flavors):
            if flavor.name == name:
                return f"spec.resourceGroups[{group_index}].flavors[{flavor_index}]"
    return "spec.resourceGroups"


def text(pair: values.FlavorResource, amount: int) -> str:
    return f"{amounts.to_text(pair.resource, amount)} {pair.resource}"
