"""Request bodies: decodes JSON, YAML and protobuf, and reports duplicate fields.

Any bytes lead to a value or an ApiError 400, 413 or 415.
"""

import json
from collections.abc import Iterator
from typing import Any

import msgspec

from pykueue.api import errors
from pykueue.apiserver.http import negotiation, protobuf

LIMIT_BYTES = 3 * 1024 * 1024
_JSON_TYPES = ("", "application/json", "application/merge-patch+json", "application/json-patch+json")
_STRATEGIC = "application/strategic-merge-patch+json"
_YAML_TYPES = ("application/yaml", "application/x-yaml", "text/yaml", "application/apply-patch+yaml")
_MAX_DEPTH = 200


def media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def decode(content_type: str, data: bytes) -> tuple[Any, tuple[str, ...]]:
    """The value, and faults such as `duplicate field "spec.a"`."""
    if len(data) > LIMIT_BYTES:
        raise errors.too_large(f"Request entity too large: limit is {LIMIT_BYTES}")
    media = media_type(content_type)
    if media in _JSON_TYPES or media == _STRATEGIC:
        return _decode_json(data)
    if media in _YAML_TYPES:
        return _decode_yaml(data)
    if media == negotiation.PROTOBUF:
        return protobuf.decode(data), ()
    raise errors.unsupported_media_type(
        "the body of the request was in an unknown format - accepted media types include: "
        f"{negotiation.JSON}, {negotiation.YAML}, {negotiation.PROTOBUF}"
    )


def decode_object(content_type: str, data: bytes) -> tuple[dict[str, Any], tuple[str, ...]]:
    value, faults = decode(content_type, data)
    if not isinstance(value, dict):
        raise errors.bad_request(
            "the object provided is unrecognized (must be of type object): "
            f"couldn't get version/kind; json parse error: json: cannot unmarshal {go_name(value)} into Go value "
            "of type struct"
        )
    return value, faults


def go_name(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "bool"
    return "string" if isinstance(value, str) else "array" if isinstance(value, list) else "number"


def _decode_json(data: bytes) -> tuple[Any, tuple[str, ...]]:
    try:
        value = msgspec.json.decode(data)
        if _may_repeat_keys(data, value):
            return value, tuple(_repeated_keys(data))
        return value, ()
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise errors.bad_request(f"unable to decode the body as JSON: {_message(error)}") from None
    except (RecursionError, ValueError, OverflowError):
        raise errors.bad_request("unable to decode the body as JSON: nested or numbered beyond all limits") from None


def _message(error: Exception) -> str:
    return str(error).replace("msgspec.", "")


def _may_repeat_keys(data: bytes, value: Any) -> bool:
    """A fast check: text with a repeated key has more quotes than its value encoded again."""
    return data.count(b'"') > msgspec.json.encode(value).count(b'"')


class _Pairs(dict[str, Any]):
    """A decoded object with the list of its repeated keys."""

    repeated: tuple[str, ...] = ()


def _pairs(pairs: list[tuple[str, Any]]) -> _Pairs:
    decoded = _Pairs(pairs)
    if len(decoded) < len(pairs):
        names = [name for name, _ in pairs]
        decoded.repeated = tuple(dict.fromkeys(name for name in names if names.count(name) > 1))
    return decoded


def _repeated_keys(data: bytes) -> Iterator[str]:
    yield from sorted(f'duplicate field "{path}"' for path in _walk(json.loads(data, object_pairs_hook=_pairs), ""))


def _walk(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, _Pairs):
        yield from (f"{path}.{name}".lstrip(".") for name in value.repeated)
        for name, below in value.items():
            yield from _walk(below, f"{path}.{name}")
    elif isinstance(value, list):
        for position, below in enumerate(value):
            yield from _walk(below, f"{path}[{position}]")


def _decode_yaml(data: bytes) -> tuple[Any, tuple[str, ...]]:
    if data[:1] in (b"{", b"["):
        return _decode_json(data)
    import yaml

    try:
        loader = yaml.CSafeLoader(data)
        try:
            return _load_document(loader), ()
        finally:
            loader.dispose()
    except (yaml.YAMLError, UnicodeError, ValueError, OverflowError, RecursionError) as error:
        text = " ".join(str(error).split())
        raise errors.bad_request(f"error converting YAML to JSON: {text}") from None


def _load_document(loader: Any) -> Any:
    """One document. Its nodes are checked for depth and aliases before values are built."""
    import yaml

    node = loader.get_single_node()
    if node is None:
        return None
    _refuse_bombs(node)
    value = yaml.constructor.SafeConstructor.construct_document(loader, node)
    return msgspec.json.decode(msgspec.json.encode(value, order=None))


def _refuse_bombs(root: Any) -> None:
    import yaml

    count = 0
    stack = [(root, 0)]
    while stack:
        node, depth = stack.pop()
        count += 1
        if depth > _MAX_DEPTH or count > LIMIT_BYTES // 4:
            raise errors.bad_request("error converting YAML to JSON: nested too deeply or too many aliases")
        if isinstance(node, yaml.SequenceNode):
            stack += [(below, depth + 1) for below in node.value]
        elif isinstance(node, yaml.MappingNode):
            stack += [(below, depth + 1) for pair in node.value for below in pair]
