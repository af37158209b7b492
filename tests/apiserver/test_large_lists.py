"""Lists and objects in another form are encoded bit by bit, and what is large not on the event loop."""

import asyncio
import json
import threading

import pytest
import yaml

from pykueue.api import registry
from pykueue.apiserver.calls import Page
from pykueue.apiserver.http import encoding, negotiation
from pykueue.apiserver.http.encoding import ResponseEncoder, Shape
from pykueue.apiserver.http.slow_thread import SlowThread

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
YAML_TABLE = "application/yaml;as=Table;v=v1;g=meta.k8s.io"
PARTIAL = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
KIND = registry.scheme().for_object({"apiVersion": "v1", "kind": "ConfigMap"})


@pytest.fixture
def thread():
    thread = SlowThread()
    yield thread
    thread.stop()


def page_of(count, size=1000):
    items = [
        {"metadata": {"name": f"a-{number}", "namespace": "ml"}, "data": {"key": "é: - x\n" * (size // 8), "n": "1"}}
        for number in range(count)
    ]
    return Page(kind=KIND, items=[json.dumps(item).encode() for item in items], resource_version="7")


async def encode_list(thread, page, accept, user="jane"):
    shape = Shape(kind=KIND, form=negotiation.form(accept), user=user)
    parts = await ResponseEncoder(thread).encode_list(page, shape)
    return b"".join(parts)


@pytest.mark.parametrize("accept", ["application/yaml", TABLE, PARTIAL])
async def test_others_have_their_turns_while_a_large_list_is_encoded(accept, thread):
    task, turns = asyncio.ensure_future(encode_list(thread, page_of(300), accept)), 0
    while not task.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns > 5


@pytest.mark.parametrize("accept", ["application/yaml", TABLE, YAML_TABLE, PARTIAL])
@pytest.mark.parametrize("count", [0, 1, 3])
async def test_a_list_that_is_encoded_in_parts_is_whole(accept, count, thread):
    data = await encode_list(thread, page_of(count), accept)
    whole = yaml.load(data, Loader=yaml.CSafeLoader)  # JSON is YAML too
    names = [item.get("object", item)["metadata"]["name"] for item in whole.get("rows", whole.get("items"))]
    assert names == [f"a-{number}" for number in range(count)]
    assert whole["metadata"] == {"resourceVersion": "7"}
    expected = {"application/yaml": "ConfigMapList", PARTIAL: "PartialObjectMetadataList"}.get(accept, "Table")
    assert whole["kind"] == expected
    if "yaml" in accept:
        assert data == yaml.dump(whole, Dumper=yaml.CSafeDumper, sort_keys=False, encoding="utf-8")


@pytest.mark.parametrize("accept", ["application/yaml", TABLE])
@pytest.mark.parametrize("is_large", [True, False])
async def test_a_large_object_is_encoded_in_the_slow_thread(accept, is_large, thread, monkeypatch):
    threads = []
    text = Shape.text

    def recorded(shape, value):
        threads.append(threading.current_thread())
        return text(shape, value)

    monkeypatch.setattr(Shape, "text", recorded)
    page = page_of(1, 2 * encoding.LARGE_BYTES if is_large else 100)
    shape = Shape(kind=KIND, form=negotiation.form(accept), user="jane")
    await ResponseEncoder(thread).encode_object(page.items[0], shape)
    await ResponseEncoder(thread)._encode_all(page.items, shape)
    assert [each is threading.main_thread() for each in threads] == [not is_large] * 2
