"""A copy of a JSON value that may be edited. Writing the text and reading it back is several times faster than any walk in Python."""

from typing import Any

import msgspec

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


def copied(value: Any) -> Any:
    return _decode(_encode(value))
