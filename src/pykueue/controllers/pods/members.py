"""Who counts in a group of pods: per role of its Workload, who stays, who is too many, whom a replacement made needless."""

from dataclasses import dataclass

from pykueue.api.labels import MANAGED
from pykueue.api.scheme import Object
from pykueue.api.times import to_ns
from pykueue.translate.jobs import pods
from pykueue.translate.jobs.pods import Group


@dataclass(frozen=True, slots=True, kw_only=True)
class Members:
    kept: tuple[Object, ...]
    excess: tuple[Object, ...]
    """Could run, but the group is complete without them."""
    replaced: tuple[Object, ...]
    """Cannot run, and others stand in for them."""
    absent: int


def sort_members(group: Group, workload: Object, now_ns: int) -> Members:
    kept: list[Object] = []
    excess: list[Object] = []
    replaced: list[Object] = []
    absent = 0
    for pod_set in workload["spec"]["podSets"]:
        count = int(pod_set.get("count", 1))
        of_role = [pod for pod in group.pods if group.role(pod) == pod_set["name"]]
        active = sorted((pod for pod in of_role if pods.is_runnable_or_succeeded(pod)), key=_keep_first)
        inactive = sorted(
            (pod for pod in of_role if not pods.is_runnable_or_succeeded(pod)),
            key=lambda pod: _replace_last(pod, now_ns),
        )
        absent += _absent(group, count, len(active))
        kept += active[:count]
        excess += active[count:]
        needless = min(len(inactive), len(inactive) + len(active) - count)
        stays = len(inactive) - max(needless, 0)
        kept += inactive[:stays]
        replaced += inactive[stays:]
    return Members(kept=tuple(kept), excess=tuple(excess), replaced=tuple(replaced), absent=absent)


def _absent(group: Group, count: int, active: int) -> int:
    if group.is_fast:
        return 1 if count > 0 and active == 0 else 0
    return max(0, count - active)


def _has_finalizer(pod: Object) -> bool:
    return MANAGED in (pod["metadata"].get("finalizers") or ())


def _created(pod: Object) -> str:
    return str(pod["metadata"].get("creationTimestamp", ""))


def _keep_first(pod: Object) -> tuple[bool, bool, str, str]:
    """With finalizer, not gated, older."""
    return (not _has_finalizer(pod), pods.is_gated(pod), _created(pod), pod["metadata"]["name"])


def _replace_last(pod: Object, now_ns: int) -> tuple[bool, int, str, str]:
    """With finalizer, active last, older."""
    return (not _has_finalizer(pod), -_last_active_ns(pod, now_ns), _created(pod), pod["metadata"]["name"])


def _last_active_ns(pod: Object, now_ns: int) -> int:
    failed = ("ContainersReady", "False", "Failed")
    moments = [now_ns] + [
        to_ns(condition["lastTransitionTime"])
        for condition in (pod.get("status") or {}).get("conditions") or ()
        if (condition["type"], condition["status"], condition.get("reason")) == failed
    ]
    if pods.is_deleted(pod):
        moments.append(to_ns(pod["metadata"]["deletionTimestamp"]))
    return min(moments)
