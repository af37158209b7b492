"""StatefulSets are queued as one group: a Workload for all replicas, and pods that are marked as its members.

The set itself cannot be suspended: its pods are born gated (the API's rules see to that) and `pod_controller` releases
them. Scaled to zero, the Workload is put on hold and its quota goes back.
"""

from pykueue.api import resources
from pykueue.api.json_copy import copied
from pykueue.api.labels import (
    IS_GROUP_WORKLOAD,
    JOB_OWNER_GVK,
    JOB_OWNER_NAME,
    MANAGED,
    POD_GROUP_FAST_ADMISSION,
    POD_GROUP_NAME,
    POD_GROUP_SERVING,
    POD_GROUP_TOTAL_COUNT,
    POD_SUSPENDING_PARENT,
    PREBUILT_WORKLOAD_NAME,
    PRIORITY_CLASS,
    QUEUE_NAME,
    ROLE_HASH,
)
from pykueue.api.scheme import Object
from pykueue.controllers.jobs import construction, matching, naming, priority
from pykueue.controllers.jobs.policy import JobPolicy
from pykueue.controllers.jobs.priority import MissingPriorityClassError, PriorityClasses
from pykueue.controllers.workloads import predicates, transitions
from pykueue.kube.clock import Clock
from pykueue.kube.controller.apply import Applier
from pykueue.kube.controller.cache import Key, ObjectCache, key_of
from pykueue.kube.controller.plan import Action, Create, Event, Write, changes
from pykueue.kube.controller.work_queue import LONGEST_PAUSE_NS, WorkQueue
from pykueue.translate.jobs import framework, pods, topology_request

PARENT = "statefulset"
POD_INDEX_LABEL = "apps.kubernetes.io/pod-index"


def workload_name(stateful_set: Object) -> str:
    metadata = stateful_set["metadata"]
    return naming.workload_name(resources.STATEFUL_SET, metadata["name"], metadata["uid"])


def replicas(stateful_set: Object) -> int:
    count = stateful_set["spec"].get("replicas")
    return 1 if count is None else int(count)


def workload_of(stateful_set: Object, classes: PriorityClasses, policy: JobPolicy) -> Object:
    template = stateful_set["spec"]["template"]
    pod_set: Object = {
        "name": "main",
        "count": replicas(stateful_set),
        "template": {"spec": copied(template["spec"])},
    }
    request = topology_request.from_annotations(
        (template.get("metadata") or {}).get("annotations") or {}, pod_index_label=POD_INDEX_LABEL
    )
    if policy.options.topology_aware and request is not None:
        pod_set["topologyRequest"] = request
    chosen = priority.of_job(pods.FRAMEWORK, stateful_set, [pod_set], classes)
    workload = construction.workload_of(pods.FRAMEWORK, stateful_set, [pod_set], priority=chosen)
    metadata = workload["metadata"]
    metadata["name"] = workload_name(stateful_set)
    metadata["ownerReferences"] = [_reference(stateful_set)]
    metadata["annotations"] = {
        **metadata.get("annotations", {}),
        IS_GROUP_WORKLOAD: "true",
        JOB_OWNER_GVK: "apps/v1, Kind=StatefulSet",
        JOB_OWNER_NAME: stateful_set["metadata"]["name"],
    }
    return workload


def _reference(stateful_set: Object) -> Object:
    metadata = stateful_set["metadata"]
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": metadata["name"], "uid": metadata["uid"]}


def kept_in_step(stateful_set: Object, old: Object, now_ns: int) -> list[Action]:
    """Queue name, owner and hold of an existing Workload."""
    new = copied(old)
    count = replicas(stateful_set)
    owners = new["metadata"].get("ownerReferences") or []
    if count and all(owner["uid"] != stateful_set["metadata"]["uid"] for owner in owners):
        new["metadata"]["ownerReferences"] = [*owners, _reference(stateful_set)]
    if count and new["spec"].get("queueName", "") != framework.queue_name(stateful_set):
        new["spec"]["queueName"] = framework.queue_name(stateful_set)
    if not count and predicates.holds_quota(old):
        message = "StatefulSet scaled to zero; workload on hold"
        transitions.release_quota(new, reason="OnHold", message=message, now_ns=now_ns)
    elif count and predicates.is_on_hold(old):
        message = "Workload no longer on hold; waiting for quota reservation"
        transitions.release_quota(new, reason="Pending", message=message, now_ns=now_ns)
    return changes(resources.WORKLOAD, old, new)


def marked(pod: Object, stateful_set: Object) -> Object:
    """The pod as a member of the set's group."""
    new: Object = copied(pod)
    labels = new["metadata"].setdefault("labels", {})
    annotations = new["metadata"].setdefault("annotations", {})
    name = workload_name(stateful_set)
    labels[MANAGED] = "true"
    for label in (QUEUE_NAME, PRIORITY_CLASS):
        if value := framework.label(stateful_set, label):
            labels[label] = value
    labels[POD_GROUP_NAME] = name
    labels[PREBUILT_WORKLOAD_NAME] = name
    annotations.update(
        {
            POD_GROUP_TOTAL_COUNT: str(replicas(stateful_set)),
            POD_GROUP_FAST_ADMISSION: "true",
            POD_GROUP_SERVING: "true",
            "kueue.x-k8s.io/pod-group-pod-index-label": POD_INDEX_LABEL,
            ROLE_HASH: "main",
        }
    )
    return new


class StatefulSetController:
    def __init__(self, mirror: ObjectCache, applier: Applier, *, clock: Clock, policy: JobPolicy) -> None:
        self._mirror = mirror
        self._applier = applier
        self._clock = clock
        self._policy = policy
        self.queue: WorkQueue[Key] = WorkQueue("statefulset", clock)
        mirror.add_index(resources.POD, "statefulSet", _parent_of)
        mirror.on_change(resources.STATEFUL_SET, self._changed)
        mirror.on_change(resources.POD, self._pod_changed)
        mirror.on_change(resources.WORKLOAD, self._workload_changed)

    def _changed(self, old: Object | None, new: Object | None) -> None:
        obj = new or old
        assert obj is not None
        self.queue.add(key_of(obj))

    def _pod_changed(self, _old: Object | None, new: Object | None) -> None:
        for name in _parent_of(new) if new is not None else ():
            namespace, _, parent = name.partition("/")
            self.queue.add((namespace, parent))

    def _workload_changed(self, old: Object | None, new: Object | None) -> None:
        workload = new or old
        assert workload is not None
        for owner in workload["metadata"].get("ownerReferences") or ():
            if owner["kind"] == "StatefulSet":
                self.queue.add((workload["metadata"]["namespace"], owner["name"]))

    async def reconcile(self, key: Key) -> int:
        namespace, name = key
        stateful_set = self._mirror.get(resources.STATEFUL_SET, name, namespace)
        members = self._mirror.indexed(resources.POD, "statefulSet", f"{namespace}/{name}")
        if stateful_set is None or predicates.is_being_deleted(stateful_set) or not self._is_managed(stateful_set):
            return 0
        try:
            actions = self._about_workload(stateful_set)
        except MissingPriorityClassError:
            return LONGEST_PAUSE_NS
        for pod in members:
            wanted = marked(pod, stateful_set)
            if not pods.is_deleted(pod) and not pods.is_terminated(pod) and not matching.prebuilt_name(pod):
                actions.append(Write(resource=resources.POD, old=pod, new=wanted))
        await self._applier.carry_out(actions)
        return 0

    def _is_managed(self, stateful_set: Object) -> bool:
        space = self._mirror.get(resources.NAMESPACE, stateful_set["metadata"]["namespace"])
        if space is None or not self._policy.manages(space["metadata"].get("labels") or {}):
            return False
        template = stateful_set["spec"]["template"].get("metadata") or {}
        if (template.get("annotations") or {}).get(POD_SUSPENDING_PARENT, PARENT) != PARENT:
            return False
        return bool(framework.queue_name(stateful_set)) or self._policy.manage_jobs_without_queue_name

    def _about_workload(self, stateful_set: Object) -> list[Action]:
        namespace = stateful_set["metadata"]["namespace"]
        old = self._mirror.get(resources.WORKLOAD, workload_name(stateful_set), namespace)
        if old is not None:
            return kept_in_step(stateful_set, old, self._clock.now_ns())
        if not replicas(stateful_set):
            return []
        classes = PriorityClasses(
            workload=self._mirror.by_name(resources.WORKLOAD_PRIORITY_CLASS),
            pod=self._mirror.by_name(resources.PRIORITY_CLASS),
        )
        workload = workload_of(stateful_set, classes, self._policy)
        message = f"Created Workload: {predicates.key(workload)}"
        return [
            Create(resource=resources.WORKLOAD, object=workload),
            Event(about=stateful_set, reason="CreatedWorkload", message=message),
        ]


def _parent_of(pod: Object) -> list[str]:
    owner = predicates.controller_of(pod)
    if owner is None or owner["kind"] != "StatefulSet":
        return []
    if (pod["metadata"].get("annotations") or {}).get(POD_SUSPENDING_PARENT) != PARENT:
        return []
    return [f"{pod['metadata']['namespace']}/{owner['name']}"]
