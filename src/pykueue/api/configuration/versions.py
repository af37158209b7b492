"""Converts the v1beta1 Configuration to v1beta2. Called by `loading` first of all."""

import copy

from pykueue.api.rules import reading
from pykueue.api.scheme import Object, Schema

GROUP = "config.kueue.x-k8s.io"
V1BETA1 = f"{GROUP}/v1beta1"
V1BETA2 = f"{GROUP}/v1beta2"

_BOTH_STRATEGIES = ["LessThanOrEqualToFinalShare", "LessThanInitialShare"]


def v1beta1_schema(v1beta2: Schema) -> Schema:
    """The schema of v1beta1: the fields of v1beta2 and those that only v1beta1 has."""
    schema = copy.deepcopy(v1beta2)
    properties = schema["properties"]
    carried = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    properties["queueVisibility"] = carried
    properties["integrations"]["properties"]["podOptions"] = carried
    for section in ("waitForPodsReady", "fairSharing"):
        properties[section]["properties"]["enable"] = {"type": "boolean"}
    return schema


def to_v1beta2(configuration: Object) -> Object:
    """Convert a v1beta1 Configuration.

    A section that v1beta1 disables by `enable` is absent in v1beta2 (which then waits for pods by
    default).
    """
    converted = copy.deepcopy(configuration)
    converted["apiVersion"] = V1BETA2
    converted.pop("queueVisibility", None)
    reading.mapping(converted.get("integrations")).pop("podOptions", None)
    for section, defaults in (
        ("fairSharing", {"preemptionStrategies": _BOTH_STRATEGIES}),
        ("waitForPodsReady", {"timeout": "5m", "blockAdmission": True}),
    ):
        fields = reading.mapping(converted.pop(section, None))
        if fields.pop("enable", False) is True:
            converted[section] = defaults | {name: value for name, value in fields.items() if value not in (None, [])}
    return converted
