"""The files that `-f` names: files, folders and standard input."""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from pykueue.api import manifests
from pykueue.api.manifests import Document, ManifestError

_SUFFIXES = (".yaml", ".yml", ".json")


def read(names: Iterable[str]) -> tuple[list[Document], list[ManifestError]]:
    """All documents of the files, and an error for each one that cannot be read."""
    documents: list[Document] = []
    faults: list[ManifestError] = []
    for name, data in _inputs(names):
        file_documents, file_faults = manifests.read(data, name)
        documents += file_documents
        faults += file_faults
    return documents, faults


def _inputs(names: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    for name in names:
        if name == "-":
            yield "-", sys.stdin.buffer.read(manifests.LARGEST_BYTES + 1)
            continue
        path = Path(name)
        if path.is_dir():
            for entry in sorted(path.rglob("*")):
                if entry.suffix in _SUFFIXES and entry.is_file():
                    yield str(entry), _read(entry)
        else:
            yield name, _read(path)


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(manifests.LARGEST_BYTES + 1)
    except OSError as error:
        raise click.ClickException(f"{path}: {error.strerror}") from error
