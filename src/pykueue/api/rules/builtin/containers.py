"""Validation of containers, init containers and ephemeral containers of a pod."""

from collections.abc import Iterator, Mapping

import msgspec

from pykueue.api.errors import FieldError
from pykueue.api.rules import faults, reading, syntax
from pykueue.api.rules.builtin import downward_api, pod_resources, probes, volumes
from pykueue.api.scheme import Object

_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_RESTART_POLICIES = ("Always", "Never", "OnFailure")
_EPHEMERAL_FIELDS = frozenset(
    [
        "name",
        "image",
        "command",
        "args",
        "workingDir",
        "env",
        "envFrom",
        "volumeMounts",
        "volumeDevices",
        "terminationMessagePath",
        "terminationMessagePolicy",
        "imagePullPolicy",
        "securityContext",
        "stdin",
        "stdinOnce",
        "tty",
        "targetContainerName",
    ]
)
_VALUE_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_MOST_RESTART_RULES = 20
_MOST_EXIT_CODES = 255


class PodContext(msgspec.Struct, frozen=True, kw_only=True):
    """What the checks of a container read from its pod."""

    volumes: Mapping[str, Object] = msgspec.field(default_factory=dict)
    claims: frozenset[str] = frozenset()
    grace_seconds: int = 30
    restart_policy: str = "Always"
    os_name: str = ""


def check(path: str, spec: Object, pod: PodContext) -> Iterator[FieldError]:
    """All containers of a pod."""
    names: set[str] = set()
    main = reading.mappings(spec.get("containers"))
    if not main:
        yield faults.required(f"{path}.containers")
    for index, container in enumerate(main):
        here = f"{path}.containers[{index}]"
        yield from _check_common(here, container, pod)
        yield from _check_unique(here, container, names)
        yield from probes.check_container(here, container, pod.grace_seconds, pod.os_name)
        yield from _check_restart_policy(here, container)
    yield from _check_host_ports(f"{path}.containers", main)
    for index, container in enumerate(reading.mappings(spec.get("initContainers"))):
        here = f"{path}.initContainers[{index}]"
        yield from _check_common(here, container, pod)
        yield from _check_restart_policy(here, container)
        yield from _check_unique(here, container, names)
        yield from _check_host_ports(f"{path}.initContainers", [container])
        yield from _check_init_container(here, container, pod)
    others = frozenset(names)
    for index, container in enumerate(reading.mappings(spec.get("ephemeralContainers"))):
        here = f"{path}.ephemeralContainers[{index}]"
        yield from _check_common(here, container, pod)
        yield from check_image_text(here, container)
        yield from _check_unique(here, container, names)
        yield from _check_ephemeral(here, container, others)


def check_image_text(path: str, container: Object) -> Iterator[FieldError]:
    """Pods only; templates may have spaces around an image."""
    image = reading.text(container.get("image"))
    if image != image.strip():
        yield faults.invalid(f"{path}.image", image, "must not have leading or trailing whitespace")


def _check_unique(path: str, container: Object, names: set[str]) -> Iterator[FieldError]:
    name = reading.text(container.get("name"))
    if name and name in names:
        yield faults.duplicate(f"{path}.name", name)
    names.add(name)


def _check_init_container(path: str, container: Object, pod: PodContext) -> Iterator[FieldError]:
    if container.get("restartPolicy") == "Always":
        yield from probes.check_container(path, container, pod.grace_seconds, pod.os_name)
        return
    detail = "may not be set for init containers without restartPolicy=Always"
    yield from probes.check_without(path, container, ("lifecycle", *probes.PROBES), detail)
    for index, policy in enumerate(reading.mappings(container.get("resizePolicy"))):
        if policy.get("restartPolicy") == "RestartContainer":
            here = f"{path}.resizePolicy[{index}].restartPolicy"
            detail = "must not be set to 'RestartContainer' for non-sidecar initContainers"
            yield faults.invalid(here, "RestartContainer", detail)


def _check_ephemeral(path: str, container: Object, others: frozenset[str]) -> Iterator[FieldError]:
    target = reading.text(container.get("targetContainerName"))
    if target and target not in others:
        yield faults.not_found(f"{path}.targetContainerName", target)
    detail = "cannot be set for an Ephemeral Container"
    for name, value in container.items():
        if name not in _EPHEMERAL_FIELDS and value not in (None, {}, [], ""):
            yield faults.forbidden(f"{path}.{name}", detail)
    for index, mount in enumerate(reading.mappings(container.get("volumeMounts"))):
        for name in ("subPath", "subPathExpr"):
            if mount.get(name):
                yield faults.forbidden(f"{path}.volumeMounts[{index}].{name}", detail)


def _check_common(path: str, container: Object, pod: PodContext) -> Iterator[FieldError]:
    name = reading.text(container.get("name"))
    yield from syntax.check_dns_label(f"{path}.name", name) if name else [faults.required(f"{path}.name")]
    if not reading.text(container.get("image")):
        yield faults.required(f"{path}.image")
    if (policy := container.get("terminationMessagePolicy", "File")) not in _MESSAGE_POLICIES:
        yield faults.not_supported(f"{path}.terminationMessagePolicy", policy, _MESSAGE_POLICIES)
    yield from _check_ports(f"{path}.ports", reading.mappings(container.get("ports")))
    for index, variable in enumerate(reading.mappings(container.get("env"))):
        yield from _check_variable(f"{path}.env[{index}]", variable, pod)
    for index, source in enumerate(reading.mappings(container.get("envFrom"))):
        yield from _check_variable_source(f"{path}.envFrom", index, source)
    yield from volumes.check_mounts(f"{path}.volumeMounts", container, pod.volumes)
    yield from volumes.check_devices(f"{path}.volumeDevices", container, pod.volumes)
    if (pull_policy := container.get("imagePullPolicy", "Always")) not in _PULL_POLICIES:
        yield faults.not_supported(f"{path}.imagePullPolicy", pull_policy, _PULL_POLICIES)
    yield from pod_resources.check_container(path, container, pod.claims)
    yield from _check_resize_policy(f"{path}.resizePolicy", container, pod.restart_policy)


def _check_ports(path: str, ports: list[Object]) -> Iterator[FieldError]:
    names: set[str] = set()
    for index, port in enumerate(ports):
        here, name = f"{path}[{index}]", reading.text(port.get("name"))
        if name and (explanations := syntax.port_name(name)):
            yield from (faults.invalid(f"{here}.name", name, explanation) for explanation in explanations)
        elif name in names:
            yield faults.duplicate(f"{here}.name", name)
        elif name:
            names.add(name)
        number, host = reading.integer(port.get("containerPort")), reading.integer(port.get("hostPort"))
        if number == 0:
            yield faults.required(f"{here}.containerPort")
        else:
            yield from probes.check_port(f"{here}.containerPort", number)
        if host:
            yield from probes.check_port(f"{here}.hostPort", host)
        if (protocol := port.get("protocol", "TCP")) not in _PROTOCOLS:
            yield faults.not_supported(f"{here}.protocol", protocol, _PROTOCOLS)


def _check_host_ports(path: str, containers: list[Object]) -> Iterator[FieldError]:
    used: set[str] = set()
    for number, container in enumerate(containers):
        for index, port in enumerate(reading.mappings(container.get("ports"))):
            host = reading.integer(port.get("hostPort"))
            key = f"{port.get('protocol', 'TCP')}/{port.get('hostIP', '')}/{host}"
            if host and key in used:
                yield faults.duplicate(f"{path}[{number}].ports[{index}].hostPort", key)
            used.add(key)


def _check_variable(path: str, variable: Object, pod: PodContext) -> Iterator[FieldError]:
    name = reading.text(variable.get("name"))
    if not name:
        yield faults.required(f"{path}.name")
    for explanation in syntax.variable_name(name):
        yield faults.invalid(f"{path}.name", name, explanation)
    source = variable.get("valueFrom")
    if not isinstance(source, dict):
        return
    here = f"{path}.valueFrom"
    names = [name for name in _VALUE_SOURCES if source.get(name) is not None]
    for name in names:
        yield from _check_value_source(f"{here}.{name}", name, reading.mapping(source[name]), pod)
    if not names:
        choices = "`fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        yield faults.invalid(here, "", f"must specify one of: {choices}")
    elif variable.get("value"):
        yield faults.invalid(here, "", "may not be specified when `value` is not empty")
    elif len(names) > 1:
        yield faults.invalid(here, "", "may not have more than one field specified at a time")


def _check_value_source(path: str, name: str, source: Object, pod: PodContext) -> Iterator[FieldError]:
    if name == "fieldRef":
        yield from downward_api.check_variable_field(path, source)
    elif name == "resourceFieldRef":
        yield from downward_api.check_resource(path, source, needs_container=False)
    elif name == "fileKeyRef":
        yield from _check_file_key(path, source, pod)
    else:
        yield from syntax.check_dns_subdomain(f"{path}.name", reading.text(source.get("name")))
        key = reading.text(source.get("key"))
        yield from volumes.check_config_key(f"{path}.key", key) if key else [faults.required(f"{path}.key")]


def _check_file_key(path: str, source: Object, pod: PodContext) -> Iterator[FieldError]:
    key, volume, file_path = (reading.text(source.get(name)) for name in ("key", "volumeName", "path"))
    for name, value in (("key", key), ("volumeName", volume), ("path", file_path)):
        if not value:
            yield faults.required(f"{path}.{name}")
    for explanation in syntax.variable_name(key):
        yield faults.invalid(f"{path}.key", key, explanation)
    if ".." in file_path.split("/"):
        yield faults.invalid(f"{path}.path", file_path, "must not contain '..'")
    if volume not in pod.volumes:
        yield faults.not_found(f"{path}.volumeName", volume)
    elif "emptyDir" not in pod.volumes[volume]:
        yield faults.invalid(f"{path}.volumeName", volume, "referenced volume must be of type emptyDir")


def _check_variable_source(path: str, index: int, source: Object) -> Iterator[FieldError]:
    prefix = reading.text(source.get("prefix"))
    for explanation in syntax.variable_name(prefix):
        yield faults.invalid(f"{path}[{index}].prefix", prefix, explanation)
    names = [name for name in ("configMapRef", "secretRef") if source.get(name) is not None]
    for name in names:
        here, referenced = f"{path}[{index}].{name}.name", reading.text(reading.at(source, name, "name"))
        yield from syntax.check_dns_subdomain(here, referenced) if referenced else [faults.required(here)]
    if not names:
        yield faults.invalid(path, "", "must specify one of: `configMapRef` or `secretRef`")
    elif len(names) > 1:
        yield faults.invalid(path, "", "may not have more than one field specified at a time")


def _check_resize_policy(path: str, container: Object, restart_policy: str) -> Iterator[FieldError]:
    names: set[str] = set()
    for index, policy in enumerate(reading.mappings(container.get("resizePolicy"))):
        resource, choice = (reading.text(policy.get(name)) for name in ("resourceName", "restartPolicy"))
        if resource in names:
            yield faults.duplicate(f"{path}[{index}]", resource)
        names.add(resource)
        for value, choices in ((resource, ("cpu", "memory")), (choice, ("NotRequired", "RestartContainer"))):
            if not value:
                yield faults.required(path)
            elif value not in choices:
                yield faults.not_supported(path, value, choices)
        if restart_policy == "Never" and choice != "NotRequired":
            detail = "must be 'NotRequired' when pod `restartPolicy` is 'Never'"
            yield faults.invalid(path, choice, detail)


def _check_restart_policy(path: str, container: Object) -> Iterator[FieldError]:
    policy, rules = container.get("restartPolicy"), reading.mappings(container.get("restartPolicyRules"))
    if policy is None:
        if rules:
            yield faults.required(f"{path}.restartPolicy", "must specify restartPolicy when restart rules are used")
    elif policy not in _RESTART_POLICIES:
        yield faults.not_supported(f"{path}.restartPolicy", policy, _RESTART_POLICIES)
    if len(rules) > _MOST_RESTART_RULES:
        yield faults.too_many(f"{path}.restartPolicyRules", len(rules), _MOST_RESTART_RULES)
    for index, rule in enumerate(rules):
        here = f"{path}.restartPolicyRules[{index}]"
        if (action := rule.get("action", "")) not in ("Restart", "RestartAllContainers"):
            yield faults.not_supported(f"{here}.action", action, ("Restart", "RestartAllContainers"))
        exit_codes = rule.get("exitCodes")
        if not isinstance(exit_codes, dict):
            yield faults.required(f"{here}.exitCodes", "must be specified")
            continue
        if (operator := exit_codes.get("operator", "")) not in ("In", "NotIn"):
            yield faults.not_supported(f"{here}.exitCodes.operator", operator, ("In", "NotIn"))
        if (count := len(reading.sequence(exit_codes.get("values")))) > _MOST_EXIT_CODES:
            yield faults.too_many(f"{here}.exitCodes.values", count, _MOST_EXIT_CODES)
