"""The one reader of well-formed API objects: metadata, spec, status, owners.

Objects are plain dicts (decision 1). A field that may be absent or null reads as empty, never as
None. Admission rules may meet values of any JSON type; they use `api.rules.reading`, which treats
a value of the wrong type as absent.
"""

from typing import Any

from pykueue.api.scheme import Object


def name(obj: Object) -> str:
    return str(obj["metadata"]["name"])


def namespace(obj: Object) -> str:
    """The namespace, or "" for a cluster-scoped object."""
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
    """Whether the object has a deletionTimestamp, so that only finalizers keep it."""
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
    value: Any = obj
    for key in keys:
        value = value.get(key) or {}
    return value or []


def controller_of(obj: Object) -> Object | None:
    """The owner reference with `controller: true`, as `metav1.GetControllerOf` finds it."""
    for reference in obj["metadata"].get("ownerReferences") or ():
        if reference.get("controller"):
            return reference  # type: ignore[no-any-return]
    return None


def is_controlled_by(obj: Object, owner: Object) -> bool:
    reference = controller_of(obj)
    return reference is not None and reference.get("uid") == uid(owner)


def controller_reference(owner: Object) -> Object:
    """The owner reference of a controller's children, as `metav1.NewControllerRef` makes it."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": name(owner),
        "uid": uid(owner),
        "controller": True,
        "blockOwnerDeletion": True,
    }
