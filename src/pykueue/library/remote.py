"""The cluster of a kubeconfig, in real time: a running `pykueue up`, or any with Kueue's API."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from pykueue.cli import connection
from pykueue.kube import access
from pykueue.kube.client import Client
from pykueue.kube.clock import Clock, WallClock
from pykueue.kube.http_client import HttpClient
from pykueue.library import event_loops
from pykueue.library.operations import Answer, ClusterError, Operations


class ConnectedCluster(Operations):
    """Use `pykueue.connect` to make one."""

    def __init__(self, kubeconfig: Path | None, context: str, namespace: str) -> None:
        self._runner = asyncio.Runner()
        self._wall_clock = WallClock()
        try:
            credentials = event_loops.complete(self._runner.run, access.find(kubeconfig, context))
        except access.AccessError as error:
            event_loops.call(self._runner.close)
            hint = "`pykueue up` starts a cluster on this machine; KUBECONFIG, or `kubeconfig=`, names another one."
            raise ClusterError(f"{error}\n{hint}") from None
        self.namespace = namespace or credentials.namespace
        self._client = event_loops.complete(self._runner.run, _client(credentials))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        event_loops.complete(self._runner.run, self._client.close())
        event_loops.call(self._runner.close)

    @property
    def _clock(self) -> Clock:
        return self._wall_clock

    def _run(self, action: Callable[[Client], Awaitable[Answer]]) -> Answer:
        return event_loops.complete(self._runner.run, action(self._client))


async def _client(credentials: access.Access) -> HttpClient:
    return HttpClient(credentials)


def connect(kubeconfig: str | Path | None = None, *, context: str = "", namespace: str = "") -> ConnectedCluster:
    """The cluster of a kubeconfig.

    By default that of KUBECONFIG, else this machine's `pykueue up`, else that of ~/.kube/config.
    """
    path = Path(kubeconfig) if kubeconfig is not None else connection.running_kubeconfig()
    return ConnectedCluster(path, context, namespace)
