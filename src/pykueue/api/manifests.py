"""Reads manifests in YAML or JSON, with the line of each field for error messages.

Safe against hostile files: expanding aliases, deep nesting, huge files and bytes that are not
UTF-8 give an error with a line, never a crash. Values are read as `kubectl` reads them: `yes` is
true, `0644` is 420 and a date stays a string. Called by every command with `-f`.
"""

import copy
import functools
import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import yaml

from pykueue.api.scheme import Object
from pykueue.api.yaml_text import NotJsonError, key_text, plain_value

LARGEST_BYTES = 64 * 2**20
DEEPEST = 100
MOST_NODES_FROM_ALIASES = 100_000

_SEPARATOR = re.compile(r"^---(?=\s|$)", re.MULTILINE)
_MERGE = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestError:
    """A document that could not be read."""

    file: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One object, and its position in a file."""

    object: Object
    file: str
    line: int
    source: str
    """The text of the document, which starts at `first_line`."""
    first_line: int
    prefix: str = ""
    """The path of the object in its document, for items of a List."""

    def line_of(self, path: str) -> int:
        """The line of a field such as `spec.podSets[0].count`, or of its nearest ancestor."""
        full = ".".join(part for part in (self.prefix, path) if part and part != "<nil>")
        return self.first_line + _find_line(self.source, _steps(full))


def read(data: bytes | str, file: str = "-") -> tuple[list[Document], list[ManifestError]]:
    """Every document that can be read, and an error for each one that cannot.

    The items of a List are documents of their own.
    """
    try:
        text = _decoded(data)
    except _BadInputError as bad:
        return [], [ManifestError(file=file, line=bad.line + 1, message=bad.message)]
    documents: list[Document] = []
    faults: list[ManifestError] = []
    for first_line, source in _split(text):
        try:
            value = _build(source)
        except _BadInputError as bad:
            faults.append(ManifestError(file=file, line=first_line + bad.line, message=bad.message))
            continue
        if value is not None:
            line = first_line + _content_line(source)
            document = Document(object=value, file=file, line=line, source=source, first_line=first_line)
            documents.extend(_items(document))
    return documents, faults


class _BadInputError(Exception):
    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.message = message
        self.line = line


class _NotYamlError(_BadInputError):
    """The text is not YAML."""


def _decoded(data: bytes | str) -> str:
    if len(data) > LARGEST_BYTES:
        raise _BadInputError(f"the file is larger than {LARGEST_BYTES // 2**20} MiB", 0)
    if isinstance(data, str):
        return data.removeprefix("\ufeff")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start)
        raise _BadInputError(f"not UTF-8 text: byte 0x{data[error.start]:02x}", line) from None


def _split(text: str) -> Iterator[tuple[int, str]]:
    """The number of the first line and the text of each document."""
    starts = [0, *(match.start() for match in _SEPARATOR.finditer(text)), len(text)]
    line = 1
    for start, end in itertools.pairwise(starts):
        source = text[start:end]
        if any(row and row[0] not in "#%" for row in map(str.strip, source.removeprefix("---").splitlines())):
            yield line, source
        line += source.count("\n")


def _content_line(source: str) -> int:
    for number, row in enumerate(source.splitlines()):
        stripped = row.removeprefix("---").strip()
        if stripped and stripped[0] not in "#%":
            return number
    return 0


def _items(document: Document) -> Iterator[Document]:
    value = document.object
    items = value.get("items")
    if not (str(value.get("kind", "")).endswith("List") and isinstance(items, list)):
        yield document
        return
    for index, item in enumerate(items):
        if isinstance(item, dict):
            inner = replace(document, object=item, prefix=f"items[{index}]")
            yield replace(inner, line=inner.line_of(""))


def _events(source: str) -> Iterator[Any]:
    """The events of the YAML parser; its errors become `_NotYamlError`."""
    try:
        yield from yaml.parse(source, Loader=yaml.CSafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        words = " ".join(part for part in (error.context, error.problem) if part)
        raise _NotYamlError(f"not YAML: {words}", mark.line if mark else 0) from None
    except yaml.YAMLError as error:
        raise _NotYamlError(f"not YAML: {str(error).splitlines()[0]}", 0) from None


class _Frame:
    """A mapping or sequence under construction."""

    __slots__ = ("anchor", "first_node", "key", "merged", "value")

    def __init__(self, value: Any, anchor: str | None, first_node: int) -> None:
        self.value = value
        self.anchor = anchor
        self.first_node = first_node
        self.key: Any = None
        self.merged: set[str] = set()
        """Keys that came from a merge key (`<<`); a key in the mapping itself overrides them."""


class _Builder:
    """Builds plain values from events without recursion, so that depth and size can be limited."""

    def __init__(self) -> None:
        self.result: Any = None
        self._stack: list[_Frame] = []
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._nodes = 0
        self._copied = 0
        self._handlers: dict[type, Callable[[Any], None]] = {
            yaml.ScalarEvent: self._scalar,
            yaml.AliasEvent: self._alias,
            yaml.MappingStartEvent: self._start,
            yaml.SequenceStartEvent: self._start,
            yaml.MappingEndEvent: self._end,
            yaml.SequenceEndEvent: self._end,
        }

    def run(self, source: str) -> Any:
        for event in _events(source):
            handler = self._handlers.get(type(event))
            if handler:
                handler(event)
        return self.result

    def _scalar(self, event: Any) -> None:
        self._nodes += 1
        try:
            value = plain_value(event.value, event.tag, is_plain=event.implicit[0])
        except NotJsonError as error:
            raise _BadInputError(str(error), event.start_mark.line) from None
        if event.anchor:
            self._anchors[event.anchor] = (value, 1)
        if value == "<<" and event.implicit[0] and self._expects_key():
            value = _MERGE
        self._place(value, event)

    def _alias(self, event: Any) -> None:
        if event.anchor not in self._anchors:
            raise _BadInputError(f"alias *{event.anchor} names nothing above it", event.start_mark.line)
        value, nodes = self._anchors[event.anchor]
        self._copied += nodes
        if self._copied > MOST_NODES_FROM_ALIASES:
            raise _BadInputError("aliases repeat too much of the document", event.start_mark.line)
        self._nodes += nodes
        self._place(copy.deepcopy(value), event)

    def _start(self, event: Any) -> None:
        if len(self._stack) >= DEEPEST:
            raise _BadInputError(f"nested more than {DEEPEST} levels deep", event.start_mark.line)
        if self._expects_key():
            raise _BadInputError("a key must be a plain text", event.start_mark.line)
        self._nodes += 1
        value: Any = {} if type(event) is yaml.MappingStartEvent else []
        self._stack.append(_Frame(value, event.anchor, self._nodes))

    def _end(self, event: Any) -> None:
        frame = self._stack.pop()
        if frame.anchor:
            self._anchors[frame.anchor] = (frame.value, self._nodes - frame.first_node + 1)
        self._place(frame.value, event)

    def _expects_key(self) -> bool:
        return bool(self._stack) and self._stack[-1].key is None and type(self._stack[-1].value) is dict

    def _place(self, value: Any, event: Any) -> None:
        if not self._stack:
            self.result = value
            return
        frame = self._stack[-1]
        if type(frame.value) is list:
            frame.value.append(value)
        elif frame.key is None:
            frame.key = self._checked_key(frame, value, event)
        else:
            if frame.key is _MERGE:
                _merge(frame, value, event)
            else:
                frame.value[frame.key] = value
            frame.key = None

    def _checked_key(self, frame: _Frame, value: Any, event: Any) -> Any:
        if value is _MERGE:
            return value
        if isinstance(value, dict | list):
            raise _BadInputError("a key must be a plain text", event.start_mark.line)
        key = key_text(value)
        if key in frame.value and key not in frame.merged:
            raise _BadInputError(f"key {key!r} is written twice", event.start_mark.line)
        frame.merged.discard(key)
        return key


def _merge(frame: _Frame, value: Any, event: Any) -> None:
    sources = value if isinstance(value, list) else [value]
    if not all(isinstance(source, dict) for source in sources):
        raise _BadInputError("<< needs a mapping", event.start_mark.line)
    for source in sources:
        for key, inner in source.items():
            if key not in frame.value:
                frame.value[key] = inner
                frame.merged.add(key)


def _build(source: str) -> Object | None:
    try:
        value = _Builder().run(source)
    except _NotYamlError:
        value = _json(source)
        if value is None:
            raise
    if value is None or isinstance(value, dict):
        return value
    raise _BadInputError("a manifest is a mapping with apiVersion, kind and metadata", _content_line(source))


def _json(source: str) -> Any:
    """Parse JSON that the YAML parser refuses, such as keys beyond 1,024 characters."""
    try:
        return msgspec.json.decode(source.removeprefix("---"))
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return None


def _steps(path: str) -> list[str | int]:
    """The steps of a path such as `spec.podSets[0].count` or `spec.nodeLabels[a.b/c]`."""
    steps: list[str | int] = []
    for name, index in re.findall(r"([^.\[\]]+)|\[([^\]]*)\]", path):
        steps.append(name or (int(index) if index.isdecimal() else index))
    return steps


@functools.lru_cache(maxsize=8)
def _composed(source: str) -> Any:
    return yaml.compose(source, Loader=yaml.CSafeLoader)


def _find_line(source: str, steps: list[str | int]) -> int:
    line = _content_line(source)
    try:
        node = _composed(source)
    except yaml.YAMLError:
        return line
    position = 0
    while position < len(steps):
        child = _child(node, steps, position)
        if child is None:
            break
        line, node, position = child
    return line


def _child(node: Any, steps: list[str | int], position: int) -> tuple[int, Any, int] | None:
    """The line, the node and the next position, one step down.

    A key that contains dots takes several steps at once.
    """
    step = steps[position]
    if isinstance(node, yaml.SequenceNode):
        if isinstance(step, int) and step < len(node.value):
            item = node.value[step]
            return item.start_mark.line, item, position + 1
        return None
    if isinstance(node, yaml.MappingNode):
        keys = {key.value: (key.start_mark.line, value) for key, value in node.value}
        for end in range(len(steps), position, -1):
            name = ".".join(str(part) for part in steps[position:end])
            if name in keys:
                return (*keys[name], end)
    return None
