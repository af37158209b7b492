"""Growing and shrinking: which nodes to start for pods without a place, and which idle ones to remove. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from pykueue.api import objects
from pykueue.api.scheme import Object
from pykueue.cluster import generated_names
from pykueue.cluster import nodes as machines
from pykueue.cluster.autoscaler.pool import POOL, Pool
from pykueue.cluster.scheduler import choice
from pykueue.cluster.scheduler.fleet import Amounts, Fleet, NodeState, capacity, requests


@dataclass(slots=True, kw_only=True)
class Starting:
    """A node on its way, and what is meant for it."""

    node: Object
    pool: str
    ready_at: datetime
    state: NodeState
    pods: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """Nodes to start, and by pod uid the pool that grows for it or, if none does, why."""

    nodes: tuple[Starting, ...]
    grown_for: dict[str, str]
    refused: dict[str, str]


def grow(
    waiting: Sequence[Object], pools: Iterable[Pool], fleet: Fleet, *, starting: Sequence[Starting], now: datetime
) -> Growth:
    """First onto what is already on its way, then onto new nodes of the heaviest pool that can hold the pod."""
    ordered = sorted(pools, key=lambda pool: (-pool.weight, pool.name))
    nodes: list[Starting] = []
    grown_for: dict[str, str] = {}
    refused: dict[str, str] = {}
    for pod in waiting:
        wanted = requests(pod["spec"])
        if _put(pod, wanted, [*starting, *nodes]):
            continue
        made, why = _new_node(pod, wanted, ordered, fleet=fleet, starting=[*starting, *nodes], now=now)
        if made is None:
            refused[objects.uid(pod)] = why
        else:
            nodes.append(made)
            grown_for[objects.uid(pod)] = made.pool
    return Growth(nodes=tuple(nodes), grown_for=grown_for, refused=refused)


def _put(pod: Object, wanted: Amounts, some: Sequence[Starting]) -> bool:
    for candidate in some:
        if objects.uid(pod) in candidate.pods:
            return True
    for candidate in some:
        if _fits(pod, wanted, candidate.state):
            _book(pod, wanted, candidate)
            return True
    return False


def _fits(pod: Object, wanted: Amounts, state: NodeState) -> bool:
    return choice.static_fault(pod["spec"], state) is None and not state.short_of(wanted)


def _book(pod: Object, wanted: Amounts, candidate: Starting) -> None:
    candidate.pods.append(objects.uid(pod))
    for name, amount in wanted.items():
        candidate.state.taken[name] = candidate.state.taken.get(name, 0) + amount


def _new_node(
    pod: Object, wanted: Amounts, pools: Sequence[Pool], *, fleet: Fleet, starting: Sequence[Starting], now: datetime
) -> tuple[Starting | None, str]:
    """The smallest node of the first pool that takes the pod, or what each pool says against it."""
    against: list[str] = []
    for pool in pools:
        made, why = _of_pool(pool, pod, wanted, now)
        if made is not None and (full := _fault_of_bounds(pool, made, fleet, starting)):
            made, why = None, full
        if made is not None:
            _book(pod, wanted, made)
            return made, ""
        against.append(f"{pool.name}: {why}")
    return None, "; ".join(against) or "there is no node pool"


def _of_pool(pool: Pool, pod: Object, wanted: Amounts, now: datetime) -> tuple[Starting | None, str]:
    why = "no instance type is allowed by its requirements"
    for shape in pool.shapes():
        node = new_node(pool, shape.name, now)
        state = NodeState(node, capacity(node))
        if (fault := choice.static_fault(pod["spec"], state)) is not None:
            why = fault.replace("node(s)", "its nodes")
        elif short := state.short_of(wanted):
            why = f"no instance type has enough {', '.join(short)}"
        else:
            return Starting(node=node, pool=pool.name, ready_at=now + pool.start_delay, state=state), ""
    return None, why


def new_node(pool: Pool, shape_name: str, now: datetime) -> Object:
    shape = next(found for found in pool.shapes() if found.name == shape_name)
    node = machines.node(f"{pool.name}-{generated_names.random_suffix()}", shape.resources, now, pool.labels(shape))
    return node | {"spec": {"taints": pool.taints} if pool.taints else {}}


def members(pool: Pool, fleet: Fleet) -> list[NodeState]:
    return [state for state in fleet.nodes.values() if state.labels.get(POOL) == pool.name]


def _fault_of_bounds(pool: Pool, made: Starting, fleet: Fleet, starting: Sequence[Starting]) -> str:
    """Whether one more node would exceed the pool's count or limits; "" if not."""
    present = [state.capacity for state in members(pool, fleet)]
    present += [found.state.capacity for found in starting if found.pool == pool.name]
    if pool.max_nodes is not None and len(present) >= pool.max_nodes:
        return f"max node group size reached ({pool.max_nodes})"
    for name, limit in pool.limits.items():
        total = sum(amounts.get(name, 0) for amounts in (*present, made.state.capacity))
        if total > limit:
            return f"limit of {name} reached"
    return ""


def fill(pool: Pool, fleet: Fleet, starting: Sequence[Starting], now: datetime) -> list[Starting]:
    """Nodes to bring a pool to its minimum, of its smallest type."""
    present = len(members(pool, fleet)) + sum(found.pool == pool.name for found in starting)
    kinds_of_machine = pool.shapes()
    if not kinds_of_machine:
        return []
    made = [new_node(pool, kinds_of_machine[0].name, now) for _ in range(max(0, pool.min_nodes - present))]
    return [
        Starting(node=node, pool=pool.name, ready_at=now + pool.start_delay, state=NodeState(node, capacity(node)))
        for node in made
    ]


def idle(pool: Pool, fleet: Fleet, idle_since: dict[str, datetime], now: datetime) -> list[Object]:
    """Empty nodes whose time is over, as long as the minimum stays."""
    limit = pool.idle_time
    present = members(pool, fleet)
    if limit is None:
        return []
    over = [state for state in present if not state.pods and now - idle_since.get(state.name, now) >= limit]
    over.sort(key=lambda state: (idle_since[state.name], state.name))
    return [state.node for state in over[: max(0, len(present) - pool.min_nodes)]]
