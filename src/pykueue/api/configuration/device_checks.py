"""Checks of `resources.deviceClassMappings`: how devices of dynamic allocation are counted."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from pykueue.api import feature_gates
from pykueue.api.errors import FieldError
from pykueue.api.rules import faults, reading, syntax
from pykueue.api.scheme import Object

_GATES = {
    "counter": "KueueDRAIntegrationPartitionableDevices",
    "capacity": "KueueDRAIntegrationConsumableCapacity",
}
_LONGEST_DRIVER = 63
_ONE_TYPE = "exactly one source type must be set per entry"


def check(mappings: Sequence[Object], gates: Mapping[str, bool]) -> Iterator[FieldError]:
    path = "resources.deviceClassMappings"
    if len(mappings) > 16:
        yield faults.too_many(path, len(mappings), 16)
    names = Counter(reading.text(mapping.get("name")) for mapping in mappings)
    for index, mapping in enumerate(mappings):
        yield from _check_classes(f"{path}[{index}]", mapping, names)
        yield from _check_mapped_once(f"{path}[{index}]", mapping, mappings[:index])
        yield from _check_sources(f"{path}[{index}].sources", mapping, gates)


def _check_classes(path: str, mapping: Object, names: Counter[str]) -> Iterator[FieldError]:
    name = reading.text(mapping.get("name"))
    yield from syntax.check_label_key(f"{path}.name", name)
    if names[name] > 1:
        yield faults.duplicate(f"{path}.name", name)
    classes = reading.texts(mapping.get("deviceClassNames"))
    if not classes:
        yield faults.required(f"{path}.deviceClassNames", "at least one device class name is required")
    if len(classes) > 8:
        yield faults.too_many(f"{path}.deviceClassNames", len(classes), 8)
    for index, device_class in enumerate(classes):
        yield from syntax.check_label_key(f"{path}.deviceClassNames[{index}]", device_class)
        if device_class in classes[:index]:
            yield faults.duplicate(f"{path}.deviceClassNames[{index}]", device_class)


def _check_mapped_once(path: str, mapping: Object, before: Sequence[Object]) -> Iterator[FieldError]:
    """A class may have several resources only if each counts a counter of its own."""
    counter = _counter_name(mapping)
    for index, device_class in enumerate(reading.texts(mapping.get("deviceClassNames"))):
        others = [other for other in before if device_class in reading.texts(other.get("deviceClassNames"))]
        if not others:
            continue
        where = f"{path}.deviceClassNames[{index}]"
        counters = [_counter_name(other) for other in others]
        if not counter or not any(counters):
            name = reading.text(others[0].get("name"))
            yield faults.invalid(where, device_class, f"device class already mapped to resource {name}")
        elif counter in counters:
            detail = f'device class already has a counter source for counter "{counter}"'
            yield faults.invalid(where, device_class, detail)


def _counter_name(mapping: Object) -> str:
    for source in reading.mappings(mapping.get("sources")):
        if source.get("counter"):
            return reading.text(reading.mapping(source["counter"]).get("name"))
    return ""


def _check_sources(path: str, mapping: Object, gates: Mapping[str, bool]) -> Iterator[FieldError]:
    sources = reading.mappings(mapping.get("sources"))
    kinds_of = [[kind for kind in _GATES if source.get(kind)] for source in sources]
    for index, (source, kinds) in enumerate(zip(sources, kinds_of, strict=True)):
        where = f"{path}[{index}]"
        if not kinds:
            yield faults.required(where, _ONE_TYPE)
        elif len(kinds) > 1:
            yield faults.invalid(where, "counter+capacity", _ONE_TYPE)
        elif not feature_gates.is_enabled(gates, _GATES[kinds[0]]):
            detail = f"{kinds[0]} sources require {_GATES[kinds[0]]} to be enabled"
            yield faults.invalid(f"{where}.{kinds[0]}", True, detail)  # noqa: FBT003 - the value that Kueue prints
        else:
            yield from _check_source(f"{where}.{kinds[0]}", reading.mapping(source[kinds[0]]))
    if len({kind for kinds in kinds_of if len(kinds) == 1 for kind in kinds}) > 1:
        yield faults.invalid(path, len(sources), "cannot mix counter and capacity sources in the same mapping")


def _check_source(path: str, source: Object) -> Iterator[FieldError]:
    for name in ("name", "driver"):
        if not reading.text(source.get(name)):
            yield faults.required(f"{path}.{name}", "")
    driver = reading.text(source.get("driver"))
    if len(driver) > _LONGEST_DRIVER:
        yield faults.invalid(f"{path}.driver", driver, f"must not exceed {_LONGEST_DRIVER} characters")
    selector = reading.mapping(reading.mapping(source.get("deviceSelector")).get("cel"))
    text = reading.text(selector.get("expression"))
    where = f"{path}.deviceSelector.cel.expression"
    if not text:
        yield faults.required(where, "")
        return
    # Imported here because few configurations have selectors.
    from pykueue.api.cel import programs
    from pykueue.api.cel.errors import CompilationError

    try:
        programs.compile_selector(text)
    except CompilationError as error:
        yield faults.invalid(where, text, f"CEL compilation failed: {error}")
