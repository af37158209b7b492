"""Kueue's populator: creates LocalQueues in the namespaces that a ClusterQueue selects.

`plan` is without I/O; `app.side_controllers` calls it when a namespace or a ClusterQueue changes.
Existing LocalQueues stay as they are.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from pykueue.api import objects, resources, selectors
from pykueue.api.scheme import Object
from pykueue.kube.controller import writes

STATIC, AS_CLUSTER_QUEUE = "Static", "AsClusterQueue"


class PopulatorOptions(msgspec.Struct, frozen=True, kw_only=True):
    local_queue_name: str = "default"
    name_mode: str = STATIC
    """AsClusterQueue names each LocalQueue after its ClusterQueue."""
    namespace_selector: Mapping[str, Any] | None = None
    """managedJobsNamespaceSelector; None selects every namespace."""


def plan(
    namespace: Object, cluster_queues: Iterable[Object], present: Iterable[Object], options: PopulatorOptions
) -> list[writes.Action]:
    """The LocalQueues that a namespace lacks, with an event for each."""
    if objects.is_deleted(namespace) or not _selects(options.namespace_selector, namespace):
        return []
    names = {objects.name(queue) for queue in present}
    return [action for queue in _missing(namespace, cluster_queues, names, options) for action in _creation(queue)]


def _missing(
    namespace: Object, cluster_queues: Iterable[Object], names: set[str], options: PopulatorOptions
) -> Iterator[Object]:
    """One LocalQueue for each name; of several ClusterQueues with the same name, the first one."""
    for cluster_queue in sorted(cluster_queues, key=objects.name):
        selector = objects.spec(cluster_queue).get("namespaceSelector")
        if objects.is_deleted(cluster_queue) or not _selects(selector, namespace):
            continue
        is_static = options.name_mode == STATIC
        name = options.local_queue_name if is_static else objects.name(cluster_queue)
        if name not in names:
            names.add(name)
            yield {
                "apiVersion": resources.LOCAL_QUEUE.api_version,
                "kind": "LocalQueue",
                "metadata": {"name": name, "namespace": objects.name(namespace)},
                "spec": {"clusterQueue": objects.name(cluster_queue)},
            }


def _creation(queue: Object) -> list[writes.Action]:
    return [writes.Create(resource=resources.LOCAL_QUEUE, object=queue)]


def _selects(selector: Mapping[str, Any] | None, namespace: Object) -> bool:
    requirements = selectors.from_object(selector)
    return requirements is None or selectors.matches(requirements, objects.labels(namespace))
