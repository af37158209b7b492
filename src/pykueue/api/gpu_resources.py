"""The resources of GPUs and of their parts, as NVIDIA's device plugin names them."""

GPU = "nvidia.com/gpu"
SHARED_GPU = "nvidia.com/gpu.shared"
MIG_PREFIX = "nvidia.com/mig-"


def is_gpu(resource: str) -> bool:
    return resource in (GPU, SHARED_GPU) or resource.startswith(MIG_PREFIX)
