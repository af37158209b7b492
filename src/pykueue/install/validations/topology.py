"""The annotations of pod templates that request a placement. In Python: `api.rules.jobs.topology`.

The rules use `variables.templates`, a list of `{'annotations': …, 'count': …}`, which each kind
defines. Constraints of several layers are JSON in an annotation; CEL cannot parse JSON, so that a
regular expression splits it into its flat objects.
"""

from collections.abc import Iterator

from pykueue.api import feature_gates
from pykueue.api.labels import (
    POD_SET_GROUP_NAME,
    POD_SET_PREFERRED_TOPOLOGY,
    POD_SET_REQUIRED_TOPOLOGY,
    POD_SET_SLICE_REQUIRED_TOPOLOGY,
    POD_SET_SLICE_REQUIRED_TOPOLOGY_CONSTRAINTS,
    POD_SET_SLICE_SIZE,
    POD_SET_UNCONSTRAINED_TOPOLOGY,
)
from pykueue.api.scheme import Settings
from pykueue.install.validations import cel
from pykueue.install.validations.table import Validation, Variable

_LEVELS = (POD_SET_REQUIRED_TOPOLOGY, POD_SET_PREFERRED_TOPOLOGY, POD_SET_SLICE_REQUIRED_TOPOLOGY)
_EXCLUSIVE = (POD_SET_REQUIRED_TOPOLOGY, POD_SET_PREFERRED_TOPOLOGY, POD_SET_UNCONSTRAINED_TOPOLOGY)
NAMES = (
    *_EXCLUSIVE,
    POD_SET_SLICE_REQUIRED_TOPOLOGY,
    POD_SET_SLICE_SIZE,
    POD_SET_SLICE_REQUIRED_TOPOLOGY_CONSTRAINTS,
    POD_SET_GROUP_NAME,
)
_TEXT = r'"[^"\\{}]*"'
_PAIR = rf"{_TEXT}\s*:\s*({_TEXT}|-?[0-9]{{1,9}}|true|false|null)"
_OBJECT = rf"\{{\s*({_PAIR}(\s*,\s*{_PAIR})*)?\s*\}}"
_ONE_TO_THREE = rf"^\s*\[\s*{_OBJECT}(\s*,\s*{_OBJECT}){{0,2}}\s*\]\s*$"
_ANY_OBJECT = r"\{[^{}]*\}"


def is_on(settings: Settings, gate: str = "TopologyAwareScheduling") -> bool:
    return feature_gates.is_enabled(settings.feature_gates, gate)


def template(place: str, count: str) -> str:
    """`place` is CEL for a pod template that may be absent."""
    return annotated(f"{place}.?metadata.?annotations.orValue({{}})", count)


def annotated(annotations: str, count: str) -> str:
    return f"{{'annotations': dyn({annotations}), 'count': dyn({count})}}"


def variable(templates: str) -> Variable:
    return Variable(name="templates", cel=templates)


def has(name: str, of: str = "t") -> str:
    return f"'{name}' in {of}.annotations"


def _value(name: str, of: str = "t") -> str:
    return f"{of}.annotations['{name}']"


def every(text: str, message: str) -> Validation:
    """A condition on each template `t`."""
    return Validation(cel=f"variables.templates.all(t, {text})", message=message)


def _where(name: str, text: str) -> str:
    return f"!({has(name)}) || ({text})"


def of_each_template(settings: Settings) -> Iterator[Validation]:
    size, group = _value(POD_SET_SLICE_SIZE), _value(POD_SET_GROUP_NAME)
    yield every(
        f"size([{', '.join(has(name) for name in _EXCLUSIVE)}].filter(present, present)) <= 1",
        "must not contain more than one topology annotation",
    )
    levels = (f"({_where(name, cel.is_label_key(_value(name)))})" for name in _LEVELS)
    yield every(" && ".join(levels), "a topology annotation must be the label of a level")
    yield every(
        _where(POD_SET_UNCONSTRAINED_TOPOLOGY, cel.is_boolean(_value(POD_SET_UNCONSTRAINED_TOPOLOGY))),
        f"{POD_SET_UNCONSTRAINED_TOPOLOGY} must be a boolean value",
    )
    yield every(
        _where(POD_SET_GROUP_NAME, f"!{group}.matches('^[0-9]+$')"), f"{POD_SET_GROUP_NAME} must not be a number"
    )
    apart = " && ".join(f"!({has(name)})" for name in (POD_SET_SLICE_SIZE, POD_SET_SLICE_REQUIRED_TOPOLOGY))
    asks = f"({has(POD_SET_REQUIRED_TOPOLOGY)} || {has(POD_SET_PREFERRED_TOPOLOGY)})"
    yield every(
        _where(POD_SET_GROUP_NAME, f"{apart} && {asks}"),
        f"{POD_SET_GROUP_NAME} goes with required or preferred topology, and not with slices",
    )
    yield every(
        f"({has(POD_SET_SLICE_SIZE)}) == ({has(POD_SET_SLICE_REQUIRED_TOPOLOGY)})",
        f"{POD_SET_SLICE_SIZE} and {POD_SET_SLICE_REQUIRED_TOPOLOGY} go together",
    )
    yield every(
        _where(POD_SET_SLICE_SIZE, cel.is_positive_int32(size)),
        f"{POD_SET_SLICE_SIZE} must be a number greater than or equal to 1",
    )
    yield from _of_constraints(settings)


def _of_constraints(settings: Settings) -> Iterator[Validation]:
    if not is_on(settings, "TASMultiLayerTopology"):
        message = f"the TASMultiLayerTopology feature gate must be enabled to use {POD_SET_SLICE_REQUIRED_TOPOLOGY_CONSTRAINTS}"
        yield every(f"!({has(POD_SET_SLICE_REQUIRED_TOPOLOGY_CONSTRAINTS)})", message)
        return
    others = (POD_SET_SLICE_REQUIRED_TOPOLOGY, POD_SET_SLICE_SIZE, POD_SET_GROUP_NAME)
    yield every(
        _where(POD_SET_SLICE_REQUIRED_TOPOLOGY_CONSTRAINTS, " && ".join(f"!({has(name)})" for name in others)),
        f"{POD_SET_SLICE_REQUIRED_TOPOLOGY_CONSTRAINTS} does not go with other slices or groups",
    )
    text = _value(POD_SET_SLICE_REQUIRED_TOPOLOGY_CONSTRAINTS)
    yield every(
        _where(POD_SET_SLICE_REQUIRED_TOPOLOGY_CONSTRAINTS, f"{text}.matches(r'{_ONE_TO_THREE}')"),
        f"{POD_SET_SLICE_REQUIRED_TOPOLOGY_CONSTRAINTS} must be a valid JSON array of between 1 and 3 entries",
    )
    sound = f"layers.all(layer, {cel.is_label_key(_level('layer'))} && {_size('layer')} >= 1)"
    once = f"layers.all(layer, layers.filter(other, {_level('other')} == {_level('layer')}).size() == 1)"
    divides = f"[1, 2].all(i, i >= size(layers) || {_size('layers[i - 1]')} % {_size('layers[i]')} == 0)"
    yield every(
        _where(
            POD_SET_SLICE_REQUIRED_TOPOLOGY_CONSTRAINTS,
            f"[{_layers(text)}].all(layers, {sound} && {once} && {divides})",
        ),
        f"{POD_SET_SLICE_REQUIRED_TOPOLOGY_CONSTRAINTS} must name different levels, with sizes of which each divides the one before",
    )


def _layers(text: str) -> str:
    return f"{text}.findAll(r'{_ANY_OBJECT}')"


def _level(layer: str) -> str:
    """The quoted text after the key; "" if the key is absent."""
    match = rf"""{layer}.find(r'"topology"\s*:\s*"[^"]*"')"""
    return f"""({match} == '' ? '' : {match}.split('"')[3])"""


def _size(layer: str) -> str:
    match = rf"""{layer}.find(r'"size"\s*:\s*-?[0-9]+')"""
    return f"""({match} == '' ? 0 : int({match}.find('-?[0-9]+$')))"""


def upper_bounds(settings: Settings) -> Iterator[Validation]:
    size = _value(POD_SET_SLICE_SIZE)
    yield every(
        f"!({has(POD_SET_SLICE_SIZE)}) || !{cel.is_positive_int32(size)} || {cel.number(size)} <= t.count",
        f"{POD_SET_SLICE_SIZE} must not be greater than the pod set count",
    )
    if is_on(settings, "TASMultiLayerTopology"):
        layers = _layers(_value(POD_SET_SLICE_REQUIRED_TOPOLOGY_CONSTRAINTS))
        yield every(
            f"!({has(POD_SET_SLICE_REQUIRED_TOPOLOGY_CONSTRAINTS)}) || {layers}.size() == 0 || {_size(f'{layers}[0]')} <= t.count",
            f"{POD_SET_SLICE_REQUIRED_TOPOLOGY_CONSTRAINTS} must not be greater than the pod set count",
        )


def of_groups() -> Validation:
    name = POD_SET_GROUP_NAME
    members = f"variables.templates.filter(o, {has(name, 'o')} && {_value(name, 'o')} == {_value(name)})"
    equal_requests = [
        f"g[0].annotations[?'{annotation}'].orValue('') == g[1].annotations[?'{annotation}'].orValue('')"
        for annotation in (POD_SET_REQUIRED_TOPOLOGY, POD_SET_PREFERRED_TOPOLOGY)
    ]
    fits = f"size(g) == 2 && (g[0].count == 1 || g[1].count == 1) && {' && '.join(equal_requests)}"
    return every(
        _where(name, f"[{members}].all(g, {fits})"),
        f"{name} can only define groups of exactly 2 pod sets, one of them with only 1 replica, that ask for the same topology",
    )


def validations(settings: Settings, *, groups: bool = False) -> list[Validation]:
    if not is_on(settings):
        return []
    rules = [*of_each_template(settings), *upper_bounds(settings)]
    return [*rules, of_groups()] if groups else rules
