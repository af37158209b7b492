"""Node objects: this machine, simulated nodes, or completed Node manifests."""

import contextlib
import os
import platform
import re
import shutil
import socket
import subprocess
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from pykueue.api import labels, objects, times
from pykueue.api.scheme import Object
from pykueue.cluster.kubelet.devices import GPU
from pykueue.cluster.scheduler.fleet import DEFAULT_PODS

_GPU_QUERY = ("nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits")
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


def this_machine(now: datetime) -> Object:
    name = re.sub(r"[^a-z0-9.-]+", "-", socket.gethostname().lower()).strip("-.") or "localhost"
    labels: dict[str, str] = {}
    resources = {"cpu": str(_processors()), "memory": f"{_memory_kib()}Ki"}
    if gpus := find_gpus():
        resources[GPU] = str(len(gpus))
        labels |= {"nvidia.com/gpu.present": "true", "nvidia.com/gpu.product": gpus[0].replace(" ", "-")}
    return node(name, resources, now, labels)


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


def find_gpus() -> list[str]:
    """Names of the NVIDIA GPUs of this machine, ordered by index."""
    path = shutil.which(_GPU_QUERY[0])
    if path is None:
        return []
    try:
        completed = subprocess.run(  # noqa: S603 - a fixed command
            [path, *_GPU_QUERY[1:]], capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return []
    return [line.partition(",")[0].strip() for line in completed.stdout.splitlines() if line.strip()]
