"""Defaults of the small kinds around Jobs and pods, as the API server stores them."""

import base64

from pykueue.api.rules import reading
from pykueue.api.rules.builtin import pod_spec
from pykueue.api.scheme import AdmissionRequest, Object


def _spec(request: AdmissionRequest) -> Object:
    spec = request.object.get("spec")
    return spec if isinstance(spec, dict) and not request.subresource else {}


def _with_status(request: AdmissionRequest, status: Object) -> None:
    """Set the status that the API server stores at creation."""
    if request.operation == "CREATE":
        request.object.setdefault("status", status)


def namespace(request: AdmissionRequest) -> None:
    metadata = reading.mapping(request.object.get("metadata"))
    if metadata.get("name") and not request.subresource:
        metadata["labels"] = reading.mapping(metadata.get("labels")) | {"kubernetes.io/metadata.name": metadata["name"]}
        reading.ensure_mapping(request.object, "spec").setdefault("finalizers", ["kubernetes"])
        reading.ensure_mapping(request.object, "status").setdefault("phase", "Active")


def secret(request: AdmissionRequest) -> None:
    request.object.setdefault("type", "Opaque")
    plain = reading.text_map(request.object.pop("stringData", None))
    if plain:
        encoded = {key: base64.b64encode(value.encode()).decode() for key, value in plain.items()}
        request.object["data"] = reading.mapping(request.object.get("data")) | encoded


def service(request: AdmissionRequest) -> None:
    spec = _spec(request)
    spec.setdefault("sessionAffinity", "None")
    spec.setdefault("type", "ClusterIP")
    spec.setdefault("internalTrafficPolicy", "Cluster")
    for port in reading.mappings(spec.get("ports")):
        port.setdefault("protocol", "TCP")
        port.setdefault("targetPort", port.get("port"))
    if spec.get("clusterIP") == "None":
        spec.setdefault("clusterIPs", ["None"])
        spec.setdefault("ipFamilies", ["IPv4"])
        spec.setdefault("ipFamilyPolicy", "SingleStack")
    _with_status(request, {"loadBalancer": {}})


def limit_range(request: AdmissionRequest) -> None:
    for item in reading.mappings(_spec(request).get("limits")):
        for name in ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio"):
            pod_spec.write_canonically(item, name)
        if item.get("type") != "Container":
            continue
        maximum, minimum = reading.mapping(item.get("max")), reading.mapping(item.get("min"))
        defaults = maximum | reading.mapping(item.get("default"))
        requests = minimum | defaults | reading.mapping(item.get("defaultRequest"))
        item |= {name: value for name, value in (("default", defaults), ("defaultRequest", requests)) if value}


def resource_quota(request: AdmissionRequest) -> None:
    pod_spec.write_canonically(_spec(request), "hard")
    _with_status(request, {})


def persistent_volume_claim(request: AdmissionRequest) -> None:
    spec = _spec(request)
    spec.setdefault("volumeMode", "Filesystem")
    pod_spec.write_canonically(reading.ensure_mapping(spec, "resources"), "requests")
    _with_status(request, {"phase": "Pending"})


def node(request: AdmissionRequest) -> None:
    status = reading.mapping(request.object.get("status"))
    for name in ("capacity", "allocatable"):
        pod_spec.write_canonically(status, name)
    if status.get("capacity") and not status.get("allocatable"):
        status["allocatable"] = dict(reading.mapping(status["capacity"]))


def priority_class(request: AdmissionRequest) -> None:
    request.object.setdefault("preemptionPolicy", "PreemptLowerPriority")


def deployment(request: AdmissionRequest) -> None:
    spec = _spec(request)
    spec.setdefault("replicas", 1)
    strategy = reading.ensure_mapping(spec, "strategy")
    strategy.setdefault("type", "RollingUpdate")
    if strategy.get("type") == "RollingUpdate":
        update = reading.ensure_mapping(strategy, "rollingUpdate")
        update.setdefault("maxUnavailable", "25%")
        update.setdefault("maxSurge", "25%")
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)
    pod_spec.default_template(spec.get("template"))
    _with_status(request, {})


def stateful_set(request: AdmissionRequest) -> None:
    spec = _spec(request)
    spec.setdefault("podManagementPolicy", "OrderedReady")
    strategy = reading.ensure_mapping(spec, "updateStrategy")
    strategy.setdefault("type", "RollingUpdate")
    if strategy.get("type") == "RollingUpdate":
        reading.ensure_mapping(strategy, "rollingUpdate").setdefault("partition", 0)
    retention = reading.ensure_mapping(spec, "persistentVolumeClaimRetentionPolicy")
    retention.setdefault("whenDeleted", "Retain")
    retention.setdefault("whenScaled", "Retain")
    spec.setdefault("replicas", 1)
    spec.setdefault("revisionHistoryLimit", 10)
    pod_spec.default_template(spec.get("template"))
    _with_status(request, {"availableReplicas": 0, "replicas": 0})


def replica_set(request: AdmissionRequest) -> None:
    spec = _spec(request)
    spec.setdefault("replicas", 1)
    pod_spec.default_template(spec.get("template"))
    _with_status(request, {"replicas": 0})


def replication_controller(request: AdmissionRequest) -> None:
    """The selector and the labels are those of the template, unless they are set."""
    replica_set(request)
    spec = _spec(request)
    labels = reading.labels(reading.mapping(spec.get("template")))
    if labels:
        spec.setdefault("selector", dict(labels))
        metadata = reading.mapping(request.object.get("metadata"))
        if not metadata.get("labels"):
            metadata["labels"] = dict(labels)


def daemon_set(request: AdmissionRequest) -> None:
    spec = _spec(request)
    strategy = reading.ensure_mapping(spec, "updateStrategy")
    strategy.setdefault("type", "RollingUpdate")
    if strategy.get("type") == "RollingUpdate":
        update = reading.ensure_mapping(strategy, "rollingUpdate")
        update.setdefault("maxUnavailable", 1)
        update.setdefault("maxSurge", 0)
    spec.setdefault("revisionHistoryLimit", 10)
    pod_spec.default_template(spec.get("template"))
    _with_status(
        request, {"currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0}
    )
