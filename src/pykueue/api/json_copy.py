"""A deep copy of a JSON value.

Encoding and decoding it is several times faster than copying it in Python.
"""

from typing import Any

import msgspec

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


def copied(value: Any) -> Any:
    return _decode(_encode(value))
