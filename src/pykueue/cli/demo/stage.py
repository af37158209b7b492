"""Where a play is performed: an embedded cluster in a temporary folder, on any free port, gone when the play is over."""

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pykueue.api import registry
from pykueue.api.errors import ApiError
from pykueue.api.resources import CLUSTER_QUEUE, WORKLOAD
from pykueue.api.scheme import Kind, Object
from pykueue.apiserver.embedded import EmbeddedApi, ServerPaths
from pykueue.app import serving
from pykueue.app.components import PARTS, UpContext
from pykueue.cli.demo.board import Board
from pykueue.cli.demo.story import Story
from pykueue.controllers.settings import admission_settings
from pykueue.kube.client import Client, DeleteOptions, PatchType, WriteOptions
from pykueue.kube.informer import Change, Informer

_PATIENCE_SECONDS = 60.0
_WITH_WHAT_IT_OWNS = DeleteOptions(propagation_policy="Background")
_APPLY = WriteOptions(field_manager="pykueue-demo", force=True)


@dataclass(slots=True)
class Stage:
    client: Client
    kind_of: Callable[[Object], Kind | None]
    board: Board = field(default_factory=Board)
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _generated: dict[str, list[str]] = field(default_factory=dict)

    async def apply(self, obj: Object) -> str:
        """Returns the name of the object, which the server may have made."""
        kind, namespace = self._place(obj)
        metadata = obj["metadata"]
        if "name" in metadata:
            await self.client.patch(
                kind.resource, metadata["name"], namespace, obj, patch_type=PatchType.APPLY, options=_APPLY
            )
            return str(metadata["name"])
        made = str((await self.client.create(kind.resource, obj, namespace))["metadata"]["name"])
        self._generated.setdefault(metadata["generateName"], []).append(made)
        return made

    async def delete(self, obj: Object) -> None:
        kind, namespace = self._place(obj)
        metadata = obj["metadata"]
        names = [metadata["name"]] if "name" in metadata else self._generated.pop(metadata["generateName"], [])
        for name in names:
            with contextlib.suppress(ApiError):
                await self.client.delete(kind.resource, name, namespace, _WITH_WHAT_IT_OWNS)

    def _place(self, obj: Object) -> tuple[Kind, str]:
        kind = self.kind_of(obj)
        assert kind is not None, obj["kind"]
        return kind, obj["metadata"].get("namespace", "default") if kind.namespaced else ""

    async def until(self, holds: Callable[[Board], bool]) -> None:
        """Returns when the board shows it; a play that does not go on is an error."""
        async with asyncio.timeout(_PATIENCE_SECONDS):
            while not holds(self.board):
                self._news.clear()
                await self._news.wait()

    def follow(self) -> list[Coroutine[Any, Any, None]]:
        watched = ((WORKLOAD, self.board.workload_changed), (CLUSTER_QUEUE, self.board.queue_changed))
        informers = []
        for resource, handler in watched:
            informer = Informer(self.client, resource)
            informer.add_handler(handler)
            informer.add_handler(self._changed)
            informers.append(informer)
        return [informer.run() for informer in informers]

    def _changed(self, _change: Change) -> None:
        self._news.set()


@contextlib.asynccontextmanager
async def open_stage(story: Story) -> AsyncIterator[Stage]:
    with tempfile.TemporaryDirectory(prefix="pykueue-demo-", ignore_cleanup_errors=True) as directory:
        place = ServerPaths(directory=Path(directory))
        configuration = serving.load_configuration(story.configuration).document
        api = EmbeddedApi(place, registry.scheme(), admission_settings(configuration))
        surroundings = UpContext(
            api=api,
            data_dir=place.directory,
            runtime="simulated",
            configuration=configuration,
            nodes=story.nodes,
        )
        parts = [part for build in PARTS if (part := build(surroundings)) is not None]
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(api.stop)
            await api.start()
            for part in parts:
                stack.push_async_callback(part.stop)
                await part.start()
            stage = Stage(api.client(), api.scheme.for_object)
            tasks = [asyncio.create_task(work) for work in stage.follow()]
            try:
                yield stage
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
