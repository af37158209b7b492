"""The interface between the kubelet and the container runtimes, as CRI is in Kubernetes.

Implemented by `process`, `simulated`, and `component_deployments` around either of them.
"""

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Protocol

import msgspec

from pykueue.api.scheme import Object
from pykueue.cluster.kubelet.run import Exit
from pykueue.cluster.kubelet.volumes import Mounts
from pykueue.cluster.runtimes.sandbox import ContainerSecurity


class ContainerRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt to run one container of a pod."""

    pod: Object
    container: Object
    attempt: int = 0
    command: tuple[str, ...] = ()
    environment: Mapping[str, str] = msgspec.field(default_factory=dict)
    mounts: Mounts = msgspec.field(default_factory=Mounts)
    gpu_indexes: tuple[int, ...] = ()
    gpu_uuids: tuple[str, ...] = ()
    """Of MIG instances; CUDA shows these, and no GPUs besides."""
    ignores_memory_limit: bool = False
    security: ContainerSecurity = ContainerSecurity()


class StartError(Exception):
    """The container cannot run; `exit` goes into its status."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.exit = Exit(code=128, reason="StartError", message=message)


class StillPulling(Exception):  # noqa: N818 - not an error
    """The node is still pulling the image; `remaining` is the time until it is there."""

    def __init__(self, image: str, remaining: timedelta) -> None:
        super().__init__(f'Pulling image "{image}"')
        self.remaining = remaining


class Container(Protocol):
    @property
    def id(self) -> str: ...

    async def wait(self) -> Exit:
        """Wait until the container has ended; may be awaited once."""
        ...

    async def stop(self, grace_seconds: float) -> None:
        """Send SIGTERM, after the grace period SIGKILL, and wait for the end."""
        ...


class Execution(Protocol):
    """A running command beside the container's main process."""

    async def output(self) -> bytes:
        """The next chunk of stdout, b"" at the end; on a terminal, of stdout and stderr."""
        ...

    async def errors(self) -> bytes: ...

    async def write(self, data: bytes) -> None: ...

    def close_input(self) -> None: ...

    def resize(self, columns: int, rows: int) -> None: ...

    async def wait(self) -> int:
        """The exit code."""
        ...

    def close(self) -> None:
        """Kill the command if it still runs."""
        ...


Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Runtime(Protocol):
    name: str
    has_files: bool
    """Whether containers see the files of their volumes; otherwise none are written."""

    async def start(self, request: ContainerRequest) -> Container: ...

    async def adopt(self, request: ContainerRequest, container_id: str) -> Container | None:
        """The container that an earlier pykueue started; None if it never began."""
        ...

    async def clear(self, pod_uid: str) -> None:
        """Kill the processes that the containers of a finished pod left behind."""
        ...

    async def forget(self, pod_uid: str) -> None:
        """Kill all processes and remove all files of a pod that no longer exists."""
        ...

    async def connect(self, pod: Object, port: int) -> Connection:
        """Connect to a port on which the pod listens; OSError if it does not."""
        ...

    def pods(self) -> set[str]:
        """Uids of pods that may still have processes or files here."""
        ...

    async def execute(self, request: ContainerRequest, *, terminal: bool, wants_input: bool) -> Execution:
        """Run `request.command` as the container would; StartError if impossible."""
        ...

    async def handle(self, request: ContainerRequest, handler: Object) -> str:
        """Perform the handler of a probe or hook; return an error message, or ""."""
        ...

    def log(self, pod: Object, container: str, attempt: int) -> Path | bytes | None:
        """The log of an attempt: a file that may still grow, its whole text, or None."""
        ...
