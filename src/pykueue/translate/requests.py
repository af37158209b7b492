"""The quota requests of a workload's pod sets, in the engine's integers.

`adjusted` completes the pod templates as the API server will complete the pods: RuntimeClass
overhead, LimitRange defaults, limits as requests. `total_requests` applies exclusions,
transformations and reclaimable pods to each pod set; for a workload with a reservation it counts
the admitted usage. Called when a workload enters the engine.
"""

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any

import msgspec

from pykueue.api import limit_range, objects, quantity, resource_lists
from pykueue.api.errors import FieldError
from pykueue.api.kueue import topology_encoding
from pykueue.api.quantity import Quantity
from pykueue.api.rules import faults
from pykueue.api.scheme import Object
from pykueue.engine.quota import amounts as engine_amounts
from pykueue.translate import amounts
from pykueue.translate.devices import NO_DEVICES, DeviceCounts


class ResourceTransformation(msgspec.Struct, frozen=True, kw_only=True):
    """Counts a requested resource as other resources.

    The quantity of `multiply_by` scales the outputs.
    """

    outputs: Mapping[str, str]
    replaces_input: bool = False
    multiply_by: str = ""


class RequestRules(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of the Configuration that decide what counts for quota."""

    excluded_prefixes: tuple[str, ...] = ()
    transformations: Mapping[str, ResourceTransformation] = msgspec.field(default_factory=dict)
    subtracts_reclaimable_pods: bool = True


class PodSetRequests(msgspec.Struct, frozen=True, kw_only=True):
    """The requests of all pods of a pod set; `flavors` is empty until quota is reserved."""

    name: str
    count: int
    requests: Mapping[str, int]
    flavors: Mapping[str, str] = msgspec.field(default_factory=dict)
    placement: "PodSetPlacement | None" = None


class PodSetPlacement(msgspec.Struct, frozen=True, kw_only=True):
    """The topology assignment of an admitted pod set, with the requests of one pod on a node."""

    levels: tuple[str, ...]
    domains: tuple[topology_encoding.TopologyDomainAssignment, ...]
    single_pod_requests: Mapping[str, int]


def transformations_from(configured: Iterable[Mapping[str, Any]]) -> dict[str, ResourceTransformation]:
    """Reads `resources.transformations` of the Configuration."""
    return {
        entry["input"]: ResourceTransformation(
            outputs=entry.get("outputs") or {},
            replaces_input=entry.get("strategy") == "Replace",
            multiply_by=entry.get("multiplyBy") or "",
        )
        for entry in configured
    }


def adjusted(workload: Object, *, runtime_classes: Mapping[str, Object], limit_ranges: Iterable[Object]) -> Object:
    """The workload with complete pod templates; it shares unchanged parts with the original."""
    summary = limit_range.summarize(limit_ranges)
    pod_sets = []
    for pod_set in workload["spec"].get("podSets") or ():
        pod_spec = _adjusted_pod(objects.nested(pod_set, "template", "spec"), runtime_classes, summary)
        pod_sets.append({**pod_set, "template": {**pod_set["template"], "spec": pod_spec}})
    return {**workload, "spec": {**workload["spec"], "podSets": pod_sets}}


def total_requests(workload: Object, rules: RequestRules) -> list[PodSetRequests]:
    admission = objects.status(workload).get("admission")
    return _admitted_requests(workload, admission, rules) if admission else requests_of_pod_sets(workload, rules)


def usage(pod_sets: Iterable[PodSetRequests]) -> dict[tuple[str, str], int]:
    """The amounts by (flavor, resource); the flavor is "" if none is assigned."""
    totals: dict[tuple[str, str], int] = {}
    for pod_set in pod_sets:
        for resource, amount in pod_set.requests.items():
            key = pod_set.flavors.get(resource, ""), resource
            totals[key] = engine_amounts.add(totals.get(key, 0), amount)
    return totals


def counts_after_reclaim(workload: Object, rules: RequestRules) -> dict[str, int]:
    """The number of pods that still need quota, by pod set."""
    pod_sets = workload["spec"].get("podSets") or ()
    counts = {_name(pod_set): max(0, int(pod_set.get("count", 0))) for pod_set in pod_sets}
    if rules.subtracts_reclaimable_pods:
        for reclaimable in objects.status(workload).get("reclaimablePods") or ():
            if (name := reclaimable["name"]) in counts:
                counts[name] -= min(int(reclaimable["count"]), counts[name])
    return counts


def single_pod_requests(pod_spec: Object, rules: RequestRules) -> dict[str, int]:
    """The quota requests of one pod."""
    requests = {
        name: value
        for name, value in resource_lists.pod_requests(pod_spec).items()
        if not name.startswith(rules.excluded_prefixes)
    }
    transformed = _transformed(requests, rules.transformations)
    return {name: max(0, resource_lists.amount(name, value)) for name, value in transformed.items()}


def requests_of_pod_sets(
    workload: Object, rules: RequestRules, devices: DeviceCounts = NO_DEVICES
) -> list[PodSetRequests]:
    counts = counts_after_reclaim(workload, rules)
    pod_sets = []
    for pod_set in workload["spec"].get("podSets") or ():
        name = _name(pod_set)
        requests = _with_devices(single_pod_requests(objects.nested(pod_set, "template", "spec"), rules), devices, name)
        pod_sets.append(PodSetRequests(name=name, count=counts[name], requests=amounts.scaled(requests, counts[name])))
    return pod_sets


def _with_devices(requests: dict[str, int], devices: DeviceCounts, pod_set: str) -> dict[str, int]:
    replaced, added = devices.replaced.get(pod_set, ()), devices.added.get(pod_set, {})
    if not replaced and not added:
        return requests
    amounts_by_name = {name: amount for name, amount in requests.items() if name not in replaced}
    for name, amount in added.items():
        amounts_by_name[name] = amounts_by_name.get(name, 0) + amount
    return amounts_by_name


def _name(pod_set: Object) -> str:
    return str(pod_set.get("name", ""))


def _admitted_requests(workload: Object, admission: Object, rules: RequestRules) -> list[PodSetRequests]:
    declared = counts_after_reclaim(workload, RequestRules(subtracts_reclaimable_pods=False))
    remaining = counts_after_reclaim(workload, rules)
    pod_sets = []
    for assignment in admission.get("podSetAssignments") or ():
        name = assignment["name"]
        count = int(assignment.get("count", declared.get(name, 0)))
        requests = amounts.of_requests(assignment.get("resourceUsage"))
        if (remaining_count := remaining.get(name, 0)) < count:
            requests, count = amounts.rescaled(requests, from_count=count, to_count=remaining_count), remaining_count
        pod_sets.append(
            PodSetRequests(
                name=name,
                count=count,
                requests=requests,
                flavors=assignment.get("flavors") or {},
                placement=_placement(workload, assignment),
            )
        )
    return pod_sets


def _placement(workload: Object, assignment: Object) -> PodSetPlacement | None:
    topology_assignment = assignment.get("topologyAssignment")
    if not topology_assignment:
        return None
    template = next(
        pod_set["template"] for pod_set in workload["spec"]["podSets"] if pod_set["name"] == assignment["name"]
    )
    requests = resource_lists.pod_requests(template["spec"])
    return PodSetPlacement(
        levels=tuple(topology_assignment["levels"]),
        domains=tuple(topology_encoding.decode(topology_assignment)),
        single_pod_requests={name: resource_lists.amount(name, value) for name, value in requests.items()},
    )


def _adjusted_pod(pod_spec: Object, runtime_classes: Mapping[str, Object], summary: limit_range.Summary) -> Object:
    pod_spec = dict(pod_spec)
    if (class_name := pod_spec.get("runtimeClassName")) and not pod_spec.get("overhead"):
        overhead = objects.nested(runtime_classes.get(class_name, {}), "overhead").get("podFixed")
        if overhead:
            pod_spec["overhead"] = overhead
    for field_name in ("initContainers", "containers"):
        if pod_spec.get(field_name):
            pod_spec[field_name] = [
                {**container, "resources": _completed(container.get("resources"), summary.get("Container"))}
                for container in pod_spec[field_name]
            ]
    if pod_spec.get("resources") is not None:
        pod_spec["resources"] = _completed(pod_spec["resources"], summary.get("Pod"))
    return pod_spec


def _completed(resources: Mapping[str, Any] | None, defaults: Mapping[str, Any] | None) -> Object:
    """Adds the defaults of the namespace; a limit without a request becomes the request."""
    own = dict(resources or {})
    if not defaults and not own.get("limits"):
        return own
    defaults = defaults or {}
    limits = resource_lists.keep_first(own.get("limits"), defaults.get("default"))
    requests = resource_lists.keep_first(own.get("requests"), defaults.get("defaultRequest"))
    requests = resource_lists.keep_first(requests, limits)
    return own | {name: value for name, value in (("limits", limits), ("requests", requests)) if value}


def _transformed(
    requests: Mapping[str, Quantity], transformations: Mapping[str, ResourceTransformation]
) -> Mapping[str, Quantity]:
    """Sums all outputs, raises negative sums to zero, then adds the other requests."""
    remaining = {
        name: value
        for name, value in requests.items()
        if name not in transformations or not transformations[name].replaces_input
    }
    generated: dict[str, Fraction] = {}
    for name in requests.keys() & transformations.keys():
        rule = transformations[name]
        scale = requests[rule.multiply_by] if rule.multiply_by in requests else quantity.from_units(1)
        for output, factor in rule.outputs.items():
            product = _exact(requests[name]) * _exact(scale) * _exact(quantity.parse(factor))
            generated[output] = generated.get(output, Fraction(0)) + product
    return resource_lists.total(
        (remaining, {name: _rounded_up(max(Fraction(0), value)) for name, value in generated.items()})
    )


def _exact(value: Quantity) -> Fraction:
    return Fraction(value.nano, quantity.NANO_PER_UNIT)


def _rounded_up(units: Fraction) -> Quantity:
    nano = units * quantity.NANO_PER_UNIT
    return Quantity(-(-nano.numerator // nano.denominator))


def understated_requests(pod_sets: Iterable[Object]) -> list[FieldError]:
    """The amounts that would lower what is counted: negative ones, and too small pod-level ones.

    An API server refuses them in pods, Kueue's webhook most of them in Workloads. They count as 0,
    or as what the containers request, and the Workload is not admitted.
    """
    return [
        error
        for index, pod_set in enumerate(pod_sets)
        for error in _understated(f"spec.podSets[{index}].template.spec", objects.nested(pod_set, "template", "spec"))
    ]


def _understated(path: str, pod_spec: Object) -> Iterator[FieldError]:
    holders = [(f"{path}.resources", objects.nested(pod_spec, "resources"))]
    for field_name in ("initContainers", "containers"):
        for index, container in enumerate(pod_spec.get(field_name) or ()):
            holders.append((f"{path}.{field_name}[{index}].resources", objects.nested(container, "resources")))
    lists = [(f"{here}.{name}", resources.get(name)) for here, resources in holders for name in ("limits", "requests")]
    for here, resource_list in (*lists, (f"{path}.overhead", pod_spec.get("overhead"))):
        for name, value in resource_lists.parse(resource_list).items():
            if value.nano < 0:
                yield faults.invalid(f"{here}[{name}]", str(value), faults.NEGATIVE)
    of_pod = resource_lists.parse(objects.nested(pod_spec, "resources").get("requests"))
    for name, value in resource_lists.container_requests(pod_spec).items():
        if name in of_pod and 0 <= of_pod[name].nano < value.nano:
            detail = f"must be greater than or equal to aggregate container requests of {value}"
            yield faults.invalid(f"{path}.resources.requests[{name}]", str(of_pod[name]), detail)


def limit_range_errors(workload: Object, summary: limit_range.Summary) -> list[FieldError]:
    """The violations of the namespace's LimitRanges in the pod templates."""
    return [
        error
        for index, pod_set in enumerate(workload["spec"].get("podSets") or ())
        for error in limit_range.pod_spec_errors(
            summary, objects.nested(pod_set, "template", "spec"), f"spec.podSets[{index}].template.spec"
        )
    ]
