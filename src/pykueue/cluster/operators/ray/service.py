"""One sync of a RayService: a RayCluster, a Job that deploys the applications, and Services.

A changed cluster specification creates a second, pending cluster beside the active one; when the
applications run there, it becomes the active one. A suspended RayService has no cluster; a new one
is created when it is resumed.
"""

import copy
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from pykueue.api import conditions, generated_names, objects, resources, yaml_reader
from pykueue.api.scheme import Object
from pykueue.cluster import statuses
from pykueue.cluster.job_controller import job_view
from pykueue.cluster.operators.ray import commands, names
from pykueue.cluster.operators.ray import pods as ray_pods
from pykueue.cluster.runtimes import simulated
from pykueue.kube.controller import writes

_HASH = "ray.io/hash-without-replicas-and-workers-to-delete"
_SIZES = ("replicas", "minReplicas", "maxReplicas")
_RETRIES = 100
_SIMULATED_SECONDS = "0.2"
ACTIVE, PENDING = "activeServiceStatus", "pendingServiceStatus"


@dataclass(slots=True, kw_only=True)
class _RayServiceSync:
    """The state of one sync: the RayService, what it owns by name, and the status to write."""

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
        return bool(self.spec.get("suspend") or objects.nested(self.spec, "rayClusterConfig").get("suspend"))

    def name_of(self, which: str) -> str:
        return str(objects.nested(self.status, which).get("rayClusterName", ""))

    @property
    def target(self) -> str:
        """The name of the pending cluster, or else of the active one."""
        return self.name_of(PENDING) or self.name_of(ACTIVE)


def sync(service: Object, owned: Sequence[Object], now: datetime) -> writes.Sync:
    """`owned` are RayClusters, the Jobs that deploy applications, and Services."""
    if objects.is_deleted(service):
        return writes.Done()
    state = _RayServiceSync(
        service=service,
        clusters={objects.name(child): child for child in owned if child["kind"] == "RayCluster"},
        jobs={objects.name(child): child for child in owned if child["kind"] == "Job"},
        services={objects.name(child) for child in owned if child["kind"] == "Service"},
        status=copy.deepcopy(objects.status(service)),
    )
    if _choose_cluster_name(state):
        # The name is written before the cluster is created, so that it survives a crash.
        errors = yield from statuses.write(resources.RAY_SERVICE, service, state.status)
        return writes.Done(errors=errors)
    errors = ()
    if changes := [*_clusters(state), *_deployment(state), *_services(state)]:
        errors = writes.refusals((yield changes))
    _set_status(state, now)
    errors += yield from statuses.write(resources.RAY_SERVICE, service, state.status)
    return writes.Done(errors=errors)


def _choose_cluster_name(state: _RayServiceSync) -> bool:
    """Choose the name of the first cluster, or of a new one if the specification has changed."""
    current = state.clusters.get(state.target)
    is_outdated = current is not None and objects.annotations(current).get(_HASH) != _hash(state.spec)
    if state.is_suspended or (state.target and not is_outdated):
        return False
    name = f"{objects.name(state.service)}-{generated_names.random_suffix()}"
    state.status[PENDING] = {"rayClusterName": name}
    return True


def _clusters(state: _RayServiceSync) -> list[writes.Action]:
    if state.is_suspended:
        state.status[ACTIVE], state.status[PENDING] = {}, {}
    names_in_use = {name for name in (state.name_of(ACTIVE), state.name_of(PENDING)) if name}
    changes: list[writes.Action] = [
        writes.Create(resource=resources.RAY_CLUSTER, object=_cluster(state, name))
        for name in sorted(names_in_use - state.clusters.keys())
    ]
    for name, cluster in state.clusters.items():
        if name not in names_in_use and not objects.is_deleted(cluster):
            changes.append(writes.Delete(resource=resources.RAY_CLUSTER, object=cluster))
        elif name == state.target and (groups := _scaled(cluster, objects.nested(state.spec, "rayClusterConfig"))):
            patch = {"spec": {"workerGroupSpecs": groups}}
            changes.append(writes.Patch(resource=resources.RAY_CLUSTER, object=cluster, patch=patch, guarded=False))
    return changes


def _scaled(cluster: Object, config: Object) -> list[Object]:
    """The worker groups with the replicas of the service; empty if nothing changes."""
    groups_by_name = {group["groupName"]: group for group in config.get("workerGroupSpecs") or ()}
    groups = copy.deepcopy(objects.nested_list(cluster, "spec", "workerGroupSpecs"))
    for group in groups:
        new_sizes = groups_by_name.get(group["groupName"], {})
        group |= {field: new_sizes[field] for field in _SIZES if field in new_sizes}
    return groups if groups != objects.nested_list(cluster, "spec", "workerGroupSpecs") else []


def _cluster(state: _RayServiceSync, name: str) -> Object:
    metadata = state.service["metadata"]
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {
            "name": name,
            "namespace": metadata["namespace"],
            "labels": names.cluster_labels(state.service),
            "annotations": {_HASH: _hash(state.spec)},
            "ownerReferences": [objects.controller_reference(state.service)],
        },
        "spec": copy.deepcopy(objects.nested(state.spec, "rayClusterConfig")) | {"suspend": False},
    }


def _hash(spec: Object) -> str:
    """The hash of the fields whose change needs a new cluster. Replicas may change without one."""
    config = copy.deepcopy(objects.nested(spec, "rayClusterConfig"))
    config.pop("suspend", None)
    for group in config.get("workerGroupSpecs") or ():
        for field in (*_SIZES, "scaleStrategy"):
            group.pop(field, None)
    return hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()[:32]


def _deployment(state: _RayServiceSync) -> list[writes.Action]:
    """Create the Job that deploys to a ready cluster, and delete all other Jobs."""
    job_name = ""
    if _is_ready(state) and not state.is_suspended and _applications(state.service):
        job_name = _serve_job_name(state.service, state.target)
    changes: list[writes.Action] = [
        writes.Delete(resource=resources.JOB, object=job)
        for name, job in state.jobs.items()
        if name != job_name and not objects.is_deleted(job)
    ]
    if job_name and job_name not in state.jobs:
        changes.append(writes.Create(resource=resources.JOB, object=_serve_job(state.service, state.target)))
    return changes


def _services(state: _RayServiceSync) -> list[writes.Action]:
    if not state.name_of(ACTIVE):
        return []
    services = _serve_services(state.service, state.name_of(ACTIVE))
    return [
        writes.Create(resource=resources.SERVICE, object=service)
        for service in services
        if objects.name(service) not in state.services
    ]


def _is_ready(state: _RayServiceSync) -> bool:
    cluster = state.clusters.get(state.target)
    return cluster is not None and objects.status(cluster).get("state") == "ready"


def _is_serving(state: _RayServiceSync) -> bool:
    if state.is_suspended or not _is_ready(state):
        return False
    if not _applications(state.service):
        return True
    job = state.jobs.get(_serve_job_name(state.service, state.target))
    ended = None if job is None else job_view.finished_condition(job)
    return ended is not None and ended["type"] == "Complete"


def _set_status(state: _RayServiceSync, now: datetime) -> None:
    is_serving, status = _is_serving(state), state.status
    if is_serving and state.name_of(PENDING):
        status[ACTIVE], status[PENDING] = status[PENDING], {}
    for which in (ACTIVE, PENDING):
        if name := state.name_of(which):
            cluster = state.clusters.get(name) or {}
            cluster_status = {"rayClusterName": name, "rayClusterStatus": copy.deepcopy(objects.status(cluster))}
            if which == ACTIVE and is_serving:
                cluster_status["applicationStatuses"] = {
                    application: {"status": "RUNNING"} for application in _applications(state.service)
                }
            status[which] = cluster_status
    endpoints = _endpoints(state) if is_serving else 0
    status |= {
        "serviceStatus": "Running" if endpoints else "",
        "numServeEndpoints": endpoints,
        "observedGeneration": state.service["metadata"].get("generation", 1),
        "conditions": _conditions(state, endpoints, now),
    }


def _endpoints(state: _RayServiceSync) -> int:
    """The number of endpoints: the head and every ready worker."""
    cluster = state.clusters.get(state.name_of(ACTIVE)) or {}
    return 1 + int(objects.status(cluster).get("readyWorkerReplicas") or 0)


def _conditions(state: _RayServiceSync, endpoints: int, now: datetime) -> list[Object]:
    if endpoints:
        ready = ("True", "NonZeroServeEndpoints", "Number of serve endpoints is greater than 0")
    elif state.name_of(ACTIVE):
        ready = ("False", "ZeroServeEndpoints", "Number of serve endpoints dropped to 0")
    else:
        ready = ("False", "Initializing", "RayService is initializing")
    if state.name_of(ACTIVE) and state.name_of(PENDING):
        upgrade = ("True", "BothActivePendingClustersExist", "Both active and pending Ray clusters exist")
    elif state.name_of(ACTIVE):
        upgrade = ("False", "NoPendingCluster", "Active Ray cluster exists and no pending Ray cluster")
    else:
        upgrade = ("False", "NoActiveCluster", "Pending Ray cluster exists and no active Ray cluster")
    stored: list[Object] = state.status.get("conditions") or []
    for type_, (value, reason, message) in (("Ready", ready), ("UpgradeInProgress", upgrade)):
        condition = {"type": type_, "status": value, "reason": reason, "message": message}
        stored = conditions.replaced(stored, condition, now)
    return stored


def _applications(service: Object) -> list[str]:
    """Names of the applications in `serveConfigV2`; none if it is not valid YAML."""
    try:
        config = yaml_reader.read_field(service["spec"].get("serveConfigV2") or "")
    except yaml_reader.YamlError:
        return []
    listed = config.get("applications") if isinstance(config, dict) else None
    return [str(entry.get("name", "default")) for entry in listed or () if isinstance(entry, dict)]


def _serve_job_name(service: Object, cluster: str) -> str:
    """The name of the Job that deploys this configuration to this cluster."""
    text = f"{cluster}\0{service['spec'].get('serveConfigV2', '')}"
    return f"{objects.name(service)}-serve-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def _serve_job(service: Object, cluster: str) -> Object:
    head = objects.nested(service, "spec", "rayClusterConfig", "headGroupSpec", "template", "spec")
    pod_spec = ray_pods.spec_like_head(head, "serve-deployer") | {"restartPolicy": "Never"}
    pod_spec["containers"][0] |= {
        "command": ["/bin/sh", "-c"],
        "args": [commands.DEPLOY],
        "env": [
            *commands.variables(cluster, "submitter"),
            {"name": "SERVE_CONFIG", "value": service["spec"].get("serveConfigV2", "")},
        ],
    }
    annotations = ray_pods.local_annotations(objects.namespace(service), cluster)
    annotations[simulated.RUNTIME] = _SIMULATED_SECONDS
    metadata = _child_metadata(service, _serve_job_name(service, cluster))
    spec = {"backoffLimit": _RETRIES, "template": {"metadata": {"annotations": annotations}, "spec": pod_spec}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def _serve_services(service: Object, cluster: str) -> list[Object]:
    head = {names.CLUSTER: names.label(cluster), names.NODE_TYPE: "head"}
    all_pods = {names.CLUSTER: names.label(cluster), "ray.io/serve": "true"}
    dashboard = [{"name": "dashboard", "port": 8265}, {"name": "serve", "port": 8000}]
    return [
        _service(service, names.head_service(objects.name(service)), head, dashboard),
        _service(service, f"{objects.name(service)}-serve-svc", all_pods, [{"name": "serve", "port": 8000}]),
    ]


def _service(owner: Object, name: str, selector: dict[str, str], ports: list[Object]) -> Object:
    spec = {"selector": selector, "ports": ports}
    return {"apiVersion": "v1", "kind": "Service", "metadata": _child_metadata(owner, name), "spec": spec}


def _child_metadata(owner: Object, name: str) -> Object:
    return {
        "name": name,
        "namespace": objects.namespace(owner),
        "labels": names.origin_labels(owner),
        "ownerReferences": [objects.controller_reference(owner)],
    }
