"""GPUs that processes use which are not jobs, so that no job starts on them.

People log in and start a program beside the queue. `nvidia-smi` shows such programs, and the
kubelet asks it before it allocates GPUs. A GPU that no pod has and that runs a program is foreign;
the job waits, and is tried again, until enough other GPUs are free.
"""

import asyncio
import logging
import shutil
import time

from pykueue.api.scheme import Object
from pykueue.cluster import pods
from pykueue.cluster.kubelet.devices import Devices, requested
from pykueue.cluster.kubelet.environment import MissingSourceError

log = logging.getLogger(__name__)

_INDEXES = ("--query-gpu=index,uuid", "--format=csv,noheader")
_PROGRAMS = ("--query-compute-apps=gpu_uuid,pid,process_name", "--format=csv,noheader")
_TIMEOUT_SECONDS = 10.0
_FRESH_SECONDS = 5.0
"""Pods that start together share one answer."""


class GpuPrograms:
    """The programs on the GPUs of this machine, as `nvidia-smi` shows them."""

    def __init__(self, *, is_real: bool = True) -> None:
        self._is_real = is_real
        self._programs: dict[int, str] = {}
        self._read_at = -_FRESH_SECONDS
        self._lock = asyncio.Lock()

    async def allocate(self, pod: Object, devices: Devices) -> tuple[int, ...]:
        """The GPUs of a pod; MissingSourceError, with the reason, if too few are free."""
        programs = await self.read() if self._is_real and requested(pod) else {}
        indexes = devices.allocate(pod, programs)
        if indexes is None:
            gpus = dict.fromkeys(device.gpu for device in devices.at(devices.free()))
            used = [f"; GPU {gpu} is used by {programs[gpu]}" for gpu in gpus if gpu in programs]
            reason = f"not enough {' and '.join(requested(pod))} devices are free on node {pods.node_name(pod)}"
            raise MissingSourceError(reason + "".join(used))
        return indexes

    async def read(self) -> dict[int, str]:
        """A description of a program for each index of a GPU that runs one.

        Without `nvidia-smi`, or if it fails, none is known.
        """
        async with self._lock:
            if time.monotonic() - self._read_at >= _FRESH_SECONDS:
                self._programs = await _programs()
                self._read_at = time.monotonic()
        return self._programs


async def _programs() -> dict[int, str]:
    indexes = {uuid: int(index) for index, uuid in await _rows(_INDEXES, 2) if index.isdecimal()}
    return {
        indexes[uuid]: f"{name} (process {pid})" for uuid, pid, name in await _rows(_PROGRAMS, 3) if uuid in indexes
    }


async def _rows(arguments: tuple[str, ...], columns: int) -> list[list[str]]:
    path = shutil.which("nvidia-smi")
    if path is None:
        return []
    process = None
    try:
        async with asyncio.timeout(_TIMEOUT_SECONDS):
            process = await asyncio.create_subprocess_exec(
                path, *arguments, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE
            )
            output, _ = await process.communicate()
    except OSError as error:
        log.warning("nvidia-smi does not say which GPUs are in use: %s", error or "no answer in time")
        if process is not None and process.returncode is None:
            process.kill()
        return []
    lines = output.decode(errors="replace").splitlines()
    rows = [[cell.strip() for cell in line.split(",", columns - 1)] for line in lines]
    return [row for row in rows if len(row) == columns]
