"""The LimitRanges of a namespace, summarised, and the errors of pod specs against them.

If there are several LimitRanges, the tightest bound and the first default hold. Called by
`translate` (defaults) and by the scheduler (bounds).
"""

from collections.abc import Iterable, Mapping
from typing import Any

from pykueue.api import objects, resource_lists
from pykueue.api.errors import FieldError
from pykueue.api.scheme import Object

ABOVE_MAXIMUM = "requests must not be above the limitRange max"
BELOW_MINIMUM = "requests must not be below the limitRange min"
ABOVE_LIMITS = "requests must not exceed its limits"

Summary = dict[str, dict[str, resource_lists.ResourceList]]
"""Limit type (`Container`, `Pod`, …) to its bounds and defaults."""

_MERGES = {
    "max": resource_lists.keep_smallest,
    "min": resource_lists.keep_largest,
    "default": resource_lists.keep_first,
    "defaultRequest": resource_lists.keep_first,
    "maxLimitRequestRatio": resource_lists.keep_smallest,
}


def summarize(limit_ranges: Iterable[Object]) -> Summary:
    summary: Summary = {}
    for limit_range in limit_ranges:
        for item in limit_range.get("spec", {}).get("limits") or ():
            bounds = summary.setdefault(item["type"], {})
            for name, merge in _MERGES.items():
                if item.get(name):
                    bounds[name] = merge(bounds.get(name), item[name])
    return summary


def pod_spec_errors(summary: Mapping[str, Any], pod_spec: Mapping[str, Any], path: str) -> list[FieldError]:
    """The errors of a pod spec against the summary; `path` is the path of the spec."""
    errors: list[FieldError] = []
    if bounds := summary.get("Container"):
        for field in ("initContainers", "containers"):
            for index, container in enumerate(pod_spec.get(field) or ()):
                errors += _container_errors(bounds, container.get("resources") or {}, f"{path}.{field}[{index}]")
    if bounds := summary.get("Pod"):
        requests = resource_lists.to_text(resource_lists.pod_requests(pod_spec))
        errors += _bound_errors(bounds, smallest=requests, largest=requests, path=path)
    return errors


def requests_above_limits(pod_sets: Iterable[Object]) -> list[FieldError]:
    """The errors of containers, and of pods with resources, whose requests exceed their limits."""
    return [
        FieldError("FieldValueInvalid", path, ABOVE_LIMITS, names)
        for index, pod_set in enumerate(pod_sets)
        for path, resources in _resources(
            objects.nested(pod_set, "template", "spec"), f"spec.podSets[{index}].template.spec"
        )
        if (names := resource_lists.names_above(resources.get("requests"), resources.get("limits")))
    ]


def _resources(pod_spec: Object, path: str) -> Iterable[tuple[str, Mapping[str, Any]]]:
    for field in ("initContainers", "containers"):
        for index, container in enumerate(pod_spec.get(field) or ()):
            yield f"{path}.{field}[{index}]", container.get("resources") or {}
    yield f"{path}.resources", pod_spec.get("resources") or {}


def _container_errors(bounds: Mapping[str, Any], resources: Mapping[str, Any], path: str) -> list[FieldError]:
    requests, limits = resources.get("requests"), resources.get("limits")
    return _bound_errors(
        bounds,
        smallest=resource_lists.keep_smallest(requests, limits),
        largest=resource_lists.keep_largest(requests, limits),
        path=path,
    )


def _bound_errors(
    bounds: Mapping[str, Any], *, smallest: Mapping[str, Any], largest: Mapping[str, Any], path: str
) -> list[FieldError]:
    errors = []
    if names := resource_lists.names_above(largest, bounds.get("max")):
        errors.append(FieldError("FieldValueInvalid", path, ABOVE_MAXIMUM, names))
    if names := resource_lists.names_above(bounds.get("min"), smallest):
        errors.append(FieldError("FieldValueInvalid", path, BELOW_MINIMUM, names))
    return errors
