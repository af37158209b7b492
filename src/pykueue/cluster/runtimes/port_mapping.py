"""Names and ports of a group of pods that meet on this one machine.

On a cluster each pod has its own address, so every job may use port 23456. Here they share one: an operator says on
its pods which names and ports the group uses, and each group gets ports of its own, the same for all its pods.
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
class Local:
    """How a group's names and ports read on this machine."""

    names: tuple[str, ...] = ()
    ports: Mapping[str, int] = field(default_factory=dict)

    def text(self, value: str) -> str:
        """Known names become this machine's address, and a port after one the group's own."""
        for name in self.names:
            pattern = rf"(?<![\w.-]){re.escape(name)}(?::(\d+))?(?![\w.-])"
            value = re.sub(pattern, self._address, value)
        return value

    def _address(self, found: re.Match[str]) -> str:
        port = found.group(1)
        return ADDRESS if port is None else f"{ADDRESS}:{self.ports.get(port, port)}"

    def variable(self, name: str, value: str) -> str:
        if name.endswith("PORT") and value in self.ports:
            return str(self.ports[value])
        return self.text(value)


class Ports:
    """Ports by group, in files, so that pods started after a restart meet those started before."""

    def __init__(self, root: Path) -> None:
        self._root = root
        root.mkdir(parents=True, exist_ok=True)

    def locate(self, pod: Object) -> Local:
        noted = objects.annotations(pod)
        group = noted.get(GROUP, "")
        names = tuple(filter(None, noted.get(NAMES, "").split(",")))
        wanted = [port for port in noted.get(PORTS, "").split(",") if port]
        return Local(names=names, ports=self._reserve(group, wanted) if group else {})

    def _reserve(self, group: str, wanted: list[str]) -> dict[str, int]:
        path = self._root / f"{group}.json"
        known: dict[str, int] = json.loads(path.read_text()) if path.exists() else {}
        missing = [port for port in wanted if port not in known]
        if missing:
            known |= dict(zip(missing, _free_ports(len(missing)), strict=True))
            path.write_text(json.dumps(known))
        return known


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for found in sockets:
            found.bind((ADDRESS, 0))
        return [int(found.getsockname()[1]) for found in sockets]
    finally:
        for found in sockets:
            found.close()
