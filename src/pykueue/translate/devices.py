"""Devices that pods claim (dynamic resource allocation), counted as resources of quota.

A ResourceClaimTemplate asks for devices of a class; the Configuration maps classes to names of resources. An extended resource
that a DeviceClass stands behind is counted under that name too. What cannot be counted makes a workload inadmissible, and the
fault says why. Called by the feed of the engine and by the workload controller.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from pykueue.api import errors, quantity
from pykueue.api.errors import FieldError, Verbatim
from pykueue.api.scheme import Object

_NIL = Verbatim("null")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRules:
    """The parts of the configuration that decide how devices are counted."""

    enabled: bool = True
    rejects_when_disabled: bool = True
    counts_extended_resources: bool = True
    resource_of: Mapping[str, str] = field(default_factory=dict)
    """Of a DeviceClass."""
    counted_by_sources: frozenset[str] = frozenset()
    """Classes of which quota counts what their devices hold, not the devices: we cannot."""


class Inventory(Protocol):
    """What the cluster says about devices."""

    def template(self, namespace: str, name: str) -> Object | None: ...

    def classes(self) -> Iterable[Object]: ...

    def slices(self) -> Iterable[Object]:
        """Raises LookupError with the reason while they cannot be listed."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Why a workload is inadmissible, as its conditions say."""

    text: str
    requeued_text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """Of one pod, by pod set: what devices add, and the extended resources that they stand for."""

    added: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    replaced: Mapping[str, frozenset[str]] = field(default_factory=dict)


NO_DEVICES = Counted()


class _SelectorError(Exception):
    """What an expression says about devices cannot be told."""


class _FaultyError(Exception):
    def __init__(self, *found: FieldError) -> None:
        super().__init__(errors.aggregate(found))


def resource_names(mappings: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """`resources.deviceClassMappings` as class to resource; the first mapping of a class counts."""
    mapped: dict[str, str] = {}
    for mapping in mappings:
        for name in mapping.get("deviceClassNames") or ():
            mapped.setdefault(name, mapping["name"])
    return mapped


def with_sources(mappings: Iterable[Mapping[str, Any]]) -> frozenset[str]:
    return frozenset(
        name for mapping in mappings if mapping.get("sources") for name in mapping.get("deviceClassNames") or ()
    )


def may_claim(workload: Object) -> bool:
    """Whether devices may count for it at all: the others need no look at any inventory."""
    return any(
        spec.get("resourceClaims") or _extended_requests(spec)
        for spec in (pod_set["template"]["spec"] for pod_set in workload["spec"].get("podSets") or ())
    )


def count(workload: Object, rules: DeviceRules, inventory: Inventory) -> Counted | Fault:
    pod_specs = [pod_set["template"]["spec"] for pod_set in workload["spec"].get("podSets") or ()]
    has_claims = any(spec.get("resourceClaims") for spec in pod_specs)
    if not rules.enabled:
        return _disabled() if rules.rejects_when_disabled and has_claims else Counted()
    claims = [claim for spec in pod_specs for claim in spec.get("resourceClaims") or ()]
    if any(claim.get("resourceClaimName") for claim in claims):
        return Fault(
            text="KueueDRAIntegration feature does not support use of resource claims",
            requeued_text="DRA resource claims not supported",
        )
    if not has_claims and not any(map(_extended_requests, pod_specs)):
        return Counted()
    try:
        return _Count(workload, rules, inventory).result()
    except _FaultyError as fault:
        return Fault(text=str(fault), requeued_text=str(fault))


def _disabled() -> Fault:
    text = "Workload uses DRA resources but the KueueDRAIntegration feature gate is not enabled"
    return Fault(text=text, requeued_text=text)


class _Count:
    def __init__(self, workload: Object, rules: DeviceRules, inventory: Inventory) -> None:
        self._workload = workload
        self._rules = rules
        self._inventory = inventory

    def result(self) -> Counted:
        added: dict[str, dict[str, int]] = {}
        replaced: dict[str, frozenset[str]] = {}
        for index, pod_set in enumerate(self._workload["spec"].get("podSets") or ()):
            path = f"spec.podSets[{index}].template.spec"
            amounts: dict[str, int] = {}
            for name, amount in self._claimed(pod_set, path):
                amounts[name] = amounts.get(name, 0) + amount
            if self._rules.counts_extended_resources:
                backed = self._extended(pod_set["template"]["spec"], path)
                for name, amount in backed.values():
                    amounts[name] = amounts.get(name, 0) + amount
                if backed:
                    replaced[pod_set["name"]] = frozenset(backed)
            if amounts:
                added[pod_set["name"]] = amounts
        return Counted(added=added, replaced=replaced)

    # Claims.

    def _claimed(self, pod_set: Object, path: str) -> Iterator[tuple[str, int]]:
        """Resource and number, request by request."""
        for index, claim in enumerate(pod_set["template"]["spec"].get("resourceClaims") or ()):
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
                    raise _FaultyError(
                        FieldError("FieldValueNotFound", f"{where}.resourceClaimTemplateName", "", detail)
                    )
                if device_class in self._rules.counted_by_sources:
                    detail = f"DeviceClass {device_class} is mapped with sources, which pykueue does not count"
                    raise _FaultyError(FieldError("FieldValueForbidden", f"{where}.resourceClaimTemplateName", detail))
                yield resource, number

    def _requests(self, name: str, pod_set: Object, where: str) -> list[Object]:
        template = self._inventory.template(self._workload["metadata"].get("namespace", ""), name)
        if template is None:
            missing = _not_found("ResourceClaimTemplate", name)
            detail = f"failed to get claim spec for ResourceClaimTemplate {name} in podset {pod_set['name']}: {missing}"
            raise _FaultyError(FieldError("InternalError", where, detail))
        requests: list[Object] = (template["spec"]["spec"].get("devices") or {}).get("requests") or []
        _per_class(requests, name, where)
        self._check_selectors(requests, name, where)
        return requests

    def _check_selectors(self, requests: Sequence[Object], template: str, where: str) -> None:
        """Devices that the claim describes must exist, as many as it asks for."""
        selective = [(index, each["exactly"]) for index, each in enumerate(requests) if _expressions(each["exactly"])]
        if not selective:
            return
        try:
            devices = [device for each in self._inventory.slices() for device in _devices(each)]
        except LookupError as error:
            detail = f"ResourceClaimTemplate {template}: failed to list ResourceSlices: {error.args[0]}"
            raise _FaultyError(FieldError("InternalError", where, detail)) from None
        classes = {each["metadata"]["name"]: each for each in self._inventory.classes()}
        taken: set[int] = set()
        for index, exactly in selective:
            path = f"{where}.devices.requests[{index}]"
            name, wanted = exactly.get("deviceClassName", ""), int(exactly.get("count", 1))
            if name not in classes:
                missing = _not_found("DeviceClass", name)
                detail = f"ResourceClaimTemplate {template}: failed to get DeviceClass {name}: {missing}"
                raise _FaultyError(FieldError("InternalError", path, detail))
            texts = [*_expressions(classes[name]["spec"]), *_expressions(exactly)]
            try:
                matching = _matching(devices, texts, taken, wanted)
            except _SelectorError as error:
                detail = f"ResourceClaimTemplate {template}: CEL evaluation failed for DeviceClass {name}: {error}"
                raise _FaultyError(FieldError("FieldValueInvalid", f"{path}.exactly.selectors", detail, _NIL)) from None
            if matching < wanted:
                detail = (
                    f"ResourceClaimTemplate {template}: insufficient matching devices for CEL selector in"
                    f" DeviceClass {name}: {matching} device(s) match in the cluster but {wanted} requested"
                )
                raise _FaultyError(FieldError("InternalError", f"{path}.exactly.selectors", detail))

    # Extended resources.

    def _extended(self, pod_spec: Object, path: str) -> dict[str, tuple[str, int]]:
        """Those that a DeviceClass stands behind: to the resource that quota counts, and how many."""
        found: dict[str, tuple[str, int]] = {}
        faults: list[FieldError] = []
        for name, total in sorted(_extended_requests(pod_spec).items()):
            behind = [each for each in self._inventory.classes() if each["spec"].get("extendedResourceName") == name]
            if not behind:
                continue
            fractions = list(_fractions(pod_spec, path, name))
            faults += fractions
            if not fractions:
                chosen = sorted(behind, key=lambda each: str(each["metadata"]["name"]))
                latest = max(chosen, key=lambda each: str(each["metadata"].get("creationTimestamp") or ""))
                resource = self._rules.resource_of.get(latest["metadata"]["name"], name)
                found[name] = resource, total // quantity.NANO_PER_UNIT
        if faults:
            raise _FaultyError(*faults)
        return found


def _not_found(kind: str, name: str) -> str:
    """In the words of a cache, which knows kinds but no plurals."""
    return f'{kind}.resource.k8s.io "{name}" not found'


def _per_class(requests: Sequence[Object], template: str, where: str) -> dict[str, int]:
    counts: dict[str, int] = {}
    for index, request in enumerate(requests):
        fault = _unsupported(request, f"{where}.devices.requests[{index}]", template)
        if fault is not None:
            raise _FaultyError(fault)
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


def _expressions(selecting: Object) -> list[str]:
    return [each["cel"]["expression"] for each in selecting.get("selectors") or () if each.get("cel")]


def _devices(resource_slice: Object) -> Iterator[Object]:
    """As CEL sees them: attributes and capacity by domain, which is the driver where none is named."""
    driver = resource_slice["spec"].get("driver", "")
    for device in resource_slice["spec"].get("devices") or ():
        yield {
            "driver": driver,
            "attributes": _by_domain(driver, device.get("attributes") or {}, lambda each: next(iter(each.values()))),
            "capacity": _by_domain(
                driver, device.get("capacity") or {}, lambda each: quantity.parse(str(each["value"])).milli()
            ),
        }


def _by_domain(driver: str, named: Mapping[str, Any], value_of: Any) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {driver: {}}
    for qualified, value in named.items():
        domain, _, name = qualified.rpartition("/")
        found.setdefault(domain or driver, {})[name] = value_of(value)
    return found


def _matching(devices: Sequence[Object], texts: Sequence[str], taken: set[int], wanted: int) -> int:
    """How many devices that nobody has taken yet meet all conditions, up to what is wanted. Takes them."""
    # Few workloads describe their devices, and loading the CEL library takes a while.
    from pykueue.api import cel, cel_library

    matching = 0
    try:
        expressions = [cel_library.compile_expression(text) for text in texts]
        for index, device in enumerate(devices):
            if matching == wanted:
                break
            if index not in taken and all(cel_library.evaluate_with(each, {"device": device}) for each in expressions):
                taken.add(index)
                matching += 1
    except (cel.EvaluationError, cel_library.CompilationError) as error:
        raise _SelectorError(str(error)) from None
    return matching


def _containers(pod_spec: Object) -> Iterator[tuple[str, int, Object]]:
    for kind in ("initContainers", "containers"):
        for index, container in enumerate(pod_spec.get(kind) or ()):
            yield kind, index, (container.get("resources") or {}).get("requests") or {}


def _is_extended(name: str) -> bool:
    domain, slash, _ = name.rpartition("/")
    return bool(slash) and "kubernetes.io" not in domain and not name.startswith("requests.")


def _extended_requests(pod_spec: Object) -> dict[str, int]:
    """In nano-units: the sum over containers, or what one init container asks for if that is more."""
    totals: dict[str, dict[str, int]] = {"initContainers": {}, "containers": {}}
    for kind, _, requests in _containers(pod_spec):
        for name, text in requests.items():
            if _is_extended(name) and (amount := quantity.parse(str(text)).nano) > 0:
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
