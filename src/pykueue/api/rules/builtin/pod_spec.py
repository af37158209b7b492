"""Pod templates: the defaults that the API server stores, and their validation."""

import ipaddress
from collections.abc import Iterator
from typing import Any

from pykueue.api.errors import FieldError
from pykueue.api.quantity import Quantity
from pykueue.api.rules import faults, reading, syntax
from pykueue.api.rules.builtin import (
    containers,
    pod_annotations,
    pod_resources,
    scheduling,
    security_context,
    volumes,
)
from pykueue.api.rules.builtin.containers import PodContext
from pykueue.api.rules.builtin.probes import PROBES
from pykueue.api.scheme import Object

_MODE_0644 = 420
_WITH_MODE = ("secret", "configMap", "downwardAPI", "projected")
_TOKEN_SECONDS = 3600
_LARGEST_INT32 = 2**31 - 1
_OCTETS = 4
_MOST_NAMESERVERS, _MOST_SEARCHES = 3, 32
_CHOICES = {
    "restartPolicy": ("Always", "OnFailure", "Never"),
    "dnsPolicy": ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"),
    "preemptionPolicy": ("PreemptLowerPriority", "Never"),
}
_SUBDOMAINS = ("serviceAccountName", "nodeName", "priorityClassName", "runtimeClassName", "hostnameOverride")


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
    if isinstance(spec.get("resources"), dict):
        for name in ("limits", "requests"):
            write_canonically(spec["resources"], name)
    for field in ("initContainers", "containers"):
        for container in reading.mappings(spec.get(field)):
            default_container(container)
    for volume in reading.mappings(spec.get("volumes")):
        _default_volume(volume)


def default_container(container: Object) -> None:
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
        _default_field_reference(reading.mapping(variable.get("valueFrom")))
    for name in PROBES:
        if isinstance(container.get(name), dict):
            _default_probe(container[name])
    for name in ("postStart", "preStop"):
        _default_http_action(reading.at(container, "lifecycle", name, "httpGet"))


def _default_field_reference(holder: Object) -> None:
    if isinstance(holder.get("fieldRef"), dict):
        holder["fieldRef"].setdefault("apiVersion", "v1")


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
    _default_http_action(probe.get("httpGet"))


def _default_http_action(action: Any) -> None:
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
    projections = reading.mappings(reading.at(volume, "projected", "sources"))
    for projection in projections:
        if isinstance(projection.get("serviceAccountToken"), dict):
            projection["serviceAccountToken"].setdefault("expirationSeconds", _TOKEN_SECONDS)
    for source in (volume, *projections):
        for item in reading.mappings(reading.at(source, "downwardAPI", "items")):
            _default_field_reference(item)


def check_template(path: str, template: Any) -> Iterator[FieldError]:
    metadata = reading.mapping(reading.at(template, "metadata"))
    yield from syntax.check_labels(f"{path}.labels", reading.text_map(metadata.get("labels")))
    annotations = reading.text_map(metadata.get("annotations"))
    yield from syntax.check_annotations(f"{path}.annotations", annotations)
    spec = reading.mapping(reading.at(template, "spec"))
    yield from pod_annotations.check(f"{path}.annotations", annotations, spec)
    yield from check_pod_spec(f"{path}.spec", spec)
    yield from pod_annotations.check_profiles(f"{path}.spec", annotations, spec)
    if reading.sequence(spec.get("ephemeralContainers")):
        yield faults.forbidden(f"{path}.spec.ephemeralContainers", "ephemeral containers not allowed in pod template")


def check_pod_spec(path: str, spec: Object, *, pod_name: str = "", is_pod: bool = False) -> Iterator[FieldError]:
    """All of a pod's spec, in Kubernetes' order. `pod_name` is empty in templates."""
    valid_volumes, volume_errors = volumes.check_volumes(
        f"{path}.volumes", reading.mappings(spec.get("volumes")), pod_name
    )
    yield from volume_errors
    claims = reading.mappings(spec.get("resourceClaims"))
    yield from _check_claims(f"{path}.resourceClaims", claims)
    context = PodContext(
        volumes=valid_volumes,
        claims=frozenset(filter(None, (reading.text(claim.get("name")) for claim in claims))),
        grace_seconds=reading.integer(spec.get("terminationGracePeriodSeconds"), 30),
        restart_policy=reading.text(spec.get("restartPolicy")) or "Always",
        os_name=reading.text(reading.at(spec, "os", "name")),
    )
    yield from containers.check(path, spec, context)
    yield from pod_resources.check_pod(path, spec)
    yield from _check_host_network(path, spec, is_pod=is_pod)
    for name, choices in _CHOICES.items():
        if (value := spec.get(name) or choices[0]) not in choices:
            yield faults.not_supported(f"{path}.{name}", value, choices)
    yield from syntax.check_labels(f"{path}.nodeSelector", reading.text_map(spec.get("nodeSelector")))
    yield from security_context.check(path, spec)
    yield from _check_dns(f"{path}.dnsConfig", spec)
    yield from scheduling.check(path, spec)
    yield from _check_names(path, spec)
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= reading.integer(deadline) <= _LARGEST_INT32:
        yield faults.invalid(f"{path}.activeDeadlineSeconds", deadline, syntax.outside(1, _LARGEST_INT32))
    yield from scheduling.check_tolerations(f"{path}.tolerations", reading.mappings(spec.get("tolerations")))
    yield from _check_host_aliases(f"{path}.hostAliases", reading.mappings(spec.get("hostAliases")))
    yield from pod_resources.check_overhead(f"{path}.overhead", reading.mapping(spec.get("overhead")))
    if (os_name := reading.at(spec, "os", "name")) is not None and os_name not in ("linux", "windows"):
        yield faults.not_supported(f"{path}.os", os_name, ("linux", "windows"))


def _check_claims(path: str, claims: list[Object]) -> Iterator[FieldError]:
    names: set[str] = set()
    for index, claim in enumerate(claims):
        here, name = f"{path}[{index}]", reading.text(claim.get("name"))
        if not name:
            yield faults.required(f"{here}.name")
        elif name in names:
            yield faults.duplicate(f"{here}.name", name)
        else:
            yield from syntax.check_dns_label(f"{here}.name", name)
        names.add(name)
        sources = [name for name in ("resourceClaimName", "resourceClaimTemplateName") if claim.get(name) is not None]
        if len(sources) > 1:
            detail = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            yield faults.invalid(here, claim, detail)
        if not sources:
            detail = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            yield faults.invalid(here, claim, detail)
        for source in sources:
            yield from syntax.check_dns_subdomain(f"{here}.{source}", reading.text(claim[source]))


def _check_host_network(path: str, spec: Object, *, is_pod: bool) -> Iterator[FieldError]:
    if spec.get("hostNetwork") is not True:
        return
    for number, container in enumerate(reading.mappings(spec.get("containers"))):
        for index, port in enumerate(reading.mappings(container.get("ports"))):
            host = reading.integer(port.get("hostPort"))
            if (is_pod or host) and host != reading.integer(port.get("containerPort")):
                here = f"{path}.containers[{number}].ports[{index}].hostPort"
                yield faults.invalid(here, host, "must match `containerPort` when `hostNetwork` is true")


def _check_dns(path: str, spec: Object) -> Iterator[FieldError]:
    config = reading.mapping(spec.get("dnsConfig"))
    if not config and spec.get("dnsPolicy") != "None":
        return
    servers, searches = (reading.texts(config.get(name)) for name in ("nameservers", "searches"))
    if spec.get("dnsPolicy") == "None" and not servers:
        if not config:
            yield faults.required(path, "must provide `dnsConfig` when `dnsPolicy` is None")
        else:
            detail = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            yield faults.required(f"{path}.nameservers", detail)
        return
    if len(servers) > _MOST_NAMESERVERS:
        yield faults.invalid(f"{path}.nameservers", servers, f"must not have more than {_MOST_NAMESERVERS} nameservers")
    for index, server in enumerate(servers):
        yield from _check_address(f"{path}.nameservers[{index}]", server)
    if len(searches) > _MOST_SEARCHES:
        yield faults.invalid(f"{path}.searches", searches, f"must not have more than {_MOST_SEARCHES} search paths")
    for index, option in enumerate(reading.mappings(config.get("options"))):
        if not option.get("name"):
            yield faults.required(f"{path}.options[{index}]", "must not be empty")


def _check_address(path: str, address: str) -> Iterator[FieldError]:
    """An IP address without leading zeros, which some programs read as octal numbers."""
    start, colon, dotted = address.rpartition(":")
    octets = dotted.split(".")
    if len(octets) == _OCTETS:
        dotted = ".".join(octet.lstrip("0") or octet[:1] for octet in octets)
    without_zeros = f"{start}{colon}{dotted}"
    parsed = _parsed_address(without_zeros)
    if parsed is None or "%" in address:
        yield faults.invalid(path, address, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")
    elif without_zeros != address:
        yield faults.invalid(path, address, "must not have leading 0s")
    elif isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is not None:
        yield faults.invalid(path, address, "must not be an IPv4-mapped IPv6 address")


def _parsed_address(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(address)
    except ValueError:
        return None


def _check_names(path: str, spec: Object) -> Iterator[FieldError]:
    for name in _SUBDOMAINS:
        if name in spec and (value := reading.text(spec[name])):
            yield from syntax.check_dns_subdomain(f"{path}.{name}", value)
    for name in ("hostname", "subdomain"):
        if name in spec and (value := reading.text(spec[name])):
            yield from syntax.check_dns_label(f"{path}.{name}", value)


def _check_host_aliases(path: str, aliases: list[Object]) -> Iterator[FieldError]:
    for index, alias in enumerate(aliases):
        yield from _check_address(f"{path}[{index}].ip", reading.text(alias.get("ip")))
        for number, name in enumerate(reading.texts(alias.get("hostnames"))):
            yield from syntax.check_dns_subdomain(f"{path}[{index}].hostnames[{number}]", name)
