"""The GPUs of this machine as `nvidia-smi` lists them: whole, as MIG instances, or in shares.

A GPU that is divided into MIG instances is offered as these. `--gpu-shares 4` offers every other
GPU four times, `--gpu-shares 0:4` only GPU 0.
"""

import re
import shutil
import subprocess
from collections.abc import Mapping

from pykueue.api.gpu_resources import GPU, MIG_PREFIX, SHARED_GPU
from pykueue.cluster.kubelet.devices import GpuDevice

_NAMES = ("--query-gpu=name,memory.total", "--format=csv,noheader,nounits")
_LIST = ("-L",)
_GPU_LINE = re.compile(r"GPU (\d{1,6}):", re.ASCII)
_MIG_LINE = re.compile(r"\s+MIG (\S+)\s+Device\s+\d+:\s+\(UUID: (MIG-[^)\s]+)\)", re.ASCII)
_SHARES = re.compile(r"(?:(\d{1,3}):)?([1-9]\d{0,2})", re.ASCII)

Shares = Mapping[int | None, int]
"""How many pods use a GPU at a time, by its index; None stands for the others."""


def parse_shares(text: str) -> dict[int | None, int]:
    """Read `4`, or `0:4,1:2`; ValueError if it is neither."""
    matches = [_SHARES.fullmatch(word.strip()) for word in text.split(",")]
    shares = {None if match[1] is None else int(match[1]): int(match[2]) for match in matches if match is not None}
    if len(shares) != len(matches):
        raise ValueError(f"{text!r} is not a number of shares such as 4, or 0:4,1:2 for single GPUs")
    return shares


def names() -> list[str]:
    """The products of the GPUs, ordered by index."""
    return [line.partition(",")[0].strip() for line in _lines(_NAMES) if line.strip()]


def devices(count: int, shares: Shares) -> tuple[GpuDevice, ...]:
    """What the first `count` GPUs are offered as. Shares of different GPUs take turns."""
    instances = mig_instances(_lines(_LIST))
    divided = {device.gpu for device in instances}
    number = {gpu: shares.get(gpu, shares.get(None, 1)) for gpu in range(count) if gpu not in divided}
    whole = [GpuDevice(GPU, gpu) for gpu in number if number[gpu] == 1]
    shared = [
        GpuDevice(SHARED_GPU, gpu)
        for turn in range(max(number.values(), default=1))
        for gpu in number
        if number[gpu] > 1 and turn < number[gpu]
    ]
    return (*whole, *shared, *instances)


def mig_instances(lines: list[str]) -> list[GpuDevice]:
    """Read `nvidia-smi -L`. The profile `1g.5gb+me` is the resource `nvidia.com/mig-1g.5gb.me`."""
    instances, gpu = [], 0
    for line in lines:
        if (match := _GPU_LINE.match(line)) is not None:
            gpu = int(match[1])
        elif (match := _MIG_LINE.match(line)) is not None:
            instances.append(GpuDevice(MIG_PREFIX + match[1].replace("+", "."), gpu, match[2]))
    return instances


def _lines(arguments: tuple[str, ...]) -> list[str]:
    """The output of `nvidia-smi`; nothing if it is missing or fails."""
    path = shutil.which("nvidia-smi")
    if path is None:
        return []
    try:
        completed = subprocess.run(  # noqa: S603 - a fixed command
            [path, *arguments], capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return []
    return completed.stdout.splitlines()
