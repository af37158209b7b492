"""Orchestrated preemption: one worker at a time may preempt for a Workload. Pure functions.

Every copy is created with a closed preemption gate, and the manager opens one after another. Used
by `decide` if the gate MultiKueueOrchestratedPreemption is on.
"""

from pykueue.api import conditions, objects, resources
from pykueue.api.json_copy import copied
from pykueue.api.labels import MULTI_KUEUE_PREEMPTION_GATE
from pykueue.api.scheme import Object
from pykueue.api.times import SECOND_NS, to_ns
from pykueue.controllers.multikueue.context import GroupContext
from pykueue.controllers.workloads import transitions
from pykueue.kube.controller.writes import Action, Update

SINGLE_PREEMPTION_NS = 300 * SECOND_NS
"""So long one worker may preempt before another one may, too."""


def opening(context: GroupContext) -> tuple[list[tuple[str, Action]], int]:
    """Lets the copy preempt that has waited longest for it, one worker every five minutes."""
    opened_ns: list[int] = []
    waiting: list[tuple[int, str]] = []
    for cluster, remote in context.copies().items():
        gate = _gate(remote)
        if gate is not None and gate["position"] == "Open":
            opened_ns.append(to_ns(gate["lastTransitionTime"]))
            continue
        blocked = conditions.find(remote, "BlockedOnPreemptionGates")
        if blocked is not None and conditions.has_status_true(blocked):
            waiting.append((conditions.since_ns(blocked), cluster))
    if not waiting:
        return [], 0
    left_ns = max(opened_ns) + SINGLE_PREEMPTION_NS - context.now_ns if opened_ns else 0
    if left_ns > 0:
        return [], left_ns
    cluster = min(waiting)[1]
    return [(cluster, _opened(context, cluster))], SINGLE_PREEMPTION_NS


def _gate(workload: Object) -> Object | None:
    gates: list[Object] = objects.nested_list(workload, "status", "preemptionGates")
    return next((gate for gate in gates if gate["name"] == MULTI_KUEUE_PREEMPTION_GATE), None)


def _opened(context: GroupContext, cluster: str) -> Update:
    remote = context.remotes[cluster].workload
    assert remote is not None
    new = copied(remote)
    transitions.open_preemption_gate(new, MULTI_KUEUE_PREEMPTION_GATE, context.now_ns)
    return Update(resource=resources.WORKLOAD, old=remote, new=new, status=True)
