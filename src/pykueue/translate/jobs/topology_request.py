"""The topology request of a pod template: annotations become `podSets[].topologyRequest`."""

from collections.abc import Mapping
from typing import Any

from pykueue.api import json_text
from pykueue.api.labels import (
    POD_SET_GROUP_NAME,
    POD_SET_PREFERRED_TOPOLOGY,
    POD_SET_REQUIRED_TOPOLOGY,
    POD_SET_SLICE_REQUIRED_TOPOLOGY,
    POD_SET_SLICE_REQUIRED_TOPOLOGY_CONSTRAINTS,
    POD_SET_SLICE_SIZE,
    POD_SET_UNCONSTRAINED_TOPOLOGY,
)
from pykueue.api.scheme import Object

ANNOTATIONS = (
    POD_SET_REQUIRED_TOPOLOGY,
    POD_SET_PREFERRED_TOPOLOGY,
    POD_SET_UNCONSTRAINED_TOPOLOGY,
    POD_SET_SLICE_REQUIRED_TOPOLOGY,
    POD_SET_SLICE_REQUIRED_TOPOLOGY_CONSTRAINTS,
)
"""A template with one of these requests topology-aware scheduling."""


def from_annotations(
    annotations: Mapping[str, str],
    *,
    pod_index_label: str | None = None,
    sub_group_index_label: str | None = None,
    sub_group_count: int | None = None,
) -> Object | None:
    """None if the template has no topology annotations and its kind has no index labels."""
    level = _level(annotations)
    slices = _slices(annotations)
    indexes: dict[str, Any] = {
        "podIndexLabel": pod_index_label,
        "subGroupIndexLabel": sub_group_index_label,
        "subGroupCount": sub_group_count,
    }
    indexes = {name: value for name, value in indexes.items() if value is not None}
    if not level and not slices and not indexes:
        return None
    request: Object = {**level, **slices, **indexes}
    group = annotations.get(POD_SET_GROUP_NAME)
    if group is not None and ("required" in level or "preferred" in level):
        request["podSetGroupName"] = group
    return request


def _level(annotations: Mapping[str, str]) -> dict[str, Any]:
    if POD_SET_REQUIRED_TOPOLOGY in annotations:
        return {"required": annotations[POD_SET_REQUIRED_TOPOLOGY]}
    if POD_SET_PREFERRED_TOPOLOGY in annotations:
        return {"preferred": annotations[POD_SET_PREFERRED_TOPOLOGY]}
    unconstrained = annotations.get(POD_SET_UNCONSTRAINED_TOPOLOGY)
    return {} if unconstrained is None else {"unconstrained": unconstrained in ("true", "True", "TRUE", "t", "T", "1")}


def _slices(annotations: Mapping[str, str]) -> dict[str, Any]:
    constraints = annotations.get(POD_SET_SLICE_REQUIRED_TOPOLOGY_CONSTRAINTS)
    if constraints is not None:
        return {"podsetSliceRequiredTopologyConstraints": json_text.decode_field(constraints)}
    topology, size = annotations.get(POD_SET_SLICE_REQUIRED_TOPOLOGY), annotations.get(POD_SET_SLICE_SIZE)
    if topology is None or size is None:
        return {}
    return {"podSetSliceRequiredTopology": topology, "podSetSliceSize": int(size)}
