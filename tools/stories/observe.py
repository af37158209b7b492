"""What an observation holds: the parts of objects that users and controllers read, normalised."""

import json
from typing import Any

from tools.stories.cluster import JOB_KINDS
from tools.stories.names import Names, is_generated

Json = dict[str, Any]
Snapshot = dict[str, list[Json]]
"""The objects of a story, by kind."""

_QUEUE_FIELDS = ("pendingWorkloads", "reservingWorkloads", "admittedWorkloads", "flavorsReservation", "flavorsUsage")
_CHECK_FIELDS = ("name", "state", "message", "retryCount", "podSetUpdates")
_KUBELET_CONDITIONS = ("PodScheduled", "Ready", "ContainersReady", "Initialized")


def without_empty(fields: Json) -> Json:
    return {name: value for name, value in fields.items() if value not in (None, {}, [])}


def observation(label: str, snapshot: Snapshot, names: Names, *, with_pods: bool, with_status: bool) -> Json:
    """All objects of the story. Pods are part of it only if the story itself created pods.

    `with_status` adds what MultiKueue copies: the manager of a job and the counters of its status.
    """
    observed: Json = {"label": label, "workloads": {}, "clusterQueues": {}, "localQueues": {}, "jobs": {}}
    by_creation = sorted(
        snapshot.get("Workload") or (),
        key=lambda workload: (workload["metadata"]["creationTimestamp"], workload["metadata"]["name"]),
    )
    for workload in by_creation:
        key = _workload_key(workload["metadata"], names)
        while key in observed["workloads"]:
            key += "+"
        observed["workloads"][key] = _workload(workload, names)
    for queue in snapshot.get("ClusterQueue") or ():
        observed["clusterQueues"][names.normalize(queue["metadata"]["name"])] = _queue(queue, names)
    for queue in snapshot.get("LocalQueue") or ():
        observed["localQueues"][_key(queue, names)] = _queue(queue, names)
    for cohort in snapshot.get("Cohort") or ():
        status = names.normalize(cohort.get("status") or {})
        observed.setdefault("cohorts", {})[names.normalize(cohort["metadata"]["name"])] = status
    for kind in ("ResourceFlavor", "AdmissionCheck", "MultiKueueCluster"):
        for obj in snapshot.get(kind) or ():
            if obj["metadata"].get("deletionTimestamp") or kind != "ResourceFlavor":
                key = f"{kind}/{names.normalize(obj['metadata']['name'])}"
                observed.setdefault("others", {})[key] = without_empty(
                    {**_lifetime(obj), "conditions": conditions(obj, names)}
                )
    for kind in JOB_KINDS:
        for job in () if kind == "Pod" and not with_pods else snapshot.get(kind) or ():
            fields = _job(kind, job, names) | (_dispatched(job) if with_status else {})
            observed["jobs"][f"{kind}/{_key(job, names)}"] = fields
    return observed


def conditions(obj: Json, names: Names) -> list[Json]:
    fields = [
        {
            "type": condition["type"],
            "status": condition["status"],
            "reason": condition.get("reason", ""),
            "message": names.normalize(condition.get("message", "")),
        }
        for condition in (obj.get("status") or {}).get("conditions") or ()
    ]
    return sorted(fields, key=lambda condition: str(condition["type"]))


def without_times(value: Any) -> Any:
    """Mask times, drop observedGeneration, and sort conditions, in an object of any API version."""
    if isinstance(value, dict):
        return {
            key: "<time>" if key in ("lastTransitionTime", "lastUpdate") else without_times(item)
            for key, item in value.items()
            if key != "observedGeneration"
        }
    if isinstance(value, list):
        items = [without_times(item) for item in value]
        if items and all(isinstance(item, dict) and "type" in item and "status" in item for item in items):
            items.sort(key=lambda item: str(item["type"]))
        return items
    return value


def _key(obj: Json, names: Names) -> str:
    return f"{names.normalize(obj['metadata']['namespace'])}/{obj['metadata']['name']}"


def _workload_key(metadata: Json, names: Names) -> str:
    """The owner for a generated name, because the hash at its end differs from run to run.

    A variant is owned by a Workload, and has a name of its own.
    """
    namespace = names.normalize(metadata["namespace"])
    owners = metadata.get("ownerReferences")
    if owners and owners[0]["kind"] != "Workload" and is_generated(metadata["name"]):
        return f"{owners[0]['kind']}/{namespace}/{owners[0]['name']}"
    key: str = names.normalize(f"{namespace}/{metadata['name']}")
    return key


def _lifetime(obj: Json) -> Json:
    return {
        "terminating": bool(obj["metadata"].get("deletionTimestamp")) or None,
        "finalizers": obj["metadata"].get("finalizers"),
    }


def _workload(workload: Json, names: Names) -> Json:
    spec, status = workload["spec"], workload.get("status") or {}
    requeue_state = status.get("requeueState") or {}
    evictions = (status.get("schedulingStats") or {}).get("evictions") or []
    fields = {
        "queueName": spec.get("queueName"),
        "priority": spec.get("priority"),
        "priorityClassRef": spec.get("priorityClassRef"),
        "active": spec.get("active"),
        "maximumExecutionTimeSeconds": spec.get("maximumExecutionTimeSeconds"),
        **_lifetime(workload),
        "podSets": [_pod_set(pod_set) for pod_set in spec["podSets"]],
        "conditions": conditions(workload, names),
        "admission": status.get("admission"),
        "admissionChecks": [
            without_empty({field: check.get(field) for field in _CHECK_FIELDS})
            for check in status.get("admissionChecks") or ()
        ],
        "clusterName": status.get("clusterName"),
        "nominatedClusterNames": sorted(status.get("nominatedClusterNames") or ()),
        "preemptionGates": [
            {field: gate.get(field) for field in ("name", "position")} for gate in status.get("preemptionGates") or ()
        ],
        "unhealthyNodes": status.get("unhealthyNodes"),
        "requeueCount": requeue_state.get("count"),
        "requeueAtSet": bool(requeue_state.get("requeueAt")) or None,
        "reclaimablePods": status.get("reclaimablePods"),
        "resourceRequests": status.get("resourceRequests"),
        "evictions": sorted(evictions, key=lambda eviction: json.dumps(eviction, sort_keys=True)),
    }
    observed: Json = names.normalize(without_empty(fields))
    return observed


def _pod_set(pod_set: Json) -> Json:
    spec = pod_set["template"].get("spec") or {}
    return without_empty(
        {
            "name": pod_set["name"],
            "count": pod_set.get("count"),
            "minCount": pod_set.get("minCount"),
            "containers": _containers(spec.get("containers")),
            "initContainers": _containers(spec.get("initContainers")),
            "nodeSelector": spec.get("nodeSelector"),
            "tolerations": spec.get("tolerations"),
        }
    )


def _containers(containers: list[Json] | None) -> list[Json]:
    return [
        without_empty(
            {
                "name": container["name"],
                "requests": (container.get("resources") or {}).get("requests"),
                "limits": (container.get("resources") or {}).get("limits"),
            }
        )
        for container in containers or ()
    ]


def _queue(queue: Json, names: Names) -> Json:
    status = queue.get("status") or {}
    fields = {
        **{field: status.get(field) for field in _QUEUE_FIELDS},
        "weightedShare": (status.get("fairSharing") or {}).get("weightedShare"),
        "conditions": conditions(queue, names),
        **_lifetime(queue),
    }
    observed: Json = names.normalize(without_empty(fields))
    return observed


def _job(kind: str, job: Json, names: Names) -> Json:
    fields = _kueue_metadata(job["metadata"])
    if job["metadata"].get("deletionTimestamp"):
        fields["terminating"] = True
    fields |= _job_fields(kind, job, job.get("spec") or {})
    fields["conditions"] = [
        condition
        for condition in conditions(job, names)
        if kind != "Pod" or condition["type"] not in _KUBELET_CONDITIONS
    ]
    observed: Json = names.normalize(without_empty(fields))
    return observed


def _dispatched(job: Json) -> Json:
    spec, status = job.get("spec") or {}, job.get("status") or {}
    counters = {key: value for key, value in status.items() if isinstance(value, int | bool)}
    managed_by = spec.get("managedBy") or (spec.get("runPolicy") or {}).get("managedBy")
    return without_empty({"managedBy": managed_by, "status": counters})


def _job_fields(kind: str, job: Json, spec: Json) -> Json:
    match kind:
        case "Job":
            template = _pod_template(spec["template"])
            return {field: spec.get(field) for field in ("suspend", "parallelism", "completions")} | {
                "template": template
            }
        case "PyTorchJob":
            replicas = spec["pytorchReplicaSpecs"]
            return {
                "suspend": (spec.get("runPolicy") or {}).get("suspend"),
                "templates": {role: _replicated(replica) for role, replica in replicas.items()},
            }
        case "RayCluster" | "RayJob":
            return {"suspend": spec.get("suspend"), "templates": _ray_templates(kind, spec)}
        case "Deployment" | "StatefulSet":
            return {"template": _pod_template(spec["template"])}
        case "Pod":
            return {
                "phase": (job.get("status") or {}).get("phase"),
                "finalizers": job["metadata"].get("finalizers"),
                "spec": _pod_spec(spec),
            }
    return {"suspend": spec.get("suspend")}


def _ray_templates(kind: str, spec: Json) -> Json:
    cluster = spec if kind == "RayCluster" else spec.get("rayClusterSpec") or {}
    templates = {"head": _pod_template((cluster.get("headGroupSpec") or {}).get("template") or {})}
    for group in cluster.get("workerGroupSpecs") or ():
        templates[group["groupName"]] = _replicated(group)
    if spec.get("submitterPodTemplate"):
        templates["submitter"] = _pod_template(spec["submitterPodTemplate"])
    return templates


def _replicated(group: Json) -> Json:
    return {**_pod_template(group["template"]), "replicas": group.get("replicas")}


def _pod_spec(spec: Json) -> Json:
    """Without the tolerations that the API server adds to every pod."""
    observed = _pod_template({"spec": spec})
    if observed.get("tolerations"):
        observed["tolerations"] = [
            toleration
            for toleration in observed["tolerations"]
            if not toleration.get("key", "").startswith("node.kubernetes.io/")
        ]
    return observed


def _pod_template(template: Json) -> Json:
    spec = template.get("spec") or {}
    fields = ("nodeSelector", "tolerations", "schedulingGates", "affinity")
    return without_empty(
        {**_kueue_metadata(template.get("metadata") or {}), **{field: spec.get(field) for field in fields}}
    )


def _kueue_metadata(metadata: Json) -> Json:
    return without_empty(
        {
            field: {key: value for key, value in (metadata.get(field) or {}).items() if "kueue.x-k8s.io/" in key}
            for field in ("labels", "annotations")
        }
    )
