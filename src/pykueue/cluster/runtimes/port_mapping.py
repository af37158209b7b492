"""Host names and ports of a group of pods that talk to each other on this machine.

On a real cluster each pod has its own address, so every job may use port 23456. Here all pods
share one address: an operator annotates its pods with the names and ports that their group uses,
and each group is mapped to free ports, the same for all its pods.
"""

import contextlib
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from pykueue.api import objects
from pykueue.api.reserved_keys import LOCAL_NAMES, LOCAL_PORTS, PORT_GROUP
from pykueue.api.scheme import Object
from pykueue.cluster import paths

ADDRESS = "127.0.0.1"
_HOST_NAME = re.compile(r"(?<![\w.-])([\w.-]+)(?::(\d+)(?![\w.-]))?", re.ASCII)
_LARGEST_PORT = 65535


@dataclass(frozen=True, slots=True, kw_only=True)
class PortMapping:
    """The host names of a group, and the port on this machine for each port that it uses."""

    names: frozenset[str] = frozenset()
    ports: Mapping[str, int] = field(default_factory=dict)

    def text(self, value: str) -> str:
        """Replace the group's names by this machine's address, and a port after a name.

        One pass over the text, however many names there are.
        """
        return _HOST_NAME.sub(self._address, value) if self.names else value

    def _address(self, match: re.Match[str]) -> str:
        name, port = match.groups()
        if name not in self.names:
            return match.group()
        return ADDRESS if port is None else f"{ADDRESS}:{self.ports.get(port, port)}"

    def variable(self, name: str, value: str) -> str:
        if name.endswith("PORT") and value in self.ports:
            return str(self.ports[value])
        return self.text(value)


class PortMappings:
    """The port mapping of each group, in files, so that a restart of pykueue keeps it."""

    def __init__(self, root: Path) -> None:
        self._root = root
        root.mkdir(parents=True, exist_ok=True)

    def mapping_of(self, pod: Object) -> PortMapping:
        annotations = objects.annotations(pod)
        group = annotations.get(PORT_GROUP, "")
        names = frozenset(filter(None, annotations.get(LOCAL_NAMES, "").split(",")))
        ports = [port for port in annotations.get(LOCAL_PORTS, "").split(",") if _is_port(port)]
        return PortMapping(names=names, ports=self._reserve(objects.namespace(pod), group, ports) if group else {})

    def _reserve(self, namespace: str, group: str, ports: list[str]) -> dict[str, int]:
        """The ports of a group of this namespace; a file that cannot be read is written anew."""
        file_name = f"{paths.key(namespace, group)}.json"
        mapped: dict[str, int] = {}
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            mapped = msgspec.json.decode(paths.inside(self._root, file_name).read_bytes(), type=dict[str, int])
        missing = [port for port in ports if port not in mapped]
        if missing:
            mapped |= dict(zip(missing, _free_ports(len(missing)), strict=True))
            paths.write_file(self._root, file_name, msgspec.json.encode(mapped), 0o600)
        return mapped


def _is_port(text: str) -> bool:
    return text.isdecimal() and len(text) <= len(str(_LARGEST_PORT)) and 0 < int(text) <= _LARGEST_PORT


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for free in sockets:
            free.bind((ADDRESS, 0))
        return [int(free.getsockname()[1]) for free in sockets]
    finally:
        for free in sockets:
            free.close()
