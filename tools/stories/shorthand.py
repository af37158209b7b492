"""The shorthand objects of stories (`cq`, `lq`, `job`, …), expanded to manifests."""

import copy
from collections.abc import Callable, Mapping
from typing import Any

from tools.stories.cluster import KINDS
from tools.stories.names import Names

Json = dict[str, Any]

_POD_SPEC_FIELDS = (
    "nodeSelector",
    "tolerations",
    "affinity",
    "initContainers",
    "priorityClassName",
    "overhead",
    "runtimeClassName",
    "schedulingGates",
    "resources",
)
_RESOURCES = {"cpu": "cpu", "memory": "memory", "gpu": "nvidia.com/gpu"}
_GPU = "nvidia.com/gpu"
_CHECK_CONTROLLER = "stories.example/controller"


class UnknownShorthandError(Exception):
    """A story uses a word that is no shorthand and no kind."""


def expand(entry: Json, names: Names) -> Json:
    """The manifest for one shorthand entry; a manifest gets its namespace and apiVersion."""
    if "kind" in entry:
        manifest = copy.deepcopy(entry)
        kind = KINDS[manifest["kind"]]
        if kind.namespaced:
            manifest.setdefault("metadata", {}).setdefault("namespace", names.namespace(None))
        manifest.setdefault("apiVersion", kind.api_version)
        return manifest
    ((word, options),) = entry.items()
    if word not in _SHORTHANDS:
        raise UnknownShorthandError(f"{word} is neither a shorthand nor a manifest with a kind")
    if not isinstance(options, dict):
        options = {"name": options}
    manifest = _SHORTHANDS[word](options, names)
    return {**manifest, "apiVersion": options.get("apiVersion") or KINDS[manifest["kind"]].api_version}


def merge(document: Any, patch: Any) -> Any:
    """A JSON merge patch."""
    if not isinstance(document, dict) or not isinstance(patch, dict):
        return copy.deepcopy(patch)
    merged = dict(document)
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge(merged.get(key), value) if isinstance(value, dict) else copy.deepcopy(value)
    return merged


def _picked(options: Json, fields: Mapping[str, str]) -> Json:
    return {field: options[option] for option, field in fields.items() if option in options}


def _manifest(kind: str, metadata: Json, spec: Json, options: Json) -> Json:
    return {"kind": kind, "metadata": metadata, "spec": merge(spec, options.get("spec") or {})}


def _flavor(options: Json, names: Names) -> Json:
    spec = _picked(options, {"labels": "nodeLabels", "taints": "nodeTaints", "tolerations": "tolerations"})
    return _manifest("ResourceFlavor", {"name": names.unique(options["name"])}, spec, options)


def _cluster_queue(options: Json, names: Names) -> Json:
    spec: Json = {"namespaceSelector": {}}
    if "quota" in options:
        spec["resourceGroups"] = _resource_groups(options["quota"], names)
    if "cohort" in options:
        is_v1beta1 = (options.get("apiVersion") or "").endswith("v1beta1")
        spec["cohort" if is_v1beta1 else "cohortName"] = names.unique(options["cohort"])
    spec |= _picked(options, {"strategy": "queueingStrategy", "preemption": "preemption"})
    if "checks" in options:
        spec["admissionChecksStrategy"] = {
            "admissionChecks": [_check_rule(check, names) for check in options["checks"]]
        }
    return _manifest("ClusterQueue", {"name": names.unique(options["name"])}, spec, options)


def _check_rule(check: Any, names: Names) -> Json:
    if isinstance(check, str):
        return {"name": names.unique(check)}
    return {"name": names.unique(check["name"]), "onFlavors": [names.unique(flavor) for flavor in check["onFlavors"]]}


def _resource_groups(quota: Any, names: Names) -> list[Json]:
    """`{flavor: {resource: amount or {nominal, borrow, lend}}}`, or a list of these."""
    return [
        {
            "coveredResources": list(next(iter(group.values()))),
            "flavors": [
                {"name": names.unique(flavor), "resources": [_quota(*item) for item in resources.items()]}
                for flavor, resources in group.items()
            ],
        }
        for group in (quota if isinstance(quota, list) else [quota])
    ]


def _quota(resource: str, quota: Any) -> Json:
    amounts = quota if isinstance(quota, dict) else {"nominal": quota}
    fields = {"nominal": "nominalQuota", "borrow": "borrowingLimit", "lend": "lendingLimit"}
    return {"name": resource, **{field: str(value) for field, value in _picked(amounts, fields).items()}}


def _cohort(options: Json, names: Names) -> Json:
    spec: Json = {}
    if "parent" in options:
        spec["parentName"] = names.unique(options["parent"])
    if "quota" in options:
        spec["resourceGroups"] = _resource_groups(options["quota"], names)
    return _manifest("Cohort", {"name": names.unique(options["name"])}, spec, options)


def _local_queue(options: Json, names: Names) -> Json:
    metadata = {"name": options["name"], "namespace": names.namespace(options.get("ns"))}
    return _manifest("LocalQueue", metadata, {"clusterQueue": names.unique(options["cq"])}, options)


def _priority_class(options: Json, names: Names) -> Json:
    metadata = {"name": names.unique(options["name"])}
    return {"kind": "WorkloadPriorityClass", "metadata": metadata, "value": options["value"]}


def _check(options: Json, names: Names) -> Json:
    spec: Json = {"controllerName": options.get("controller", _CHECK_CONTROLLER)}
    if "config" in options:
        name = names.unique(options["config"])
        spec["parameters"] = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": name}
    return {"kind": "AdmissionCheck", "metadata": {"name": names.unique(options["name"])}, "spec": spec}


def _worker(options: Json, names: Names) -> Json:
    name, secret = names.unique(options["name"]), names.unique(options.get("secret") or options["name"])
    source = {"kubeConfig": {"locationType": "Secret", "location": secret}}
    return _manifest("MultiKueueCluster", {"name": name}, {"clusterSource": source}, options)


def _workers(options: Json, names: Names) -> Json:
    clusters = [names.unique(name) for name in options["clusters"]]
    return _manifest("MultiKueueConfig", {"name": names.unique(options["name"])}, {"clusters": clusters}, options)


def _job_metadata(options: Json, names: Names) -> Json:
    labels = dict(options.get("labels") or {})
    if "queue" in options:
        labels["kueue.x-k8s.io/queue-name"] = options["queue"]
    if "priority" in options:
        labels["kueue.x-k8s.io/priority-class"] = names.unique(options["priority"])
    if "maxExec" in options:
        labels["kueue.x-k8s.io/max-exec-time-seconds"] = str(options["maxExec"])
    annotations = dict(options.get("annotations") or {})
    if "minParallelism" in options:
        annotations["kueue.x-k8s.io/job-min-parallelism"] = str(options["minParallelism"])
    metadata: Json = {"name": options["name"], "namespace": names.namespace(options.get("ns"))}
    return metadata | {field: value for field, value in (("labels", labels), ("annotations", annotations)) if value}


def _job(options: Json, names: Names) -> Json:
    parallelism = options.get("parallelism", 1)
    spec = {
        "parallelism": parallelism,
        "completions": options.get("completions", parallelism),
        "template": _template(options, "c", "Never"),
        "backoffLimit": options.get("backoffLimit", 0),
        **_picked(options, {"suspend": "suspend"}),
    }
    return _manifest("Job", _job_metadata(options, names), spec, options)


def _pod(options: Json, names: Names) -> Json:
    return _manifest("Pod", _job_metadata(options, names), _template(options, "c", "Never")["spec"], options)


def _pytorch_job(options: Json, names: Names) -> Json:
    replicas = {
        role: {
            "replicas": template.get("replicas", 1),
            "restartPolicy": "OnFailure",
            "template": _template(template, "pytorch"),
        }
        for role, template in (("Master", options.get("master")), ("Worker", options.get("workers")))
        if template
    }
    spec: Json = {"pytorchReplicaSpecs": replicas}
    if "suspend" in options:
        spec["runPolicy"] = {"suspend": options["suspend"]}
    return _manifest("PyTorchJob", _job_metadata(options, names), spec, options)


def _ray_cluster(options: Json, names: Names) -> Json:
    spec = _ray_cluster_spec(options) | _picked(options, {"suspend": "suspend"})
    return _manifest("RayCluster", _job_metadata(options, names), spec, options)


def _ray_job(options: Json, names: Names) -> Json:
    spec: Json = {
        "entrypoint": "python x.py",
        "shutdownAfterJobFinishes": True,
        "rayClusterSpec": _ray_cluster_spec(options),
        **_picked(options, {"mode": "submissionMode", "suspend": "suspend"}),
    }
    if "submitter" in options:
        spec["submitterPodTemplate"] = _template(options["submitter"], "submit", "Never")
    return _manifest("RayJob", _job_metadata(options, names), spec, options)


def _ray_cluster_spec(options: Json) -> Json:
    head = _template(dict(options.get("head") or {"cpu": 1}), "ray-head")
    groups = [
        {
            "groupName": worker.get("group", f"workers-{index}"),
            "replicas": worker.get("replicas", 1),
            "minReplicas": 0,
            "maxReplicas": worker.get("max", 10),
            "rayStartParams": {},
            "template": _template(worker, "ray-worker"),
            **_picked(worker, {"hosts": "numOfHosts"}),
        }
        for index, worker in enumerate(options.get("workers") or ())
    ]
    spec = {"headGroupSpec": {"rayStartParams": {}, "template": head}, "workerGroupSpecs": groups}
    merged: Json = merge(spec, options.get("clusterSpec") or {})
    return merged


def _workload(options: Json, names: Names) -> Json:
    pod_sets = [
        {
            "name": pod_set.get("name", "main"),
            "count": pod_set.get("count", 1),
            "template": _template(pod_set, "c", "Never"),
            **_picked(pod_set, {"minCount": "minCount"}),
        }
        for pod_set in options.get("podSets") or [{**options, "name": "main"}]
    ]
    fields = {"queue": "queueName", "priority": "priority", "priorityClassRef": "priorityClassRef", "active": "active"}
    metadata = {"name": options["name"], "namespace": names.namespace(options.get("ns"))}
    metadata |= _picked(options, {"labels": "labels", "annotations": "annotations"})
    return _manifest("Workload", metadata, {"podSets": pod_sets, **_picked(options, fields)}, options)


def _template(options: Json, container_name: str, restart_policy: str = "") -> Json:
    spec: Json = {"containers": options.get("containers") or [_container(options, container_name)]}
    if restart_policy:
        spec["restartPolicy"] = restart_policy
    spec |= _picked(options, {field: field for field in _POD_SPEC_FIELDS})
    metadata = {
        field: options[option]
        for option, field in (("podLabels", "labels"), ("podAnnotations", "annotations"))
        if options.get(option)
    }
    return {"metadata": metadata, "spec": spec} if metadata else {"spec": spec}


def _container(options: Json, name: str) -> Json:
    requests = dict(options.get("requests") or {}) | _picked(options, _RESOURCES)
    limits = dict(options.get("limits") or {})
    if _GPU in requests:
        limits.setdefault(_GPU, requests[_GPU])
    resources = {
        field: {resource: str(amount) for resource, amount in amounts.items()}
        for field, amounts in (("requests", requests), ("limits", limits))
        if amounts
    }
    return {"name": name, "image": "registry.example/none:1", "resources": resources}


_SHORTHANDS: dict[str, Callable[[Json, Names], Json]] = {
    "flavor": _flavor,
    "cq": _cluster_queue,
    "cohort": _cohort,
    "lq": _local_queue,
    "wpc": _priority_class,
    "check": _check,
    "worker": _worker,
    "workers": _workers,
    "job": _job,
    "pod": _pod,
    "pytorch": _pytorch_job,
    "raycluster": _ray_cluster,
    "rayjob": _ray_job,
    "workload": _workload,
}
