"""Every part of the head of a request with hostile values, by HTTP/1.1 and by HTTP/2.

Both protocols refuse the same, and nothing leads to an internal error.
"""

import asyncio
import ssl

import pytest
from tests.apiserver.http2.test_broken_frames import frame

from pykueue.apiserver.http2 import frames, hpack

CONFIG_MAPS = b"/api/v1/namespaces/default/configmaps"
BODY = b'{"metadata":{"generateName":"x-"}}'
HOSTILE = {
    "not UTF-8": b"\xff\xfe",
    "a surrogate": b"\xed\xa0\x80",
    "a character": "é".encode(),
    "quoted bytes": b"%ff%00%ed%a0%80",
    "a tab": b"a\tb",
    "long": 3000 * b"x",
}
HEADERS = (
    *("Authorization", "Accept", "Content-Type", "User-Agent", "If-None-Match", "Accept-Encoding", "Warning"),
    *("Impersonate-User", "Impersonate-Group", "Impersonate-Uid", "Impersonate-Extra-a", "Cookie", "Origin", "X"),
)
PATHS = {
    "name": b"%b/%%b" % CONFIG_MAPS,
    "namespace": b"/api/v1/namespaces/%b/configmaps",
    "group": b"/apis/%b/v1/a",
    "document": b"/openapi/v3/apis/%b",
    "other path": b"/%b",
    "selector": b"%b?labelSelector=%%b" % CONFIG_MAPS,
    "field": b"%b?fieldSelector=metadata.name=%%b" % CONFIG_MAPS,
    "page": b"%b?continue=%%b" % CONFIG_MAPS,
    "manager": b"%b?fieldManager=%%b" % CONFIG_MAPS,
    "parameter": b"%b?%%b" % CONFIG_MAPS,
}
METHODS = (b"get", b"Get", b"LIST", b"WATCH", b"DELETECOLLECTION", b"G T", b"GET\xff", "É".encode(), 300 * b"A", b"")
REFUSED = 400
"""Also if the stream or the connection ends without a response."""


class Heads:
    """Sends requests whose head is any bytes. Each has a connection of its own."""

    def __init__(self, api):
        self.host, self.port = api.access.server.removeprefix("https://").split(":")
        self.token = api.access.token.encode()
        self.authority = api.paths.directory / "pki" / "ca.crt"

    async def connect(self, protocol):
        context = ssl.create_default_context(cafile=self.authority)
        context.set_alpn_protocols([protocol])
        return await asyncio.open_connection(self.host, int(self.port), ssl=context)

    def headers(self, changes):
        return {"Host": b"x", "Authorization": b"Bearer " + self.token, "Content-Type": b"application/json"} | changes

    async def both(self, method=b"POST", target=CONFIG_MAPS, **changes):
        """The codes by HTTP/1.1 and HTTP/2."""
        headers = self.headers(changes)
        return await asyncio.gather(
            self._http1(method, target, headers),
            self._http2(method, target, headers),
        )

    async def _http1(self, method, target, headers):
        reader, writer = await self.connect("http/1.1")
        lines = [b"%b: %b\r\n" % (name.encode(), value) for name, value in headers.items()]
        head = b"%b %b HTTP/1.1\r\n%bContent-Length: %d\r\n\r\n" % (method, target, b"".join(lines), len(BODY))
        writer.write(head + BODY)
        line = await reader.readline()
        writer.transport.abort()
        return int(line.split()[1]) if line else REFUSED

    async def _http2(self, method, target, headers):
        reader, writer = await self.connect("h2")
        host = headers["Host"]
        fields = {":method": method, ":scheme": b"https", ":authority": host, ":path": target, **headers}
        del fields["Host"]
        block = b"".join(literal(name.lower().encode(), value) for name, value in fields.items())
        writer.write(frames.PREFACE + frames.settings({}) + frame(frames.HEADERS, frames.END_HEADERS, 1, block))
        writer.write(frame(frames.DATA, frames.END_STREAM, 1, BODY))
        code = None
        while code is None:
            head = await reader.readexactly(frames.HEAD_BYTES)
            size, kind, _, stream = frames.read_head(bytearray(head), 0)
            payload = await reader.readexactly(size)
            if kind == frames.HEADERS and stream == 1:
                code = int(dict(hpack.Decoder().decode(payload))[":status"])
            elif kind in (frames.RST_STREAM, frames.GOAWAY):
                assert payload[-1] != frames.INTERNAL_ERROR
                code = REFUSED
        writer.transport.abort()
        return code


def literal(name, value):
    return b"".join([b"\0", *(hpack._number(len(text), 0x7F, 0) + text for text in (name, value))])


@pytest.fixture
def heads(api):
    return Heads(api)


@pytest.mark.parametrize("value", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("name", HEADERS)
async def test_a_hostile_header_is_refused_or_harmless(heads, name, value):
    prefix = b"Bearer " if name == "Authorization" else b""
    first, second = await heads.both(**{name: prefix + value})
    assert first == second
    assert first < 500


@pytest.mark.parametrize("value", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
@pytest.mark.parametrize("method", [b"GET", b"POST"])
async def test_a_hostile_path_is_refused_or_harmless(heads, method, path, value):
    first, second = await heads.both(method, path % value)
    assert first == second
    assert first < 500


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("path", [CONFIG_MAPS, CONFIG_MAPS + b"/a", b"/version"])
async def test_a_method_is_known_or_refused(heads, method, path):
    first, second = await heads.both(method, path)
    assert {first, second} <= {400, 403, 405}
