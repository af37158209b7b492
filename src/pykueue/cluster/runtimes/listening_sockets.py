"""Which processes listen on a port of this machine's loopback address, read from /proc.

Pods share the ports of this machine, so `kubectl port-forward` must not connect to a port before
it is certain that a process of the pod answers there. Called by the process and podman runtimes.
"""

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path

from pykueue.cluster.runtimes.port_mapping import ADDRESS

_LISTENING = "0A"
_LOOPBACK = ("0100007F", "0000000000000000FFFF00000100007F")
_EVERY_ADDRESS = ("00000000", "0" * 32)
_ADDRESSES = (_LOOPBACK, _EVERY_ADDRESS[:1], _EVERY_ADDRESS[1:])
"""The local addresses whose sockets answer on 127.0.0.1; the kernel prefers the earlier ones."""


async def connect(
    port: int, processes: Callable[[], Iterable[int]]
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to a port on which one of the processes listens, else ConnectionRefusedError.

    The pod may close its port after the first look, and somebody else may open it. So there is a
    second look, before anything is sent. A server for one connection has closed its port by then.
    """
    refusal = ConnectionRefusedError(0, "connection refused: no process of the pod listens on this port")
    if not await asyncio.to_thread(lambda: is_open(port, processes())):
        raise refusal
    reader, writer = await asyncio.open_connection(ADDRESS, port)
    is_ours = False
    try:
        is_ours = not await asyncio.to_thread(lambda: is_foreign(port, processes()))
    finally:
        if not is_ours:
            writer.transport.abort()
    if not is_ours:
        raise refusal
    return reader, writer


def is_open(port: int, pids: Iterable[int], network: Path = Path("/proc/net")) -> bool:
    """Whether these processes, and no others, listen on a port of 127.0.0.1."""
    sockets = _listening(port, network)
    return bool(sockets) and sockets <= _sockets_of(pids)


def is_foreign(port: int, pids: Iterable[int], network: Path = Path("/proc/net")) -> bool:
    """Whether other processes listen on a port of 127.0.0.1."""
    sockets = _listening(port, network)
    return bool(sockets) and not sockets <= _sockets_of(pids)


def _listening(port: int, network: Path) -> set[str]:
    """The inodes of the sockets that answer on the port."""
    by_address: dict[str, set[str]] = {}
    for table in (network / "tcp", network / "tcp6"):
        with contextlib.suppress(OSError):
            for line in table.read_text().splitlines()[1:]:
                fields = line.split()
                address, _, number = fields[1].rpartition(":")
                if fields[3] == _LISTENING and int(number, 16) == port:
                    by_address.setdefault(address, set()).add(fields[9])
    for addresses in _ADDRESSES:
        if sockets := set().union(*(by_address.get(address, set()) for address in addresses)):
            return sockets
    return set()


def _sockets_of(pids: Iterable[int]) -> set[str]:
    """The inodes of all sockets that the processes have open."""
    sockets: set[str] = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            for descriptor in Path(f"/proc/{pid}/fd").iterdir():
                with contextlib.suppress(OSError):
                    kind, _, inode = os.fspath(descriptor.readlink()).partition(":[")
                    if kind == "socket":
                        sockets.add(inode.rstrip("]"))
    return sockets
