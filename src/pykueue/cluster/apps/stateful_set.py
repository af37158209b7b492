"""One sync of a StatefulSet: pods with ordinal names, created in order and deleted in reverse."""

from collections.abc import Sequence
from datetime import datetime

from pykueue.api import objects, resources
from pykueue.api.rules.builtin import volumes
from pykueue.api.scheme import Object
from pykueue.cluster import pod_control, pods, statuses
from pykueue.cluster.apps.deployment import template_hash
from pykueue.kube.controller import writes

ORDINAL = "apps.kubernetes.io/pod-index"
POD_NAME = "statefulset.kubernetes.io/pod-name"
REVISION = "controller-revision-hash"


def sync(stateful_set: Object, owned: Sequence[Object], _now: datetime) -> writes.Sync:
    errors: list[Exception] = []
    replicas = int(stateful_set["spec"].get("replicas", 1))
    revision = f"{objects.name(stateful_set)}-{template_hash(stateful_set['spec']['template'])}"
    if not objects.is_deleted(stateful_set):
        create, remove = _change(stateful_set, owned, replicas, revision)
        removed = yield from pod_control.delete(stateful_set, remove)
        created = yield from pod_control.create(stateful_set, create)
        errors = [*removed.errors, *created.errors]
        owned = [*owned, *created.pods]
    refused = yield from statuses.write(resources.STATEFUL_SET, stateful_set, _status(stateful_set, owned, revision))
    return writes.Done(errors=(*errors, *refused))


def _change(
    stateful_set: Object, owned: Sequence[Object], replicas: int, revision: str
) -> tuple[list[Object], list[Object]]:
    """The pods to create and the pods to delete now; with OrderedReady one pod at a time."""
    first = int(objects.nested(stateful_set, "spec", "ordinals").get("start", 0))
    ordinals = range(first, first + replicas)
    names = (f"{objects.name(stateful_set)}-{number}" for number in ordinals)
    present = {objects.name(pod): pod for pod in owned}
    desired = sorted((pod for pod in owned if _ordinal(pod) in ordinals), key=_ordinal)
    surplus = [pod for pod in owned if _ordinal(pod) not in ordinals and not objects.is_deleted(pod)]
    finished = [pod for pod in desired if pods.is_finished(pod) and not objects.is_deleted(pod)]
    stale = _stale(stateful_set, desired, revision)
    surplus.sort(key=_ordinal, reverse=True)
    if stateful_set["spec"].get("podManagementPolicy") == "Parallel":
        missing = (name for name in names if name not in present)
        new = pod_control.batch(missing, pod_control.waiting(owned))
        return [_pod(stateful_set, name, revision) for name in new], [*surplus, *finished, *stale[:1]]
    for name in names:
        if name not in present:
            return [_pod(stateful_set, name, revision)], finished
        if not pods.is_ready(present[name]) or objects.is_deleted(present[name]):
            return [], finished or [pod for pod in stale if objects.name(pod) == name]
    return [], finished or surplus[:1] or stale[:1]


def _stale(stateful_set: Object, owned: Sequence[Object], revision: str) -> list[Object]:
    """Pods of an older template, highest ordinal first; none with updateStrategy OnDelete."""
    strategy = objects.nested(stateful_set, "spec", "updateStrategy")
    if strategy.get("type") == "OnDelete":
        return []
    partition = int(objects.nested(strategy, "rollingUpdate").get("partition", 0))
    stale = [
        pod
        for pod in owned
        if objects.labels(pod).get(REVISION) != revision and _ordinal(pod) >= partition and not objects.is_deleted(pod)
    ]
    return sorted(stale, key=_ordinal, reverse=True)


def _ordinal(pod: Object) -> int:
    tail = objects.name(pod).rpartition("-")[2]
    return int(tail) if tail.isdecimal() else -1


def _pod(stateful_set: Object, name: str, revision: str) -> Object:
    labels = {POD_NAME: name, ORDINAL: name.rpartition("-")[2], REVISION: revision}
    pod = pods.from_template(stateful_set["spec"]["template"], stateful_set, name=name, labels=labels)
    pod["spec"] |= {"hostname": name, "subdomain": stateful_set["spec"].get("serviceName", "")}
    if stateful_set["spec"].get("volumeClaimTemplates"):
        pod["spec"]["volumes"] = volumes.with_claim_templates(stateful_set["spec"], name)
    return pod


def _status(stateful_set: Object, owned: Sequence[Object], revision: str) -> Object:
    active = [pod for pod in owned if pods.is_active(pod)]
    ready = sum(map(pods.is_ready, active))
    current = sum(objects.labels(pod).get(REVISION) == revision for pod in active)
    counts = {
        "readyReplicas": ready,
        "availableReplicas": ready,
        "currentReplicas": current,
        "updatedReplicas": current,
    }
    return {key: value for key, value in counts.items() if value} | {
        "replicas": len(active),
        "availableReplicas": ready,
        "currentRevision": revision,
        "updateRevision": revision,
        "collisionCount": 0,
        "observedGeneration": stateful_set["metadata"].get("generation", 1),
    }
