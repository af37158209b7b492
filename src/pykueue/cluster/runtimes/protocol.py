"""The seam between the node agent and whatever runs containers. Two implementations, one contract suite."""

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Protocol

import msgspec

from pykueue.api.scheme import Object
from pykueue.cluster.kubelet.run import Exit
from pykueue.cluster.kubelet.volumes import Mounts


class ContainerRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt at one container of a pod."""

    pod: Object
    container: Object
    attempt: int = 0
    command: tuple[str, ...] = ()
    environment: Mapping[str, str] = msgspec.field(default_factory=dict)
    mounts: Mounts = msgspec.field(default_factory=Mounts)
    gpu_indexes: tuple[int, ...] = ()


class StartError(Exception):
    """The container cannot run; `exit` is what its status tells."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.exit = Exit(code=128, reason="StartError", message=message)


class StillPulling(Exception):  # noqa: N818 - a matter of time, no error
    """The node has not got the image yet; worth another try after so long."""

    def __init__(self, image: str, left: timedelta) -> None:
        super().__init__(f'Pulling image "{image}"')
        self.left = left


class Container(Protocol):
    @property
    def id(self) -> str: ...

    async def wait(self) -> Exit:
        """Returns when the container has ended; may be awaited once."""
        ...

    async def stop(self, grace_seconds: float) -> None:
        """Asks it to end, insists after the grace period; returns when it has ended."""
        ...


class Execution(Protocol):
    """Another command beside a container's own, under way."""

    async def output(self) -> bytes:
        """The next piece, b"" at the end; on a terminal, of everything."""
        ...

    async def errors(self) -> bytes: ...

    async def write(self, data: bytes) -> None: ...

    def close_input(self) -> None: ...

    def resize(self, columns: int, rows: int) -> None: ...

    async def wait(self) -> int:
        """The exit code."""
        ...

    def close(self) -> None:
        """Ends it, if it has not ended."""
        ...


class Runtime(Protocol):
    name: str

    async def start(self, request: ContainerRequest) -> Container: ...

    async def adopt(self, request: ContainerRequest, container_id: str) -> Container | None:
        """The container of an attempt that an earlier pykueue started; None if that attempt never ran."""
        ...

    async def clear(self, pod_uid: str) -> None:
        """The pod is over: ends what its containers left behind."""
        ...

    async def forget(self, pod_uid: str) -> None:
        """The pod is gone: ends whatever of it still runs and removes its files."""
        ...

    def ports(self, pod: Object) -> dict[int, int]:
        """Ports of a pod that stand elsewhere on this machine."""
        ...

    def pods(self) -> set[str]:
        """Uids of pods of which something may still be here."""
        ...

    async def execute(self, request: ContainerRequest, *, terminal: bool, wants_input: bool) -> Execution:
        """Runs `request.command` as the container's own would run; StartError if it cannot."""
        ...

    async def handle(self, request: ContainerRequest, handler: Object) -> str:
        """Carries out a probe or hook (`exec`, `httpGet`, `tcpSocket`) on a container that runs; what was wrong, or ""."""
        ...

    def log(self, pod: Object, container: str, attempt: int) -> Path | bytes | None:
        """The log of an attempt: a file that may grow, or its whole text; None if there is none."""
        ...
