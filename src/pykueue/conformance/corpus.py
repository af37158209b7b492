"""Reads recordings: files with one JSON case on each line, plain or compressed."""

import gzip
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

Case = dict[str, Any]

ENDINGS = (".jsonl", ".jsonl.gz")
DECISIONS = "decisions"
"""The suite of cases without a suite: scenarios with their recorded cycles."""


class CorpusError(Exception):
    """A file is missing or is not a recording; the message names the file and the line."""


def recordings(paths: Iterable[Path]) -> list[Path]:
    """The recordings in files and folders; those of a folder are sorted by name."""
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = sorted(entry for entry in path.rglob("*") if entry.name.endswith(ENDINGS))
            if not inside:
                raise CorpusError(f"{path}: no recordings in this folder (files ending in {' or '.join(ENDINGS)})")
            files += inside
        elif not path.exists():
            raise CorpusError(f"{path}: no such file or folder")
        elif path.name.endswith(ENDINGS):
            files.append(path)
        else:
            raise CorpusError(f"{path}: not a recording; its name must end in {' or '.join(ENDINGS)}")
    return files


def name_of(path: Path) -> str:
    return path.name.removesuffix(".gz").removesuffix(".jsonl")


def cases(path: Path) -> Iterator[Case]:
    decoder = msgspec.json.Decoder(dict[str, Any])
    try:
        with gzip.open(path, "rb") if path.name.endswith(".gz") else path.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                yield _decoded(decoder, line, f"{path}:{number}")
    except (OSError, EOFError, zlib.error) as error:
        raise CorpusError(f"{path}: cannot be read: {error}") from error


def _decoded(decoder: msgspec.json.Decoder[Case], line: bytes, where: str) -> Case:
    try:
        return decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CorpusError(f"{where}: {error}") from error


def suite_of(case: Case) -> str:
    return str(case.get("suite") or (DECISIONS if "scenario" in case else ""))


def title_of(case: Case) -> str:
    return str(case.get("name") or case.get("id") or "unnamed")


def feature_gates(case: Case) -> dict[str, bool]:
    return dict((case.get("config") or {}).get("featureGates") or {})
