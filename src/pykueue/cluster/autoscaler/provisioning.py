"""ProvisioningRequests: whether the pods of a request would find room now, or on nodes that pools can start."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from pykueue.api import conditions, objects
from pykueue.api.scheme import Object
from pykueue.cluster.autoscaler import plan
from pykueue.cluster.autoscaler.plan import Starting
from pykueue.cluster.autoscaler.pool import Pool
from pykueue.cluster.scheduler import choice
from pykueue.cluster.scheduler.fleet import Fleet, NodeState, requests

CHECK = "check-capacity.autoscaling.x-k8s.io"
SCALE_UP = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
CLASSES = (CHECK, SCALE_UP)

FindTemplate = Callable[[str], Object | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvisioningVerdict:
    """The condition to set, and nodes to start for it."""

    condition: Object
    nodes: tuple[Starting, ...] = ()


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
    starting: Sequence[Starting],
    now: datetime,
) -> ProvisioningVerdict:
    wanted = _pods(request, find)
    if wanted is None:
        return _failed("PodTemplateNotFound", "a pod template of the request does not exist")
    left = _without_room(wanted, fleet)
    if not left:
        return _provisioned("CapacityIsFound", "Capacity is found in the cluster.")
    if request["spec"]["provisioningClassName"] == CHECK:
        return _failed("CapacityIsNotFound", "Capacity is not found, CA will try to find it later.")
    growth = plan.grow(left, pools, fleet, starting=starting, now=now)
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
    made: list[Object] = []
    for entry in request["spec"].get("podSets") or ():
        template = find(entry["podTemplateRef"]["name"])
        if template is None:
            return None
        for number in range(int(entry.get("count", 1))):
            place = {"name": f"{entry['podTemplateRef']['name']}-{number}", "namespace": objects.namespace(request)}
            metadata = (template.get("template") or {}).get("metadata") or {}
            made.append(
                {
                    "metadata": place
                    | {"uid": f"{objects.uid(request)}/{place['name']}", "labels": metadata.get("labels") or {}},
                    "spec": copy.deepcopy((template.get("template") or {}).get("spec") or {}),
                }
            )
    return made


def _without_room(wanted: Sequence[Object], fleet: Fleet) -> list[Object]:
    """The pods that find no place on the nodes as they are, all placed on a copy of what is taken."""
    trial = Fleet()
    for name, state in fleet.nodes.items():
        trial.nodes[name] = NodeState(state.node, state.capacity, dict(state.taken), dict(state.pods))
    left: list[Object] = []
    for pod in wanted:
        chosen = choice.choose(pod, trial)
        if isinstance(chosen, choice.Unfit):
            left.append(pod)
            continue
        taken = trial.nodes[chosen].taken
        for name, amount in requests(pod["spec"]).items():
            taken[name] = taken.get(name, 0) + amount
    return left
