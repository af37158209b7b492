"""Pod templates: the defaults that the API server stores, and their validation."""

from collections.abc import Iterator
from typing import Any

from pykueue.api.errors import FieldError
from pykueue.api.quantity import Quantity
from pykueue.api.rules import faults, reading, syntax
from pykueue.api.scheme import Object

_MODE_0644 = 420
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_WITH_MODE = ("secret", "configMap", "downwardAPI", "projected")


def default_template(template: Any) -> None:
    if isinstance(template, dict):
        template.setdefault("metadata", {})
        default_pod_spec(reading.ensure_mapping(template, "spec"))


def default_pod_spec(spec: Object) -> None:
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("schedulerName", "default-scheduler")
    spec.setdefault("securityContext", {})
    spec.setdefault("terminationGracePeriodSeconds", 30)
    name = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if name:
        spec["serviceAccountName"] = spec["serviceAccount"] = name
    write_canonically(spec, "overhead")
    for field in ("initContainers", "containers"):
        for container in reading.mappings(spec.get(field)):
            _default_container(container)
    for volume in reading.mappings(spec.get("volumes")):
        _default_volume(volume)


def _default_container(container: Object) -> None:
    image = reading.text(container.get("image"))
    container.setdefault("imagePullPolicy", "Always" if _tag(image) == "latest" else "IfNotPresent")
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    resources = reading.ensure_mapping(container, "resources")
    for name in ("limits", "requests"):
        write_canonically(resources, name)
    for port in reading.mappings(container.get("ports")):
        port.setdefault("protocol", "TCP")
    for variable in reading.mappings(container.get("env")):
        reference = reading.at(variable, "valueFrom", "fieldRef")
        if isinstance(reference, dict):
            reference.setdefault("apiVersion", "v1")
    for name in _PROBES:
        if isinstance(container.get(name), dict):
            _default_probe(container[name])


def write_canonically(holder: Object, name: str) -> None:
    """Write quantities as Kubernetes stores them: `0.5` as `500m`, rounded up to thousandths."""
    amounts = reading.amounts(holder.get(name))
    if amounts:
        rounded = {key: str(Quantity(amount.milli() * 10**6, amount.format)) for key, amount in amounts.items()}
        holder[name] = reading.mapping(holder[name]) | rounded


def _tag(image: str) -> str:
    """The tag of an image; "latest" if the image has neither a tag nor a digest."""
    if "@" in image:
        return ""
    _, colon, tag = image.rpartition("/")[2].partition(":")
    return tag if colon else "latest"


def _default_probe(probe: Object) -> None:
    for name, value in (("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)):
        probe.setdefault(name, value)
    action = probe.get("httpGet")
    if isinstance(action, dict):
        action.setdefault("path", "/")
        action.setdefault("scheme", "HTTP")


def _default_volume(volume: Object) -> None:
    if volume.keys() <= {"name"}:
        volume["emptyDir"] = {}
    for name in _WITH_MODE:
        if isinstance(volume.get(name), dict):
            volume[name].setdefault("defaultMode", _MODE_0644)
    if isinstance(volume.get("hostPath"), dict):
        volume["hostPath"].setdefault("type", "")


def check_template(path: str, template: Any) -> Iterator[FieldError]:
    metadata = reading.mapping(reading.at(template, "metadata"))
    yield from syntax.check_labels(f"{path}.labels", reading.text_map(metadata.get("labels")))
    yield from syntax.check_annotations(f"{path}.annotations", reading.text_map(metadata.get("annotations")))
    yield from check_pod_spec(f"{path}.spec", reading.mapping(reading.at(template, "spec")))


def check_pod_spec(path: str, spec: Object) -> Iterator[FieldError]:
    if not reading.sequence(spec.get("containers")):
        yield faults.required(f"{path}.containers")
    names: set[str] = set()
    for field in ("initContainers", "containers"):
        for index, container in enumerate(reading.mappings(spec.get(field))):
            here, name = f"{path}.{field}[{index}]", reading.text(container.get("name"))
            yield from _check_container(here, container)
            if name in names:
                yield faults.duplicate(f"{here}.name", name)
            names.add(name)
    policy, choices = spec.get("restartPolicy", "Always"), ("Always", "OnFailure", "Never")
    if policy not in choices:
        yield faults.not_supported(f"{path}.restartPolicy", policy, choices)
    yield from syntax.check_labels(f"{path}.nodeSelector", reading.text_map(spec.get("nodeSelector")))


def _check_container(path: str, container: Object) -> Iterator[FieldError]:
    name = reading.text(container.get("name"))
    if not name:
        yield faults.required(f"{path}.name")
    for explanation in syntax.dns_label(name) if name else ():
        yield faults.invalid(f"{path}.name", name, explanation)
    if not reading.text(container.get("image")):
        yield faults.required(f"{path}.image")
    resources = reading.mapping(container.get("resources"))
    requests, limits = reading.amounts(resources.get("requests")), reading.amounts(resources.get("limits"))
    for field, amounts in (("limits", limits), ("requests", requests)):
        for resource, amount in amounts.items():
            here = f"{path}.resources.{field}[{resource}]"
            yield from syntax.check_label_key(here, resource)
            if amount.nano < 0:
                yield faults.invalid(here, str(amount), faults.NEGATIVE)
    for resource in requests.keys() & limits.keys():
        if requests[resource].nano > limits[resource].nano:
            detail = f"must be less than or equal to {resource} limit of {limits[resource]}"
            yield faults.invalid(f"{path}.resources.requests", str(requests[resource]), detail)
