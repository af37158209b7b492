"""Reads the objects that belong to one job, for an explanation of the job.

Called by the visibility API, with the rights of the controllers, and by `pykueue explain` where no
server answers, with the rights of the user.
"""

import asyncio
import difflib
from collections.abc import Iterable

import msgspec
from msgspec import structs

from pykueue.api import conditions, objects, resources
from pykueue.api.errors import ApiError
from pykueue.api.labels import POD_GROUP_NAME
from pykueue.api.rules.jobs.job_kinds import JOB_KINDS
from pykueue.api.scheme import Object, Resource
from pykueue.controllers.dependencies import decide as dependencies
from pykueue.engine import values
from pykueue.engine.explain.explanation import Explanation
from pykueue.engine.view import EngineView
from pykueue.kube.client import Client, ListOptions
from pykueue.translate import explanations, job_explanations, node_capacity, variants, workload
from pykueue.translate.job_explanations import JobFacts
from pykueue.translate.jobs import pod_selectors

_WORKLOAD_WORDS = frozenset({"workload", "workloads", "wl", "kwl"})
_UNREADABLE = (403, 404, 405)
_NAMED_KINDS = (
    resources.LOCAL_QUEUE,
    resources.CLUSTER_QUEUE,
    resources.RESOURCE_FLAVOR,
    resources.ADMISSION_CHECK,
    resources.TOPOLOGY,
    resources.WORKLOAD_PRIORITY_CLASS,
    resources.PRIORITY_CLASS,
)


class JobReference(msgspec.Struct, frozen=True, kw_only=True):
    """The name of a Workload or of a job; an empty kind means both."""

    namespace: str
    name: str
    kind: str = ""

    def names_workload(self, obj: Object) -> bool:
        return self.kind in ("", *_WORKLOAD_WORDS) and objects.name(obj) == self.name

    def names_owner(self, obj: Object) -> bool:
        return self.kind not in _WORKLOAD_WORDS and any(
            owner["name"] == self.name and self._is_kind(owner["kind"]) for owner in objects.owner_references(obj)
        )

    def job_resources(self) -> list[Resource]:
        if self.kind in _WORKLOAD_WORDS:
            return []
        return [job_kind.resource for job_kind in JOB_KINDS.values() if self._is_kind(job_kind.resource.kind)]

    def may_name_pods(self) -> bool:
        return self._is_kind("Pod")

    def _is_kind(self, kind: str) -> bool:
        return self.kind in ("", kind.lower(), f"{kind.lower()}s")

    def similar_names(self, workloads: Iterable[Object]) -> list[str]:
        """Names of workloads, or of their jobs, that may have been meant.

        A job of another kind that has the very name is given with its kind.
        """
        owners = [owner for obj in workloads for owner in objects.owner_references(obj)]
        if others := {f"{owner['kind'].lower()} {self.name}" for owner in owners if owner["name"] == self.name}:
            return sorted(others)
        names = [objects.name(obj) for obj in workloads if self.kind in ("", *_WORKLOAD_WORDS)]
        if self.kind not in _WORKLOAD_WORDS:
            names += [str(owner["name"]) for owner in owners if self._is_kind(owner["kind"])]
        return difflib.get_close_matches(self.name, dict.fromkeys(names))

    def not_found(self, similar: Iterable[str]) -> ApiError:
        what = "workload" if self.kind in _WORKLOAD_WORDS else f"workload of {self.kind or 'job'}"
        message = f'{what} "{self.name}" not found in namespace {self.namespace}'
        if names := " or ".join(map(repr, similar)):
            message += f". Did you mean {names}?"
        return ApiError(404, "NotFound", message, {"kind": "explanations", "name": self.name})


async def read(
    client: Client, view: EngineView, job: JobReference, *, now_ns: int, may_see_all: bool = True
) -> JobFacts:
    """The facts of a job or Workload.

    Names of workloads of other namespaces are left out unless `may_see_all`.
    """
    workload_object = await _find_workload(client, job)
    owner = await _find_job(client, job, workload_object)
    if workload_object is None and owner is None:
        workloads = await _list(client, resources.WORKLOAD, job.namespace) or ()
        raise job.not_found(await asyncio.to_thread(job.similar_names, workloads))
    if workload_object is None and owner is not None and owner["kind"] == "Deployment":
        workload_object = await _workload_of_pods(client, owner)
    pods, nodes, warnings = await asyncio.gather(
        _pods(client, owner, job.namespace),
        _nodes(client),
        _warnings(client, job.namespace, [obj for obj in (owner, workload_object) if obj is not None]),
    )
    named = await asyncio.gather(
        *(_list(client, kind, job.namespace if kind.namespaced else "") for kind in _NAMED_KINDS)
    )
    existing = {
        kind.kind: tuple(sorted(map(objects.name, items)))
        for kind, items in zip(_NAMED_KINDS, named, strict=True)
        if items is not None
    }
    facts = JobFacts(
        waits_for=await _dependencies(client, owner, job.namespace),
        title=_title(workload_object, owner, job.namespace),
        namespace=job.namespace,
        now_ns=now_ns,
        job=owner,
        workload=workload_object,
        pods=tuple(pods),
        nodes=nodes,
        warnings=tuple(warnings),
        existing=existing,
    )
    if workload_object is None:
        return facts
    # Remedies of a long queue take a while to try, so a copy is asked beside the event loop.
    largest_node = _largest_node(workload_object, nodes, local_queues=named[0], cluster_queues=named[1])
    key = await _explained_key(client, workload_object)
    explanation = await asyncio.to_thread(view.copy().explain, key, largest_node)
    if explanation is not None and not may_see_all:
        explanation = explanations.without_other_namespaces(explanation, job.namespace)
    queues = {objects.name(queue): queue for queue in named[1] or ()}
    queue = None if explanation is None else queues.get(explanation.cluster_queue or "")
    checks = objects.nested_list(queue or {}, "spec", "admissionChecksStrategy", "admissionChecks")
    names = {check["name"] for check in checks}
    return structs.replace(
        facts,
        explanation=explanation,
        free=await _free(client, facts, explanation),
        target_queue="".join(_target_queues(workload_object, named[0])),
        cluster_queue=queue,
        admission_checks=tuple(check for check in named[3] or () if objects.name(check) in names),
        workload_names=await _preemptors(client, workload_object, may_see_all=may_see_all),
    )


async def _dependencies(client: Client, owner: Object | None, namespace: str) -> tuple[tuple[str, bool], ...]:
    """The Jobs that a Job waits for, and whether it waits for ever."""
    if owner is None or not dependencies.is_gated(owner):
        return ()
    names = {name for _, name in dependencies.dependencies(owner)}
    others = {name: await _get(client, resources.JOB, name, namespace) for name in sorted(names)}
    return tuple(dependencies.obstacles(owner, others.get))


def _largest_node(
    workload_object: Object,
    nodes: tuple[Object, ...] | None,
    *,
    local_queues: list[Object] | None,
    cluster_queues: list[Object] | None,
) -> dict[values.ResourceName, int] | None:
    """The largest request that a node can satisfy; None if that is not known."""
    targets = _target_queues(workload_object, local_queues)
    queues = [queue for queue in cluster_queues or () if objects.name(queue) in targets]
    if not nodes or any(map(job_explanations.may_get_nodes, queues)):
        return None
    return node_capacity.largest_node(nodes)


def _target_queues(workload_object: Object, local_queues: list[Object] | None) -> list[str]:
    """The ClusterQueue that the LocalQueue of a Workload names; nothing if there is none."""
    name = objects.spec(workload_object).get("queueName", "")
    return [objects.spec(queue)["clusterQueue"] for queue in local_queues or () if objects.name(queue) == name]


def _title(workload_object: Object | None, owner: Object | None, namespace: str) -> str:
    obj = owner or workload_object
    assert obj is not None
    kind = "Workload" if owner is None else owner["kind"]
    return f"{kind} {namespace}/{objects.name(obj)}"


async def _find_workload(client: Client, job: JobReference) -> Object | None:
    """The named Workload, or of the job's Workloads the newest, an unfinished one first."""
    workloads = await _list(client, resources.WORKLOAD, job.namespace, is_required=True) or []
    named = [obj for obj in workloads if job.names_workload(obj)]
    owned = [obj for obj in workloads if job.names_owner(obj)]
    candidates = named or owned
    candidates.sort(key=lambda obj: (not conditions.is_true(obj, "Finished"), obj["metadata"]["creationTimestamp"]))
    return candidates[-1] if candidates else None


async def _find_job(client: Client, job: JobReference, workload_object: Object | None) -> Object | None:
    if workload_object is None:
        for resource in job.job_resources():
            obj = await _get(client, resource, job.name, job.namespace)
            if obj is not None:
                return obj
        return await _first_of_group(client, job) if job.may_name_pods() else None
    kinds = {(kind.resource.api_version, kind.resource.kind): kind.resource for kind in JOB_KINDS.values()}
    for owner in objects.owner_references(workload_object):
        owner_resource = kinds.get((owner["apiVersion"], owner["kind"]))
        obj = None if owner_resource is None else await _get(client, owner_resource, owner["name"], job.namespace)
        if obj is not None:
            return obj
    return None


async def _first_of_group(client: Client, job: JobReference) -> Object | None:
    """The first pod of a group that has no Workload yet: too few pods exist."""
    try:
        pods = await _list(client, resources.POD, job.namespace, f"{POD_GROUP_NAME}={job.name}")
    except ApiError:  # no group can have this name
        return None
    first = min(pods or (), key=objects.name, default=None)
    return None if first is None else {**first, "apiVersion": "v1", "kind": "Pod"}


async def _explained_key(client: Client, workload_object: Object) -> values.WorkloadKey:
    """The Workload that is queued: of one with variants the one with quota, or else the first."""
    if not variants.is_parent(workload_object):
        return workload.key(workload_object)
    workloads = await _list(client, resources.WORKLOAD, objects.namespace(workload_object)) or ()
    parts = [obj for obj in workloads if variants.parent_uid(obj) == objects.uid(workload_object)]
    parts.sort(key=lambda obj: (not conditions.is_true(obj, "QuotaReserved"), objects.name(obj)))
    return workload.key(parts[0] if parts else workload_object)


async def _workload_of_pods(client: Client, deployment: Object) -> Object | None:
    """A Deployment has a Workload for each pod: the first that has no quota, or else any."""
    namespace = objects.namespace(deployment)
    uids = {objects.uid(pod) for pod in await _pods(client, deployment, namespace)}
    workloads = [
        obj
        for obj in await _list(client, resources.WORKLOAD, namespace) or ()
        if any(owner["uid"] in uids for owner in objects.owner_references(obj))
    ]
    workloads.sort(key=lambda obj: (conditions.is_true(obj, "QuotaReserved"), objects.name(obj)))
    return workloads[0] if workloads else None


def _match_labels(deployment: Object) -> str:
    labels = objects.nested(deployment, "spec", "selector", "matchLabels")
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))


async def _pods(client: Client, owner: Object | None, namespace: str) -> list[Object]:
    if owner is None:
        return []
    if owner["kind"] == "Pod" and "kueue.x-k8s.io/pod-group-name" not in objects.labels(owner):
        return [owner]
    selector = _match_labels(owner) if owner["kind"] == "Deployment" else pod_selectors.of_job(owner)
    pods = await _list(client, resources.POD, namespace, selector) or []
    if selector:
        return pods
    uid = objects.uid(owner)
    return [pod for pod in pods if any(reference["uid"] == uid for reference in objects.owner_references(pod))]


async def _nodes(client: Client) -> tuple[Object, ...] | None:
    """The nodes; None if they cannot be read, or if a node pool may add larger ones."""
    nodes = await _list(client, resources.NODE)
    return None if nodes is None or await _list(client, resources.NODE_POOL) else tuple(nodes)


async def _free(
    client: Client, facts: JobFacts, explanation: Explanation | None
) -> tuple[node_capacity.Amounts, ...] | None:
    """What is free on each node; all pods are read only for words that depend on it."""
    if facts.nodes is None or explanation is None:
        return None
    if not explanations.advises_quota(explanation) and not any(map(job_explanations.is_without_node, facts.pods)):
        return None
    pods = await _list(client, resources.POD)
    return None if pods is None else node_capacity.free_amounts(facts.nodes, pods)


async def _warnings(client: Client, namespace: str, about: Iterable[Object]) -> list[str]:
    """Warning events about the objects, the newest first."""
    uids = {objects.uid(obj) for obj in about}
    events = [
        event
        for event in await _list(client, resources.CORE_EVENT, namespace) or ()
        if event.get("type") == "Warning" and objects.nested(event, "involvedObject").get("uid") in uids
    ]
    events.sort(key=lambda event: str(event.get("lastTimestamp") or event.get("eventTime") or ""), reverse=True)
    return list(dict.fromkeys(f"{event.get('reason', '')}: {event.get('message', '')}" for event in events))


async def _preemptors(client: Client, workload_object: Object, *, may_see_all: bool) -> dict[str, str]:
    if not conditions.is_true(workload_object, "Preempted"):
        return {}
    namespace = objects.namespace(workload_object)
    names = {}
    for obj in await _list(client, resources.WORKLOAD) or ():
        is_visible = may_see_all or objects.namespace(obj) == namespace
        names[objects.uid(obj)] = workload.key(obj) if is_visible else explanations.ELSEWHERE
    return names


async def _get(client: Client, resource: Resource, name: str, namespace: str) -> Object | None:
    try:
        obj = await client.get(resource, name, namespace)
    except ApiError as error:
        if error.code in _UNREADABLE:
            return None
        raise
    return {**obj, "apiVersion": resource.api_version, "kind": resource.kind}


async def _list(
    client: Client, resource: Resource, namespace: str = "", selector: str = "", *, is_required: bool = False
) -> list[Object] | None:
    """The objects of a kind; None if the server has no such kind or does not show it."""
    try:
        return (await client.list(resource, namespace, ListOptions(label_selector=selector))).items
    except ApiError as error:
        if error.code in _UNREADABLE and not is_required:
            return None
        raise
