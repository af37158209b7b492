"""Request bodies: decodes JSON, YAML and protobuf, and reports duplicate fields.

Any bytes lead to a value or an ApiError 400, 413 or 415, in a time that grows with their number.
"""

from typing import Any

from pykueue.api import errors, json_text
from pykueue.apiserver.http import negotiation, protobuf

LIMIT_BYTES = 3 * 1024 * 1024
SMALL_LIMIT_BYTES = 64 * 1024
"""For what is never large: reviews, options of a deletion, and other calls that store nothing."""
MOST_VALUES = 20_000
"""Fields and items of one body. The largest known CustomResourceDefinition has 26,000."""
MOST_VALUES_OF_SYSTEM = 100_000
_SLOW_JSON_BYTES = 256 * 1024
_SLOW_BYTES = 8 * 1024
_JSON_TYPES = ("", "application/json", "application/merge-patch+json", "application/json-patch+json")
_STRATEGIC = "application/strategic-merge-patch+json"
_YAML_TYPES = ("application/yaml", "application/x-yaml", "text/yaml", "application/apply-patch+yaml")


Faults = tuple[str, ...]
Decoded = tuple[Any, Faults]


def media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def decode(content_type: str, data: bytes, most_values: int = MOST_VALUES) -> Decoded:
    """The value, and faults such as `duplicate field "spec.a"`."""
    if len(data) > LIMIT_BYTES:
        raise errors.too_large(f"Request entity too large: limit is {LIMIT_BYTES}")
    media = media_type(content_type)
    if media in _JSON_TYPES or media == _STRATEGIC:
        return _decode_json(data, most_values)
    if media in _YAML_TYPES:
        return _decode_yaml(data, most_values)
    if media == negotiation.PROTOBUF:
        return protobuf.decode(data, most_values), ()
    raise errors.unsupported_media_type(
        "the body of the request was in an unknown format - accepted media types include: "
        f"{negotiation.JSON}, {negotiation.YAML}, {negotiation.PROTOBUF}"
    )


def decode_object(content_type: str, data: bytes, most_values: int = MOST_VALUES) -> tuple[dict[str, Any], Faults]:
    value, faults = decode(content_type, data, most_values)
    return expect_object(value), faults


def expect_object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise errors.bad_request(
            "the object provided is unrecognized (must be of type object): "
            f"couldn't get version/kind; json parse error: json: cannot unmarshal {go_name(value)} into Go value "
            "of type struct"
        )
    return value


def is_slow(content_type: str, size: int) -> bool:
    """Whether decoding takes milliseconds, so that it must not happen on the event loop."""
    is_json = media_type(content_type) in _JSON_TYPES
    return size > (_SLOW_JSON_BYTES if is_json else _SLOW_BYTES)


def go_name(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "bool"
    return "string" if isinstance(value, str) else "array" if isinstance(value, list) else "number"


def _decode_json(data: bytes, most_values: int) -> Decoded:
    try:
        value = json_text.decode(data, most_values)
    except json_text.JsonError as error:
        raise errors.bad_request(f"unable to decode the body as JSON: {error}") from None
    if json_text.may_repeat_fields(data, value):
        return value, tuple(f'duplicate field "{path}"' for path in json_text.repeated_fields(data))
    return value, ()


def _decode_yaml(data: bytes, most_values: int) -> Decoded:
    if data[:1] in (b"{", b"["):
        return _decode_json(data, most_values)
    from pykueue.api import yaml_reader

    faults: list[str] = []

    def report(key: str, line: int) -> None:
        if len(faults) < json_text.MOST_REPORTED_FIELDS:
            faults.append(f'line {line + 1}: key "{key}" already set in map')

    try:
        value = yaml_reader.read(data.decode("utf-8-sig"), report, most_values)
        json_text.check_paths(value)
        return value, tuple(faults)
    except json_text.JsonError as error:
        raise errors.bad_request(f"error converting YAML to JSON: {error}") from None
    except yaml_reader.YamlError as error:
        raise errors.bad_request(f"error converting YAML to JSON: line {error.line + 1}: {error.message}") from None
    except UnicodeDecodeError as error:
        raise errors.bad_request(f"error converting YAML to JSON: {error.reason} at byte {error.start}") from None
