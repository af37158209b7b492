"""Devices for the claims of a pod: which devices of a node satisfy them, as in kube-scheduler.

A `DevicePass` is generated for one scheduling pass, from the objects of the cache. Without I/O.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pykueue.api import entropy, objects, resources
from pykueue.api.scheme import Object
from pykueue.cluster import pods
from pykueue.cluster.scheduler import extended_resources
from pykueue.cluster.scheduler.device_inventory import Device, DeviceKey, SchedulableDevices
from pykueue.cluster.scheduler.fleet import NodeState
from pykueue.kube.controller.cache import ObjectCache
from pykueue.translate import device_selectors
from pykueue.translate.device_selectors import DeviceSelector, SelectorError

CANNOT_ALLOCATE = "cannot allocate all claims"
ELSEWHERE = "resourceclaim not available on the node"
_MOST_STEPS = 10_000
"""How many devices are tried for the claims of one pod on one node, in all combinations."""
_EVALUATION_STEPS = 10
"""How many steps an expression counts for, the first time it is evaluated for a device."""
_MOST_DEVICES = 1000
"""A request of more devices fits no node. Kubernetes allocates at most 32 for a claim."""
_MOST_COMBINATIONS = 64
_MOST_PODS = 256
"""Kubernetes' limit of pods for which one claim is reserved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unallocatable:
    """Why no devices can be allocated on a node, or on any node."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Need:
    """One device for a request, or for a subrequest (`request/subrequest`)."""

    claim: Object
    name: str
    request: Object


@dataclass(frozen=True, slots=True, kw_only=True)
class _Result:
    need: _Need
    device: Device
    consumed: Mapping[str, int]

    @property
    def is_admin(self) -> bool:
        return bool(self.need.request.get("adminAccess"))


@dataclass(slots=True)
class _Search:
    """The devices chosen so far, and how many were tried."""

    results: list[_Result] = field(default_factory=list)
    steps: int = 0


class DevicePass:
    def __init__(self, cache: ObjectCache) -> None:
        self._cache = cache
        self._inventory = SchedulableDevices(cache.all(resources.RESOURCE_SLICE))
        self._usage = self._inventory.usage(cache.all(resources.RESOURCE_CLAIM))
        self._classes = {objects.name(entry): entry for entry in cache.all(resources.DEVICE_CLASS)}
        self._selectors: dict[tuple[str, ...], DeviceSelector] = {}
        self._matched: dict[tuple[tuple[str, ...], DeviceKey], bool] = {}
        """Whether expressions match a device."""
        self._extended_claims = {
            owner["uid"]: claim
            for claim in cache.all(resources.RESOURCE_CLAIM)
            if extended_resources.EXTENDED_CLAIM in objects.annotations(claim) and not objects.is_deleted(claim)
            for owner in objects.owner_references(claim)
        }

    def provided(self, pod: Object) -> dict[str, Object]:
        """The DeviceClass of each extended resource of the pod that a class provides."""
        return extended_resources.providers(pod, self._classes.values())

    def has_extended_claim(self, pod: Object) -> bool:
        return objects.uid(pod) in self._extended_claims

    def claims(self, pod: Object, state: NodeState) -> list[Object] | Unallocatable:
        """The claims of a pod on a node, or why they cannot be used yet.

        One for extended resources has no uid if it is still to be created.
        """
        claims = self._named_claims(pod)
        provided = self.provided(pod)
        names = extended_resources.unoffered(provided, state)
        if isinstance(claims, Unallocatable) or not names:
            return claims
        existing = self._extended_claims.get(objects.uid(pod))
        return [*claims, existing or extended_resources.claim_of(pod, provided, names)]

    def _named_claims(self, pod: Object) -> list[Object] | Unallocatable:
        claims = []
        for name in claim_names(pod):
            if name is None:
                return Unallocatable(reason="waiting for resource claim controller to create the resourceclaims")
            claim = self._cache.get(resources.RESOURCE_CLAIM, name, objects.namespace(pod))
            if claim is None or objects.is_deleted(claim):
                return Unallocatable(reason=f'resourceclaim "{name}" not found')
            claims.append(claim)
        return claims

    def allocate(self, pod: Object, claims: Sequence[Object], node: Object) -> list[Object] | Unallocatable:
        """The claims as they are with devices of the node, reserved for the pod."""
        reference = {"resource": "pods", "name": objects.name(pod), "uid": objects.uid(pod)}
        pending = []
        for claim in claims:
            allocation = objects.nested(claim, "status", "allocation")
            reserved = objects.nested_list(claim, "status", "reservedFor")
            if len(reserved) >= _MOST_PODS and reference not in reserved:
                return Unallocatable(reason=CANNOT_ALLOCATE)
            if not allocation:
                pending.append(claim)
            elif not _is_usable(allocation, node):
                return Unallocatable(reason=ELSEWHERE)
        results = self._search(pending, node)
        if results is None:
            return Unallocatable(reason=CANNOT_ALLOCATE)
        return [self._allocated(claim, results, node, reference) for claim in claims]

    def count(self, claims: Iterable[Object]) -> None:
        """Count the devices of allocated claims for the rest of the pass."""
        usage = self._inventory.usage(claims)
        self._usage.devices |= usage.devices
        for key, amount in usage.amounts.items():
            self._usage.amounts[key] = self._usage.amounts.get(key, 0) + amount

    # The search

    def _search(self, claims: Sequence[Object], node: Object) -> list[_Result] | None:
        """The devices of the first combination of subrequests that can be satisfied."""
        devices = list(self._inventory.devices(node))
        steps = 0
        alternatives = [options for claim in claims for options in self._alternatives(claim, devices)]
        for combination in itertools.islice(itertools.product(*alternatives), _MOST_COMBINATIONS):
            needs = list(itertools.chain.from_iterable(combination))
            search = _Search(steps=steps)
            try:
                is_complete = self._place(needs, devices, search)
            except SelectorError:
                is_complete = False
            for result in search.results:
                self._forget(result)
            if is_complete:
                return search.results
            if (steps := search.steps) > _MOST_STEPS:
                break
        return None

    def _alternatives(self, claim: Object, devices: Sequence[Device]) -> Iterator[list[list[_Need]]]:
        """For each request of a claim the needs of each of its subrequests."""
        for request in objects.nested_list(claim, "spec", "devices", "requests"):
            name, exactly = request["name"], request.get("exactly")
            options = (
                [(name, exactly)]
                if exactly is not None
                else [(f"{name}/{entry['name']}", entry) for entry in request.get("firstAvailable") or ()]
            )
            counts = [(label, entry, self._count(entry, devices)) for label, entry in options]
            yield [
                [_Need(claim=claim, name=label, request=entry)] * count
                for label, entry, count in counts
                if 0 < count <= _MOST_DEVICES
            ]

    def _count(self, request: Object, devices: Sequence[Device]) -> int:
        """How many devices are requested; none if all are requested and one cannot be selected."""
        if request.get("allocationMode") != "All":
            return int(request.get("count") or 1)
        try:
            return sum(self._matches(request, device) for device in devices)
        except SelectorError:
            return 0

    def _place(self, needs: Sequence[_Need], devices: Sequence[Device], search: _Search) -> bool:
        """Choose a device for every need; go back to an earlier one if that does not work out."""
        stack: list[Iterator[_Result]] = [self._candidates(needs, devices, search)]
        while stack:
            if len(search.results) == len(needs):
                return True
            result = next(stack[-1], None)
            if result is None:
                stack.pop()
                if search.results:
                    self._forget(search.results.pop())
                continue
            search.results.append(result)
            if not result.is_admin:
                self._usage.add(result.device, result.consumed)
            stack.append(self._candidates(needs, devices, search))
        return not needs

    def _candidates(self, needs: Sequence[_Need], devices: Sequence[Device], search: _Search) -> Iterator[_Result]:
        if len(search.results) >= len(needs):
            return
        need = needs[len(search.results)]
        is_admin = bool(need.request.get("adminAccess"))
        for device in devices:
            search.steps += 1
            if search.steps > _MOST_STEPS:
                return
            consumed = device.consumed(need.request) if device.is_shared else {}
            if (
                consumed is not None
                and (is_admin or self._usage.fits(device, consumed, self._inventory.limits))
                and self._matches(need.request, device, search)
                and _meets_constraints(need, device, search.results)
            ):
                yield _Result(need=need, device=device, consumed=consumed)

    def _forget(self, result: _Result) -> None:
        if not result.is_admin:
            self._usage.add(result.device, result.consumed, -1)

    def _matches(self, request: Object, device: Device, search: _Search | None = None) -> bool:
        """Whether a device can be used for a request. Expressions are users' texts: they count."""
        device_class = self._classes.get(request.get("deviceClassName", ""))
        if device_class is None:
            return False
        texts = (
            *device_selectors.expressions(objects.spec(device_class)),
            *device_selectors.expressions(request),
        )
        key = (texts, device.key)
        if key not in self._matched:
            if search is not None:
                search.steps += len(texts) * _EVALUATION_STEPS
            selector = self._selectors.get(texts)
            if selector is None:
                selector = self._selectors[texts] = DeviceSelector(texts)
            self._matched[key] = selector.matches(device.cel)
        return self._matched[key]

    # The result

    def _allocated(self, claim: Object, results: Sequence[_Result], node: Object, reference: Object) -> Object:
        status = dict(objects.status(claim))
        own = [result for result in results if result.need.claim is claim]
        if not status.get("allocation"):
            allocation: Object = {"devices": {"results": [_entry(result) for result in own]}}
            if any(result.device.node_name for result in own):
                term = {"key": "metadata.name", "operator": "In", "values": [objects.name(node)]}
                allocation["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": [term]}]}
            status["allocation"] = allocation
        reserved = status.get("reservedFor") or []
        status["reservedFor"] = reserved if reference in reserved else [*reserved, reference]
        return {**claim, "status": status}


def claim_names(pod: Object) -> list[str | None]:
    """The names of the pod's claims; None for one that is to be generated from a template."""
    generated = {
        entry["name"]: entry.get("resourceClaimName")
        for entry in objects.nested_list(pod, "status", "resourceClaimStatuses")
    }
    return [
        entry.get("resourceClaimName") or generated.get(entry["name"])
        for entry in pod["spec"].get("resourceClaims") or ()
    ]


def has_claims(pod: Object) -> bool:
    return bool(pod["spec"].get("resourceClaims")) and not pods.is_finished(pod)


def may_need_devices(pod: Object) -> bool:
    """Whether the pod has claims, or extended resources for which the scheduler may make one."""
    return has_claims(pod) or extended_resources.may_need_claim(pod)


def _is_usable(allocation: Object, node: Object) -> bool:
    terms = objects.nested_list(allocation, "nodeSelector", "nodeSelectorTerms")
    return not terms or any(
        objects.name(node) in (requirement.get("values") or ())
        for term in terms
        for requirement in term.get("matchFields") or ()
    )


def _meets_constraints(need: _Need, device: Device, results: Sequence[_Result]) -> bool:
    """Whether the device has the attributes of those chosen before, where a constraint says so."""
    for constraint in objects.nested_list(need.claim, "spec", "devices", "constraints"):
        attribute = constraint.get("matchAttribute")
        if attribute is None or not _concerns(constraint, need.name):
            continue
        value = device.attribute(attribute)
        if value is None or any(
            result.device.attribute(attribute) != value
            for result in results
            if result.need.claim is need.claim and _concerns(constraint, result.need.name)
        ):
            return False
    return True


def _concerns(constraint: Object, request: str) -> bool:
    names = constraint.get("requests") or ()
    return not names or request in names or request.partition("/")[0] in names


def _entry(result: _Result) -> Object:
    driver, pool, name = result.device.key
    entry: Object = {"request": result.need.name, "driver": driver, "pool": pool, "device": name}
    if result.is_admin:
        entry["adminAccess"] = True
    if result.device.is_shared:
        entry["shareID"] = entropy.new_uid()
        entry["consumedCapacity"] = {name: str(amount) for name, amount in result.consumed.items()}
    return entry
