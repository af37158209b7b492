"""Objects and lists in another form than they are stored in: as Tables, partial metadata or YAML.

Every object is decoded, and Python writes a megabyte of YAML in a second. A list is encoded in
slices, so that others have their turns in between, and a large object in the slow thread.
"""

import time
from collections.abc import Callable
from typing import Any

import msgspec

from pykueue.api.scheme import Kind, Object
from pykueue.apiserver.calls import Page
from pykueue.apiserver.http import negotiation
from pykueue.apiserver.http.slow_thread import SlowThread
from pykueue.apiserver.slices import SLICE_WEIGHT, Slices
from pykueue.apiserver.tables import render

LARGE_BYTES = 50_000
_ITEM_WEIGHT = 2 * 1024
_YAML_WEIGHT = 32
"""How much longer it takes to write YAML than to decode JSON."""


class ResponseEncoder:
    def __init__(self, thread: SlowThread) -> None:
        self._thread = thread
        self._slices = Slices()

    async def encode_list(self, page: Page, kind: Kind, form: negotiation.Form, include: str, user: str) -> list[bytes]:
        if form.transform == "Table":
            items = "rows"
            head = render.table(kind, [], 0, metadata=page.metadata(), include=include)
        else:
            items = "items"
            head = {"kind": kind.list_kind, "apiVersion": kind.api_version, "metadata": page.metadata()}
        if form.transform and items == "items":
            head |= {"kind": "PartialObjectMetadataList", "apiVersion": f"meta.k8s.io/{form.transform_version}"}
        head.pop(items, None)
        now = time.time()

        def encode(data: bytes) -> bytes:
            return _item(msgspec.json.decode(data), kind, form, include, now)

        encoded = await self._encode_all(page.items, encode, form, user)
        return _joined(head, items, encoded, form)

    async def encode_object(self, data: bytes, kind: Kind, form: negotiation.Form, include: str, user: str) -> bytes:
        def encode(data: bytes) -> bytes:
            return encoded(transformed(msgspec.json.decode(data), kind, form, include), form)

        if len(data) > LARGE_BYTES:
            return await self._thread.run(user, encode, data)
        return encode(data)

    async def _encode_all(
        self, items: list[bytes], encode: Callable[[bytes], bytes], form: negotiation.Form, user: str
    ) -> list[bytes]:
        parts: list[bytes] = []
        weight = 0
        for item in items:
            if len(item) > LARGE_BYTES:
                parts.append(await self._thread.run(user, encode, item))
                continue
            if weight >= SLICE_WEIGHT:
                await self._slices.turn(user)
                weight = 0
            parts.append(encode(item))
            weight += _ITEM_WEIGHT + len(item) * (_YAML_WEIGHT if form.media == negotiation.YAML else 1)
        return parts


def transformed(obj: Object, kind: Kind, form: negotiation.Form, include: str) -> Object:
    """One object in the requested form. A Status is not transformed."""
    if not form.transform or obj.get("kind") == "Status":
        return obj
    if form.transform == "Table":
        metadata = {"resourceVersion": obj["metadata"].get("resourceVersion", "")}
        return render.table(kind, [obj], time.time(), metadata=metadata, include=include or render.INCLUDE_METADATA)
    return render.partial_metadata(obj) | {"apiVersion": f"meta.k8s.io/{form.transform_version}"}


def encoded(value: Any, form: negotiation.Form) -> bytes:
    if form.media == negotiation.YAML:
        import yaml

        text: bytes = yaml.dump(value, Dumper=yaml.CSafeDumper, sort_keys=False, encoding="utf-8")
        return text
    return msgspec.json.encode(value)


def _item(obj: Object, kind: Kind, form: negotiation.Form, include: str, now: float) -> bytes:
    """An item of a list: the text between two commas of JSON, or an entry of YAML."""
    value = obj
    if form.transform == "Table":
        [value] = render.rows(kind, [obj], now, include or render.INCLUDE_METADATA)
    elif form.transform:
        value = render.partial_metadata(obj)
    return encoded([value] if form.media == negotiation.YAML else value, form)


def _joined(head: Object, items: str, parts: list[bytes], form: negotiation.Form) -> list[bytes]:
    if form.media == negotiation.YAML:
        return [encoded(head, form), f"{items}:{'' if parts else ' []'}\n".encode(), *parts]
    joined = [encoded(head, form)[:-1] + f',"{items}":['.encode()]
    for part in parts:
        joined += (part, b",")
    if parts:
        joined.pop()
    return [*joined, b"]}"]
