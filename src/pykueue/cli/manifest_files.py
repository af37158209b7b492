"""The files that a command is given: files, folders and standard input."""

import functools
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import click

from pykueue.api import manifests
from pykueue.api.manifests import Document, ManifestError

_SUFFIXES = (".yaml", ".yml", ".json")
_HELP = "A file, a folder (all .yaml, .yml and .json files below it) or - for standard input; may be repeated."


def with_files(default: str = "") -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Let a command take files with and without `-f`, as `names`; at least one or a `default`."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @click.argument("files", nargs=-1, metavar="[FILE]...")
        @click.option("-f", "--filename", "names", multiple=True, help=f"{_HELP} {default}".strip())
        @functools.wraps(command)
        def wrapped(*, files: tuple[str, ...], names: tuple[str, ...], **options: Any) -> None:
            if not default and not files and not names:
                raise click.UsageError("name a file or a folder, or - for standard input")
            command(names=(*names, *files), **options)

        return wrapped

    return decorate


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
            entries = sorted(entry for entry in path.rglob("*") if entry.suffix in _SUFFIXES and entry.is_file())
            if not entries:
                raise click.ClickException(f"{name} has no .yaml, .yml or .json file")
            for entry in entries:
                yield str(entry), _read(entry)
        else:
            yield name, _read(path)


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(manifests.LARGEST_BYTES + 1)
    except OSError as error:
        raise click.ClickException(f"{path}: {error.strerror}") from error
