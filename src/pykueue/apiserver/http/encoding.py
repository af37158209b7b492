"""Objects and lists in another form than they are stored in: as Tables, partial metadata or YAML.

Every object is decoded, and Python writes a megabyte of YAML in a second. A list is encoded in
slices, so that others have their turns in between, and a large object in the slow thread.
"""

import time
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What a client requests of a kind."""

    kind: Kind
    form: negotiation.Form
    include: str = ""
    """How much of an object a row of a Table has."""
    user: str = ""

    @property
    def is_yaml(self) -> bool:
        return self.form.media == negotiation.YAML

    def head(self, page: Page) -> tuple[Object, str]:
        """A list without its items, and the name of their field."""
        if self.form.transform == "Table":
            head = render.table(self.kind, [], 0, metadata=page.metadata(), include=self.include)
            return {name: value for name, value in head.items() if name != "rows"}, "rows"
        head = {"kind": self.kind.list_kind, "apiVersion": self.kind.api_version, "metadata": page.metadata()}
        if self.form.transform:
            head |= {"kind": "PartialObjectMetadataList", "apiVersion": f"meta.k8s.io/{self.form.transform_version}"}
        return head, "items"

    def item(self, data: bytes) -> bytes:
        """An item of a list: the text between two commas of JSON, or an entry of YAML."""
        value: Object = msgspec.json.decode(data)
        if self.form.transform == "Table":
            [value] = render.rows(self.kind, [value], time.time(), self.include or render.INCLUDE_METADATA)
        elif self.form.transform:
            value = render.partial_metadata(value)
        return self.text([value] if self.is_yaml else value)

    def object(self, data: bytes) -> bytes:
        return self.text(transformed(msgspec.json.decode(data), self.kind, self.form, self.include))

    def text(self, value: Any) -> bytes:
        if self.is_yaml:
            import yaml

            text: bytes = yaml.dump(value, Dumper=yaml.CSafeDumper, sort_keys=False, encoding="utf-8")
            return text
        return msgspec.json.encode(value)


class ResponseEncoder:
    def __init__(self, thread: SlowThread) -> None:
        self._thread = thread
        self._slices = Slices()

    async def encode_list(self, page: Page, shape: Shape) -> list[bytes]:
        head, items = shape.head(page)
        parts = await self._encode_all(page.items, shape)
        if shape.is_yaml:
            return [shape.text(head), f"{items}:{'' if parts else ' []'}\n".encode(), *parts]
        joined = [shape.text(head)[:-1] + f',"{items}":['.encode()]
        for part in parts:
            joined += (part, b",")
        if parts:
            joined.pop()
        return [*joined, b"]}"]

    async def encode_object(self, data: bytes, shape: Shape) -> bytes:
        if len(data) > LARGE_BYTES:
            return await self._thread.run(shape.user, shape.object, data)
        return shape.object(data)

    async def _encode_all(self, items: list[bytes], shape: Shape) -> list[bytes]:
        parts: list[bytes] = []
        weight = 0
        for item in items:
            if len(item) > LARGE_BYTES:
                parts.append(await self._thread.run(shape.user, shape.item, item))
                continue
            if weight >= SLICE_WEIGHT:
                await self._slices.turn(shape.user)
                weight = 0
            parts.append(shape.item(item))
            weight += _ITEM_WEIGHT + len(item) * (_YAML_WEIGHT if shape.is_yaml else 1)
        return parts


def transformed(obj: Object, kind: Kind, form: negotiation.Form, include: str) -> Object:
    """One object in the requested form. A Status is not transformed."""
    if not form.transform or obj.get("kind") == "Status":
        return obj
    if form.transform == "Table":
        metadata = {"resourceVersion": obj["metadata"].get("resourceVersion", "")}
        return render.table(kind, [obj], time.time(), metadata=metadata, include=include or render.INCLUDE_METADATA)
    return render.partial_metadata(obj) | {"apiVersion": f"meta.k8s.io/{form.transform_version}"}
