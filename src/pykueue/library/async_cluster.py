"""`Cluster` for coroutines: the same operations, awaited, on a thread of their own."""

import asyncio
import functools
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from pykueue.api.scheme import Object
from pykueue.library.operations import Answer, Duration, JobExplanation, Manifest
from pykueue.library.virtual import Cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pykueue.simulate.planning import Result
    from pykueue.simulate.sources.rows import JobRow


class AsyncCluster:
    """Takes the arguments of `Cluster`.

    async with pykueue.AsyncCluster() as cluster:
        await cluster.submit(name="train", duration="10m")
        await cluster.wait("train")
    """

    def __init__(self, **options: Any) -> None:
        self._options = options
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="pykueue")
        self._cluster: Cluster | None = None

    async def __aenter__(self) -> Self:
        self._cluster = await self._call(lambda: Cluster(**self._options))
        await self._call(self.cluster.start)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._call(self.cluster.close)
        self._thread.shutdown()

    @property
    def cluster(self) -> Cluster:
        """The cluster behind it. Only its thread may call it."""
        assert self._cluster is not None
        return self._cluster

    async def apply(self, *sources: Manifest) -> list[Object]:
        return await self._call(self.cluster.apply, *sources)

    async def submit(self, *command: Any, **options: Any) -> str:
        return await self._call(self.cluster.submit, *command, **options)

    async def wait(
        self,
        name: str,
        condition: str = "Finished",
        *,
        kind: str = "job",
        timeout: Duration = "24h",  # noqa: ASYNC109 - virtual time
    ) -> Object:
        return await self._call(self.cluster.wait, name, condition, kind=kind, timeout=timeout)

    async def advance(self, duration: Duration) -> datetime:
        return await self._call(self.cluster.advance, duration)

    async def get(self, kind: str, name: str, *, namespace: str = "") -> Object:
        return await self._call(self.cluster.get, kind, name, namespace=namespace)

    async def list(self, kind: str, *, namespace: str = "") -> "list[Object]":
        return await self._call(self.cluster.list, kind, namespace=namespace)

    async def patch(self, kind: str, name: str, patch: Object, *, namespace: str = "") -> Object:
        return await self._call(self.cluster.patch, kind, name, patch, namespace=namespace)

    async def delete(self, kind: str, name: str, *, namespace: str = "") -> None:
        await self._call(self.cluster.delete, kind, name, namespace=namespace)

    async def workload(self, job: str, *, kind: str = "") -> Object:
        return await self._call(self.cluster.workload, job, kind=kind)

    async def is_admitted(self, job: str) -> bool:
        return await self._call(self.cluster.is_admitted, job)

    async def explain(self, job: str, *, kind: str = "") -> JobExplanation:
        return await self._call(self.cluster.explain, job, kind=kind)

    async def simulate(self, *changes: str, jobs: "str | Path | Iterable[JobRow]" = (), generate: str = "") -> "Result":
        return await self._call(self.cluster.simulate, *changes, jobs=jobs, generate=generate)

    async def _call(self, function: "Callable[..., Answer]", *args: Any, **options: Any) -> Answer:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, functools.partial(function, *args, **options))
