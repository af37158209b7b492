"""Finds a Configuration: by itself, in Kueue's ConfigMap, or in the values of its Helm chart."""

import copy

import msgspec

from pykueue.api import manifests
from pykueue.api.configuration import versions
from pykueue.api.errors import FieldError
from pykueue.api.rules import faults, reading
from pykueue.api.scheme import Object

_IN_CONFIG_MAP = "controller_manager_config.yaml"
_IN_VALUES = "controllerManager.manager.configuration"
_TEXT_IN_VALUES = "managerConfig.controllerManagerConfigYaml"
_GATES_IN_VALUES = "controllerManager.featureGates"


class ConfigurationSource(msgspec.Struct, frozen=True, kw_only=True):
    """A Configuration, and the path of its fields in the document ("" if it is all of it)."""

    configuration: Object
    prefix: str = ""
    faults: list[FieldError] = msgspec.field(default_factory=list)


def is_configuration(document: Object) -> bool:
    return reading.text(document.get("apiVersion")).startswith(f"{versions.GROUP}/")


def is_helm_values(document: Object) -> bool:
    return "kind" not in document and bool({"controllerManager", "managerConfig"} & document.keys())


def is_config_map(document: Object) -> bool:
    return document.get("kind") == "ConfigMap" and _IN_CONFIG_MAP in reading.mapping(document.get("data"))


def find(document: Object) -> ConfigurationSource | None:
    if is_configuration(document):
        return ConfigurationSource(configuration=document)
    if is_config_map(document):
        path = f"data[{_IN_CONFIG_MAP}]"
        return _from_text(reading.mapping(document.get("data"))[_IN_CONFIG_MAP], path)
    if is_helm_values(document):
        return _from_values(document)
    return None


def _from_text(text: object, path: str) -> ConfigurationSource:
    documents, wrong = manifests.read(reading.text(text), path)
    errors = [faults.invalid_without_value(path, fault.message) for fault in wrong]
    configuration = documents[0].object if documents else {}
    return ConfigurationSource(configuration=configuration, prefix=path, faults=errors)


def _from_values(values: Object) -> ConfigurationSource:
    text = reading.at(values, *_TEXT_IN_VALUES.split("."))
    base = _from_text(text, _TEXT_IN_VALUES) if text else ConfigurationSource(configuration={})
    own = reading.at(values, *_IN_VALUES.split("."))
    wrong = list(base.faults)
    if own is not None and not isinstance(own, dict):
        wrong.append(faults.invalid_without_value(_IN_VALUES, "must be a mapping of Configuration fields"))
    configuration = _merged(base.configuration, reading.mapping(own))
    configuration.setdefault("apiVersion", versions.V1BETA2)
    configuration.setdefault("kind", "Configuration")
    gates = {
        reading.text(gate.get("name")): gate.get("enabled")
        for gate in reading.mappings(reading.at(values, *_GATES_IN_VALUES.split(".")))
    }
    if gates and configuration.get("featureGates"):
        detail = "feature gates for CLI and configuration cannot both specified"
        wrong.append(faults.invalid(_GATES_IN_VALUES, gates, detail))
    if gates:
        configuration["featureGates"] = gates
    return ConfigurationSource(configuration=configuration, prefix=_IN_VALUES if own else _TEXT_IN_VALUES, faults=wrong)


def _merged(base: Object, change: Object) -> Object:
    merged = copy.deepcopy(base)
    for name, value in change.items():
        inner = merged.get(name)
        merged[name] = _merged(inner, value) if isinstance(inner, dict) and isinstance(value, dict) else value
    return merged
