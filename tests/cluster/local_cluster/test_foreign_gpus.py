"""GPUs that somebody uses beside the queue are avoided: a fake `nvidia-smi` shows their programs."""

import asyncio
import os

import pytest
from tests.cluster.local_cluster.cluster_fixture import CONTAINER, job

from pykueue.api import objects, resources
from pykueue.cluster.kubelet import foreign_gpus

MACHINE = {
    "metadata": {"name": "gpu"},
    "status": {"capacity": {"cpu": "4", "memory": "8Gi", "nvidia.com/gpu": "2"}},
}
ONE_GPU = {"limits": {"nvidia.com/gpu": "1"}, "requests": {"nvidia.com/gpu": "1"}}
SCRIPT = """#!/bin/sh
case $1 in
*query-gpu*) printf '0, GPU-a\\n1, GPU-b\\n' ;;
*query-compute-apps*) cat {programs} ;;
esac
"""


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """The file with the programs that `nvidia-smi` shows."""
    path, command = tmp_path / "programs", tmp_path / "nvidia-smi"
    path.write_text("")
    command.write_text(SCRIPT.format(programs=path))
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(foreign_gpus, "_FRESH_SECONDS", 0.0)
    return path


async def test_gpu_of_a_foreign_program_is_avoided(start_cluster, programs):
    programs.write_text("GPU-a, 4711, python, notebook\n")
    local_cluster = await start_cluster("process", MACHINE)
    pod = {"containers": [CONTAINER | {"command": ["sleep", "60"], "resources": ONE_GPU}]}
    await local_cluster.create(resources.JOB, job(pod=pod, parallelism=2, completions=2))
    await local_cluster.until(resources.JOB, "train", lambda obj: obj.get("status", {}).get("ready") == 1)
    async with asyncio.timeout(30):
        async for event in local_cluster.client.watch(resources.CORE_EVENT, "default"):
            if "GPU 0 is used by python, notebook (process 4711)" in event.object.get("message", ""):
                break
    indexes = {objects.annotations(pod).get("pykueue.dev/gpu-indexes") for pod in await local_cluster.pods()}
    assert indexes == {"1", None}


async def test_nvidia_smi_that_fails_hides_nothing(programs):
    programs.unlink()
    assert await foreign_gpus.GpuPrograms().read() == {}


async def test_machine_without_nvidia_smi(monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert await foreign_gpus.GpuPrograms().read() == {}
