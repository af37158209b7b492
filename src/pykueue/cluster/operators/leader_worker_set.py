"""One sync of a LeaderWorkerSet: creates, restarts and replaces groups of leader and workers.

The real operator creates StatefulSets, which create the pods. This one creates the pods itself,
with the same names, labels and variables.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from pykueue.api import conditions as api_conditions
from pykueue.api import objects, reserved_keys, resources
from pykueue.api.scheme import Object
from pykueue.cluster import pod_control, pods, statuses
from pykueue.cluster.apps.deployment import template_hash
from pykueue.kube.controller import writes

_PREFIX = "leaderworkerset.sigs.k8s.io/"
SET_NAME = f"{_PREFIX}name"
GROUP_INDEX = f"{_PREFIX}group-index"
WORKER_INDEX = f"{_PREFIX}worker-index"
LEADER_NAME = f"{_PREFIX}leader-name"
SIZE = f"{_PREFIX}size"
REVISION = f"{_PREFIX}template-revision-hash"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """The existing pods of one group, by their index in the group."""

    index: int
    members: dict[int, Object]
    size: int
    revision: str

    @property
    def is_current(self) -> bool:
        return all(objects.labels(pod).get(REVISION) == self.revision for pod in self.members.values())

    @property
    def is_ready(self) -> bool:
        return len(self.members) == self.size and all(
            pods.is_ready(pod) and not objects.is_deleted(pod) for pod in self.members.values()
        )


def sync(leader_worker_set: Object, owned: Sequence[Object], now: datetime) -> writes.Sync:
    if objects.is_deleted(leader_worker_set):
        return writes.Done()
    groups = _groups(leader_worker_set, owned)
    removed = yield from pod_control.delete(leader_worker_set, _surplus(leader_worker_set, groups))
    created = yield from pod_control.create(leader_worker_set, _missing(leader_worker_set, groups))
    status = _status(leader_worker_set, groups, now)
    refused = yield from statuses.write(resources.LEADER_WORKER_SET, leader_worker_set, status)
    return writes.Done(errors=(*removed.errors, *created.errors, *refused))


def _template(leader_worker_set: Object) -> Object:
    return objects.nested(leader_worker_set, "spec", "leaderWorkerTemplate")


def _size(leader_worker_set: Object) -> int:
    return int(_template(leader_worker_set).get("size") or 1)


def _replicas(leader_worker_set: Object) -> int:
    return min(pod_control.MOST_WAITING, int(leader_worker_set["spec"].get("replicas", 1)))


def _groups(leader_worker_set: Object, owned: Sequence[Object]) -> list[_Group]:
    """The groups of the spec, and surplus groups that still have pods."""
    members: dict[int, dict[int, Object]] = {index: {} for index in range(_replicas(leader_worker_set))}
    for pod in owned:
        labels = objects.labels(pod)
        members.setdefault(int(labels.get(GROUP_INDEX, -1)), {})[int(labels.get(WORKER_INDEX, -1))] = pod
    revision = template_hash(_template(leader_worker_set))
    size = _size(leader_worker_set)
    return [
        _Group(index=index, members=group_members, size=size, revision=revision)
        for index, group_members in members.items()
    ]


def _surplus(leader_worker_set: Object, groups: Sequence[_Group]) -> list[Object]:
    """Pods to delete: surplus ones, those of restarting groups, or else of one outdated group."""
    surplus: list[Object] = []
    for group in groups:
        if group.index not in range(_replicas(leader_worker_set)) or _restarts(leader_worker_set, group):
            surplus += group.members.values()
        else:
            surplus += [
                pod for index, pod in group.members.items() if index not in range(group.size) or pods.is_finished(pod)
            ]
    surplus = [pod for pod in surplus if not objects.is_deleted(pod)]
    return surplus or _outdated(groups)


def _restarts(leader_worker_set: Object, group: _Group) -> bool:
    policy = _template(leader_worker_set).get("restartPolicy", "RecreateGroupOnPodRestart")
    if policy not in ("Default", "RecreateGroupOnPodRestart", "RecreateGroupAfterStart"):
        return False
    return any(pods.is_finished(pod) or pods.restarts(pod) for pod in group.members.values())


def _outdated(groups: Sequence[_Group]) -> list[Object]:
    """The pods of the last group with an older template, once all updated groups are ready."""
    old = [group for group in groups if not group.is_current]
    if not old or not all(group.is_ready for group in groups if group.is_current):
        return []
    last = max(old, key=lambda group: group.index)
    return [pod for pod in last.members.values() if not objects.is_deleted(pod)]


def _missing(leader_worker_set: Object, groups: Sequence[_Group]) -> list[Object]:
    """Pods to create, leaders first: workers that are refused do not hold up other groups.

    A group is created again only when its old pods no longer exist.
    """
    waits_for_leader = leader_worker_set["spec"].get("startupPolicy") == "LeaderReady"
    missing: list[Object] = []
    waiting = sum(pod_control.waiting(group.members.values()) for group in groups)
    for group in groups:
        is_desired = group.index in range(_replicas(leader_worker_set)) and group.is_current
        if not is_desired or any(not pods.is_active(pod) for pod in group.members.values()):
            continue
        leader = group.members.get(0)
        may_start_workers = not waits_for_leader or (leader is not None and pods.is_ready(leader))
        indexes = range(group.size if may_start_workers else 1)
        absent = (index for index in indexes if index not in group.members)
        new = pod_control.batch(absent, waiting + len(missing))
        missing += [_pod(leader_worker_set, group, index) for index in new]
    missing.sort(key=lambda pod: objects.labels(pod)[WORKER_INDEX] != "0")
    return missing[: pod_control.MOST_PER_SYNC]


def _pod(leader_worker_set: Object, group: _Group, index: int) -> Object:
    templates, owner = _template(leader_worker_set), objects.name(leader_worker_set)
    leader = f"{owner}-{group.index}"
    name = leader if index == 0 else f"{leader}-{index}"
    leader_template = templates.get("leaderTemplate") if index == 0 else None
    labels = {
        SET_NAME: owner,
        GROUP_INDEX: str(group.index),
        WORKER_INDEX: str(index),
        REVISION: group.revision,
    }
    template = leader_template or objects.nested(templates, "workerTemplate")
    pod = pods.from_template(template, leader_worker_set, name=name, labels=labels)
    address = f"{leader}.{owner}.{objects.namespace(leader_worker_set)}"
    annotations = {SIZE: str(group.size), reserved_keys.LOCAL_NAMES: address} | ({LEADER_NAME: leader} if index else {})
    pod["metadata"]["annotations"] = objects.annotations(pod) | annotations
    pod["spec"] |= {"hostname": name, "subdomain": owner}
    variables = {
        "LWS_LEADER_ADDRESS": address,
        "LWS_GROUP_SIZE": str(group.size),
        "LWS_WORKER_INDEX": str(index),
    }
    for container in pods.containers(pod["spec"]):
        other_variables = [variable for variable in container.get("env") or () if variable["name"] not in variables]
        container["env"] = [*({"name": key, "value": value} for key, value in variables.items()), *other_variables]
    return pod


def _status(leader_worker_set: Object, groups: Sequence[_Group], now: datetime) -> Object:
    status = copy.deepcopy(objects.status(leader_worker_set))
    replicas = _replicas(leader_worker_set)
    ready = sum(group.is_ready for group in groups)
    is_available = sum(group.is_ready and group.is_current for group in groups) == replicas
    status |= {
        "replicas": sum(bool(group.members) for group in groups),
        "readyReplicas": ready,
        "updatedReplicas": sum(bool(group.members) and group.is_current for group in groups),
        "observedGeneration": leader_worker_set["metadata"].get("generation", 1),
        "hpaPodSelector": f"{SET_NAME}={objects.name(leader_worker_set)},{WORKER_INDEX}=0",
    }
    updates = (
        ("Available", is_available, "AllGroupsReady", "All replicas are ready"),
        ("Progressing", not is_available, "GroupsProgressing", "Replicas are progressing"),
    )
    conditions = status.get("conditions") or []
    for type_, is_true, reason, message in updates:
        condition = {"type": type_, "status": str(is_true), "reason": reason, "message": message}
        conditions = api_conditions.replaced(conditions, condition, now)
    status["conditions"] = conditions
    return status
