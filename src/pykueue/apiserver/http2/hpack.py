"""Header compression (RFC 7541): decodes header blocks of clients, encodes those of responses.

What a client sends is bounded: the dynamic table, the length of numbers, and the fields of a
block. Responses use the static table only, so that they need no state and equal fields are encoded
once.
"""

import functools
from collections import deque

from pykueue.apiserver.http2 import huffman

TABLE_BYTES = 4096
LARGEST_LIST_BYTES = 64 * 1024
"""Names and values of one request, and 32 bytes for each field, as the RFC counts them."""
MOST_FIELDS = 128
"""As many as HTTP/1.1 has here."""
_MOST_RESIZES = 2
"""The RFC allows no more changes of the table's size at the beginning of a block."""
_FIELD_BYTES = 32
_LARGEST_NUMBER = 1 << 24
_REMEMBERED_STRINGS = 64
_REMEMBERED_BYTES = 1024
_CACHED_VALUE_LENGTH = 128

Field = tuple[str, str]
"""A name and a value. One character is one byte, because sizes are counted in bytes."""

_STATIC_NAMES = """
:authority :method=GET :method=POST :path=/ :path=/index.html :scheme=http :scheme=https :status=200 :status=204
:status=206 :status=304 :status=400 :status=404 :status=500 accept-charset accept-encoding=gzip,~deflate
accept-language accept-ranges accept access-control-allow-origin age allow authorization cache-control
content-disposition content-encoding content-language content-length content-location content-range content-type
cookie date etag expect expires from host if-match if-modified-since if-none-match if-range if-unmodified-since
last-modified link location max-forwards proxy-authenticate proxy-authorization range referer refresh retry-after
server set-cookie strict-transport-security transfer-encoding user-agent vary via www-authenticate
"""


def _static_field(text: str) -> Field:
    name, _, value = text.partition("=")
    return name, value.replace("~", " ")


_STATIC: tuple[Field, ...] = (("", ""), *map(_static_field, _STATIC_NAMES.split()))
"""The static table. Its first entry has the index 1."""
_STATIC_COUNT = len(_STATIC)
_STATIC_INDEX = {field: index for index, field in reversed(list(enumerate(_STATIC))) if index}
_STATIC_NAME_INDEX = {name: index for index, (name, _) in reversed(list(enumerate(_STATIC))) if index}


class HpackError(ValueError):
    """The header block cannot be decoded. The connection cannot go on: its tables differ."""


class HeaderListTooLarge(HpackError):  # noqa: N818
    """A request has more fields than MOST_FIELDS, or larger ones than LARGEST_LIST_BYTES."""


class Decoder:
    """The fields of header blocks, which must be decoded in the order of their arrival."""

    def __init__(self) -> None:
        self._table: deque[Field] = deque()
        """The newest entry is the first."""
        self._size = 0
        self._limit = TABLE_BYTES
        self._strings: dict[bytes, str] = {}
        """Values that were decoded before: clients repeat what has left the table."""
        self._data = b""
        self._at = 0

    def decode(self, block: bytes) -> list[Field]:
        self._data, self._at = block, 0
        fields: list[Field] = []
        bytes_left, resizes, end = LARGEST_LIST_BYTES, 0, len(block)
        try:
            while self._at < end:
                first = block[self._at]
                if first & 0x80:
                    field = self._indexed(self._number(0x7F))
                elif first & 0x40:
                    field = self._literal(0x3F)
                    self._insert(field)
                elif first & 0x20:
                    resizes += 1
                    self._resize(self._number(0x1F), is_allowed=not fields and resizes <= _MOST_RESIZES)
                    continue
                else:
                    field = self._literal(0x0F)
                fields.append(field)
                bytes_left -= len(field[0]) + len(field[1]) + _FIELD_BYTES
                if bytes_left < 0 or len(fields) > MOST_FIELDS:
                    raise HeaderListTooLarge(
                        f"the headers are more than {MOST_FIELDS} or larger than {LARGEST_LIST_BYTES} bytes"
                    )
        except IndexError:
            raise HpackError("the header block ends in the middle of a field") from None
        except huffman.HuffmanError as error:
            raise HpackError(str(error)) from None
        return fields

    def _number(self, prefix: int) -> int:
        """The number at the current position; `prefix` masks its bits in the first byte."""
        data = self._data
        number = data[self._at] & prefix
        self._at += 1
        if number < prefix:
            return number
        shift = 0
        while True:
            byte = data[self._at]
            self._at += 1
            number += (byte & 0x7F) << shift
            shift += 7
            if number > _LARGEST_NUMBER or shift > 28:
                raise HpackError("a number is too large")
            if not byte & 0x80:
                return number

    def _indexed(self, index: int) -> Field:
        if not index:
            raise HpackError("there is no field with the index 0")
        if index < _STATIC_COUNT:
            return _STATIC[index]
        try:
            return self._table[index - _STATIC_COUNT]
        except IndexError:
            raise HpackError(f"there is no field with the index {index}") from None

    def _literal(self, prefix: int) -> Field:
        index = self._number(prefix)
        name = self._indexed(index)[0] if index else self._string(is_remembered=True)
        return name, self._string(is_remembered=name != ":path")

    def _string(self, *, is_remembered: bool) -> str:
        is_huffman = self._data[self._at] & 0x80
        length = self._number(0x7F)
        begin, end = self._at, self._at + length
        if end > len(self._data):
            raise HpackError("a string is longer than the header block")
        self._at = end
        data = self._data[begin:end]
        if not is_huffman:
            return data.decode("latin-1")
        text = self._strings.get(data)
        if text is None:
            text = huffman.decode(data).decode("latin-1")
            if is_remembered and length <= _REMEMBERED_BYTES:
                if len(self._strings) >= _REMEMBERED_STRINGS:
                    self._strings.clear()
                self._strings[data] = text
        return text

    def _insert(self, field: Field) -> None:
        size = len(field[0]) + len(field[1]) + _FIELD_BYTES
        self._size += size
        self._table.appendleft(field)
        if self._size > self._limit:
            self._evict()

    def _resize(self, limit: int, *, is_allowed: bool) -> None:
        if not is_allowed or limit > TABLE_BYTES:
            raise HpackError("the size of the table cannot be changed so")
        self._limit = limit
        self._evict()

    def _evict(self) -> None:
        while self._size > self._limit:
            name, value = self._table.pop()
            self._size -= len(name) + len(value) + _FIELD_BYTES


def encode(status: int, fields: list[Field]) -> bytes:
    """The header block of a response."""
    return b"".join([_status(status), *[_cached(*field) for field in fields]])


def _number(value: int, prefix: int, first: int) -> bytes:
    if value < prefix:
        return bytes((first | value,))
    value -= prefix
    data = bytearray((first | prefix,))
    while value > 0x7F:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    data.append(value)
    return bytes(data)


@functools.lru_cache(maxsize=64)
def _status(status: int) -> bytes:
    index = _STATIC_INDEX.get((":status", str(status)))
    return bytes((0x80 | index,)) if index else _field(":status", str(status))


def _cached(name: str, value: str) -> bytes:
    return _remembered_field(name, value) if len(value) <= _CACHED_VALUE_LENGTH else _field(name, value)


def _field(name: str, value: str) -> bytes:
    """A literal without indexing."""
    index = _STATIC_NAME_INDEX.get(name)
    data = value.encode("utf-8", "replace")
    head = _number(index, 0x0F, 0) if index else b"\0" + _number(len(name), 0x7F, 0) + name.encode("ascii")
    return head + _number(len(data), 0x7F, 0) + data


_remembered_field = functools.lru_cache(maxsize=512)(_field)
