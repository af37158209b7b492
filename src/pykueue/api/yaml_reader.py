"""Reads one YAML document from a text. Its cost grows with its length and with nothing else.

The events of the parser are read one by one, so that depth, aliases and expanded size are counted
before a value is built; PyYAML's own composer calls itself in C for every level. Values are read
as `kubectl` reads them: `yes` is true, `0644` is 420 and a date stays a string. Used by
`manifests` for files, by the API server for bodies, and for YAML in fields of objects.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

import yaml

from pykueue.api.json_copy import copied
from pykueue.api.json_text import DEEPEST
from pykueue.api.yaml_text import NotJsonError, key_text, plain_value

MOST_VALUES = 20_000_000
LARGEST_FIELD = 64 * 1024
"""Characters of a document in a field of an object, and 5,000 values: some 20 ms of work."""
MOST_FIELD_VALUES = 5000
MOST_NODES_FROM_ALIASES = 100_000
LARGEST_GROWTH_BYTES = 2**20
"""How much longer than its text a document may become by its aliases."""
_MOST_TAG_DIRECTIVES = 16
"""The parser compares each tag directive with all before."""

_TAG_DIRECTIVE = re.compile("^%TAG", re.MULTILINE)
_MERGE = object()


class YamlError(Exception):
    """The text cannot be read. `line` counts from 0."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.message = message
        self.line = line


class NotYamlError(YamlError):
    """The text is not YAML."""


def read(text: str, on_repeated_key: Callable[[str, int], None], most_values: int = MOST_VALUES) -> Any:
    """The value of the only document; None if there is none.

    `on_repeated_key` gets a key that a mapping has twice, and its line; the last value counts.
    """
    if len(_TAG_DIRECTIVE.findall("\n".join(text.splitlines()) if "%TAG" in text else "")) > _MOST_TAG_DIRECTIVES:
        raise YamlError(f"more than {_MOST_TAG_DIRECTIVES} tag directives", 0)
    return _Builder(on_repeated_key, most_values).run(text)


def read_field(text: str) -> Any:
    """The value of a YAML document that is the text of a field, which controllers read."""
    if len(text) > LARGEST_FIELD:
        raise YamlError(f"longer than {LARGEST_FIELD} characters", 0)
    return read(text, lambda _key, _line: None, MOST_FIELD_VALUES)


def _events(text: str) -> Iterator[Any]:
    """The events of the YAML parser; its errors become `NotYamlError`."""
    try:
        yield from yaml.parse(text, Loader=yaml.CSafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        words = " ".join(part for part in (error.context, error.problem) if part)
        raise NotYamlError(f"not YAML: {words}", mark.line if mark else 0) from None
    except yaml.YAMLError as error:
        raise NotYamlError(f"not YAML: {str(error).splitlines()[0]}", 0) from None
    except UnicodeEncodeError:
        raise NotYamlError("not YAML: the text has a surrogate, which is no character", 0) from None


class _Frame:
    """A mapping or sequence under construction."""

    __slots__ = ("anchor", "first_node", "first_size", "key", "merged", "value")

    def __init__(self, value: Any, anchor: str | None, first_node: int, first_size: int) -> None:
        self.value = value
        self.anchor = anchor
        self.first_node = first_node
        self.first_size = first_size
        self.key: Any = None
        self.merged: set[str] = set()
        """Keys that came from a merge key (`<<`); a key in the mapping itself overrides them."""


class _Builder:
    """Builds plain values from events without recursion."""

    def __init__(self, on_repeated_key: Callable[[str, int], None], most_values: int) -> None:
        self.result: Any = None
        self._most_values = most_values
        self._on_repeated_key = on_repeated_key
        self._stack: list[_Frame] = []
        self._anchors: dict[str, tuple[Any, int, int]] = {}
        """The value, the number of nodes and the size of each anchor."""
        self._nodes = self._size = 0
        self._copied_nodes = self._copied_size = 0
        self._documents = 0
        self._handlers: dict[type, Callable[[Any], None]] = {
            yaml.DocumentStartEvent: self._document,
            yaml.ScalarEvent: self._scalar,
            yaml.AliasEvent: self._alias,
            yaml.MappingStartEvent: self._start,
            yaml.SequenceStartEvent: self._start,
            yaml.MappingEndEvent: self._end,
            yaml.SequenceEndEvent: self._end,
        }

    def run(self, text: str) -> Any:
        for event in _events(text):
            handler = self._handlers.get(type(event))
            if handler:
                handler(event)
        return self.result

    def _document(self, event: Any) -> None:
        self._documents += 1
        if self._documents > 1:
            raise YamlError("expected one document, but there is another", event.start_mark.line)

    def _scalar(self, event: Any) -> None:
        size = len(event.value) + 1
        self._nodes += 1
        self._size += size
        try:
            value = plain_value(event.value, event.tag, is_plain=event.implicit[0])
        except NotJsonError as error:
            raise YamlError(str(error), event.start_mark.line) from None
        if event.anchor:
            self._anchors[event.anchor] = (value, 1, size)
        if value == "<<" and event.implicit[0] and self._expects_key():
            value = _MERGE
        self._place(value, event)

    def _alias(self, event: Any) -> None:
        if event.anchor not in self._anchors:
            raise YamlError(f"alias *{event.anchor} names nothing above it", event.start_mark.line)
        value, nodes, size = self._anchors[event.anchor]
        self._copied_nodes += nodes
        self._copied_size += size
        if self._copied_nodes > MOST_NODES_FROM_ALIASES or self._copied_size > LARGEST_GROWTH_BYTES:
            raise YamlError("aliases repeat too much of the document", event.start_mark.line)
        if isinstance(value, dict | list):
            self._check_depth_of_alias(value, event)
            value = copied(value)
        self._nodes += nodes
        self._size += size
        self._place(value, event)

    def _check_depth_of_alias(self, value: Any, event: Any) -> None:
        """Aliases of aliases may nest deeper than any part of the text."""
        level, depth = [value], len(self._stack)
        while level:
            depth += 1
            if depth > DEEPEST:
                raise YamlError(f"nested more than {DEEPEST} levels deep", event.start_mark.line)
            containers = (inner.values() if isinstance(inner, dict) else inner for inner in level)
            level = [inner for values in containers for inner in values if isinstance(inner, dict | list)]

    def _start(self, event: Any) -> None:
        if len(self._stack) >= DEEPEST:
            raise YamlError(f"nested more than {DEEPEST} levels deep", event.start_mark.line)
        if self._expects_key():
            raise YamlError("a key must be a plain text", event.start_mark.line)
        value: Any = {} if type(event) is yaml.MappingStartEvent else []
        self._stack.append(_Frame(value, event.anchor, self._nodes, self._size))
        self._nodes += 1
        self._size += 1

    def _end(self, event: Any) -> None:
        frame = self._stack.pop()
        if frame.anchor:
            self._anchors[frame.anchor] = (frame.value, self._nodes - frame.first_node, self._size - frame.first_size)
        self._place(frame.value, event)

    def _expects_key(self) -> bool:
        return bool(self._stack) and self._stack[-1].key is None and type(self._stack[-1].value) is dict

    def _place(self, value: Any, event: Any) -> None:
        if self._nodes > self._most_values:
            raise YamlError(f"more than {self._most_values} values", event.start_mark.line)
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
            raise YamlError("a key must be a plain text", event.start_mark.line)
        key = key_text(value)
        if key in frame.value and key not in frame.merged:
            self._on_repeated_key(key, event.start_mark.line)
        frame.merged.discard(key)
        return key


def _merge(frame: _Frame, value: Any, event: Any) -> None:
    sources = value if isinstance(value, list) else [value]
    if not all(isinstance(source, dict) for source in sources):
        raise YamlError("<< needs a mapping", event.start_mark.line)
    for source in sources:
        for key, inner in source.items():
            if key not in frame.value:
                frame.value[key] = inner
                frame.merged.add(key)
