"""Reads manifests in YAML or JSON, with the line of each field for error messages.

Safe against hostile files: expanding aliases, deep nesting, huge files and bytes that are not
UTF-8 give an error with a line, never a crash (`yaml_reader`). Called by every command with `-f`.
"""

import functools
import itertools
import re
from collections.abc import Iterator
from typing import Any

import msgspec
import yaml
from msgspec.structs import replace

from pykueue.api import json_text, yaml_reader
from pykueue.api.scheme import Object
from pykueue.api.yaml_reader import NotYamlError, YamlError

LARGEST_BYTES = 64 * 2**20
_DEEPEST_PATH = 2 * json_text.DEEPEST

_SEPARATOR = re.compile(r"^---(?=\s|$)", re.MULTILINE)


class ManifestError(msgspec.Struct, frozen=True, kw_only=True):
    """A document that could not be read."""

    file: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.message}"


class Document(msgspec.Struct, frozen=True, kw_only=True):
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
    except YamlError as bad:
        return [], [ManifestError(file=file, line=bad.line + 1, message=bad.message)]
    documents: list[Document] = []
    faults: list[ManifestError] = []
    for first_line, source in _split(text):
        try:
            value = _build(source)
        except YamlError as bad:
            faults.append(ManifestError(file=file, line=first_line + bad.line, message=bad.message))
            continue
        if value is not None:
            line = first_line + _content_line(source)
            document = Document(object=value, file=file, line=line, source=source, first_line=first_line)
            documents.extend(_items(document))
    return documents, faults


def _decoded(data: bytes | str) -> str:
    if len(data) > LARGEST_BYTES:
        raise YamlError(f"the file is larger than {LARGEST_BYTES // 2**20} MiB", 0)
    if isinstance(data, str):
        return data.removeprefix("\ufeff")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start)
        raise YamlError(f"not UTF-8 text: byte 0x{data[error.start]:02x}", line) from None


def _split(text: str) -> Iterator[tuple[int, str]]:
    """The number of the first line and the text of each document."""
    starts = [0, *(match.start() for match in _SEPARATOR.finditer(text)), len(text)]
    line = 1
    for start, end in itertools.pairwise(starts):
        source = text[start:end]
        if any(row and row[0] not in "#%" for row in map(str.strip, source.removeprefix("---").splitlines())):
            yield line, source
        line += source.count("\n")


@functools.lru_cache(maxsize=8)
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


def _refuse_repeated_key(key: str, line: int) -> None:
    raise YamlError(f"key {key!r} is written twice", line)


def _build(source: str) -> Object | None:
    try:
        value = yaml_reader.read(source, _refuse_repeated_key)
    except NotYamlError:
        value = _json(source)
        if value is None:
            raise
    if value is None or isinstance(value, dict):
        return value
    raise YamlError("a manifest is a mapping with apiVersion, kind and metadata", _content_line(source))


def _json(source: str) -> Any:
    """Parse JSON that the YAML parser refuses, such as keys beyond 1,024 characters."""
    try:
        return json_text.decode(source.removeprefix("---").encode(), yaml_reader.MOST_VALUES)
    except ValueError:
        return None


def _steps(path: str) -> list[str | int]:
    """The steps of a path such as `spec.podSets[0].count` or `spec.nodeLabels[a.b/c]`."""
    steps: list[str | int] = []
    for name, index in re.findall(r"([^.\[\]]+)|\[([^\[\]]*)\]", path):
        steps.append(name or (int(index) if index.isdecimal() and len(index) < 10 else index))
    return steps[:_DEEPEST_PATH]


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
