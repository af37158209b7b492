"""The annotations of a pod template that request a placement in a topology."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from pykueue.api import json_text
from pykueue.api.errors import FieldError
from pykueue.api.labels import (
    POD_SET_GROUP_NAME,
    POD_SET_PREFERRED_TOPOLOGY,
    POD_SET_REQUIRED_TOPOLOGY,
    POD_SET_SLICE_REQUIRED_TOPOLOGY,
    POD_SET_SLICE_REQUIRED_TOPOLOGY_CONSTRAINTS,
    POD_SET_SLICE_SIZE,
    POD_SET_UNCONSTRAINED_TOPOLOGY,
)
from pykueue.api.rules import faults, reading, syntax
from pykueue.api.rules.jobs import management
from pykueue.api.scheme import AdmissionRequest


class Template(msgspec.Struct, frozen=True, kw_only=True):
    """The pod template of one pod set; `path` is the path of its metadata."""

    path: str
    annotations: Mapping[str, str]
    count: int

    @classmethod
    def of(cls, path: str, template: Any, count: int) -> "Template":
        return cls(path=f"{path}.metadata", annotations=reading.annotations(reading.mapping(template)), count=count)

    @property
    def can_be_grouped(self) -> bool:
        return POD_SET_REQUIRED_TOPOLOGY in self.annotations or POD_SET_PREFERRED_TOPOLOGY in self.annotations

    @property
    def is_readable(self) -> bool:
        """Whether Kueue could parse the annotations into a topology request, valid or not."""
        if not self.can_be_grouped and not _is_bool(self.annotations.get(POD_SET_UNCONSTRAINED_TOPOLOGY, "true")):
            return False
        return (
            POD_SET_SLICE_REQUIRED_TOPOLOGY not in self.annotations
            or _int32(self.annotations.get(POD_SET_SLICE_SIZE, "1")) is not None
        )

    def at(self, annotation: str = "") -> str:
        return f"{self.path}.annotations" + (f"[{annotation}]" if annotation else "")


def check(request: AdmissionRequest, templates: Sequence[Template], *, groups: bool = False) -> list[FieldError]:
    """Check each template and, if `groups`, the groups of pod sets."""
    if not management.is_on(request, "TopologyAwareScheduling"):
        return []
    field_errors: list[FieldError] = []
    for template in templates:
        field_errors += check_template(request, template)
        field_errors += check_upper_bound(template)
    return field_errors + (list(_check_groups(templates)) if groups else [])


def check_template(request: AdmissionRequest, template: Template) -> Iterator[FieldError]:
    annotations = template.annotations
    if (
        sum(
            name in annotations
            for name in (POD_SET_REQUIRED_TOPOLOGY, POD_SET_PREFERRED_TOPOLOGY, POD_SET_UNCONSTRAINED_TOPOLOGY)
        )
        > 1
    ):
        names = ", ".join(
            f'"{name}"'
            for name in (POD_SET_REQUIRED_TOPOLOGY, POD_SET_PREFERRED_TOPOLOGY, POD_SET_UNCONSTRAINED_TOPOLOGY)
        )
        detail = f"must not contain more than one topology annotation: [{names}]"
        yield faults.invalid_without_value(template.at(), detail)
    for name in (POD_SET_REQUIRED_TOPOLOGY, POD_SET_PREFERRED_TOPOLOGY, POD_SET_SLICE_REQUIRED_TOPOLOGY):
        if name in annotations:
            yield from syntax.check_label_key(template.at(name), annotations[name])
    yield from _check_group_name(template)
    if POD_SET_UNCONSTRAINED_TOPOLOGY in annotations and not _is_bool(annotations[POD_SET_UNCONSTRAINED_TOPOLOGY]):
        yield faults.invalid(
            template.at(POD_SET_UNCONSTRAINED_TOPOLOGY),
            annotations[POD_SET_UNCONSTRAINED_TOPOLOGY],
            "must be a boolean value",
        )
    yield from _check_slice_size(template)
    if POD_SET_SLICE_REQUIRED_TOPOLOGY_CONSTRAINTS in annotations:
        yield from _check_constraints(request, template)


def _is_bool(text: str) -> bool:
    try:
        syntax.parse_bool(text)
    except syntax.GoSyntaxError:
        return False
    return True


def _int32(text: str) -> int | None:
    try:
        return syntax.atoi(text, bits=32)
    except syntax.GoSyntaxError:
        return None


def _check_group_name(template: Template) -> Iterator[FieldError]:
    annotations, path = template.annotations, template.at(POD_SET_GROUP_NAME)
    if POD_SET_GROUP_NAME not in annotations:
        return
    if annotations[POD_SET_GROUP_NAME].isascii() and annotations[POD_SET_GROUP_NAME].isdigit():
        yield faults.invalid(path, annotations[POD_SET_GROUP_NAME], "must not be a number")
    for name in (POD_SET_SLICE_SIZE, POD_SET_SLICE_REQUIRED_TOPOLOGY):
        if name in annotations:
            yield faults.forbidden(path, f"may not be set when '{name}' is specified")
    if POD_SET_REQUIRED_TOPOLOGY not in annotations and POD_SET_PREFERRED_TOPOLOGY not in annotations:
        yield faults.forbidden(
            path,
            f"may not be set when neither '{POD_SET_PREFERRED_TOPOLOGY}' nor '{POD_SET_REQUIRED_TOPOLOGY}' is specified",
        )


def _check_slice_size(template: Template) -> Iterator[FieldError]:
    annotations, path = template.annotations, template.at(POD_SET_SLICE_SIZE)
    text = annotations.get(POD_SET_SLICE_SIZE)
    if text is not None:
        size = _int32(text)
        if size is None:
            yield faults.invalid(path, text, "must be a numeric value")
        elif size < 1:
            yield faults.invalid(path, text, "must be greater than or equal to 1")
    if POD_SET_SLICE_REQUIRED_TOPOLOGY in annotations and text is None:
        yield faults.required(path, f"must be set when '{POD_SET_SLICE_REQUIRED_TOPOLOGY}' is specified")
    if POD_SET_SLICE_REQUIRED_TOPOLOGY not in annotations and text is not None:
        yield faults.forbidden(path, f"may not be set when '{POD_SET_SLICE_REQUIRED_TOPOLOGY}' is not specified")


def _check_constraints(request: AdmissionRequest, template: Template) -> Iterator[FieldError]:
    annotations, path = template.annotations, template.at(POD_SET_SLICE_REQUIRED_TOPOLOGY_CONSTRAINTS)
    if not management.is_on(request, "TASMultiLayerTopology"):
        yield faults.forbidden(path, "the TASMultiLayerTopology feature gate must be enabled to use this annotation")
        return
    for name in (POD_SET_SLICE_REQUIRED_TOPOLOGY, POD_SET_SLICE_SIZE):
        if name in annotations:
            yield faults.forbidden(path, f"may not be set when '{name}' is specified")
    if POD_SET_GROUP_NAME in annotations:
        yield faults.forbidden(
            template.at(POD_SET_GROUP_NAME),
            f"may not be set when '{POD_SET_SLICE_REQUIRED_TOPOLOGY_CONSTRAINTS}' is specified",
        )
    text = annotations[POD_SET_SLICE_REQUIRED_TOPOLOGY_CONSTRAINTS]
    try:
        layers = _layers(text)
    except ValueError as error:
        yield faults.invalid(path, text, f"must be a valid JSON array: {error}")
        return
    if not 1 <= len(layers) <= 3:
        yield faults.invalid(path, text, "topology constraints must contain between 1 and 3 entries")
        return
    yield from _check_layers(path, layers)


def _layers(text: str) -> list[tuple[str, int]]:
    parsed = json_text.decode_field(text)
    if not isinstance(parsed, list):
        raise ValueError("not a list")  # noqa: TRY004 - one error for all faults
    return [
        (reading.text(reading.at(layer, "topology")), reading.integer(reading.at(layer, "size"))) for layer in parsed
    ]


def _check_layers(path: str, layers: list[tuple[str, int]]) -> Iterator[FieldError]:
    for index, (level, size) in enumerate(layers):
        yield from syntax.check_label_key(f"{path}[{index}].topology", level)
        if size < 1:
            yield faults.invalid(f"{path}[{index}].size", size, "must be greater than or equal to 1")
    levels = [level for level, _ in layers]
    for index, level in enumerate(levels):
        if level in levels[:index]:
            also = levels.index(level)
            yield faults.duplicate(f"{path}[{index}].topology", f"{level} (also at index {also})")
    for index in range(1, len(layers)):
        outer, inner = layers[index - 1][1], layers[index][1]
        if inner > 0 and outer % inner:
            detail = f"must evenly divide the parent layer size {outer}"
            yield faults.invalid(f"{path}[{index}].size", inner, detail)


def check_upper_bound(template: Template) -> Iterator[FieldError]:
    annotations, detail = template.annotations, f"must not be greater than pod set count {template.count}"
    text = annotations.get(POD_SET_SLICE_SIZE)
    size = None if text is None else _int32(text)
    if size is not None and size > template.count:
        yield faults.invalid(template.at(POD_SET_SLICE_SIZE), text, detail)
    try:
        layers = _layers(annotations.get(POD_SET_SLICE_REQUIRED_TOPOLOGY_CONSTRAINTS, "[]"))
    except ValueError:
        return
    if layers and layers[0][1] > template.count:
        yield faults.invalid(template.at(POD_SET_SLICE_REQUIRED_TOPOLOGY_CONSTRAINTS), layers[0][1], detail)


def _check_groups(templates: Sequence[Template]) -> Iterator[FieldError]:
    groups: dict[str, list[Template]] = {}
    for template in templates:
        if POD_SET_GROUP_NAME in template.annotations and template.can_be_grouped:
            groups.setdefault(template.annotations[POD_SET_GROUP_NAME], []).append(template)
    for name, members in groups.items():
        if len(members) == 2:
            yield from _check_pair(name, *members)
            continue
        detail = f"can only define groups of exactly 2 pod sets, got: {len(members)} pod set(s)"
        for member in members:
            yield faults.invalid(member.at(POD_SET_GROUP_NAME), name, detail)


def _check_pair(name: str, first: Template, second: Template) -> Iterator[FieldError]:
    if first.count != 1 and second.count != 1:
        detail = (
            "can only define groups where at least one pod set has only 1 replica, "
            f"got: {first.count} replica(s) and {second.count} replica(s) in the group"
        )
        for member in (first, second):
            yield faults.invalid(member.at(POD_SET_GROUP_NAME), name, detail)
    topologies = [
        tuple(
            member.annotations.get(annotation) for annotation in (POD_SET_REQUIRED_TOPOLOGY, POD_SET_PREFERRED_TOPOLOGY)
        )
        for member in (first, second)
    ]
    if topologies[0] != topologies[1]:
        for member, other in ((first, second), (second, first)):
            detail = f"must specify '{POD_SET_REQUIRED_TOPOLOGY}' or '{POD_SET_PREFERRED_TOPOLOGY}' topology consistent with '{other.at()}' in group '{name}'"
            yield faults.invalid_without_value(member.at(), detail)
