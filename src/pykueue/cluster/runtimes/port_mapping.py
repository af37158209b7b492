"""Host names and ports of a group of pods that talk to each other on this machine.

On a real cluster each pod has its own address, so every job may use port 23456. Here all pods
share one address: an operator annotates its pods with the names and ports that their group uses,
and each group is mapped to free ports, the same for all its pods.
"""

import json
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pykueue.api import objects
from pykueue.api.scheme import Object

GROUP = "pykueue.dev/group"
NAMES = "pykueue.dev/local-names"
PORTS = "pykueue.dev/local-ports"
ADDRESS = "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class PortMapping:
    """The host names of a group, and the port on this machine for each port that it uses."""

    names: tuple[str, ...] = ()
    ports: Mapping[str, int] = field(default_factory=dict)

    def text(self, value: str) -> str:
        """Replace the group's names by this machine's address, and a port after a name."""
        for name in self.names:
            pattern = rf"(?<![\w.-]){re.escape(name)}(?::(\d+))?(?![\w.-])"
            value = re.sub(pattern, self._address, value)
        return value

    def _address(self, match: re.Match[str]) -> str:
        port = match.group(1)
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
        group = annotations.get(GROUP, "")
        names = tuple(filter(None, annotations.get(NAMES, "").split(",")))
        ports = [port for port in annotations.get(PORTS, "").split(",") if port]
        return PortMapping(names=names, ports=self._reserve(group, ports) if group else {})

    def _reserve(self, group: str, ports: list[str]) -> dict[str, int]:
        path = self._root / f"{group}.json"
        mapped: dict[str, int] = json.loads(path.read_text()) if path.exists() else {}
        missing = [port for port in ports if port not in mapped]
        if missing:
            mapped |= dict(zip(missing, _free_ports(len(missing)), strict=True))
            path.write_text(json.dumps(mapped))
        return mapped


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for free in sockets:
            free.bind((ADDRESS, 0))
        return [int(free.getsockname()[1]) for free in sockets]
    finally:
        for free in sockets:
            free.close()
