"""What may change in a pod: by an update, a binding, a resize, or for debugging."""

from collections.abc import Hashable, Iterator

from pykueue.api import errors, json_text, resource_lists
from pykueue.api.errors import FieldError
from pykueue.api.json_copy import copied
from pykueue.api.rules import faults, reading
from pykueue.api.rules.builtin import pod_resources
from pykueue.api.scheme import Object

_UPDATABLE = (
    "`spec.containers[*].image`",
    "`spec.initContainers[*].image`",
    "`spec.activeDeadlineSeconds`",
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
    "`spec.tolerations` (only additions to existing tolerations)",
)
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_RESIZABLE = ("cpu", "memory")


def check_update(spec: Object, old: Object) -> Iterator[FieldError]:
    for name in ("containers", "initContainers"):
        if len(reading.sequence(spec.get(name))) != len(reading.sequence(old.get(name))):
            yield faults.forbidden(f"spec.{name}", "pod updates may not add or remove containers")
            return
    deadline_errors = [*_check_deadline(spec.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds"))]
    yield from deadline_errors
    if not _untimed(old) <= _untimed(spec):
        detail = "existing toleration can not be modified except its tolerationSeconds"
        yield faults.forbidden("spec.tolerations", detail)
    yield from _check_gates(spec, old)
    if reading.sequence(old.get("schedulingGates")):
        yield from _check_placement(spec, old)
    if not deadline_errors and _fixed(spec, old) != _fixed(old, old):
        yield faults.forbidden("spec", f"pod updates may not change fields other than {','.join(_UPDATABLE)}")


def _check_deadline(after: object, before: object) -> Iterator[FieldError]:
    path = "spec.activeDeadlineSeconds"
    if before is not None and after is None:
        yield faults.invalid(path, None, "must not update from a positive integer to nil value")
    elif before is not None and reading.integer(after) > reading.integer(before):
        yield faults.invalid(path, after, "must be less than or equal to previous value")


def _untimed(spec: Object) -> set[Hashable]:
    """The tolerations without their `tolerationSeconds`, which may change."""
    return json_text.identities(
        {name: value for name, value in toleration.items() if name != "tolerationSeconds"}
        for toleration in reading.mappings(spec.get("tolerations"))
    )


def _check_gates(spec: Object, old: Object) -> Iterator[FieldError]:
    before = {reading.text(gate.get("name")) for gate in reading.mappings(old.get("schedulingGates"))}
    for index, gate in enumerate(reading.mappings(spec.get("schedulingGates"))):
        if (name := reading.text(gate.get("name"))) not in before:
            detail = f"only deletion is allowed, but found new scheduling gate '{name}'"
            yield faults.forbidden(f"spec.schedulingGates[{index}].name", detail)


def _check_placement(spec: Object, old: Object) -> Iterator[FieldError]:
    """A gated pod may be restricted to fewer nodes, never to others."""
    selector = reading.mapping(spec.get("nodeSelector"))
    if any(selector.get(key) != value for key, value in reading.mapping(old.get("nodeSelector")).items()):
        detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        yield faults.invalid("spec.nodeSelector", selector, detail)
    path = f"spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"
    before, after = _node_terms(old), _node_terms(spec)
    if before and len(before) != len(after):
        detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        yield faults.invalid(path, after, detail)
        return
    for index, term in enumerate(before):
        if not _has_only_additions(after[index], term):
            detail = "only additions are allowed (no mutations or deletions)"
            yield faults.invalid(f"{path}[{index}]", after[index], detail)


def _node_terms(spec: Object) -> list[Object]:
    return reading.mappings(reading.at(spec, "affinity", "nodeAffinity", _REQUIRED, "nodeSelectorTerms"))


def _has_only_additions(new: Object, old: Object) -> bool:
    lists = [
        (reading.sequence(new.get(name)), reading.sequence(old.get(name)))
        for name in ("matchExpressions", "matchFields")
    ]
    if not any(before for _, before in lists):
        return not any(after for after, _ in lists)
    return all(after[: len(before)] == before for after, before in lists)


def _fixed(spec: Object, old: Object) -> Object:
    """The part of a pod's spec that an update may not change."""
    rest: Object = copied(spec)
    for name in ("activeDeadlineSeconds", "tolerations", "schedulingGates"):
        rest.pop(name, None)
    for name in ("containers", "initContainers"):
        for container in reading.mappings(rest.get(name)):
            container.pop("image", None)
    if reading.integer(old.get("terminationGracePeriodSeconds")) < 0 and rest.get("terminationGracePeriodSeconds") == 1:
        rest["terminationGracePeriodSeconds"] = old["terminationGracePeriodSeconds"]
    if reading.sequence(old.get("schedulingGates")):
        rest.pop("nodeSelector", None)
        affinity = reading.mapping(rest.get("affinity"))
        affinity.pop("nodeAffinity", None)
        if not affinity:
            rest.pop("affinity", None)
    return rest


def check_binding(pod: Object, old: Object) -> None:
    """ApiError 409 if the pod cannot be bound to a node: gated, bound already, or deleted."""
    name, spec = reading.text(reading.at(old, "metadata", "name")), reading.mapping(old.get("spec"))
    why = ""
    if reading.at(old, "metadata", "deletionTimestamp"):
        why = f"pod {name} is being deleted, cannot be assigned to a host"
    elif spec.get("nodeName"):
        why = f'pod {name} is already assigned to node "{spec["nodeName"]}"'
    elif spec.get("schedulingGates"):
        why = f"pod {name} has non-empty .spec.schedulingGates"
    if why:
        raise errors.conflict("", "pods/binding", name, why)
    if not reading.at(pod, "spec", "nodeName"):
        raise errors.bad_request("pods/binding must name a node")


def check_resize(spec: Object, old: Object) -> Iterator[FieldError]:
    """A resize changes cpu and memory of containers only, and a pod never grows by it.

    The quota of a pod was counted when it was admitted. Kueue does not count a resize, so that
    more is refused here.
    """
    for name in ("containers", "initContainers"):
        containers, before = reading.mappings(spec.get(name)), reading.mappings(old.get(name))
        if len(containers) != len(before):
            yield faults.forbidden(f"spec.{name}", f"{name} may not be added or removed on resize")
            return
        for index, (container, old_container) in enumerate(zip(containers, before, strict=True)):
            here = f"spec.{name}[{index}]"
            if container.get("name") != old_container.get("name"):
                yield faults.forbidden(f"{here}.name", f"{name} may not be renamed or reordered on resize")
                return
            yield from _check_nothing_removed(f"{here}.resources", container, old_container)
    if _without_resizable(spec) != _without_resizable(old):
        yield faults.forbidden("spec", "only cpu and memory resources are mutable")
    grown = resource_lists.grown(pod_resources.requests(old), pod_resources.requests(spec))
    for name, (before_amount, after_amount) in grown.items():
        detail = f"may not grow from {before_amount} to {after_amount}: quota was reserved for {before_amount}"
        yield faults.forbidden(f"spec.containers[*].resources.requests[{name}]", detail)


def check_ephemeral_containers(spec: Object, old: Object) -> Iterator[FieldError]:
    """Ephemeral containers are only added: existing ones neither change nor go."""
    path = "spec.ephemeralContainers"
    containers = {container.get("name"): container for container in reading.mappings(spec.get("ephemeralContainers"))}
    for before in reading.mappings(old.get("ephemeralContainers")):
        name = before.get("name")
        if name not in containers:
            yield faults.forbidden(path, f'existing ephemeral containers "{name}" may not be removed\n')
        elif containers[name] != before:
            yield faults.forbidden(path, f'existing ephemeral containers "{name}" may not be changed\n')


def _check_nothing_removed(path: str, container: Object, old: Object) -> Iterator[FieldError]:
    for name in ("requests", "limits"):
        before = reading.mapping(reading.at(old, "resources", name))
        if before.keys() - reading.mapping(reading.at(container, "resources", name)).keys():
            yield faults.forbidden(f"{path}.{name}", f"resource {name} cannot be removed")


def _without_resizable(spec: Object) -> Object:
    rest: Object = copied(spec)
    for holder in (rest, *reading.mappings(rest.get("containers")), *reading.mappings(rest.get("initContainers"))):
        for name in ("requests", "limits"):
            for resource in _RESIZABLE:
                reading.mapping(reading.at(holder, "resources", name)).pop(resource, None)
    return rest
