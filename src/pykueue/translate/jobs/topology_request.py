"""Topology wishes of a pod template: annotations into `podSets[].topologyRequest`."""

import json
from collections.abc import Mapping
from typing import Any

from pykueue.api.scheme import Object

PREFIX = "kueue.x-k8s.io/podset-"


def from_annotations(
    annotations: Mapping[str, str],
    *,
    pod_index_label: str | None = None,
    sub_group_index_label: str | None = None,
    sub_group_count: int | None = None,
) -> Object | None:
    """None when the template asks for nothing and its kind has no ranks to tell."""
    wish = _wish(annotations)
    slices = _slices(annotations)
    ranks: dict[str, Any] = {
        "podIndexLabel": pod_index_label,
        "subGroupIndexLabel": sub_group_index_label,
        "subGroupCount": sub_group_count,
    }
    ranks = {name: value for name, value in ranks.items() if value is not None}
    if not wish and not slices and not ranks:
        return None
    request: Object = {**wish, **slices, **ranks}
    group = annotations.get(f"{PREFIX}group-name")
    if group is not None and ("required" in wish or "preferred" in wish):
        request["podSetGroupName"] = group
    return request


def _wish(annotations: Mapping[str, str]) -> dict[str, Any]:
    for name in ("required", "preferred"):
        if f"{PREFIX}{name}-topology" in annotations:
            return {name: annotations[f"{PREFIX}{name}-topology"]}
    unconstrained = annotations.get(f"{PREFIX}unconstrained-topology")
    return {} if unconstrained is None else {"unconstrained": unconstrained in ("true", "True", "TRUE", "t", "T", "1")}


def _slices(annotations: Mapping[str, str]) -> dict[str, Any]:
    constraints = annotations.get(f"{PREFIX}slice-required-topology-constraints")
    if constraints is not None:
        return {"podsetSliceRequiredTopologyConstraints": json.loads(constraints)}
    topology, size = annotations.get(f"{PREFIX}slice-required-topology"), annotations.get(f"{PREFIX}slice-size")
    if topology is None or size is None:
        return {}
    return {"podSetSliceRequiredTopology": topology, "podSetSliceSize": int(size)}
