"""Names and labels as KubeRay generates them.

A name that is too long loses its first characters.
"""

from pykueue.api import objects
from pykueue.api.scheme import Object

CLUSTER = "ray.io/cluster"
NODE_TYPE = "ray.io/node-type"
GROUP = "ray.io/group"
HEAD_GROUP = "headgroup"
_ORIGIN_NAME = "ray.io/originated-from-cr-name"
_ORIGIN_KIND = "ray.io/originated-from-crd"
_KUEUE_PREFIX = "kueue.x-k8s.io/"

_LONGEST_PREFIX = 50
_LONGEST_LABEL = 63


def head_prefix(cluster: str) -> str:
    return shortened(f"{cluster}-head-".lower(), _LONGEST_PREFIX)


def worker_prefix(cluster: str, group: str) -> str:
    return shortened(f"{cluster}-worker-{group}-".lower(), _LONGEST_PREFIX)


def label(text: str) -> str:
    return shortened(text, _LONGEST_LABEL)


def shortened(text: str, longest: int) -> str:
    """The last `longest` characters. A first character that is not a letter is replaced by `r`."""
    end = text[-longest:]
    return end if end[0].isalpha() else f"r{end[1:]}"


def head_service(cluster: str) -> str:
    return f"{cluster}-head-svc"


def origin_labels(owner: Object) -> dict[str, str]:
    """The labels of an object that a RayJob or RayService creates."""
    return {_ORIGIN_NAME: label(objects.name(owner)), _ORIGIN_KIND: owner["kind"]}


def cluster_labels(owner: Object) -> dict[str, str]:
    """The labels of a RayCluster: those of its owner without Kueue's, and its origin."""
    inherited = {key: value for key, value in objects.labels(owner).items() if not key.startswith(_KUEUE_PREFIX)}
    return inherited | {_ORIGIN_NAME: objects.name(owner), _ORIGIN_KIND: owner["kind"]}
