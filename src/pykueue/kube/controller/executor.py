"""Performing what a sync yields: writes of one batch at the same time, writes to one object in their order."""

import asyncio
import logging
from collections.abc import Sequence

from pykueue.api import objects
from pykueue.api.errors import ApiError
from pykueue.api.scheme import Object
from pykueue.kube.client import Client, DeleteOptions, PatchType
from pykueue.kube.controller import writes
from pykueue.kube.controller.core_event_recorder import Recorder
from pykueue.kube.controller.object_cache import Views


class WriteExecutor:
    def __init__(self, client: Client, views: Views, recorder: Recorder, component: str) -> None:
        self._client = client
        self._views = views
        self._recorder = recorder
        self._component = component
        self._log = logging.getLogger(f"pykueue.cluster.{component}")

    async def run(self, sync: writes.Sync) -> writes.Done:
        try:
            batch = next(sync)
            while True:
                batch = sync.send(await self._perform(batch))
        except StopIteration as stop:
            done: writes.Done = stop.value
            return done

    async def _perform(self, batch: writes.Batch) -> list[writes.Result]:
        if len(batch) == 1:
            return [await self._write(batch[0])]
        results: dict[int, writes.Result] = {}
        by_object: dict[str, list[int]] = {}
        for number, write in enumerate(batch):
            by_object.setdefault(_address(write, number), []).append(number)

        async def in_order(numbers: Sequence[int]) -> None:
            for number in numbers:
                results[number] = await self._write(batch[number])

        await asyncio.gather(*map(in_order, by_object.values()))
        return [results[number] for number in range(len(batch))]

    async def _write(self, write: writes.Write) -> writes.Result:
        if isinstance(write, writes.Event):
            self._recorder.record(
                write.about,
                type_=write.type,
                reason=write.reason,
                message=write.message,
                component=self._component,
            )
            return {}
        try:
            result = await self._send(write)
        except ApiError as error:
            self._log.info("%s %s: %s", type(write).__name__, write.resource.kind, error.message)
            is_gone = error.code == 404 and isinstance(write, writes.Delete | writes.RemoveFinalizer)
            return write.object if is_gone else writes.Refused(error)
        self._log.info(
            "%s %s %s/%s", type(write).__name__, write.resource.kind, objects.namespace(result), objects.name(result)
        )
        return result

    async def _send(self, write: writes.Create | writes.Delete | writes.RemoveFinalizer | writes.Patch) -> Object:
        name, namespace = write.object["metadata"].get("name", ""), objects.namespace(write.object)
        match write:
            case writes.Create():
                result = await self._client.create(write.resource, write.object, namespace)
            case writes.Delete():
                options = DeleteOptions(
                    propagation_policy=write.propagation_policy,
                    grace_period_seconds=write.grace_period_seconds,
                    preconditions={"uid": objects.uid(write.object)},
                )
                await self._client.delete(write.resource, name, namespace, options)
                if view := self._views.find(write.resource):
                    view.deleted(write.object)
                return write.object
            case writes.RemoveFinalizer():
                if write.finalizer not in objects.finalizers(write.object):
                    return write.object
                patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": [write.finalizer]}}
                result = await self._client.patch(
                    write.resource, name, namespace, patch, patch_type=PatchType.STRATEGIC
                )
            case writes.Patch():
                body = write.patch
                if write.guarded:
                    version = write.object["metadata"]["resourceVersion"]
                    body = body | {"metadata": body.get("metadata", {}) | {"resourceVersion": version}}
                kind = PatchType.STRATEGIC if write.by_key else PatchType.MERGE
                result = await self._client.patch(
                    write.resource, name, namespace, body, patch_type=kind, subresource=write.subresource
                )
        if view := self._views.find(write.resource):
            view.wrote(result)
        return result


def _address(write: writes.Write, number: int) -> str:
    if isinstance(write, writes.Event):
        return "events"
    metadata = write.object["metadata"]
    return str(metadata.get("uid") or f"new {number}")
