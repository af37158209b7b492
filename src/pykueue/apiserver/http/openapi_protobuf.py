"""The OpenAPI v2 document as protobuf. kubectl needs this form to validate a `kind: List`.

Only definitions are written; that is all the validation looks at.
"""

import struct
from typing import Any

import msgspec

from pykueue.api.scheme import Schema

Document = dict[str, Any]

REQUESTED_TYPE = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
MEDIA_TYPE = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
"""The type that clients request is not a valid media type, so the response has another."""

_TEXTS = {"$ref": 1, "format": 2, "title": 3, "description": 4, "pattern": 13}
_DOUBLES = {"multipleOf": 6, "maximum": 7, "minimum": 9}
_INTEGERS = {
    "maxLength": 11,
    "minLength": 12,
    "maxItems": 14,
    "minItems": 15,
    "maxProperties": 17,
    "minProperties": 18,
}
_REQUIRED, _ADDITIONAL, _TYPE, _ITEMS, _ALL_OF, _PROPERTIES, _EXTENSION = 19, 21, 22, 23, 24, 25, 31


def encode(document: Document) -> bytes:
    info = _text(1, document["info"]["title"]) + _text(2, document["info"]["version"])
    definitions = b"".join(_named(1, name, _schema(schema)) for name, schema in document["definitions"].items())
    return _text(1, document["swagger"]) + _bytes(2, info) + _bytes(8, b"") + _bytes(9, definitions)


def _schema(schema: Schema) -> bytes:
    parts = [_text(number, schema[name]) for name, number in _TEXTS.items() if name in schema]
    parts += [_double(number, schema[name]) for name, number in _DOUBLES.items() if name in schema]
    parts += [_integer(number, schema[name]) for name, number in _INTEGERS.items() if name in schema]
    parts += [_text(_REQUIRED, name) for name in schema.get("required") or ()]
    if isinstance(schema.get("additionalProperties"), dict):
        parts.append(_bytes(_ADDITIONAL, _bytes(1, _schema(schema["additionalProperties"]))))
    if "type" in schema:
        parts.append(_bytes(_TYPE, _text(1, schema["type"])))
    if isinstance(schema.get("items"), dict):
        parts.append(_bytes(_ITEMS, _bytes(1, _schema(schema["items"]))))
    parts += [_bytes(_ALL_OF, _schema(part)) for part in schema.get("allOf") or () if "$ref" in part]
    if schema.get("properties"):
        named = b"".join(_named(1, name, _schema(below)) for name, below in schema["properties"].items())
        parts.append(_bytes(_PROPERTIES, named))
    parts += [
        _named(_EXTENSION, name, _text(2, msgspec.json.encode(value).decode()))
        for name, value in schema.items()
        if name.startswith("x-")
    ]
    return b"".join(parts)


def _named(number: int, name: str, value: bytes) -> bytes:
    return _bytes(number, _text(1, name) + _bytes(2, value))


def _text(number: int, text: str) -> bytes:
    return _bytes(number, str(text).encode())


def _bytes(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _integer(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(int(value))


def _double(number: int, value: float) -> bytes:
    return _varint(number << 3 | 1) + struct.pack("<d", value)


def _varint(value: int) -> bytes:
    data = bytearray()
    while value >= 0x80:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    data.append(value)
    return bytes(data)
