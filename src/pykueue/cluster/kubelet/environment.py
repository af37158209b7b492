"""The environment, command and arguments of a container, from the pod, ConfigMaps and Secrets.

Without I/O.
"""

import base64
import re
from collections.abc import Callable, Mapping
from typing import Any

from pykueue.api import objects, quantity, resource_lists, resources
from pykueue.api.scheme import Object
from pykueue.cluster import pods

Find = Callable[[str, str], Object | None]
"""Looks up a `ConfigMap`, `Secret` or `ResourceClaim` by kind and name in the pod's namespace."""

SOURCES = {
    "ConfigMap": resources.CONFIG_MAP,
    "Secret": resources.SECRET,
    "ResourceClaim": resources.RESOURCE_CLAIM,
}
"""The kinds that `Find` looks up."""
_REFERENCE = re.compile(r"\$(\$|\(([-._a-zA-Z0-9]+)\))")
_SUBSCRIPT = re.compile(r"metadata\.(labels|annotations)\['([^']*)'\]")


class MissingSourceError(Exception):
    """A ConfigMap, Secret or key does not exist. The message is the kubelet's."""


def data_of(kind: str, name: str, find: Find) -> dict[str, bytes] | None:
    """Keys and contents of a ConfigMap or Secret; None if it does not exist."""
    obj = find(kind, name)
    if obj is None:
        return None
    if kind == "Secret":
        stored = {key: base64.b64decode(value) for key, value in (obj.get("data") or {}).items()}
        return stored | {key: value.encode() for key, value in (obj.get("stringData") or {}).items()}
    binary = {key: base64.b64decode(value) for key, value in (obj.get("binaryData") or {}).items()}
    return binary | {key: value.encode() for key, value in (obj.get("data") or {}).items()}


def variables(pod: Object, container: Object, find: Find) -> dict[str, str]:
    """`envFrom`, then `env` in order; a later variable may refer to an earlier one as $(NAME)."""
    values: dict[str, str] = {}
    for source in container.get("envFrom") or ():
        values |= _from_source(source, find)
    for variable in container.get("env") or ():
        value = _value(variable, pod, container, find)
        if value is not None:
            values[variable["name"]] = expand(value, values) if "valueFrom" not in variable else value
    return values


def expand(text: str, values: Mapping[str, str]) -> str:
    """Replace $(NAME) by its value if it has one, and $$ by a dollar sign."""

    def replace(match: re.Match[str]) -> str:
        if match.group(1) == "$":
            return "$"
        return values.get(match.group(2), match.group(0))

    return _REFERENCE.sub(replace, text)


def command(container: Object, values: Mapping[str, str]) -> list[str]:
    words = [*(container.get("command") or ()), *(container.get("args") or ())]
    return [expand(str(word), values) for word in words]


def _from_source(source: Object, find: Find) -> dict[str, str]:
    for field, kind in (("configMapRef", "ConfigMap"), ("secretRef", "Secret")):
        if reference := source.get(field):
            data = data_of(kind, reference["name"], find)
            if data is None:
                if reference.get("optional"):
                    return {}
                raise MissingSourceError(_missing(kind, reference["name"]))
            prefix = source.get("prefix", "")
            return {f"{prefix}{key}": value.decode(errors="replace") for key, value in data.items()}
    return {}


def _missing(kind: str, name: str) -> str:
    return f'{kind.lower()} "{name}" not found'


def _value(variable: Object, pod: Object, container: Object, find: Find) -> str | None:
    source = variable.get("valueFrom")
    if source is None:
        return str(variable.get("value", ""))
    if reference := source.get("fieldRef"):
        return field_value(pod, reference["fieldPath"])
    if reference := source.get("resourceFieldRef"):
        return resource_value(pod, container, reference)
    for field, kind in (("configMapKeyRef", "ConfigMap"), ("secretKeyRef", "Secret")):
        if reference := source.get(field):
            return _key(kind, reference, pod, find)
    return None


def _key(kind: str, reference: Object, pod: Object, find: Find) -> str | None:
    data = data_of(kind, reference["name"], find)
    if data is not None and reference["key"] in data:
        return data[reference["key"]].decode(errors="replace")
    if reference.get("optional"):
        return None
    if data is None:
        raise MissingSourceError(_missing(kind, reference["name"]))
    raise MissingSourceError(
        f"couldn't find key {reference['key']} in {kind} {objects.namespace(pod)}/{reference['name']}"
    )


def field_value(pod: Object, path: str) -> str:
    """A field of the pod as the downward API formats it."""
    if match := _SUBSCRIPT.fullmatch(path):
        return str((pod["metadata"].get(match.group(1)) or {}).get(match.group(2), ""))
    if path in ("metadata.labels", "metadata.annotations"):
        pairs = pod["metadata"].get(path.removeprefix("metadata.")) or {}
        return "\n".join(f'{key}="{value}"' for key, value in sorted(pairs.items()))
    if path == "spec.serviceAccountName":
        return str(pod["spec"].get("serviceAccountName", "default"))
    if path in ("status.podIPs", "status.hostIPs"):
        return ",".join(entry["ip"] for entry in objects.nested_list(pod, *path.split(".")))
    value: Any = pod
    for name in path.split("."):
        value = value.get(name, "") if isinstance(value, dict) else ""
    return str(value)


def resource_value(pod: Object, container: Object, reference: Object) -> str:
    """A request or limit of a container, divided by the divisor and rounded up."""
    name = reference.get("containerName")
    others = pods.containers(pod["spec"]) if name else []
    target = next((other for other in others if other["name"] == name), container)
    bound, _, resource = reference["resource"].partition(".")
    amounts = objects.nested(target, "resources")
    default = objects.nested(amounts, "limits").get(resource, "0")
    text = objects.nested(amounts, bound).get(resource, default)
    divisor = quantity.parse(str(reference.get("divisor") or "1")).nano or quantity.NANO_PER_UNIT
    return str(-(-resource_lists.parse({resource: text})[resource].nano // divisor))
