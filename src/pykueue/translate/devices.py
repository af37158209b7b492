"""Counts the devices that pods claim (dynamic resource allocation) as quota resources.

A ResourceClaimTemplate requests devices of a DeviceClass, and the Configuration maps classes to
resource names. An extended resource that a DeviceClass provides counts under that name too. A
claim that cannot be counted makes the workload inadmissible, with a `DeviceFault` as the reason.
Called by the scheduler and by the workload controller.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from pykueue.api import objects, quantity
from pykueue.api.errors import FieldError, Verbatim
from pykueue.api.scheme import Object
from pykueue.translate import device_sources
from pykueue.translate.device_selectors import (
    DeviceError,
    DeviceLister,
    DeviceSelector,
    SelectorError,
    cel_devices,
    expressions,
    not_found,
)

_NIL = Verbatim("null")


class DeviceRules(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of the Configuration that decide how devices are counted."""

    enabled: bool = True
    rejects_when_disabled: bool = True
    counts_extended_resources: bool = True
    resource_of: Mapping[str, str] = msgspec.field(default_factory=dict)
    """The resource name of each DeviceClass."""
    sources: device_sources.Sources = msgspec.field(default_factory=dict)
    """The counters and capacities of each DeviceClass that is counted by them."""


class DeviceFault(msgspec.Struct, frozen=True, kw_only=True):
    """Why a workload is inadmissible: the messages of its conditions."""

    text: str
    requeued_text: str


class DeviceCounts(msgspec.Struct, frozen=True, kw_only=True):
    """For one pod of each pod set: added amounts, and the extended resources they replace."""

    added: Mapping[str, Mapping[str, int]] = msgspec.field(default_factory=dict)
    replaced: Mapping[str, frozenset[str]] = msgspec.field(default_factory=dict)


NO_DEVICES = DeviceCounts()


def resource_names(mappings: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """The resource of each class in `resources.deviceClassMappings`; the first mapping wins."""
    mapped: dict[str, str] = {}
    for mapping in mappings:
        for name in mapping.get("deviceClassNames") or ():
            mapped.setdefault(name, mapping["name"])
    return mapped


def may_claim(workload: Object) -> bool:
    """Whether the workload has claims or extended resources; others need no device lister."""
    return any(
        spec.get("resourceClaims") or _extended_requests(spec)
        for spec in (objects.nested(pod_set, "template", "spec") for pod_set in workload["spec"].get("podSets") or ())
    )


def count(workload: Object, rules: DeviceRules, lister: DeviceLister) -> DeviceCounts | DeviceFault:
    pod_specs = [objects.nested(pod_set, "template", "spec") for pod_set in workload["spec"].get("podSets") or ()]
    has_claims = any(spec.get("resourceClaims") for spec in pod_specs)
    if not rules.enabled:
        return _disabled() if rules.rejects_when_disabled and has_claims else DeviceCounts()
    claims = [claim for spec in pod_specs for claim in spec.get("resourceClaims") or ()]
    if any(claim.get("resourceClaimName") for claim in claims):
        return DeviceFault(
            text="KueueDRAIntegration feature does not support use of resource claims",
            requeued_text="DRA resource claims not supported",
        )
    if not has_claims and not any(map(_extended_requests, pod_specs)):
        return DeviceCounts()
    try:
        return _Count(workload, rules, lister).result()
    except DeviceError as fault:
        return DeviceFault(text=str(fault), requeued_text=str(fault))


def _disabled() -> DeviceFault:
    text = "Workload uses DRA resources but the KueueDRAIntegration feature gate is not enabled"
    return DeviceFault(text=text, requeued_text=text)


class _Count:
    def __init__(self, workload: Object, rules: DeviceRules, lister: DeviceLister) -> None:
        self._workload = workload
        self._rules = rules
        self._lister = lister

    def result(self) -> DeviceCounts:
        added: dict[str, dict[str, int]] = {}
        replaced: dict[str, frozenset[str]] = {}
        for index, pod_set in enumerate(self._workload["spec"].get("podSets") or ()):
            path = f"spec.podSets[{index}].template.spec"
            amounts: dict[str, int] = {}
            for name, amount in self._claimed(pod_set, path):
                amounts[name] = amounts.get(name, 0) + amount
            if self._rules.counts_extended_resources:
                backed = self._extended(objects.nested(pod_set, "template", "spec"), path)
                for name, amount in backed.values():
                    amounts[name] = amounts.get(name, 0) + amount
                if backed:
                    replaced[pod_set["name"]] = frozenset(backed)
            if amounts:
                added[pod_set["name"]] = amounts
        for is_counter in (True, False):
            for name, resource, amount in self._from_sources(counters=is_counter):
                amounts = added.setdefault(name, {})
                amounts[resource] = amounts.get(resource, 0) + amount
        return DeviceCounts(added=added, replaced=replaced)

    def _from_sources(self, *, counters: bool) -> Iterator[tuple[str, str, int]]:
        """Pod set, resource and amount of what requests consume of counters, or of capacity."""
        if not self._rules.sources:
            return
        for index, pod_set in enumerate(self._workload["spec"].get("podSets") or ()):
            for number, claim in enumerate(pod_set["template"]["spec"].get("resourceClaims") or ()):
                name = claim.get("resourceClaimTemplateName")
                if name is None:
                    continue
                path = f"spec.podSets[{index}].template.spec.resourceClaims[{number}]"
                requests = self._template_requests(name, pod_set, path)
                charged = device_sources.charges(requests, self._rules.sources, self._lister, path, counters=counters)
                for resource, amount in charged:
                    yield pod_set["name"], resource, amount

    # Claims.

    def _claimed(self, pod_set: Object, path: str) -> Iterator[tuple[str, int]]:
        """The resource name and the count of each device request."""
        for index, claim in enumerate(objects.nested(pod_set, "template", "spec").get("resourceClaims") or ()):
            name = claim.get("resourceClaimTemplateName")
            if name is None:
                continue
            where = f"{path}.resourceClaims[{index}]"
            requests = self._requests(name, pod_set, where)
            for device_class, number in _per_class(requests, name, where).items():
                resource = self._rules.resource_of.get(device_class)
                if resource is None:
                    detail = (
                        f"DeviceClass {device_class} is not mapped in DRA configuration for podset {pod_set['name']}"
                    )
                    raise DeviceError(
                        FieldError("FieldValueNotFound", f"{where}.resourceClaimTemplateName", "", detail)
                    )
                if device_class in self._rules.sources:
                    continue
                yield resource, number

    def _requests(self, name: str, pod_set: Object, where: str) -> list[Object]:
        requests = self._template_requests(name, pod_set, where)
        _per_class(requests, name, where)
        self._check_selectors(requests, name, where)
        return requests

    def _template_requests(self, name: str, pod_set: Object, where: str) -> list[Object]:
        template = self._lister.template(self._workload["metadata"].get("namespace", ""), name)
        if template is None:
            missing = not_found("ResourceClaimTemplate", name)
            detail = f"failed to get claim spec for ResourceClaimTemplate {name} in podset {pod_set['name']}: {missing}"
            raise DeviceError(FieldError("InternalError", where, detail))
        requests: list[Object] = objects.nested_list(template["spec"]["spec"], "devices", "requests")
        return requests

    def _check_selectors(self, requests: Sequence[Object], template: str, where: str) -> None:
        """Raises unless the cluster has enough devices that match the claim's selectors."""
        selective = [
            (index, request["exactly"]) for index, request in enumerate(requests) if expressions(request["exactly"])
        ]
        if not selective:
            return
        try:
            devices = [device for resource_slice in self._lister.slices() for device in cel_devices(resource_slice)]
        except LookupError as error:
            detail = f"ResourceClaimTemplate {template}: failed to list ResourceSlices: {error.args[0]}"
            raise DeviceError(FieldError("InternalError", where, detail)) from None
        classes = {objects.name(device_class): device_class for device_class in self._lister.classes()}
        used: set[int] = set()
        for index, exactly in selective:
            path = f"{where}.devices.requests[{index}]"
            name, count = exactly.get("deviceClassName", ""), int(exactly.get("count", 1))
            if name not in classes:
                missing = not_found("DeviceClass", name)
                detail = f"ResourceClaimTemplate {template}: failed to get DeviceClass {name}: {missing}"
                raise DeviceError(FieldError("InternalError", path, detail))
            texts = [*expressions(classes[name]["spec"]), *expressions(exactly)]
            try:
                matching = _matching(devices, texts, used, count)
            except SelectorError as error:
                detail = f"ResourceClaimTemplate {template}: CEL evaluation failed for DeviceClass {name}: {error}"
                raise DeviceError(FieldError("FieldValueInvalid", f"{path}.exactly.selectors", detail, _NIL)) from None
            if matching < count:
                detail = (
                    f"ResourceClaimTemplate {template}: insufficient matching devices for CEL selector in"
                    f" DeviceClass {name}: {matching} device(s) match in the cluster but {count} requested"
                )
                raise DeviceError(FieldError("InternalError", f"{path}.exactly.selectors", detail))

    # Extended resources.

    def _extended(self, pod_spec: Object, path: str) -> dict[str, tuple[str, int]]:
        """The quota resource and count of each extended resource that a DeviceClass provides."""
        counted: dict[str, tuple[str, int]] = {}
        faults: list[FieldError] = []
        for name, total in sorted(_extended_requests(pod_spec).items()):
            device_class = provider(name, self._lister.classes())
            if device_class is None:
                continue
            fractions = list(_fractions(pod_spec, path, name))
            faults += fractions
            if not fractions:
                resource = self._rules.resource_of.get(objects.name(device_class), name)
                fault = self._extended_source_fault(pod_spec, path, name, objects.name(device_class))
                if fault is not None:
                    faults.append(fault)
                    continue
                counted[name] = resource, total // quantity.NANO_PER_UNIT
        if faults:
            raise DeviceError(*faults)
        return counted

    def _extended_source_fault(self, pod_spec: Object, path: str, name: str, device_class: str) -> FieldError | None:
        """Why an extended resource cannot be counted by what its devices consume."""
        sources = self._rules.sources.get(device_class)
        if not sources:
            return None
        kind, advice = _SOURCE_ADVICE[sources[0].is_counter]
        container = next(f"{kind}[{index}]" for kind, index, requests in _containers(pod_spec) if name in requests)
        detail = (
            f"extended resource {name} resolves to DeviceClass {device_class} with {kind} configured;"
            f" use ResourceClaimTemplates with {advice}"
        )
        return FieldError("FieldValueInvalid", f"{path}.{container}", detail, name)


_SOURCE_ADVICE = {
    True: ("counters", "CEL selectors for counter-based quota"),
    False: ("capacity sources", "capacity.requests for capacity-based quota"),
}


def _per_class(requests: Sequence[Object], template: str, where: str) -> dict[str, int]:
    counts: dict[str, int] = {}
    for index, request in enumerate(requests):
        fault = _unsupported(request, f"{where}.devices.requests[{index}]", template)
        if fault is not None:
            raise DeviceError(fault)
        name = request["exactly"].get("deviceClassName", "")
        if name:
            counts[name] = counts.get(name, 0) + int(request["exactly"].get("count", 1))
    return counts


def _unsupported(request: Object, path: str, template: str) -> FieldError | None:
    exactly = request.get("exactly")
    value: Any = _NIL
    if request.get("firstAvailable") is not None:
        detail = "FirstAvailable device selection is not supported"
    elif exactly is None:
        detail = "Exactly must be set if FirstAvailable is nil"
    elif exactly.get("adminAccess"):
        path, detail = f"{path}.exactly.adminAccess", "AdminAccess is not supported"
    elif (value := exactly.get("allocationMode", "ExactCount")) == "ExactCount":
        return None
    else:
        detail = "AllocationMode 'All' is not supported" if value == "All" else f"unsupported allocation mode: {value}"
        path = f"{path}.exactly.allocationMode"
    return FieldError("FieldValueInvalid", path, f"ResourceClaimTemplate {template}: {detail}", value)


def _matching(devices: Sequence[Object], texts: Sequence[str], used: set[int], count: int) -> int:
    """Counts up to `count` unused devices that match all expressions, and adds them to `used`."""
    selector = DeviceSelector(texts)
    matching = 0
    for index, device in enumerate(devices):
        if matching == count:
            break
        if index not in used and selector.matches(device):
            used.add(index)
            matching += 1
    return matching


def _containers(pod_spec: Object) -> Iterator[tuple[str, int, Object]]:
    for kind in ("initContainers", "containers"):
        for index, container in enumerate(pod_spec.get(kind) or ()):
            yield kind, index, objects.nested(container, "resources", "requests")


def provider(name: str, classes: Iterable[Object]) -> Object | None:
    """The DeviceClass whose devices an extended resource stands for; the newest of several."""
    by_name = sorted(
        (entry for entry in classes if entry["spec"].get("extendedResourceName") == name), key=objects.name
    )
    return max(by_name, key=lambda entry: str(entry["metadata"].get("creationTimestamp") or ""), default=None)


def is_extended(name: str) -> bool:
    domain, slash, _ = name.rpartition("/")
    return bool(slash) and "kubernetes.io" not in domain and not name.startswith("requests.")


def _extended_requests(pod_spec: Object) -> dict[str, int]:
    """In nano-units: the sum of the containers, or the largest init container if greater."""
    totals: dict[str, dict[str, int]] = {"initContainers": {}, "containers": {}}
    for kind, _, requests in _containers(pod_spec):
        for name, text in requests.items():
            if is_extended(name) and (amount := quantity.parse(str(text)).nano) > 0:
                before = totals[kind].get(name, 0)
                totals[kind][name] = max(before, amount) if kind == "initContainers" else before + amount
    names = totals["containers"].keys() | totals["initContainers"].keys()
    return {name: max(totals[kind].get(name, 0) for kind in totals) for name in names}


def _fractions(pod_spec: Object, path: str, name: str) -> Iterator[FieldError]:
    for kind, index, requests in _containers(pod_spec):
        if name in requests and quantity.parse(str(requests[name])).nano % quantity.NANO_PER_UNIT:
            where = f"{path}.{kind}[{index}].resources.requests.{name}"
            yield FieldError(
                "FieldValueInvalid", where, "extended resource quantity must be an integer", str(requests[name])
            )
