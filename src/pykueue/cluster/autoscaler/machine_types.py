"""Instance types and their resources: a table, or an annotation of the NodePool."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pykueue.api import json_text, objects
from pykueue.api.gpu_resources import GPU
from pykueue.api.scheme import Object

ANNOTATION = "pykueue.dev/instance-types"
"""JSON: [{"name": "big", "cpu": "64", "memory": "256Gi", "nvidia.com/gpu": "8", "labels": {…}}]"""

_GKE_GPU = "cloud.google.com/gke-accelerator"
_AWS_GPU = "karpenter.k8s.aws/instance-gpu-name"


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineType:
    name: str
    resources: Mapping[str, str]
    labels: Mapping[str, str] = field(default_factory=dict)


def _plain(name: str, cpu: int, memory_gib: int) -> MachineType:
    return MachineType(name=name, resources={"cpu": str(cpu), "memory": f"{memory_gib}Gi"})


def _gpu(name: str, size: tuple[int, int], gpus: int, labels: Mapping[str, str]) -> MachineType:
    cpu, memory_gib = size
    return MachineType(
        name=name, resources={"cpu": str(cpu), "memory": f"{memory_gib}Gi", GPU: str(gpus)}, labels=labels
    )


WELL_KNOWN = (
    *(_plain(f"e2-standard-{cpu}", cpu, cpu * 4) for cpu in (2, 4, 8, 16, 32)),
    *(_plain(f"n2-standard-{cpu}", cpu, cpu * 4) for cpu in (2, 4, 8, 16, 32, 64)),
    *(
        _gpu(f"g2-standard-{cpu}", (cpu, cpu * 4), gpus, {_GKE_GPU: "nvidia-l4"})
        for cpu, gpus in ((4, 1), (8, 1), (24, 2), (48, 4), (96, 8))
    ),
    *(
        _gpu(f"a2-highgpu-{gpus}g", (12 * gpus, 85 * gpus), gpus, {_GKE_GPU: "nvidia-tesla-a100"})
        for gpus in (1, 2, 4, 8)
    ),
    _plain("m5.large", 2, 8),
    _plain("m5.xlarge", 4, 16),
    _plain("m5.2xlarge", 8, 32),
    _plain("m5.4xlarge", 16, 64),
    _plain("m5.12xlarge", 48, 192),
    _gpu("g4dn.xlarge", (4, 16), 1, {_AWS_GPU: "t4"}),
    _gpu("g4dn.12xlarge", (48, 192), 4, {_AWS_GPU: "t4"}),
    _gpu("g5.xlarge", (4, 16), 1, {_AWS_GPU: "a10g"}),
    _gpu("g5.12xlarge", (48, 192), 4, {_AWS_GPU: "a10g"}),
    _gpu("p3.2xlarge", (8, 61), 1, {_AWS_GPU: "v100"}),
    _gpu("p3.8xlarge", (32, 244), 4, {_AWS_GPU: "v100"}),
    _gpu("p4d.24xlarge", (96, 1152), 8, {_AWS_GPU: "a100"}),
    _gpu("p5.48xlarge", (192, 2048), 8, {_AWS_GPU: "h100"}),
)


def of_pool(pool: Object) -> tuple[MachineType, ...]:
    """The types in the pool's annotation, or else all well-known ones."""
    text = objects.annotations(pool).get(ANNOTATION)
    if not text:
        return WELL_KNOWN
    return tuple(
        MachineType(
            name=entry["name"],
            resources={key: str(value) for key, value in entry.items() if key not in ("name", "labels")},
            labels=entry.get("labels") or {},
        )
        for entry in json_text.decode_field(text)
    )
