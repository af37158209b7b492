"""The node controller: looks at a node when it, or a pod placed on it, changes, and lets `node_failures` judge."""

from pykueue.api import objects, resources
from pykueue.api.labels import WORKLOAD_ANNOTATION
from pykueue.api.scheme import Object
from pykueue.controllers.nodes import decide
from pykueue.controllers.nodes.decide import NodeContext, ReplacementPolicy
from pykueue.controllers.topology.controller import INDEX as BY_WORKLOAD
from pykueue.kube.clock import Clock
from pykueue.kube.controller.apply import Applier
from pykueue.kube.controller.cache import ObjectCache, key_of
from pykueue.kube.controller.work_queue import WorkQueue
from pykueue.translate import nodes

REPORTER = "tas-resource-flavor-controller"
"""Kueue's name for who tells of lost nodes."""
BY_NODE = "assignedNode"
SENT_TO = "selectedNode"
BATCH_NS = 100_000_000
"""Pods of a node come and go together."""


class NodeController:
    def __init__(self, mirror: ObjectCache, applier: Applier, clock: Clock, policy: ReplacementPolicy) -> None:
        self._mirror = mirror
        self._applier = applier
        self._clock = clock
        self._policy = policy
        self.queue: WorkQueue[str] = WorkQueue("node", clock)
        if not policy.enabled:
            return
        mirror.add_index(resources.WORKLOAD, BY_NODE, decide.assigned_nodes)
        mirror.add_index(resources.POD, SENT_TO, _sent_to)
        mirror.on_change(resources.NODE, self._node_changed)
        mirror.on_change(resources.POD, self._pod_changed)
        mirror.on_change(resources.WORKLOAD, self._workload_changed)

    def _node_changed(self, old: Object | None, new: Object | None) -> None:
        obj = new or old
        assert obj is not None
        if old is None or new is None or _health(old) != _health(new):
            self.queue.add(obj["metadata"]["name"])

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        pod = new or old
        assert pod is not None
        bound_to = pod["spec"].get("nodeName", "")
        is_going = new is None or objects.is_deleted(pod) or nodes.is_terminated(pod)
        if nodes.is_topology_aware(pod):
            for name in _sent_to(pod) if not bound_to else [bound_to] if is_going else []:
                self.queue.add_unless_due(name, BATCH_NS)

    def _workload_changed(self, old: Object | None, new: Object | None) -> None:
        """It may have been placed on a node just before that failed."""
        if new is None or (new.get("status") or {}).get("admission") == ((old or {}).get("status") or {}).get(
            "admission"
        ):
            return
        for name in decide.assigned_nodes(new):
            node = self._mirror.get(resources.NODE, name)
            if node is None or not nodes.is_ready(node):
                self.queue.add_unless_due(name, BATCH_NS)

    async def reconcile(self, name: str) -> int:
        placed = {key_of(workload): workload for workload in self._mirror.indexed(resources.WORKLOAD, BY_NODE, name)}
        for pod in self._mirror.indexed(resources.POD, SENT_TO, name):
            namespace, owner = pod["metadata"]["namespace"], pod["metadata"]["annotations"].get(WORKLOAD_ANNOTATION, "")
            workload = self._mirror.get(resources.WORKLOAD, owner, namespace)
            if workload is not None:
                placed[namespace, owner] = workload
        if not placed:
            return 0
        plan = decide.plan(
            NodeContext(
                name=name,
                node=self._mirror.get(resources.NODE, name),
                workloads=[workload for _, workload in sorted(placed.items())],
                pods_of={
                    "/".join(key): self._mirror.indexed(resources.POD, BY_WORKLOAD, "/".join(key)) for key in placed
                },
                flavors=self._mirror.by_name(resources.RESOURCE_FLAVOR),
                now_ns=self._clock.now_ns(),
            ),
            self._policy,
        )
        await self._applier.carry_out(plan.actions)
        return plan.requeue_after_ns


def _sent_to(pod: Object) -> list[str]:
    name = decide.selected_node(pod)
    return [name] if name and nodes.is_topology_aware(pod) else []


def _health(node: Object) -> tuple[bool, object]:
    return nodes.is_ready(node), (node.get("spec") or {}).get("taints")
