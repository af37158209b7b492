"""The scale subresource: replicas of any kind as an autoscaling/v1 Scale."""

from typing import Any

from pykueue.api import errors, selectors
from pykueue.api.scheme import Kind, Object


def read(kind: Kind, obj: Object) -> Object:
    """The autoscaling/v1 Scale of an object."""
    if kind.scale is None:
        raise errors.ApiError(404, "NotFound", "the server could not find the requested resource")
    metadata = obj["metadata"]
    names = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    status: dict[str, Any] = {"replicas": _at(obj, kind.scale.get("statusReplicasPath", "")) or 0}
    selector = _selector_text(_at(obj, kind.scale.get("labelSelectorPath", "")))
    if selector:
        status["selector"] = selector
    replicas = _at(obj, kind.scale["specReplicasPath"])
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: metadata[name] for name in names if name in metadata},
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }


def checked(kind: Kind, scale: Any) -> Object:
    """The Scale with `metadata` and `spec` set; ApiError if it is no Scale."""
    if kind.scale is None:
        raise errors.ApiError(404, "NotFound", "the server could not find the requested resource")
    checked_scale = dict(scale) if isinstance(scale, dict) else {"spec": scale}
    for name in ("metadata", "spec"):
        checked_scale[name] = checked_scale.get(name) or {}
        if not isinstance(checked_scale[name], dict):
            raise errors.bad_request(
                'Scale in version "v1" cannot be handled as a Scale: '
                f"json: cannot unmarshal into Go struct field Scale.{name}"
            )
    return checked_scale


def write(kind: Kind, obj: Object, scale: Object) -> None:
    """Set the replicas of the object from a Scale; ApiError 422 if they are invalid."""
    assert kind.scale is not None
    replicas = checked(kind, scale)["spec"].get("replicas", 0)
    if not isinstance(replicas, int) or replicas < 0:
        raise _invalid_replicas(kind, obj["metadata"]["name"], replicas)
    *parents, last = _names(kind.scale["specReplicasPath"])
    parent = obj
    for name in parents:
        if not isinstance(parent.get(name), dict):
            parent[name] = {}
        parent = parent[name]
    parent[last] = replicas


def _invalid_replicas(kind: Kind, name: str, replicas: Any) -> errors.ApiError:
    if kind.is_builtin:
        detail = "must be greater than or equal to 0"
        return errors.invalid(
            "autoscaling", "Scale", name, [errors.FieldError("FieldValueInvalid", "spec.replicas", detail, replicas)]
        )
    path = (kind.scale or {})["specReplicasPath"]
    fault = errors.FieldError("FieldValueInvalid", path, "should be a non-negative integer", replicas)
    return errors.invalid(kind.group, kind.kind, name, [fault])


def _names(path: str) -> list[str]:
    return [name for name in path.split(".") if name]


def _at(obj: Object, path: str) -> Any:
    value: Any = obj
    for name in _names(path):
        value = value.get(name) if isinstance(value, dict) else None
    return value if path else None


def _selector_text(selector: Any) -> str:
    """A ReplicationController has a map of labels, a custom kind may have a string."""
    if isinstance(selector, str):
        return selector
    if not isinstance(selector, dict):
        return ""
    if "matchLabels" not in selector and "matchExpressions" not in selector:
        selector = {"matchLabels": selector}
    return selectors.to_text(selector)
