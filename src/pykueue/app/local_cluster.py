"""The machine room as a part of `pykueue up`: built from the options, with `kubectl logs` and `exec` answered by it."""

import logging
from pathlib import Path

import click

from pykueue.api import manifests
from pykueue.api.scheme import Object
from pykueue.app.components import UpContext
from pykueue.app.kubelet_api import exec_attach, logs, metrics, port_forward
from pykueue.cluster import component_deployments
from pykueue.cluster.local_cluster import ClusterOptions, LocalCluster
from pykueue.kube.clock import WallClock


class LocalClusterComponent:
    def __init__(self, surroundings: UpContext) -> None:
        self._surroundings = surroundings
        furnishing = ClusterOptions(
            runtime=surroundings.runtime,
            directory=surroundings.data_dir / "room",
            nodes=_nodes(surroundings.nodes),
            publish_components=True,
        )
        self._room = LocalCluster(surroundings.api.client(), WallClock(), furnishing)

    async def start(self) -> None:
        _keep_the_terminal_quiet()
        await self._room.start()
        if self._surroundings.runtime != "none":
            logs.register(self._surroundings.api, self._room)
            exec_attach.register(self._surroundings.api, self._room)
        if self._surroundings.runtime == "process":
            metrics.register(self._surroundings.api)
            port_forward.register(self._surroundings.api, self._room)

    async def stop(self) -> None:
        await self._room.stop()


def _keep_the_terminal_quiet() -> None:
    """Parts log what they do into their own files; the terminal shows only what was asked for."""
    root = logging.getLogger()
    for handler in root.handlers:
        handler.setLevel(root.level)
    for mirror in component_deployments.COMPONENTS:
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
