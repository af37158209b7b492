"""Extended resources whose devices a DeviceClass provides: the ResourceClaim of a pod for them.

As in kube-scheduler, the scheduler makes the claim when it has found a node, and a node that
offers the resource itself needs none. Without I/O.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from pykueue.api import objects, resource_lists, resources
from pykueue.api.scheme import Object
from pykueue.cluster import pods
from pykueue.cluster.scheduler.fleet import NodeState
from pykueue.translate import devices

EXTENDED_CLAIM = "resource.kubernetes.io/extended-resource-claim"
"""Annotation of the claims that the scheduler makes."""
_CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"
"""A resource name with this prefix is a DeviceClass, without further ado."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    """A container's request of one extended resource, by the name that it has in the claim."""

    name: str
    container: str
    resource: str
    count: int
    is_initial: bool
    """Whether the container ends before the others start."""


def may_need_claim(pod: Object) -> bool:
    return not pods.is_finished(pod) and any(map(_is_extended, _names(pod["spec"])))


def providers(pod: Object, classes: Collection[Object]) -> dict[str, Object]:
    """The DeviceClass of each extended resource that the pod requests and a class provides."""
    if not classes:
        return {}
    names = set(filter(_is_extended, _names(pod["spec"])))
    return {name: provider for name in sorted(names) if (provider := _provider(name, classes)) is not None}


def _provider(name: str, classes: Iterable[Object]) -> Object | None:
    if name.startswith(_CLASS_PREFIX):
        return next((entry for entry in classes if objects.name(entry) == name.removeprefix(_CLASS_PREFIX)), None)
    return devices.provider(name, classes)


def unoffered(names: Iterable[str], state: NodeState) -> frozenset[str]:
    """Those of the resources that the node does not offer itself."""
    return frozenset(name for name in names if not state.capacity.get(name))


def claim_of(pod: Object, provided: Mapping[str, Object], names: Collection[str]) -> Object:
    """The claim of a pod for these resources; the pod owns it."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": objects.name(pod), "uid": objects.uid(pod), "controller": True}
    requests = [
        {
            "name": request.name,
            "exactly": {
                "deviceClassName": objects.name(provided[request.resource]),
                "allocationMode": "ExactCount",
                "count": request.count,
            },
        }
        for request in _own_requests(_requests(pod["spec"], names))
    ]
    return {
        "apiVersion": resources.RESOURCE_CLAIM.api_version,
        "kind": resources.RESOURCE_CLAIM.kind,
        "metadata": {
            "generateName": f"{objects.name(pod)}-extended-resources-",
            "namespace": objects.namespace(pod),
            "annotations": {EXTENDED_CLAIM: "true"},
            "ownerReferences": [owner],
        },
        "spec": {"devices": {"requests": requests}},
    }


def status_of(pod: Object, claim: Object) -> Object:
    """The part of the pod's status that says which request of the claim is for which container."""
    names = {request["name"] for request in claim["spec"]["devices"]["requests"]}
    requests = _requests(pod["spec"], {request.resource for request in _requests(pod["spec"]) if request.name in names})
    own = _own_requests(requests)
    mappings = [
        {
            "containerName": request.container,
            "resourceName": request.resource,
            "requestName": (request if request in own else _shared(request, requests) or request).name,
        }
        for request in requests
    ]
    return {"resourceClaimName": objects.name(claim), "requestMappings": mappings}


def claimed(pod: Object) -> set[str]:
    """The resources that a bound pod has by a claim, and not from the node."""
    return {entry["resourceName"] for entry in mappings(pod)}


def mappings(pod: Object) -> list[Object]:
    return objects.nested_list(pod, "status", "extendedResourceClaimStatus", "requestMappings")


def is_unnamed(pod: Object, claim: Object) -> bool:
    """Whether the pod's status does not name its claim for extended resources yet."""
    return EXTENDED_CLAIM in objects.annotations(claim) and claim_name(pod) != objects.name(claim)


def claim_name(pod: Object) -> str:
    return str(objects.nested(pod, "status", "extendedResourceClaimStatus").get("resourceClaimName", ""))


def _requests(pod_spec: Object, names: Collection[str] | None = None) -> list[_Request]:
    """What the containers request of these resources, or of all that are extended."""
    requests: list[_Request] = []
    for index, (container, is_initial) in enumerate(_containers(pod_spec)):
        amounts = resource_lists.parse(objects.nested(container, "resources").get("requests"))
        for number, name in enumerate(sorted(amounts)):
            count = resource_lists.amount(name, amounts[name])
            if count > 0 and (_is_extended(name) if names is None else name in names):
                label = f"container-{index}-request-{number}"
                requests.append(
                    _Request(name=label, container=container["name"], resource=name, count=count, is_initial=is_initial)
                )
    return requests


def _own_requests(requests: list[_Request]) -> list[_Request]:
    """Those with devices of their own: an init container uses those of a later container."""
    return [request for request in requests if _shared(request, requests) is None]


def _shared(request: _Request, requests: list[_Request]) -> _Request | None:
    if not request.is_initial:
        return None
    later = (other for other in requests if not other.is_initial and other.resource == request.resource)
    return next((other for other in later if other.count >= request.count), None)


def _containers(pod_spec: Object) -> Iterator[tuple[Object, bool]]:
    """Each container, and whether it ends before the others start."""
    for kind in ("initContainers", "containers"):
        for container in pod_spec.get(kind) or ():
            yield container, kind == "initContainers" and container.get("restartPolicy") != "Always"


def _names(pod_spec: Object) -> Iterator[str]:
    for container, _ in _containers(pod_spec):
        yield from objects.nested(container, "resources").get("requests") or ()


def _is_extended(name: str) -> bool:
    return name.startswith(_CLASS_PREFIX) or devices.is_extended(name)
