"""Environment variables that show a container the devices of its claims.

A DRA driver would inject the devices; a process of the local machine gets their names.
"""

import re
from collections.abc import Iterator

from pykueue.api import objects
from pykueue.api.scheme import Object
from pykueue.cluster.kubelet.environment import Find, MissingSourceError
from pykueue.cluster.scheduler import extended_resources
from pykueue.cluster.scheduler.device_allocation import claim_names

DEVICES = "PYKUEUE_DEVICES"
"""`driver/pool/device` of every device, separated by commas."""
_NVIDIA = "gpu.nvidia.com"
_NVIDIA_GPU = re.compile(r"gpu-(\d{1,6})")


def variables(pod: Object, container: Object, find: Find) -> dict[str, str]:
    """MissingSourceError if the devices of a claim are not known yet."""
    results = list(_results(pod, container, find))
    if not results:
        return {}
    names = [f"{result['driver']}/{result['pool']}/{result['device']}" for result in results]
    gpus = [
        match[1]
        for result in results
        if result["driver"] == _NVIDIA and (match := _NVIDIA_GPU.fullmatch(result["device"]))
    ]
    return {DEVICES: ",".join(names)} | ({"CUDA_VISIBLE_DEVICES": ",".join(gpus)} if gpus else {})


def _results(pod: Object, container: Object, find: Find) -> Iterator[Object]:
    """The allocated devices of the claims and requests that the container names."""
    entries = pod["spec"].get("resourceClaims") or ()
    names = dict(zip((entry["name"] for entry in entries), claim_names(pod), strict=True))
    for use in objects.nested(container, "resources").get("claims") or ():
        name, request = names.get(use["name"]), use.get("request")
        for result in _allocated(name or use["name"], find):
            if not request or result["request"].partition("/")[0] == request:
                yield result
    requests = {
        entry["requestName"]
        for entry in extended_resources.mappings(pod)
        if entry["containerName"] == container["name"]
    }
    if requests:
        yield from (
            result for result in _allocated(extended_resources.claim_name(pod), find) if result["request"] in requests
        )


def _allocated(name: str, find: Find) -> list[Object]:
    claim = find("ResourceClaim", name)
    results = objects.nested_list(claim or {}, "status", "allocation", "devices", "results")
    if not results:
        raise MissingSourceError(f"resourceclaim {name} has no devices")
    return results
