"""Responses and watches of the API on streams whose client does not read."""

import h2.events
from multidict import CIMultiDict
from tests.apiserver.http2.client import GET, Client

from pykueue.apiserver.calls import WatchFrame
from pykueue.apiserver.http import http2_exchange, watch_streams
from pykueue.apiserver.http.http2_exchange import Http2Exchange

FRAME = WatchFrame("ADDED", b"{}")


async def test_a_response_that_is_not_read_is_given_up(monkeypatch):
    monkeypatch.setattr(http2_exchange, "SEND_SECONDS", 0)

    async def handle(stream):
        size = 5000 if stream.head.method == "GET" else 10
        await Http2Exchange(stream, "").respond(200, CIMultiDict(), size * b"x")

    client = Client(handle, 1000)
    client.is_reading = False
    slow = client.request()
    await client.until(lambda: client.has(h2.events.ResponseReceived, slow))
    await client.until(lambda: client.has(h2.events.StreamReset, slow))
    assert await client.response(client.request([(":method", "PUT"), *GET[1:]])) == (200, 10 * b"x")


async def test_a_watch_that_is_not_read_ends_and_the_others_go_on(monkeypatch):
    monkeypatch.setattr(watch_streams, "STALL_SECONDS", 0)
    monkeypatch.setattr(watch_streams, "HIGH_WATER_BYTES", 10_000)
    monkeypatch.setattr("pykueue.apiserver.http2.streams.LOW_WATER_BYTES", 1000)
    sinks = []

    async def handle(stream):
        exchange = Http2Exchange(stream, "")
        sink = watch_streams.WatchSink(await exchange.start(200, CIMultiDict()), lambda frame: frame.line)
        exchange.on_disconnect(sink.finished.set)
        sinks.append(sink)
        await sink.finished.wait()

    client = Client(handle, 1000)
    client.is_reading = False
    slow, other = client.request(), client.request()
    await client.until(lambda: len(sinks) == 2)
    for _ in range(1000):
        sinks[0].send(FRAME)
    await client.until(lambda: client.has(h2.events.StreamReset, slow))
    sinks[1].send(FRAME)
    await client.until(lambda: client.body(other) == FRAME.line)
    assert sinks[0].finished.is_set()
    assert not sinks[1].finished.is_set()


async def test_a_head_request_gets_the_length_without_a_body():
    async def handle(stream):
        await Http2Exchange(stream, "").respond(200, CIMultiDict({"Content-Type": "x"}), b"body")

    client = Client(handle)
    number = client.request([(":method", "HEAD"), *GET[1:]])
    assert await client.response(number) == (200, b"")
    headers = next(event.headers for event in client.events if isinstance(event, h2.events.ResponseReceived))
    assert {("content-length", "4"), ("content-type", "x"), ("server", "pykueue")} <= set(map(tuple, headers))
