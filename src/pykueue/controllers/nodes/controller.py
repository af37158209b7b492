"""The node controller: applies what `decide` plans when a node or one of its pods changes."""

from pykueue.api import objects, resources
from pykueue.api.kueue import topology_encoding
from pykueue.api.labels import WORKLOAD_ANNOTATION
from pykueue.api.scheme import Object
from pykueue.controllers.nodes import decide
from pykueue.controllers.nodes.decide import NodeContext, ReplacementPolicy
from pykueue.controllers.topology.controller import INDEX as BY_WORKLOAD
from pykueue.kube.clock import Clock
from pykueue.kube.controller.cache import ObjectCache, key_of, latest
from pykueue.kube.controller.executor import WriteExecutor
from pykueue.kube.controller.work_queue import WorkQueue
from pykueue.translate import nodes

REPORTER = "tas-resource-flavor-controller"
"""Kueue's name for the controller that reports lost nodes."""
BY_NODE = "assignedNode"
BY_SELECTED_NODE = "selectedNode"
BY_HOSTNAME = "hostname"
BATCH_NS = 100_000_000
"""Changes of the pods of a node within this time are reconciled together."""


class NodeController:
    def __init__(self, cache: ObjectCache, executor: WriteExecutor, clock: Clock, policy: ReplacementPolicy) -> None:
        self._cache = cache
        self._executor = executor
        self._clock = clock
        self._policy = policy
        self.queue: WorkQueue[str] = WorkQueue("node", clock)
        if not policy.enabled:
            return
        cache.add_index(resources.WORKLOAD, BY_NODE, decide.assigned_nodes)
        cache.add_index(resources.POD, BY_SELECTED_NODE, _selected_nodes)
        cache.add_index(resources.NODE, BY_HOSTNAME, _hostnames)
        cache.on_change(resources.NODE, self._node_changed)
        cache.on_change(resources.POD, self._pod_changed)
        cache.on_change(resources.WORKLOAD, self._workload_changed)

    def _node_changed(self, old: Object | None, new: Object | None) -> None:
        node = latest(old, new)
        if old is None or new is None or _health(old) != _health(new):
            self.queue.add(objects.name(node))

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        pod = latest(old, new)
        node_name = pod["spec"].get("nodeName", "")
        is_ending = new is None or objects.is_deleted(pod) or nodes.is_terminated(pod)
        if nodes.is_topology_aware(pod):
            for name in _selected_nodes(pod) if not node_name else [node_name] if is_ending else []:
                self.queue.add_unless_due(name, BATCH_NS)

    def _workload_changed(self, old: Object | None, new: Object | None) -> None:
        """Reconcile the nodes of a new assignment: one may have failed in the meantime.

        An assignment has hostnames. A node with this hostname and another name is not lost.
        """
        if new is None or objects.status(new).get("admission") == objects.status(old or {}).get("admission"):
            return
        for name in decide.assigned_nodes(new):
            node = self._cache.get(resources.NODE, name)
            is_lost = (
                not self._cache.count(resources.NODE, BY_HOSTNAME, name) if node is None else not nodes.is_ready(node)
            )
            if is_lost:
                self.queue.add_unless_due(name, BATCH_NS)

    async def reconcile(self, name: str) -> int:
        assigned = {key_of(workload): workload for workload in self._cache.indexed(resources.WORKLOAD, BY_NODE, name)}
        for pod in self._cache.indexed(resources.POD, BY_SELECTED_NODE, name):
            namespace, owner = objects.namespace(pod), objects.annotations(pod).get(WORKLOAD_ANNOTATION, "")
            workload = self._cache.get(resources.WORKLOAD, owner, namespace)
            if workload is not None:
                assigned[namespace, owner] = workload
        if not assigned:
            return 0
        plan = decide.plan(
            NodeContext(
                name=name,
                node=self._cache.get(resources.NODE, name),
                workloads=[workload for _, workload in sorted(assigned.items())],
                pods_of={
                    "/".join(key): self._cache.indexed(resources.POD, BY_WORKLOAD, "/".join(key)) for key in assigned
                },
                flavors=self._cache.by_name(resources.RESOURCE_FLAVOR),
                now_ns=self._clock.now_ns(),
            ),
            self._policy,
        )
        await self._executor.apply(plan.actions)
        return plan.requeue_after_ns


def _selected_nodes(pod: Object) -> list[str]:
    name = decide.selected_node(pod)
    return [name] if name and nodes.is_topology_aware(pod) else []


def _hostnames(node: Object) -> list[str]:
    name = objects.labels(node).get(topology_encoding.HOSTNAME)
    return [name] if name else []


def _health(node: Object) -> tuple[bool, object]:
    return nodes.is_ready(node), objects.spec(node).get("taints")
