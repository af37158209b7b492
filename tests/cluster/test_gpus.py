"""What a machine offers of its GPUs, as `nvidia-smi` lists them, and which parts a job gets."""

import os
from datetime import UTC, datetime

import pytest
from tests.cluster.kubelet.test_devices import pod as whole_gpu_pod

from pykueue.api import objects
from pykueue.api.gpu_resources import GPU, SHARED_GPU
from pykueue.cluster import gpus, nodes
from pykueue.cluster.kubelet.devices import DeviceManager, GpuDevice

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SCRIPT = """#!/bin/sh
case $1 in
*query-gpu=name*) printf 'NVIDIA A100, 40960\\nNVIDIA A100, 40960\\n' ;;
-L) cat <<'EOF'
GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-5c89852c)
  MIG 3g.20gb     Device  0: (UUID: MIG-a)
  MIG 1g.5gb      Device  1: (UUID: MIG-b)
  MIG 1g.5gb+me   Device  2: (UUID: MIG-c)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-eb87602b)
EOF
esac
"""


@pytest.fixture
def nvidia_smi(tmp_path, monkeypatch):
    command = tmp_path / "nvidia-smi"
    command.write_text(SCRIPT)
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")


def pod(uid, resource, count=1):
    pod = whole_gpu_pod(uid)
    pod["spec"]["containers"][0]["resources"]["requests"] = {resource: str(count)}
    return pod


def amounts(node):
    return {name: value for name, value in node["status"]["allocatable"].items() if name.startswith("nvidia.com/")}


def test_divided_gpu_is_offered_as_its_instances(nvidia_smi):
    assert amounts(nodes.this_machine(NOW, {})) == {
        "nvidia.com/gpu": "1",
        "nvidia.com/mig-3g.20gb": "1",
        "nvidia.com/mig-1g.5gb": "1",
        "nvidia.com/mig-1g.5gb.me": "1",
    }


def test_mig_instance_is_allocated_by_its_uuid(nvidia_smi):
    node = nodes.this_machine(NOW, {})
    devices = DeviceManager(lambda _name: node).of(pod("", GPU))
    (instance,) = devices.at(devices.allocate(pod("a", "nvidia.com/mig-1g.5gb")))
    assert (instance.gpu, instance.uuid) == (0, "MIG-b")
    assert devices.allocate(pod("b", "nvidia.com/mig-1g.5gb")) is None
    (whole,) = devices.at(devices.allocate(pod("c", GPU)))
    assert (whole.gpu, whole.uuid) == (1, "")


def test_shares_spread_over_the_gpus(nvidia_smi, monkeypatch):
    monkeypatch.setattr(gpus, "mig_instances", lambda _lines: [])
    node = nodes.this_machine(NOW, gpus.parse_shares("2"))
    assert amounts(node) == {SHARED_GPU: "4"}
    devices = DeviceManager(lambda _name: node).of(pod("", GPU))
    chosen = [devices.at(devices.allocate(pod(uid, SHARED_GPU)))[0].gpu for uid in "abcd"]
    assert chosen == [0, 1, 0, 1]
    assert devices.allocate(pod("e", SHARED_GPU)) is None
    devices.release("b")
    assert devices.at(devices.allocate(pod("f", SHARED_GPU)))[0].gpu == 1, "the least used GPU"


def test_single_gpus_are_shared(nvidia_smi, monkeypatch):
    monkeypatch.setattr(gpus, "mig_instances", lambda _lines: [])
    assert amounts(nodes.this_machine(NOW, gpus.parse_shares("1:3"))) == {GPU: "1", SHARED_GPU: "3"}


@pytest.mark.parametrize("text", ["", "0", "x", "0:", "-1", "0:0", "1,2", "0:4,0:2", "4.5"])
def test_faulty_shares_are_refused(text):
    with pytest.raises(ValueError, match="shares"):
        gpus.parse_shares(text)


def test_foreign_program_blocks_a_gpu_that_no_job_has_a_share_of():
    table = (GpuDevice(SHARED_GPU, 0), GpuDevice(SHARED_GPU, 0))
    devices = DeviceManager(lambda _name: None).of(pod("", GPU))
    devices.replace_table(table)
    assert devices.allocate(pod("a", SHARED_GPU), foreign={0}) is None
    assert devices.allocate(pod("a", SHARED_GPU)) == (0,)
    assert devices.allocate(pod("b", SHARED_GPU), foreign={0}) == (1,), "the program may be that of the first job"


@pytest.mark.parametrize("text", ["{}", "nonsense", '[{"resource": 1}]', "[1]"])
def test_faulty_annotation_of_a_node_is_ignored(text):
    node = {"metadata": {"annotations": {"pykueue.dev/gpu-devices": text}}, "status": {"allocatable": {GPU: "2"}}}
    assert DeviceManager(lambda _name: node).of(pod("a", GPU)).free() == [0, 1]


def test_restart_gives_the_machine_the_gpus_that_it_has_now(nvidia_smi):
    divided = nodes.this_machine(NOW, {})
    assert nodes.changed_gpus(divided, divided) is None
    shared = nodes.this_machine(NOW, {None: 4})
    patch, status = nodes.changed_gpus(divided, shared)
    assert patch["metadata"]["annotations"] == {
        "pykueue.dev/gpu-devices": objects.annotations(shared)["pykueue.dev/gpu-devices"]
    }
    assert status["status"]["allocatable"] == {
        "nvidia.com/gpu": None,
        "nvidia.com/gpu.shared": "4",
        "nvidia.com/mig-3g.20gb": "1",
        "nvidia.com/mig-1g.5gb": "1",
        "nvidia.com/mig-1g.5gb.me": "1",
    }
