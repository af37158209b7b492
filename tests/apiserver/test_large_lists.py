"""A large list that Python must write item by item is encoded in a thread, not on the event loop."""

import json
import threading

import pytest
import yaml

from pykueue.api import registry
from pykueue.apiserver.calls import Page
from pykueue.apiserver.http import negotiation, resources

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def page_of(count):
    kind = registry.scheme().for_object({"apiVersion": "v1", "kind": "ConfigMap"})
    items = [
        {"metadata": {"name": f"a-{number}", "namespace": "ml"}, "data": {"key": "x" * 1000}} for number in range(count)
    ]
    return kind, Page(kind=kind, items=[json.dumps(item).encode() for item in items], resource_version="7")


@pytest.mark.parametrize(
    ("accept", "count", "is_on_loop"),
    [
        ("application/yaml", 2, True),
        ("application/yaml", 200, False),
        (TABLE, 2, True),
        (TABLE, 200, False),
        ("application/json", 200, True),
    ],
)
async def test_a_large_list_is_encoded_in_a_thread(accept, count, is_on_loop, monkeypatch):
    threads = []
    encode = resources.list_response

    def recorded(*arguments):
        threads.append(threading.current_thread())
        return encode(*arguments)

    monkeypatch.setattr(resources, "list_response", recorded)
    kind, page = page_of(count)
    response = await resources._list_response(page, kind, negotiation.form(accept), "")
    assert (threads == [threading.main_thread()]) is is_on_loop
    data = response.body if isinstance(response.body, bytes) else b"".join(response.body)
    body = yaml.load(data, Loader=yaml.CSafeLoader)  # JSON is YAML too
    assert len(body.get("items") or body["rows"]) == count
