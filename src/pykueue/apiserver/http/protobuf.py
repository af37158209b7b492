r"""Reads protobuf bodies.

Go clients send builtin kinds as protobuf (`kubectl auth can-i`, `kubectl create job`). A body is
the magic `k8s\0`, then an envelope with apiVersion, kind and the message. Field numbers come from
the type files of `api.builtin`. The result is the object that the same client would have written
in JSON. Responses are always JSON, which these clients read as well.
"""

import base64
import datetime as dt
import functools
import struct
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from pykueue.api import errors, json_text
from pykueue.api.builtin import schemas
from pykueue.api.builtin.notation import Field
from pykueue.api.scheme import Object

MAGIC = b"k8s\x00"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_LONGEST_VARINT = 10
_DEEPEST = 100

_Bytes = bytes | memoryview
"""Messages inside messages are views, so that a deep message is not copied at every level."""

_DELETE_OPTIONS = ("v1", "DeleteOptions")
"""Clients send them with the apiVersion of the deleted object."""


class _MalformedError(ValueError):
    """The body is not a protobuf message of its kind."""


@functools.cache
def _fields_by_number(name: str) -> dict[int, Field]:
    return {field.number: field for field in schemas.types().lines(name) if field.number}


def decode(data: bytes, most_values: int = json_text.MOST_VALUES) -> Object:
    if not data.startswith(MAGIC):
        raise errors.bad_request("the body is not Kubernetes protobuf: it does not begin with k8s\\0")
    try:
        api_version, kind, message = _envelope(memoryview(data)[len(MAGIC) :])
        kinds = schemas.types().kinds
        name = kinds.get(_DELETE_OPTIONS if kind == _DELETE_OPTIONS[1] else (api_version, kind), "")
        if not name or not _fields_by_number(name):
            raise errors.unsupported_media_type(f"protobuf is not understood for {kind} of {api_version}; send JSON")
        obj = {"apiVersion": api_version, "kind": kind, **_message(name, message, 0)}
        json_text.check(msgspec.json.encode(obj), most_values)
        return obj
    except (struct.error, OverflowError, OSError, ValueError) as error:
        raise errors.bad_request(f"unable to decode the body as protobuf: {error}") from None


def _envelope(data: _Bytes) -> tuple[str, str, _Bytes]:
    api_version = kind = ""
    message: _Bytes = b""
    for number, value in _fields(data):
        if number == 1:
            names = {number: _text(name) for number, name in _fields(_expect_bytes(value))}
            api_version, kind = names.get(1, ""), names.get(2, "")
        elif number == 2:
            message = _expect_bytes(value)
    return api_version, kind, message


def _fields(data: _Bytes) -> Iterator[tuple[int, Any]]:
    """Field numbers and raw values: integers for varints, views for everything else."""
    position, end = 0, len(data)
    while position < end:
        tag, position = _varint(data, position)
        number, wire = tag >> 3, tag & 7
        if wire == _VARINT:
            value, position = _varint(data, position)
            yield number, value
            continue
        if wire == _BYTES:
            length, position = _varint(data, position)
        elif wire in (_FIXED64, _FIXED32):
            length = 8 if wire == _FIXED64 else 4
        else:
            raise _MalformedError(f"wire type {wire}")
        if position + length > end:
            raise _MalformedError("a field is longer than the message")
        yield number, data[position : position + length]
        position += length


def _varint(data: _Bytes, position: int) -> tuple[int, int]:
    value = 0
    for index in range(_LONGEST_VARINT):
        if position + index >= len(data):
            raise _MalformedError("the message ends within a number")
        byte = data[position + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, position + index + 1
    raise _MalformedError("a number is too long")


def _expect_bytes(value: Any) -> _Bytes:
    if not isinstance(value, bytes | memoryview):
        raise _MalformedError("a number where a message should be")
    return value


def _text(value: Any) -> str:
    return str(_expect_bytes(value), "utf-8")


def _signed(value: Any) -> int:
    if not isinstance(value, int):
        raise _MalformedError("a message where a number should be")
    number = value & (2**64 - 1)
    return number - 2**64 if number >= 2**63 else number


def _message(name: str, data: _Bytes, depth: int) -> Object:
    if depth > _DEEPEST:
        raise _MalformedError("nested too deeply")
    fields = _fields_by_number(name)
    obj: Object = {}
    for number, raw in _fields(data):
        if number in fields:
            _add(obj, fields[number], raw, depth)
    return obj


def _add(obj: Object, field: Field, raw: Any, depth: int) -> None:
    kind = field.type
    if field.is_embedded:
        obj.update(_message(kind, _expect_bytes(raw), depth + 1))
    elif kind[0] == "[":
        obj.setdefault(field.name, []).append(_value(kind[1:-1], raw, depth + 1))
    elif kind[0] == "{":
        entry = dict(_fields(_expect_bytes(raw)))
        value = entry.get(2, 0 if kind[1:-1] in _NUMBERS else b"")
        obj.setdefault(field.name, {})[_text(entry.get(1, b""))] = _value(kind[1:-1], value, depth + 1)
    else:
        value = _value(kind, raw, depth + 1)
        if field.name in _MICRO_TIMES and isinstance(value, str) and "." not in value:
            value = value.replace("Z", ".000000Z")
        is_zero = not value and not isinstance(value, dict)
        if value is not None and not (is_zero and field.zero == "?"):
            obj[field.name] = value


def _value(kind: str, raw: Any, depth: int) -> Any:
    if kind in _SCALARS:
        return _SCALARS[kind](raw)
    data = _expect_bytes(raw)
    if kind[0] == "[":
        return [_value(kind[1:-1], item, depth + 1) for number, item in _fields(data) if number == 1]
    if kind.startswith("string("):
        return _text(raw)
    if kind in _SCHEMAS:
        return _schema(kind, data, depth)
    return _message(kind, data, depth)


def _double(raw: Any) -> float:
    value: float = struct.unpack("<d", _expect_bytes(raw))[0]
    return int(value) if value.is_integer() else value


def _quantity(raw: Any) -> str:
    return _text(dict(_fields(_expect_bytes(raw))).get(1, b"")) or "0"


def _int_or_string(raw: Any) -> int | str:
    fields = dict(_fields(_expect_bytes(raw)))
    return _text(fields.get(3, b"")) if fields.get(1) else _signed(fields.get(2, 0))


def _time(raw: Any) -> str | None:
    fields = dict(_fields(_expect_bytes(raw)))
    if not fields:
        return None
    moment = dt.datetime.fromtimestamp(_signed(fields.get(1, 0)), dt.UTC)
    nanos = _signed(fields.get(2, 0))
    return moment.strftime("%Y-%m-%dT%H:%M:%S") + (f".{nanos // 1000:06d}Z" if nanos else "Z")


def _raw(raw: Any) -> Any:
    inside = dict(_fields(_expect_bytes(raw))).get(1, b"")
    return json_text.decode(bytes(_expect_bytes(inside))) if inside else None


_SCALARS: dict[str, Callable[[Any], Any]] = {
    "string": _text,
    "bool": lambda raw: bool(_signed(raw)),
    "int32": _signed,
    "int64": _signed,
    "bytes": lambda raw: base64.b64encode(_expect_bytes(raw)).decode(),
    "float": _double,
    "quantity": _quantity,
    "intstr": _int_or_string,
    "time": _time,
    "json": _raw,
}
_NUMBERS = ("bool", "int32", "int64")
_MICRO_TIMES = ("acquireTime", "eventTime", "lastObservedTime", "renewTime")
"""The fields of type MicroTime: Go reads them only with six digits of the second."""
_SCHEMA = "JSONSchemaProps"
_SCHEMAS = tuple(f"{_SCHEMA}Or{other}" for other in ("Bool", "Array", "StringArray"))


def _schema(kind: str, data: _Bytes, depth: int) -> Any:
    """The fields of a JSON schema that have either a schema or a simpler value."""
    fields = list(_fields(data))
    values = dict(fields)
    if kind.endswith("OrBool"):
        return _message(_SCHEMA, _expect_bytes(values[2]), depth + 1) if 2 in values else bool(values.get(1))
    if kind.endswith("OrStringArray"):
        if 1 in values:
            return _message(_SCHEMA, _expect_bytes(values[1]), depth + 1)
        return [_text(value) for number, value in fields if number == 2]
    if 1 in values:
        return _message(_SCHEMA, _expect_bytes(values[1]), depth + 1)
    return [_message(_SCHEMA, _expect_bytes(value), depth + 1) for number, value in fields if number == 2]
