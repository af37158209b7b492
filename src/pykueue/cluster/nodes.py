"""Node objects: this machine, simulated nodes, or completed Node manifests."""

import contextlib
import os
import platform
import re
import socket
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

import msgspec

from pykueue.api import labels, objects, times
from pykueue.api.gpu_resources import GPU, is_gpu
from pykueue.api.scheme import Object
from pykueue.cluster import gpus
from pykueue.cluster.kubelet.devices import DEVICES
from pykueue.cluster.scheduler.fleet import DEFAULT_PODS

_GIB = 1024**3
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
SIMULATED_FLEET = 3
CREATED_BY = labels.CREATED_BY_RUNTIME


def created_by(manifest: Object, runtime: str) -> Object:
    """The manifest with the annotation that it belongs to this runtime."""
    annotations = objects.annotations(manifest) | {CREATED_BY: runtime}
    return manifest | {"metadata": manifest["metadata"] | {"annotations": annotations}}


def belongs_to_another_runtime(node: Object, runtime: str) -> bool:
    """Whether pykueue created the Node or NodePool for another runtime.

    Nodes that a user created belong to every runtime. Older versions of pykueue wrote no
    annotation; their simulated nodes are recognized by name.
    """
    owner = objects.annotations(node).get(CREATED_BY, "")
    if not owner and re.fullmatch(rf"simulated-[1-{SIMULATED_FLEET}]", objects.name(node)):
        owner = "simulated"
    return bool(owner) and owner != runtime


def this_machine(now: datetime, shares: gpus.Shares) -> Object:
    name = re.sub(r"[^a-z0-9.-]+", "-", socket.gethostname().lower()).strip("-.") or "localhost"
    labels: dict[str, str] = {}
    resources = {"cpu": str(_processors()), "memory": f"{_memory_kib() // 1024}Mi"}
    annotations = {}
    if products := gpus.names():
        devices = gpus.devices(len(products), shares)
        resources |= {resource: str(count) for resource, count in Counter(item.resource for item in devices).items()}
        labels |= {"nvidia.com/gpu.present": "true", "nvidia.com/gpu.product": products[0].replace(" ", "-")}
        annotations[DEVICES] = msgspec.json.encode(devices).decode()
    machine = node(name, resources, now, labels)
    return machine | {"metadata": machine["metadata"] | {"annotations": annotations}}


def changed_gpus(old: Object, new: Object) -> tuple[Object, Object] | None:
    """Patches of a Node and its status that give it the GPUs of another; None if it has them."""
    before, after = (objects.nested(node, "status", "allocatable") for node in (old, new))
    amounts = {name: after.get(name) for name in {*before, *after} if is_gpu(name)}
    listed = objects.annotations(new).get(DEVICES)
    if listed == objects.annotations(old).get(DEVICES) and all(before.get(name) == amounts[name] for name in amounts):
        return None
    return {"metadata": {"annotations": {DEVICES: listed}}}, {"status": {"capacity": amounts, "allocatable": amounts}}


def simulated_fleet(now: datetime) -> list[Object]:
    """Large nodes for a cluster without Node manifests, so that only quota limits what runs."""
    resources = {"cpu": "64", "memory": "256Gi", GPU: "8"}
    return [node(f"simulated-{number}", resources, now) for number in range(1, SIMULATED_FLEET + 1)]


def node(name: str, resources: Mapping[str, str], now: datetime, labels: Mapping[str, str] | None = None) -> Object:
    return complete({"metadata": {"name": name, "labels": dict(labels or {})}, "status": {"capacity": resources}}, now)


def complete(manifest: Object, now: datetime) -> Object:
    """A Node manifest with the labels, allocatable and Ready condition of a kubelet."""
    metadata = manifest["metadata"]
    name = metadata["name"]
    default_labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": _ARCHITECTURES.get(platform.machine(), platform.machine()),
    }
    status = objects.status(manifest)
    capacity = {"pods": str(DEFAULT_PODS)} | {
        key: str(value) for key, value in (status.get("capacity") or status.get("allocatable") or {}).items()
    }
    allocatable = capacity | {key: str(value) for key, value in (status.get("allocatable") or {}).items()}
    stamp = times.to_text(now)
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "message": "kubelet is posting ready status",
        "lastHeartbeatTime": stamp,
        "lastTransitionTime": stamp,
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata | {"labels": default_labels | (metadata.get("labels") or {})},
        "spec": objects.spec(manifest),
        "status": {
            "capacity": capacity,
            "allocatable": allocatable,
            "conditions": status.get("conditions") or [ready],
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}, {"type": "Hostname", "address": name}],
            "nodeInfo": _node_info(),
        },
    }


def _node_info() -> Object:
    return {
        "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()),
        "operatingSystem": "linux",
        "osImage": f"{platform.system()} {platform.release()}",
        "kernelVersion": platform.release(),
        "kubeletVersion": "v1.36.0",
        "kubeProxyVersion": "",
        "containerRuntimeVersion": "pykueue://0.1",
        "bootID": "",
        "machineID": "",
        "systemUUID": "",
    }


def _processors() -> int:
    with contextlib.suppress(AttributeError):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _memory_kib() -> int:
    with contextlib.suppress(OSError):
        match = re.search(r"^MemTotal:\s+(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)
        if match:
            return int(match.group(1))
    return 4 * _GIB // 1024
