"""What the status of a queue shows of quota: `flavorsReservation` and `flavorsUsage`.

Pure: the queue's value and amounts in use go in, JSON comes out. Called by the ClusterQueue and LocalQueue controllers and by
replays.
"""

from collections.abc import Mapping

from pykueue.api.scheme import Object
from pykueue.engine import values
from pykueue.engine.quota.amounts import sub
from pykueue.translate import amounts

Usage = Mapping[values.FlavorResource, int]


def cluster_queue_flavors(queue: values.ClusterQueue, usage: Usage) -> list[Object]:
    """Flavors in the order of the spec, resources by name; borrowing is possible in a cohort only."""
    return [
        {
            "name": flavor.name,
            "resources": [
                {
                    "name": resource,
                    "total": amounts.shown(resource, total := _used(usage, flavor, resource)),
                    "borrowed": amounts.shown(resource, max(0, sub(total, quota.nominal)) if queue.cohort else 0),
                }
                for resource, quota in sorted(flavor.resources.items())
            ],
        }
        for group in queue.resource_groups
        for flavor in group.flavors
    ]


def local_queue_flavors(queue: values.ClusterQueue, usage: Usage) -> list[Object]:
    """The same flavors as the ClusterQueue behind it, with the local queue's own amounts."""
    return [
        {
            "name": flavor.name,
            "resources": [
                {"name": resource, "total": amounts.shown(resource, _used(usage, flavor, resource))}
                for resource in sorted(flavor.resources)
            ],
        }
        for group in queue.resource_groups
        for flavor in group.flavors
    ]


def _used(usage: Usage, flavor: values.FlavorQuotas, resource: values.ResourceName) -> int:
    return usage.get(values.FlavorResource(flavor.name, resource), 0)
