"""Loads a file into one frozen Configuration, or reports all its faults."""

import copy
import functools
from typing import Any

import msgspec

from pykueue.api import durations, manifests, schema, schema_validation, structural
from pykueue.api.configuration import checks, sources, types, versions
from pykueue.api.configuration.types import Configuration
from pykueue.api.errors import FieldError
from pykueue.api.rules import faults, reading
from pykueue.api.scheme import Object, Schema


class ConfigurationError(Exception):
    """The Configuration is invalid; each line of the message names a field and its error."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    value: Configuration
    document: Object
    """The same as a v1beta2 object without defaults, for readers of JSON."""


def load(data: bytes | str, file: str = "-") -> Loaded:
    """Load a file with one Configuration, also in a ConfigMap or in Helm values.

    An empty file means the defaults.
    """
    documents, wrong = manifests.read(data, file)
    problems = [str(fault) for fault in wrong]
    candidates = [(document, sources.find(document.object)) for document in documents]
    configurations = [(document, source) for document, source in candidates if source is not None]
    if not problems and documents and not configurations:
        problems.append(f"{file}: no Configuration; expected apiVersion {versions.V1BETA2} and kind Configuration")
    if len(configurations) > 1:
        problems.append(f"{file}: {len(configurations)} Configurations; keep one")
    for document, source in configurations:
        problems += [
            f"{file}:{document.line_of(path_in_document(source, fault.field))}: {fault}"
            for fault in find_faults(source)
        ]
    if problems:
        raise ConfigurationError(problems)
    return complete(configurations[0][1].configuration if configurations else {})


def path_in_document(source: sources.ConfigurationSource, path: str) -> str:
    """The path in the whole document of a path in the Configuration."""
    if path.startswith(("managerConfig", "controllerManager", "data[")):
        return path
    return ".".join(part for part in (source.prefix, path) if part)


def find_faults(source: sources.ConfigurationSource) -> list[FieldError]:
    configuration = source.configuration
    version = configuration.get("apiVersion")
    if version not in (versions.V1BETA1, versions.V1BETA2):
        choices = (versions.V1BETA2, versions.V1BETA1)
        return [*source.faults, faults.not_supported("apiVersion", version, choices)]
    if configuration.get("kind") != "Configuration":
        wrong_kind = faults.not_supported("kind", configuration.get("kind"), ("Configuration",))
        return [*source.faults, wrong_kind]
    shape = _shape(configuration)
    configuration = _without_nulls(shape, configuration)
    structure = [
        *(_unknown(field) for field in schema.unknown_fields(shape, configuration)),
        *schema_validation.validate(shape, configuration),
        *_check_durations(shape, configuration, ""),
    ]
    return [*source.faults, *structure, *checks.check(_as_v1beta2(configuration))]


def complete(configuration: Object) -> Loaded:
    """The value of a valid Configuration."""
    document = _as_v1beta2(configuration)
    plain = {name: value for name, value in document.items() if name not in ("apiVersion", "kind", "metadata")}
    filled = _with_late_defaults(_with_nanoseconds(_schema(), plain))
    return Loaded(value=msgspec.convert(filled, Configuration), document=document)


@functools.cache
def _schema() -> Schema:
    configuration_schema = structural.schema_of(Configuration)
    configuration_schema["properties"] |= {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"type": "object"},
    }
    return configuration_schema


def _shape(configuration: Object) -> Schema:
    is_old = configuration.get("apiVersion") == versions.V1BETA1
    return versions.v1beta1_schema(_schema()) if is_old else _schema()


def _without_nulls(shape: Schema, value: Any) -> Any:
    """A section without a value is absent, as in Kueue: all its lines may be commented out."""
    if isinstance(value, list):
        return [_without_nulls(shape.get("items", {}), item) for item in value]
    properties = shape.get("properties")
    if not isinstance(value, dict) or properties is None:
        return value
    return {
        name: _without_nulls(properties.get(name, {}), part)
        for name, part in value.items()
        if part is not None or name not in properties
    }


def _as_v1beta2(configuration: Object) -> Object:
    configuration = _without_nulls(_shape(configuration), configuration)
    if configuration.get("apiVersion") == versions.V1BETA1:
        return versions.to_v1beta2(configuration)
    return copy.deepcopy(configuration)


def _unknown(field: schema.UnknownField) -> FieldError:
    return faults.invalid_without_value(field.path, field.hint())


def _check_durations(shape: Schema, value: Any, path: str) -> list[FieldError]:
    if shape.get("format") == types.DURATION_FORMAT:
        try:
            durations.to_ns(reading.text(value))
        except ValueError as error:
            return [faults.invalid(path, value, str(error))] if isinstance(value, str) else []
        return []
    properties = shape.get("properties", {})
    return [
        fault
        for name, inner in reading.mapping(value).items()
        if name in properties
        for fault in _check_durations(properties[name], inner, f"{path}.{name}".lstrip("."))
    ]


def _with_nanoseconds(shape: Schema, value: Any) -> Any:
    """Durations become integers, and nulls are removed, as everywhere in Kubernetes."""
    if shape.get("format") == types.DURATION_FORMAT:
        return durations.to_ns(value)
    if isinstance(value, list):
        return [_with_nanoseconds(shape.get("items", {}), item) for item in value]
    if not isinstance(value, dict):
        return value
    properties = shape.get("properties", {})
    return {name: _with_nanoseconds(properties.get(name, {}), item) for name, item in value.items() if item is not None}


def _with_late_defaults(plain: Object) -> Object:
    """Set defaults that depend on other fields, and drop zero values that Go treats as absent."""
    pods_ready = plain.get("waitForPodsReady", {})
    if not pods_ready.get("timeout"):
        pods_ready.pop("timeout", None)
    if not plain.get("integrations", {}).get("frameworks"):
        plain.get("integrations", {}).pop("frameworks", None)
    pods_ready.setdefault("recoveryTimeout", pods_ready.get("timeout", 30 * types.MINUTE_NS))
    plain["waitForPodsReady"] = pods_ready
    multi_kueue = plain.get("multiKueue", {})
    if multi_kueue.get("dispatcherName") == types.INCREMENTAL:
        multi_kueue.setdefault("incrementalDispatcherConfig", {})
    if not multi_kueue.get("origin"):
        multi_kueue.pop("origin", None)
    return plain
