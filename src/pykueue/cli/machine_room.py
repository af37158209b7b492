"""The machine room as a part of `pykueue up`: built from the options, with `kubectl logs` and `exec` answered by it."""

import logging
from pathlib import Path

import click

from pykueue.api import manifests
from pykueue.api.scheme import Object
from pykueue.cli import pod_exec, pod_logs, pod_metrics, port_forward
from pykueue.cli.parts import Surroundings
from pykueue.kube.clock import WallClock
from pykueue.node import mirrors
from pykueue.node.room import Furnishing, MachineRoom


class MachineRoomPart:
    def __init__(self, surroundings: Surroundings) -> None:
        self._surroundings = surroundings
        furnishing = Furnishing(
            runtime=surroundings.runtime,
            directory=surroundings.data_dir / "room",
            nodes=_nodes(surroundings.nodes),
            shows_itself=True,
        )
        self._room = MachineRoom(surroundings.api.client(), WallClock(), furnishing)

    async def start(self) -> None:
        _keep_the_terminal_quiet()
        await self._room.start()
        if self._surroundings.runtime != "none":
            pod_logs.register(self._surroundings.api, self._room)
            pod_exec.register(self._surroundings.api, self._room)
        if self._surroundings.runtime == "process":
            pod_metrics.register(self._surroundings.api)
            port_forward.register(self._surroundings.api, self._room)

    async def stop(self) -> None:
        await self._room.stop()


def _keep_the_terminal_quiet() -> None:
    """Parts log what they do into their own files; the terminal shows only what was asked for."""
    root = logging.getLogger()
    for handler in root.handlers:
        handler.setLevel(root.level)
    for mirror in mirrors.MIRRORS:
        for name in mirror.loggers:
            logging.getLogger(name).setLevel(min(logging.INFO, root.level))


def _nodes(path: Path | None) -> tuple[Object, ...]:
    """The Node and NodePool manifests of a file."""
    if path is None:
        return ()
    documents, faults = manifests.read(path.read_bytes(), str(path))
    strangers = [found for found in documents if found.object.get("kind") not in ("Node", "NodePool")]
    if faults or strangers:
        fault = str(faults[0]) if faults else f"{path}:{strangers[0].line}: only Nodes and NodePools belong here"
        raise click.ClickException(fault)
    return tuple(found.object for found in documents)
