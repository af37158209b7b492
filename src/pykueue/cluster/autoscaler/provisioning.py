"""ProvisioningRequests: whether their pods fit on the nodes, or on nodes that pools can start."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from pykueue.api import conditions, objects
from pykueue.api.scheme import Object
from pykueue.cluster.autoscaler import plan
from pykueue.cluster.autoscaler.plan import StartingNode
from pykueue.cluster.autoscaler.pool import Pool
from pykueue.cluster.scheduler import node_selection
from pykueue.cluster.scheduler.fleet import Fleet, NodeState, add, requests

CHECK = "check-capacity.autoscaling.x-k8s.io"
SCALE_UP = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
CLASSES = (CHECK, SCALE_UP)

FindTemplate = Callable[[str], Object | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvisioningVerdict:
    """The condition to set on the request, and the nodes to start for it."""

    condition: Object
    nodes: tuple[StartingNode, ...] = ()


def is_open(request: Object) -> bool:
    return request["spec"].get("provisioningClassName") in CLASSES and not (
        conditions.is_true(request, "Provisioned") or conditions.is_true(request, "Failed")
    )


def answer(
    request: Object,
    find: FindTemplate,
    fleet: Fleet,
    *,
    pools: Sequence[Pool],
    starting: Sequence[StartingNode],
    now: datetime,
) -> ProvisioningVerdict:
    pods = _pods(request, find)
    if pods is None:
        return _failed("PodTemplateNotFound", "a pod template of the request does not exist")
    unschedulable = _unschedulable_pods(pods, fleet)
    if not unschedulable:
        return _provisioned("CapacityIsFound", "Capacity is found in the cluster.")
    if request["spec"]["provisioningClassName"] == CHECK:
        return _failed("CapacityIsNotFound", "Capacity is not found, CA will try to find it later.")
    growth = plan.grow(unschedulable, pools, fleet, starting=starting, now=now)
    if growth.refused:
        return _failed("CapacityIsNotFound", next(iter(growth.refused.values())))
    return ProvisioningVerdict(
        condition=_provisioned("CapacityIsFound", "Nodes are being started.").condition, nodes=growth.nodes
    )


def _provisioned(reason: str, message: str) -> ProvisioningVerdict:
    return ProvisioningVerdict(
        condition={"type": "Provisioned", "status": "True", "reason": reason, "message": message}
    )


def _failed(reason: str, message: str) -> ProvisioningVerdict:
    return ProvisioningVerdict(condition={"type": "Failed", "status": "True", "reason": reason, "message": message})


def _pods(request: Object, find: FindTemplate) -> list[Object] | None:
    pods: list[Object] = []
    for entry in request["spec"].get("podSets") or ():
        template = find(entry["podTemplateRef"]["name"])
        if template is None:
            return None
        for number in range(int(entry.get("count", 1))):
            metadata = {"name": f"{entry['podTemplateRef']['name']}-{number}", "namespace": objects.namespace(request)}
            labels = objects.nested(template, "template", "metadata", "labels")
            pods.append(
                {
                    "metadata": metadata
                    | {
                        "uid": f"{objects.uid(request)}/{metadata['name']}",
                        "labels": labels,
                    },
                    "spec": copy.deepcopy(objects.nested(template, "template", "spec")),
                }
            )
    return pods


def _unschedulable_pods(pods: Sequence[Object], fleet: Fleet) -> list[Object]:
    """The pods that do not fit on a copy of the fleet, which counts those that do."""
    trial = Fleet()
    for name, state in fleet.nodes.items():
        trial.nodes[name] = NodeState(state.node, state.capacity, dict(state.requested), dict(state.pods))
    unschedulable: list[Object] = []
    for pod in pods:
        chosen = node_selection.choose(pod, trial)
        if isinstance(chosen, node_selection.Unschedulable):
            unschedulable.append(pod)
            continue
        add(trial.nodes[chosen].requested, requests(pod["spec"]), 1)
    return unschedulable
