"""Records: engine events as bytes, and back.

A record is the name of the event and its fields in MessagePack. The record of a cycle also has the
decisions, as kind and workload, so that a replay can be compared with what was decided.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple, get_args

import msgspec

from pykueue.engine import decisions, events
from pykueue.engine.policy import Policy

FORMAT = 1
_KINDS: dict[str, Any] = {kind.__name__: kind for kind in get_args(events.EngineEvent)}
_NAMES = {kind: name for name, kind in _KINDS.items()}
_PENDING = (decisions.Requeue, decisions.MarkInadmissible, decisions.RetrySecondPass)

Summary = tuple[tuple[str, str], ...]
"""The decisions of a cycle that change something: kind and workload, or victim."""


class RecordError(Exception):
    """The ring has a record that this version of pykueue cannot read."""


class SegmentHeader(msgspec.Struct, frozen=True, kw_only=True):
    """The first record of a segment."""

    format: int
    version: str
    """The version of pykueue that wrote it."""
    policy: Policy
    is_start: bool
    """The engine was empty; otherwise a checkpoint follows."""


class Record(NamedTuple):
    event: events.EngineEvent
    decided: Summary | None = None
    """Only of a cycle."""
    is_checkpoint: bool = False


class _Line(msgspec.Struct, array_like=True):
    kind: str
    event: msgspec.Raw
    decided: Summary | None = None
    is_checkpoint: bool = False


_encoder = msgspec.msgpack.Encoder()
_line_decoder = msgspec.msgpack.Decoder(_Line)
_decoders = {name: msgspec.msgpack.Decoder(kind) for name, kind in _KINDS.items()}
_header_decoder = msgspec.msgpack.Decoder(SegmentHeader)


def summary(decided: Iterable[decisions.Decision]) -> Summary:
    """What a cycle changed. Reasons of waiting are left out: they change nothing."""
    lines: list[tuple[str, str]] = []
    for decision in decided:
        if isinstance(decision, decisions.Preempt):
            lines += [("Preempt", target.workload) for target in decision.targets if not target.already_evicted]
        elif not isinstance(decision, _PENDING):
            lines.append((type(decision).__name__, decision.workload))
    return tuple(lines)


def encode(record: Record) -> bytes:
    event, decided, is_checkpoint = record
    return _encoder.encode((_NAMES[type(event)], event, decided, is_checkpoint))


def decode(data: bytes) -> Record:
    try:
        line = _line_decoder.decode(data)
        event = _decoders[line.kind].decode(line.event)
    except (msgspec.MsgspecError, KeyError) as error:
        raise RecordError(f"a record cannot be read: {error}; was it written by another version?") from None
    return Record(event, line.decided, line.is_checkpoint)


def encode_header(header: SegmentHeader) -> bytes:
    return _encoder.encode(header)


def decode_header(data: bytes) -> SegmentHeader:
    try:
        header = _header_decoder.decode(data)
    except msgspec.MsgspecError as error:
        raise RecordError(f"the beginning of a segment cannot be read: {error}") from None
    if header.format != FORMAT:
        raise RecordError(f"the ring has format {header.format}; this version reads format {FORMAT}")
    return header
