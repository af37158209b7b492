"""The scale subresource: one small face for everything that has replicas."""

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
    """The Scale with its parts in place; ApiError if it is none, or if the kind has none."""
    if kind.scale is None:
        raise errors.ApiError(404, "NotFound", "the server could not find the requested resource")
    given = dict(scale) if isinstance(scale, dict) else {"spec": scale}
    for name in ("metadata", "spec"):
        given[name] = given.get(name) or {}
        if not isinstance(given[name], dict):
            raise errors.bad_request(
                'Scale in version "v1" cannot be handled as a Scale: '
                f"json: cannot unmarshal into Go struct field Scale.{name}"
            )
    return given


def write(kind: Kind, obj: Object, scale: Object) -> None:
    """Put the replicas of a Scale into the object; ApiError 422 if there are none to put."""
    assert kind.scale is not None
    replicas = checked(kind, scale)["spec"].get("replicas", 0)
    if not isinstance(replicas, int) or replicas < 0:
        raise _negative(kind, obj["metadata"]["name"], replicas)
    *parents, last = _names(kind.scale["specReplicasPath"])
    place = obj
    for name in parents:
        if not isinstance(place.get(name), dict):
            place[name] = {}
        place = place[name]
    place[last] = replicas


def _negative(kind: Kind, name: str, replicas: Any) -> errors.ApiError:
    if kind.is_builtin:
        words = "must be greater than or equal to 0"
        return errors.invalid(
            "autoscaling", "Scale", name, [errors.FieldError("FieldValueInvalid", "spec.replicas", words, replicas)]
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
    if isinstance(selector, str):
        return selector
    if not isinstance(selector, dict):
        return ""
    if "matchLabels" not in selector and "matchExpressions" not in selector:
        selector = {"matchLabels": selector}
    return ",".join(sorted(_requirement_text(each) for each in selectors.from_object(selector) or ()))


def _requirement_text(requirement: selectors.Requirement) -> str:
    values = ",".join(sorted(requirement.values))
    match requirement.operator:
        case "Exists":
            return requirement.key
        case "DoesNotExist":
            return f"!{requirement.key}"
        case "NotIn":
            return f"{requirement.key} notin ({values})"
        case _ if len(requirement.values) == 1:
            return f"{requirement.key}={values}"
        case _:
            return f"{requirement.key} in ({values})"
