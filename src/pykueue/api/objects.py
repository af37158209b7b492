"""The one reader of what every API object has: metadata, spec, status, owners.

Objects are plain dicts (decision 1). A field that may be absent or null reads as empty, never as None.
Rules that must survive values of the wrong JSON type use `api.rules.reading` instead.
"""

from typing import Any

from pykueue.api.scheme import Object


def name(obj: Object) -> str:
    return str(obj["metadata"]["name"])


def namespace(obj: Object) -> str:
    """The namespace, or "" for an object of the cluster's scope."""
    return str(obj["metadata"].get("namespace", ""))


def uid(obj: Object) -> str:
    return str(obj["metadata"]["uid"])


def labels(obj: Object) -> dict[str, str]:
    return obj["metadata"].get("labels") or {}


def annotations(obj: Object) -> dict[str, str]:
    return obj["metadata"].get("annotations") or {}


def finalizers(obj: Object) -> list[str]:
    return obj["metadata"].get("finalizers") or []


def owner_references(obj: Object) -> list[Object]:
    return obj["metadata"].get("ownerReferences") or []


def is_deleted(obj: Object) -> bool:
    """Whether the object has a deletionTimestamp: it stays only until its finalizers are removed."""
    return "deletionTimestamp" in obj["metadata"]


def spec(obj: Object) -> Object:
    return obj.get("spec") or {}


def status(obj: Object) -> Object:
    return obj.get("status") or {}


def nested(obj: Object, *keys: str) -> Object:
    """The object below `keys`, or {} where one of them is absent or null."""
    value: Any = obj
    for key in keys:
        value = value.get(key) or {}
    return value  # type: ignore[no-any-return]


def nested_list(obj: Object, *keys: str) -> list[Any]:
    """The list below `keys`, or [] where one of them is absent or null."""
    return nested(obj, *keys[:-1]).get(keys[-1]) or []


def controller_of(obj: Object) -> Object | None:
    """The owner reference with `controller: true`, as `metav1.GetControllerOf` finds it."""
    return next((reference for reference in owner_references(obj) if reference.get("controller")), None)


def is_controlled_by(obj: Object, owner: Object) -> bool:
    reference = controller_of(obj)
    return reference is not None and reference.get("uid") == uid(owner)


def controller_reference(owner: Object) -> Object:
    """The owner reference that a controller puts on what it creates, as `metav1.NewControllerRef` does."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": name(owner),
        "uid": uid(owner),
        "controller": True,
        "blockOwnerDeletion": True,
    }
