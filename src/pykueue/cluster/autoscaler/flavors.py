"""Whether the pools can make what Kueue's flavors ask for: a flavor whose labels no pool can give waits for ever."""

from collections.abc import Sequence

from pykueue.api.scheme import Object
from pykueue.cluster.autoscaler.pool import Pool
from pykueue.cluster.scheduler.fleet import Fleet


def mismatch(flavor: Object, pools: Sequence[Pool], fleet: Fleet) -> str:
    """What to tell about a flavor that neither a node nor a pool can satisfy; "" if one can."""
    spec = flavor.get("spec") or {}
    wanted = spec.get("nodeLabels") or {}
    if not wanted or not pools:
        return ""
    if any(all(state.labels.get(key) == value for key, value in wanted.items()) for state in fleet.nodes.values()):
        return ""
    if any(pool.could_have(wanted) for pool in pools):
        return ""
    labels = ", ".join(f"{key}={value}" for key, value in sorted(wanted.items()))
    names = ", ".join(sorted(pool.name for pool in pools))
    return (
        f"no node has the labels {labels} and no NodePool ({names}) can create one: "
        "pods of this flavor would stay Pending; let a NodePool's requirements or template labels allow them"
    )
