"""The head of a request from its header fields (RFC 9113, section 8.3)."""

import re
from dataclasses import dataclass

from multidict import CIMultiDict

from pykueue.apiserver.http2.frames import PROTOCOL_ERROR, StreamError
from pykueue.apiserver.http2.hpack import Field

_PSEUDO = (":method", ":scheme", ":authority", ":path")
_OF_CONNECTIONS = frozenset(("connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"))
_CONTROLS = frozenset(map(chr, (*range(9), *range(10, 32), 127)))
_NAME_CHARACTERS = frozenset("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz")
_METHOD = re.compile("[A-Z]{1,32}").fullmatch
_TARGET = re.compile("/[!-~]*|[*]").fullmatch
"""A path has no space and no other characters than those of ASCII, as in HTTP/1.1."""
_known_names: set[str] = set()
"""Names that were found valid."""
_MOST_KNOWN_NAMES = 1000
_LONGEST_KNOWN_NAME = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestHead:
    method: str
    target: str
    """The path and the query, as sent."""
    headers: CIMultiDict[str]
    content_length: int | None


def read(fields: list[Field]) -> RequestHead:
    """StreamError if the fields are no request."""
    pseudo: dict[str, str] = {}
    headers: CIMultiDict[str] = CIMultiDict()
    cookies: list[str] = []
    for name, value in fields:
        if name.startswith(":"):
            if name not in _PSEUDO or name in pseudo or headers or cookies:
                raise _malformed(f"the pseudo-header {name} is unknown, repeated or too late")
            pseudo[name] = _text(value)
            continue
        if name not in _known_names:
            _check_name(name)
        if name in _OF_CONNECTIONS or (name == "te" and value != "trailers"):
            raise _malformed(f"the header {name} belongs to a connection")
        if name == "cookie":
            cookies.append(_text(value))
        else:
            headers.add(name, _text(value))
    if cookies:
        headers.add("cookie", "; ".join(cookies))
    method, target = pseudo.get(":method", ""), pseudo.get(":path", "")
    if ":scheme" not in pseudo or not _METHOD(method) or not _TARGET(target):
        raise _malformed("method, scheme or path is missing or malformed")
    if authority := pseudo.get(":authority"):
        headers["Host"] = authority
    return RequestHead(method=method, target=target, headers=headers, content_length=_content_length(headers))


def check_trailers(fields: list[Field]) -> None:
    if any(name.startswith(":") for name, _ in fields):
        raise _malformed("a pseudo-header is in the trailers")


def _malformed(message: str) -> StreamError:
    return StreamError(PROTOCOL_ERROR, message)


def _check_name(name: str) -> None:
    if not name or not _NAME_CHARACTERS.issuperset(name):
        raise _malformed("the name of a header is not in lower case")
    if len(_known_names) < _MOST_KNOWN_NAMES and len(name) <= _LONGEST_KNOWN_NAME:
        _known_names.add(name)


def _text(value: str) -> str:
    if value.isascii() and value.isprintable():
        return value
    if not _CONTROLS.isdisjoint(value):
        raise _malformed("a header has a control character")
    return value.encode("latin-1").decode("utf-8", "surrogateescape")


def _content_length(headers: CIMultiDict[str]) -> int | None:
    values = set(headers.getall("content-length", ()))
    if not values:
        return None
    text = values.pop()
    if values or not text.isascii() or not text.isdigit() or len(text) > 15:
        raise _malformed("the content-length is not one number")
    return int(text)
