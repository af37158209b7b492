"""What a node's state means for the workloads whose pods were placed on it. Pure.

A workload loses a node that is gone, and one that is not ready or has taints which its pods do not bear, as soon as none of its
pods goes on there. It is told so in `status.unhealthyNodes`, and the scheduler looks for another node; a workload that loses two is evicted. Pods that
were sent to a lost node and wait for it are failed, so that their owners make new ones.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pykueue.api import conditions, resources
from pykueue.api.json_copy import copied
from pykueue.api.kueue import topology_encoding
from pykueue.api.scheme import Object
from pykueue.api.times import SECOND_NS, from_ns
from pykueue.controllers.topology import decide
from pykueue.controllers.workloads import predicates, transitions
from pykueue.engine import values
from pykueue.engine.flavors import matching
from pykueue.kube.controller.plan import Action, Event, Plan, Write
from pykueue.translate import nodes, pod_set_info, selectors

FAILURE_DELAY_NS = 30 * SECOND_NS

_TERMINATED = "Pod terminated by Kueue NodeController due to node taint"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplacementPolicy:
    """When a node counts as lost, besides being gone."""

    enabled: bool = True
    on_pod_termination: bool = True
    """As soon as no pod goes on there; else when it was not ready for half a minute."""
    on_taints: bool = True
    after_fixed_time: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeContext:
    """A node (None: it is gone), and who was placed on it or has pods that were sent there."""

    name: str
    node: Object | None
    workloads: Sequence[Object]
    pods_of: Mapping[str, Sequence[Object]]
    """By the key of the workload: its pods anywhere."""
    flavors: Mapping[str, Object]
    now_ns: int


def assigned_nodes(workload: Object) -> list[str]:
    """The nodes that a running workload was placed on."""
    if not predicates.is_admitted(workload) or predicates.is_finished(workload) or predicates.is_evicted(workload):
        return []
    assignments = ((workload["status"].get("admission") or {}).get("podSetAssignments")) or ()
    return list(dict.fromkeys(name for assignment in assignments for name in _nodes_of(assignment)))


def plan(case: NodeContext, policy: ReplacementPolicy) -> Plan:
    assigned = [workload for workload in case.workloads if case.name in assigned_nodes(workload)]
    ready = None if case.node is None else _ready_condition(case.node)
    if ready is None:
        return Plan(actions=tuple(action for workload in assigned for action in _lose(case, workload)))
    if ready["status"] != "True":
        since_ns = conditions.since_ns(ready) if ready.get("lastTransitionTime") else 0
        left_ns = since_ns + FAILURE_DELAY_NS - case.now_ns
        if left_ns > 0 and not policy.on_pod_termination:
            return Plan(requeue_after_ns=left_ns)
        if left_ns <= 0 and policy.after_fixed_time:
            return Plan(actions=tuple(action for workload in assigned for action in _lose(case, workload)))
    actions: list[Action] = []
    for workload in case.workloads:
        actions += _review(case, workload, policy, is_ready=ready["status"] == "True")
    return Plan(actions=tuple(actions))


def _review(case: NodeContext, workload: Object, policy: ReplacementPolicy, *, is_ready: bool) -> list[Action]:
    """Of one workload on a node that exists."""
    if predicates.is_finished(workload) or predicates.is_evicted(workload):
        return []
    if case.name not in assigned_nodes(workload):
        return _fail_waiting(case, workload)
    waits = policy.on_pod_termination
    if is_ready:
        if not policy.on_taints or _bears_taints(case, workload, lasting=True):
            return _regain(case, workload)
        waits = waits or _bears_taints(case, workload)
    if waits and _goes_on(case, workload):
        return [*_regain(case, workload), *_fail_waiting(case, workload)]
    lost = _lose(case, workload)
    return lost if _is_eviction(lost) else [*lost, *_fail_waiting(case, workload)]


# What becomes of a workload.


def _lose(case: NodeContext, workload: Object) -> list[Action]:
    known = _unhealthy(workload)
    if case.name in known or predicates.is_evicted(workload):
        return []
    new = copied(workload)
    if not known:
        new["status"]["unhealthyNodes"] = [{"name": case.name}]
        return [Write(resource=resources.WORKLOAD, old=workload, new=new, status=True)]
    message = (
        "Workload eviction triggered due to multiple TAS assigned node failures, including: "
        f"{', '.join((*known, case.name))}"
    )
    transitions.evict(new, reason="NodeFailures", message=message, now_ns=case.now_ns)
    return [
        Write(resource=resources.WORKLOAD, old=workload, new=new, status=True),
        Event(about=workload, reason=transitions.eviction_event_reason("NodeFailures", ""), message=message),
    ]


def _is_eviction(actions: Iterable[Action]) -> bool:
    return any(isinstance(action, Event) for action in actions)


def _regain(case: NodeContext, workload: Object) -> list[Action]:
    if case.name not in _unhealthy(workload):
        return []
    new = copied(workload)
    others = [node for node in new["status"].pop("unhealthyNodes") if node["name"] != case.name]
    if others:
        new["status"]["unhealthyNodes"] = others
    return [Write(resource=resources.WORKLOAD, old=workload, new=new, status=True)]


def _fail_waiting(case: NodeContext, workload: Object) -> list[Action]:
    """Pods that were sent to this node and have not been bound yet."""
    actions: list[Action] = []
    for pod in case.pods_of.get(predicates.key(workload), ()):
        is_pending = (pod.get("status") or {}).get("phase", "Pending") == "Pending"
        if selected_node(pod) != case.name or pod["spec"].get("nodeName") or not is_pending or decide.is_gated(pod):
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
                "lastTransitionTime": from_ns(case.now_ns),
            }
        )
        actions.append(Write(resource=resources.POD, old=pod, new=new, status=True))
        actions.append(Event(about=pod, reason="PodTerminatedByKueue", message=_TERMINATED))
    return actions


# What holds of it.


def selected_node(pod: Object) -> str:
    """Where a placed pod was sent."""
    return str((pod["spec"].get("nodeSelector") or {}).get(topology_encoding.HOSTNAME, ""))


def _nodes_of(assignment: Object) -> list[str]:
    topology = assignment.get("topologyAssignment")
    if not topology or not topology["levels"] or topology["levels"][-1] != topology_encoding.HOSTNAME:
        return []
    return [domain.values[-1] for domain in topology_encoding.decode(topology) if domain.count]


def _unhealthy(workload: Object) -> list[str]:
    return [node["name"] for node in (workload.get("status") or {}).get("unhealthyNodes") or ()]


def _ready_condition(node: Object) -> Object | None:
    return conditions.find(node, "Ready")


def _goes_on(case: NodeContext, workload: Object) -> bool:
    return any(
        pod["spec"].get("nodeName") == case.name
        and not predicates.is_being_deleted(pod)
        and not nodes.is_terminated(pod)
        for pod in case.pods_of.get(predicates.key(workload), ())
    )


def _bears_taints(case: NodeContext, workload: Object, *, lasting: bool = False) -> bool:
    """Whether the pods that were placed there may stay; `lasting`: and not only for a while."""
    assert case.node is not None
    taints = selectors.taints((case.node.get("spec") or {}).get("taints"))
    return not taints or all(
        matching.first_untolerated(taints, _tolerations(case, workload, assignment, lasting=lasting)) is None
        for assignment in workload["status"]["admission"]["podSetAssignments"]
        if case.name in _nodes_of(assignment)
    )


def _tolerations(
    case: NodeContext, workload: Object, assignment: Object, *, lasting: bool
) -> tuple[values.Toleration, ...]:
    pod_set = next(each for each in workload["spec"]["podSets"] if each["name"] == assignment["name"])
    info = pod_set_info.from_pod_set(pod_set).merged(
        pod_set_info.from_assignment(assignment, pod_set, flavors=case.flavors)
    )
    for check in predicates.checks(workload):
        for update in check.get("podSetUpdates") or ():
            if update["name"] == assignment["name"]:
                info = info.merged(pod_set_info.from_update(update))
    return selectors.tolerations(
        each for each in info.tolerations if not lasting or each.get("tolerationSeconds") is None
    )
