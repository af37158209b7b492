"""One sync of a RayService: a cluster, its applications deployed to it, and services before it, as KubeRay words them.

A changed cluster specification makes a second cluster beside the first; when the applications run there, it takes over.
A suspended service has no cluster: the next one is made as it is then admitted.
"""

import copy
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from pykueue.api import conditions, objects, resources
from pykueue.api.scheme import Object
from pykueue.cluster import generated_names, statuses
from pykueue.cluster.job_controller import job_view
from pykueue.cluster.operators.ray import serving
from pykueue.kube.controller import writes

_HASH = "ray.io/hash-without-replicas-and-workers-to-delete"
_SIZES = ("replicas", "minReplicas", "maxReplicas")
_KUEUE = "kueue.x-k8s.io/"
ACTIVE, PENDING = "activeServiceStatus", "pendingServiceStatus"


@dataclass(slots=True, kw_only=True)
class _Course:
    service: Object
    clusters: dict[str, Object]
    jobs: dict[str, Object]
    services: set[str]
    status: Object

    @property
    def spec(self) -> Object:
        spec: Object = self.service["spec"]
        return spec

    @property
    def is_suspended(self) -> bool:
        return bool(self.spec.get("suspend") or self.spec["rayClusterConfig"].get("suspend"))

    def name_of(self, which: str) -> str:
        return str((self.status.get(which) or {}).get("rayClusterName", ""))

    @property
    def target(self) -> str:
        """The cluster that is, or shall become, the one that serves."""
        return self.name_of(PENDING) or self.name_of(ACTIVE)


def sync(service: Object, owned: Sequence[Object], now: datetime) -> writes.Sync:
    """`owned` are RayClusters, the Jobs that deploy applications, and Services."""
    if objects.is_deleted(service):
        return writes.Done()
    course = _Course(
        service=service,
        clusters={objects.name(child): child for child in owned if child["kind"] == "RayCluster"},
        jobs={objects.name(child): child for child in owned if child["kind"] == "Job"},
        services={objects.name(child) for child in owned if child["kind"] == "Service"},
        status=copy.deepcopy(service.get("status") or {}),
    )
    if _names_a_cluster(course):
        # The name must survive a crash: it is written before the cluster is made.
        errors = yield from statuses.write(resources.RAY_SERVICE, service, course.status)
        return writes.Done(errors=errors)
    errors = ()
    if changes := [*_clusters(course), *_deployment(course), *_services(course)]:
        errors = writes.refusals((yield changes))
    _tell(course, now)
    errors += yield from statuses.write(resources.RAY_SERVICE, service, course.status)
    return writes.Done(errors=errors)


def _names_a_cluster(course: _Course) -> bool:
    """Whether a new cluster is called for: the first, or one for another specification."""
    current = course.clusters.get(course.target)
    is_outdated = current is not None and objects.annotations(current).get(_HASH) != _hash(course.spec)
    if course.is_suspended or (course.target and not is_outdated):
        return False
    made = f"{objects.name(course.service)}-{generated_names.random_suffix()}"
    course.status[PENDING] = {"rayClusterName": made}
    return True


def _clusters(course: _Course) -> list[writes.Write]:
    if course.is_suspended:
        course.status[ACTIVE], course.status[PENDING] = {}, {}
    wanted = {name for name in (course.name_of(ACTIVE), course.name_of(PENDING)) if name}
    changes: list[writes.Write] = [
        writes.Create(resource=resources.RAY_CLUSTER, object=_cluster(course, name))
        for name in sorted(wanted - course.clusters.keys())
    ]
    for name, found in course.clusters.items():
        if name not in wanted and not objects.is_deleted(found):
            changes.append(writes.Delete(resource=resources.RAY_CLUSTER, object=found))
        elif name == course.target and (groups := _scaled(found, course.spec["rayClusterConfig"])):
            patch = {"spec": {"workerGroupSpecs": groups}}
            changes.append(writes.Patch(resource=resources.RAY_CLUSTER, object=found, patch=patch, guarded=False))
    return changes


def _scaled(cluster: Object, config: Object) -> list[Object]:
    """The worker groups with other numbers of pods; empty if they are as they should be."""
    stated = {group["groupName"]: group for group in config.get("workerGroupSpecs") or ()}
    groups = copy.deepcopy(cluster["spec"].get("workerGroupSpecs") or [])
    for group in groups:
        wanted = stated.get(group["groupName"], {})
        group |= {field: wanted[field] for field in _SIZES if field in wanted}
    return groups if groups != (cluster["spec"].get("workerGroupSpecs") or []) else []


def _cluster(course: _Course, name: str) -> Object:
    metadata = course.service["metadata"]
    kept = {key: value for key, value in objects.labels(course.service).items() if not key.startswith(_KUEUE)}
    origin = {"ray.io/originated-from-cr-name": metadata["name"], "ray.io/originated-from-crd": "RayService"}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {
            "name": name,
            "namespace": metadata["namespace"],
            "labels": kept | origin,
            "annotations": {_HASH: _hash(course.spec)},
            "ownerReferences": [objects.controller_reference(course.service)],
        },
        "spec": copy.deepcopy(course.spec["rayClusterConfig"]) | {"suspend": False},
    }


def _hash(spec: Object) -> str:
    """Of what makes another cluster necessary; pods may come and go without."""
    config = copy.deepcopy(spec["rayClusterConfig"])
    config.pop("suspend", None)
    for group in config.get("workerGroupSpecs") or ():
        for field in (*_SIZES, "scaleStrategy"):
            group.pop(field, None)
    return hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()[:32]


def _deployment(course: _Course) -> list[writes.Write]:
    """The Job that deploys the applications once the cluster is ready; Jobs for anything else go."""
    wanted = ""
    if _is_ready(course) and not course.is_suspended and serving.applications(course.service):
        wanted = serving.job_name(course.service, course.target)
    changes: list[writes.Write] = [
        writes.Delete(resource=resources.JOB, object=job)
        for name, job in course.jobs.items()
        if name != wanted and not objects.is_deleted(job)
    ]
    if wanted and wanted not in course.jobs:
        changes.append(writes.Create(resource=resources.JOB, object=serving.job(course.service, course.target)))
    return changes


def _services(course: _Course) -> list[writes.Write]:
    if not course.name_of(ACTIVE):
        return []
    made = serving.services(course.service, course.name_of(ACTIVE))
    return [
        writes.Create(resource=resources.SERVICE, object=each)
        for each in made
        if objects.name(each) not in course.services
    ]


def _is_ready(course: _Course) -> bool:
    cluster = course.clusters.get(course.target)
    return cluster is not None and (cluster.get("status") or {}).get("state") == "ready"


def _is_serving(course: _Course) -> bool:
    if course.is_suspended or not _is_ready(course):
        return False
    if not serving.applications(course.service):
        return True
    job = course.jobs.get(serving.job_name(course.service, course.target))
    ended = None if job is None else job_view.finished_condition(job)
    return ended is not None and ended["type"] == "Complete"


def _tell(course: _Course, now: datetime) -> None:
    is_serving, status = _is_serving(course), course.status
    if is_serving and course.name_of(PENDING):
        status[ACTIVE], status[PENDING] = status[PENDING], {}
    for which in (ACTIVE, PENDING):
        if name := course.name_of(which):
            cluster = course.clusters.get(name) or {}
            shown = {"rayClusterName": name, "rayClusterStatus": copy.deepcopy(cluster.get("status") or {})}
            if which == ACTIVE and is_serving:
                shown["applicationStatuses"] = {
                    application: {"status": "RUNNING"} for application in serving.applications(course.service)
                }
            status[which] = shown
    endpoints = _endpoints(course) if is_serving else 0
    status |= {
        "serviceStatus": "Running" if endpoints else "",
        "numServeEndpoints": endpoints,
        "observedGeneration": course.service["metadata"].get("generation", 1),
        "conditions": _conditions(course, endpoints, now),
    }


def _endpoints(course: _Course) -> int:
    """The head, and every worker that is ready."""
    cluster = course.clusters.get(course.name_of(ACTIVE)) or {}
    return 1 + int((cluster.get("status") or {}).get("readyWorkerReplicas") or 0)


def _conditions(course: _Course, endpoints: int, now: datetime) -> list[Object]:
    if endpoints:
        ready = ("True", "NonZeroServeEndpoints", "Number of serve endpoints is greater than 0")
    elif course.name_of(ACTIVE):
        ready = ("False", "ZeroServeEndpoints", "Number of serve endpoints dropped to 0")
    else:
        ready = ("False", "Initializing", "RayService is initializing")
    if course.name_of(ACTIVE) and course.name_of(PENDING):
        upgrade = ("True", "BothActivePendingClustersExist", "Both active and pending Ray clusters exist")
    elif course.name_of(ACTIVE):
        upgrade = ("False", "NoPendingCluster", "Active Ray cluster exists and no pending Ray cluster")
    else:
        upgrade = ("False", "NoActiveCluster", "Pending Ray cluster exists and no active Ray cluster")
    stored: list[Object] = course.status.get("conditions") or []
    for type_, (value, reason, message) in (("Ready", ready), ("UpgradeInProgress", upgrade)):
        told = {"type": type_, "status": value, "reason": reason, "message": message}
        stored = conditions.replaced(stored, told, now)
    return stored
