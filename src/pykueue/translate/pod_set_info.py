"""Pod set infos: what is injected into a pod template
when its job starts, and removed when the job stops.

The node labels and tolerations of the assigned flavors and the pod set updates of admission checks
are merged into the template. A key that already has another value is a permanent conflict. Called
by the job controllers.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from pykueue.api import errors
from pykueue.api.json_copy import copied
from pykueue.api.labels import POD_SET_UNCONSTRAINED_TOPOLOGY, TOPOLOGY_GATE, WORKLOAD_ANNOTATION, WORKLOAD_SLICE_NAME
from pykueue.api.scheme import Object


class PodSetConflictError(Exception):
    """The template and its pod set info have different values for a key.

    The workload fails to start.
    """


class PodSetInfo(msgspec.Struct, frozen=True, kw_only=True):
    name: str = ""
    count: int = 0
    annotations: Mapping[str, str] = msgspec.field(default_factory=dict)
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)
    node_selector: Mapping[str, str] = msgspec.field(default_factory=dict)
    tolerations: tuple[Object, ...] = ()
    scheduling_gates: tuple[Object, ...] = ()

    def merged(self, other: "PodSetInfo") -> "PodSetInfo":
        return replace(
            self,
            annotations=_without_conflict("annotations", self.annotations, other.annotations),
            labels=_without_conflict("labels", self.labels, other.labels),
            node_selector=_without_conflict("nodeSelector", self.node_selector, other.node_selector),
            tolerations=_without_duplicates(self.tolerations, other.tolerations),
            scheduling_gates=_without_duplicates(self.scheduling_gates, other.scheduling_gates),
        )


def from_assignment(
    assignment: Object, pod_set: Object, *, flavors: Mapping[str, Object], topology_aware: bool = True
) -> PodSetInfo:
    """The info of a pod set from its admission; ApiError 404 if a flavor does not exist."""
    node_selector: dict[str, str] = {}
    tolerations: list[Object] = []
    for name in dict.fromkeys(flavor for _, flavor in sorted((assignment.get("flavors") or {}).items())):
        if name not in flavors:
            raise errors.not_found("kueue.x-k8s.io", "resourceflavors", name)
        spec = flavors[name].get("spec") or {}
        node_selector |= spec.get("nodeLabels") or {}
        tolerations += spec.get("tolerations") or ()
    has_topology = topology_aware and bool(assignment.get("topologyAssignment"))
    return PodSetInfo(
        name=assignment["name"],
        count=int(assignment.get("count") or pod_set.get("count") or 0),
        annotations={POD_SET_UNCONSTRAINED_TOPOLOGY: "true"}
        if has_topology and not _has_topology_request(pod_set)
        else {},
        node_selector=node_selector,
        tolerations=tuple(tolerations),
        scheduling_gates=({"name": TOPOLOGY_GATE},) if has_topology else (),
    )


def from_update(update: Object) -> PodSetInfo:
    """The info from one entry of an admission check's `podSetUpdates`."""
    return PodSetInfo(
        name=update.get("name", ""),
        annotations=update.get("annotations") or {},
        labels=update.get("labels") or {},
        node_selector=update.get("nodeSelector") or {},
        tolerations=tuple(update.get("tolerations") or ()),
    )


def from_pod_set(pod_set: Object) -> PodSetInfo:
    """The info of the original template, which the Workload stores."""
    return replace(from_template(pod_set["template"]), name=pod_set["name"], count=int(pod_set.get("count", 0)))


def from_template(template: Object) -> PodSetInfo:
    metadata, spec = template.get("metadata") or {}, template.get("spec") or {}
    return PodSetInfo(
        annotations=metadata.get("annotations") or {},
        labels=metadata.get("labels") or {},
        node_selector=spec.get("nodeSelector") or {},
        tolerations=tuple(spec.get("tolerations") or ()),
        scheduling_gates=tuple(spec.get("schedulingGates") or ()),
    )


def merged_template(template: Object, info: PodSetInfo, *, elastic_slices: bool = True) -> Object:
    """The template with the info merged in.

    The names of an elastic job's newest slice replace the earlier ones.
    """
    present = from_template(template)
    if elastic_slices:
        stale = {WORKLOAD_SLICE_NAME}
        if WORKLOAD_SLICE_NAME in info.annotations:
            stale.add(WORKLOAD_ANNOTATION)
        stale &= info.annotations.keys()
        present = replace(
            present, annotations={key: value for key, value in present.annotations.items() if key not in stale}
        )
    return restored_template(template, present.merged(info))


def restored_template(template: Object, info: PodSetInfo) -> Object:
    """The template with exactly the info's metadata, node selector, tolerations and gates."""
    metadata: dict[str, Any] = {"annotations": info.annotations, "labels": info.labels}
    spec: dict[str, Any] = {
        "nodeSelector": info.node_selector,
        "tolerations": info.tolerations,
        "schedulingGates": info.scheduling_gates,
    }
    template = copied(template)
    _replace_fields(template.setdefault("metadata", {}), metadata)
    _replace_fields(template.setdefault("spec", {}), spec)
    return template


def _replace_fields(target: dict[str, Any], fields: Mapping[str, Any]) -> None:
    for name, value in fields.items():
        if value:
            target[name] = dict(value) if isinstance(value, Mapping) else list(value)
        else:
            target.pop(name, None)


def _has_topology_request(pod_set: Object) -> bool:
    request = pod_set.get("topologyRequest") or {}
    return any(request.get(name) is not None for name in ("required", "preferred", "unconstrained"))


def _without_conflict(what: str, present: Mapping[str, str], added: Mapping[str, str]) -> Mapping[str, str]:
    for key in sorted(present.keys() & added.keys()):
        if present[key] != added[key]:
            raise PodSetConflictError(
                f"invalid admission check PodSetUpdate: conflict for {what}: "
                f"conflict for key={key}, value1={present[key]}, value2={added[key]}"
            )
    return {**present, **added}


def _without_duplicates(present: Iterable[Object], added: Iterable[Object]) -> tuple[Object, ...]:
    merged = list(present)
    present_keys = [_with_default_operator(item) for item in merged]
    for item in added:
        if _with_default_operator(item) not in present_keys:
            merged.append(item)
            present_keys.append(_with_default_operator(item))
    return tuple(merged)


def _with_default_operator(toleration: Object) -> Object:
    return {"operator": "Equal", **toleration} if toleration.keys() - {"name"} else toleration
