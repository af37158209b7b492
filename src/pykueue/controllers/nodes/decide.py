"""Decides what the state of a node means for the workloads with pods assigned to it.

Pure functions.

A workload loses a node that is deleted. It also loses a node that is not ready, or has taints that
its pods do not tolerate, once none of its pods runs there. The lost node is recorded in
`status.unhealthyNodes`, and the scheduler looks for a replacement; a workload that loses two nodes
is evicted. Unbound pods that were sent to a lost node are failed, so that their owners replace
them.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from pykueue.api import conditions, objects, resources
from pykueue.api.json_copy import copied
from pykueue.api.kueue import topology_encoding
from pykueue.api.scheme import Object
from pykueue.api.times import SECOND_NS, from_ns
from pykueue.controllers.topology import decide
from pykueue.controllers.workloads import predicates, transitions
from pykueue.engine import values
from pykueue.engine.flavors import matching
from pykueue.kube.controller.writes import Action, Event, Plan, Update
from pykueue.translate import nodes, pod_set_info, selectors

FAILURE_DELAY_NS = 30 * SECOND_NS

_TERMINATED = "Pod terminated by Kueue NodeController due to node taint"


class ReplacementPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """When a workload loses a node that still exists (feature gates)."""

    enabled: bool = True
    on_pod_termination: bool = True
    """Whether the node is lost once no pod runs there, instead of after 30 seconds."""
    on_taints: bool = True
    after_fixed_time: bool = False


class NodeContext(msgspec.Struct, frozen=True, kw_only=True):
    """A node (None if it was deleted), and the workloads that are assigned or have pods to it."""

    name: str
    node: Object | None
    workloads: Sequence[Object]
    pods_of: Mapping[str, Sequence[Object]]
    """All pods of each workload, by the key of the workload."""
    flavors: Mapping[str, Object]
    now_ns: int


def assigned_nodes(workload: Object) -> list[str]:
    """The nodes that an admitted workload is assigned to."""
    if not predicates.is_admitted(workload) or predicates.is_finished(workload) or predicates.is_evicted(workload):
        return []
    assignments = objects.nested_list(workload, "status", "admission", "podSetAssignments")
    return list(dict.fromkeys(name for assignment in assignments for name in _nodes_of(assignment)))


def plan(context: NodeContext, policy: ReplacementPolicy) -> Plan:
    assigned = [workload for workload in context.workloads if context.name in assigned_nodes(workload)]
    ready = None if context.node is None else conditions.find(context.node, "Ready")
    if ready is None:
        return Plan(actions=tuple(action for workload in assigned for action in _mark_unhealthy(context, workload)))
    if ready["status"] != "True":
        since_ns = conditions.since_ns(ready) if ready.get("lastTransitionTime") else 0
        left_ns = since_ns + FAILURE_DELAY_NS - context.now_ns
        if left_ns > 0 and not policy.on_pod_termination:
            return Plan(requeue_after_ns=left_ns)
        if left_ns <= 0 and policy.after_fixed_time:
            return Plan(actions=tuple(action for workload in assigned for action in _mark_unhealthy(context, workload)))
    actions: list[Action] = []
    for workload in context.workloads:
        actions += _sync_workload(context, workload, policy, is_ready=ready["status"] == "True")
    return Plan(actions=tuple(actions))


def _sync_workload(
    context: NodeContext, workload: Object, policy: ReplacementPolicy, *, is_ready: bool
) -> list[Action]:
    """The actions for one workload on an existing node."""
    if predicates.is_finished(workload) or predicates.is_evicted(workload):
        return []
    if context.name not in assigned_nodes(workload):
        return _fail_unbound_pods(context, workload)
    waits = policy.on_pod_termination
    if is_ready:
        if not policy.on_taints or _tolerates_taints(context, workload, indefinitely=True):
            return _mark_healthy(context, workload)
        waits = waits or _tolerates_taints(context, workload)
    if waits and _has_running_pods(context, workload):
        return [*_mark_healthy(context, workload), *_fail_unbound_pods(context, workload)]
    lost = _mark_unhealthy(context, workload)
    return lost if _is_eviction(lost) else [*lost, *_fail_unbound_pods(context, workload)]


# Changes of a workload and its pods.


def _mark_unhealthy(context: NodeContext, workload: Object) -> list[Action]:
    unhealthy = _unhealthy(workload)
    if context.name in unhealthy or predicates.is_evicted(workload):
        return []
    new = copied(workload)
    if not unhealthy:
        new["status"]["unhealthyNodes"] = [{"name": context.name}]
        return [Update(resource=resources.WORKLOAD, old=workload, new=new, status=True)]
    message = (
        "Workload eviction triggered due to multiple TAS assigned node failures, including: "
        f"{', '.join((*unhealthy, context.name))}"
    )
    transitions.evict(new, reason="NodeFailures", message=message, now_ns=context.now_ns)
    return [
        Update(resource=resources.WORKLOAD, old=workload, new=new, status=True),
        Event(about=workload, reason=transitions.eviction_event_reason("NodeFailures", ""), message=message),
    ]


def _is_eviction(actions: Iterable[Action]) -> bool:
    return any(isinstance(action, Event) for action in actions)


def _mark_healthy(context: NodeContext, workload: Object) -> list[Action]:
    if context.name not in _unhealthy(workload):
        return []
    new = copied(workload)
    others = [node for node in new["status"].pop("unhealthyNodes") if node["name"] != context.name]
    if others:
        new["status"]["unhealthyNodes"] = others
    return [Update(resource=resources.WORKLOAD, old=workload, new=new, status=True)]


def _fail_unbound_pods(context: NodeContext, workload: Object) -> list[Action]:
    """Fails the pods that were sent to this node and are not bound yet."""
    actions: list[Action] = []
    for pod in context.pods_of.get(predicates.key(workload), ()):
        is_pending = objects.status(pod).get("phase", "Pending") == "Pending"
        if selected_node(pod) != context.name or pod["spec"].get("nodeName") or not is_pending or decide.is_gated(pod):
            continue
        new = copied(pod)
        status = new.setdefault("status", {})
        status["phase"] = "Failed"
        status.setdefault("conditions", []).append(
            {
                "type": "TerminatedByKueue",
                "status": "True",
                "reason": "UnschedulableOnAssignedNode",
                "message": _TERMINATED,
                "lastTransitionTime": from_ns(context.now_ns),
            }
        )
        actions.append(Update(resource=resources.POD, old=pod, new=new, status=True))
        actions.append(Event(about=pod, reason="PodTerminatedByKueue", message=_TERMINATED))
    return actions


# Predicates.


def selected_node(pod: Object) -> str:
    """The node in the node selector of an ungated pod."""
    return str(objects.nested(pod["spec"], "nodeSelector").get(topology_encoding.HOSTNAME, ""))


def _nodes_of(assignment: Object) -> list[str]:
    topology = assignment.get("topologyAssignment")
    if not topology or not topology["levels"] or topology["levels"][-1] != topology_encoding.HOSTNAME:
        return []
    return [domain.values[-1] for domain in topology_encoding.decode(topology) if domain.count]


def _unhealthy(workload: Object) -> list[str]:
    return [node["name"] for node in objects.nested_list(workload, "status", "unhealthyNodes")]


def _has_running_pods(context: NodeContext, workload: Object) -> bool:
    return any(
        pod["spec"].get("nodeName") == context.name and not objects.is_deleted(pod) and not nodes.is_terminated(pod)
        for pod in context.pods_of.get(predicates.key(workload), ())
    )


def _tolerates_taints(context: NodeContext, workload: Object, *, indefinitely: bool = False) -> bool:
    """Whether the pods tolerate the node's taints, or tolerate them without a time limit."""
    assert context.node is not None
    taints = selectors.taints(objects.nested(context.node, "spec").get("taints"))
    return not taints or all(
        matching.first_untolerated(taints, _tolerations(context, workload, assignment, indefinitely=indefinitely))
        is None
        for assignment in workload["status"]["admission"]["podSetAssignments"]
        if context.name in _nodes_of(assignment)
    )


def _tolerations(
    context: NodeContext, workload: Object, assignment: Object, *, indefinitely: bool
) -> tuple[values.Toleration, ...]:
    pod_set = next(entry for entry in workload["spec"]["podSets"] if entry["name"] == assignment["name"])
    info = pod_set_info.from_pod_set(pod_set).merged(
        pod_set_info.from_assignment(assignment, pod_set, flavors=context.flavors)
    )
    for check in predicates.checks(workload):
        for update in check.get("podSetUpdates") or ():
            if update["name"] == assignment["name"]:
                info = info.merged(pod_set_info.from_update(update))
    return selectors.tolerations(
        toleration for toleration in info.tolerations if not indefinitely or toleration.get("tolerationSeconds") is None
    )
