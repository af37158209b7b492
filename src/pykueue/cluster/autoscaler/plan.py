"""Scale-up and scale-down, without I/O: the nodes to start and the idle nodes to remove."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from pykueue.api import generated_names, objects
from pykueue.api.scheme import Object
from pykueue.cluster import nodes as machines
from pykueue.cluster.autoscaler.pool import POOL, Pool
from pykueue.cluster.scheduler import node_selection
from pykueue.cluster.scheduler.fleet import Amounts, Fleet, NodeState, add, capacity, requests


@dataclass(slots=True, kw_only=True)
class StartingNode:
    """A node that is being started, and the uids of the pods that it is started for."""

    node: Object
    pool: str
    ready_at: datetime
    state: NodeState
    pods: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """Nodes to start; by pod uid, the pool that grows for it or why none does."""

    nodes: tuple[StartingNode, ...]
    grown_for: dict[str, str]
    refused: dict[str, str]


def grow(
    waiting: Sequence[Object], pools: Iterable[Pool], fleet: Fleet, *, starting: Sequence[StartingNode], now: datetime
) -> Growth:
    """Assign each pod to a starting node, or else to a new node of the heaviest pool that fits."""
    ordered = sorted(pools, key=lambda pool: (-pool.weight, pool.name))
    nodes: list[StartingNode] = []
    grown_for: dict[str, str] = {}
    refused: dict[str, str] = {}
    for pod in waiting:
        pod_requests = requests(pod["spec"])
        if _assign(pod, pod_requests, [*starting, *nodes]):
            continue
        node, reasons = _new_node(pod, pod_requests, ordered, fleet=fleet, starting=[*starting, *nodes], now=now)
        if node is None:
            refused[objects.uid(pod)] = reasons
        else:
            nodes.append(node)
            grown_for[objects.uid(pod)] = node.pool
    return Growth(nodes=tuple(nodes), grown_for=grown_for, refused=refused)


def _assign(pod: Object, pod_requests: Amounts, starting: Sequence[StartingNode]) -> bool:
    for candidate in starting:
        if objects.uid(pod) in candidate.pods:
            return True
    for candidate in starting:
        if _fits(pod, pod_requests, candidate.state):
            _reserve(pod, pod_requests, candidate)
            return True
    return False


def _fits(pod: Object, pod_requests: Amounts, state: NodeState) -> bool:
    return node_selection.node_fault(pod["spec"], state) is None and not state.insufficient(pod_requests)


def _reserve(pod: Object, pod_requests: Amounts, candidate: StartingNode) -> None:
    candidate.pods.append(objects.uid(pod))
    add(candidate.state.requested, pod_requests, 1)


def _new_node(
    pod: Object,
    pod_requests: Amounts,
    pools: Sequence[Pool],
    *,
    fleet: Fleet,
    starting: Sequence[StartingNode],
    now: datetime,
) -> tuple[StartingNode | None, str]:
    """The smallest node of the first pool that fits the pod, or the reasons of all pools."""
    reasons: list[str] = []
    for pool in pools:
        node, reason = _node_of_pool(pool, pod, pod_requests, now)
        if node is not None and (limit_fault := _limit_fault(pool, node, fleet, starting)):
            node, reason = None, limit_fault
        if node is not None:
            _reserve(pod, pod_requests, node)
            return node, ""
        reasons.append(f"{pool.name}: {reason}")
    return None, "; ".join(reasons) or "there is no node pool"


def _node_of_pool(pool: Pool, pod: Object, pod_requests: Amounts, now: datetime) -> tuple[StartingNode | None, str]:
    reason = "no instance type is allowed by its requirements"
    for machine_type in pool.machine_types():
        node = new_node(pool, machine_type.name, now)
        state = NodeState(node, capacity(node))
        if (fault := node_selection.node_fault(pod["spec"], state)) is not None:
            reason = fault.replace("node(s)", "its nodes")
        elif insufficient := state.insufficient(pod_requests):
            reason = f"no instance type has enough {', '.join(insufficient)}"
        else:
            return StartingNode(node=node, pool=pool.name, ready_at=now + pool.start_delay, state=state), ""
    return None, reason


def new_node(pool: Pool, type_name: str, now: datetime) -> Object:
    machine_type = next(candidate for candidate in pool.machine_types() if candidate.name == type_name)
    node = machines.node(
        f"{pool.name}-{generated_names.random_suffix()}", machine_type.resources, now, pool.labels(machine_type)
    )
    return node | {"spec": {"taints": pool.taints} if pool.taints else {}}


def members(pool: Pool, fleet: Fleet) -> list[NodeState]:
    return [state for state in fleet.nodes.values() if state.labels.get(POOL) == pool.name]


def _limit_fault(pool: Pool, new: StartingNode, fleet: Fleet, starting: Sequence[StartingNode]) -> str:
    """Why one more node would exceed the pool's node count or limits; "" if it would not."""
    capacities = [state.capacity for state in members(pool, fleet)]
    capacities += [node.state.capacity for node in starting if node.pool == pool.name]
    if pool.max_nodes is not None and len(capacities) >= pool.max_nodes:
        return f"max node group size reached ({pool.max_nodes})"
    for name, limit in pool.limits.items():
        total = sum(amounts.get(name, 0) for amounts in (*capacities, new.state.capacity))
        if total > limit:
            return f"limit of {name} reached"
    return ""


def fill(pool: Pool, fleet: Fleet, starting: Sequence[StartingNode], now: datetime) -> list[StartingNode]:
    """Nodes to start so that the pool has its minimum, of its smallest machine type."""
    present = len(members(pool, fleet)) + sum(node.pool == pool.name for node in starting)
    types = pool.machine_types()
    if not types:
        return []
    nodes = [new_node(pool, types[0].name, now) for _ in range(max(0, pool.min_nodes - present))]
    return [
        StartingNode(node=node, pool=pool.name, ready_at=now + pool.start_delay, state=NodeState(node, capacity(node)))
        for node in nodes
    ]


def idle_nodes(pool: Pool, fleet: Fleet, idle_since: dict[str, datetime], now: datetime) -> list[Object]:
    """Nodes that were empty for longer than the pool allows; the pool keeps its minimum."""
    idle_time = pool.idle_time
    present = members(pool, fleet)
    if idle_time is None:
        return []
    expired = [state for state in present if not state.pods and now - idle_since.get(state.name, now) >= idle_time]
    expired.sort(key=lambda state: (idle_since[state.name], state.name))
    return [state.node for state in expired[: max(0, len(present) - pool.min_nodes)]]
