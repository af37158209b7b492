"""Comparison of two recordings of a story, and the consolidation of several into a golden file."""

import fnmatch
import json
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Json = dict[str, Any]

TOLERANCES = ("events", "messages", "warnings", "requests", "evictions", "job-conditions")
_NOT_COMPARED = frozenset(
    ("claim", "story", "variant", "unstable", "unstableEvents", "events", "runs", "otherEvents", "needs")
)
_ABSENT = "<absent>"
_UNSEEN = "<uid>"
_NAMED_UID = re.compile(r"<uid of [^>]*>")
_EMPTY: tuple[Any, ...] = ([], {}, _ABSENT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    path: str
    """A field (`/observations/label/…`), or `event missing` or `event extra`."""
    golden: Any = _ABSENT
    recorded: Any = _ABSENT

    def __str__(self) -> str:
        if self.path.startswith("event "):
            return f"{self.path}: {self.golden if self.path == 'event missing' else self.recorded}"
        return f"{self.path}\n      golden: {json.dumps(self.golden)}\n      got:    {json.dumps(self.recorded)}"


def differences(golden: Json, recorded: Json, tolerances: Collection[str] = ()) -> list[Difference]:
    """All fields and events that differ, but for those that the golden file marks as unstable."""
    unstable = golden.get("unstable") or []
    expected, actual = _fields(golden), _fields(recorded)
    found = [
        Difference(path=path, golden=expected.get(path, _ABSENT), recorded=actual.get(path, _ABSENT))
        for path in sorted(expected.keys() | actual.keys())
        if not any(_matches(path, pattern) for pattern in unstable) and not _is_tolerated(path, tolerances)
    ]
    fields = [entry for entry in found if not _is_equal(entry.golden, entry.recorded)]
    return fields if "events" in tolerances else fields + _event_differences(golden, recorded, tolerances)


def _is_equal(golden: Any, recorded: Any) -> bool:
    """An empty list or object equals an absent field."""
    return golden == recorded or (_ABSENT in (golden, recorded) and golden in _EMPTY and recorded in _EMPTY)


def _matches(path: str, pattern: str) -> bool:
    return path == pattern or path.startswith(f"{pattern}/") or ("*" in pattern and fnmatch.fnmatchcase(path, pattern))


def _is_tolerated(path: str, tolerances: Collection[str]) -> bool:
    return (
        ("messages" in tolerances and path.endswith("/message"))
        or ("warnings" in tolerances and path.startswith("/warnings"))
        or ("requests" in tolerances and "/resourceRequests" in path)
        or ("evictions" in tolerances and "/evictions" in path)
        or ("job-conditions" in tolerances and "/jobs/" in path and "/conditions" in path)
    )


def _event_differences(golden: Json, recorded: Json, tolerances: Collection[str]) -> list[Difference]:
    def events(document: Json, key: str) -> set[str]:
        texts = document.get(key) or []
        return {text.split(": ")[0] if "messages" in tolerances else text for text in texts}

    unstable = events(golden, "unstableEvents")

    def is_stable(event: str) -> bool:
        patterns = (pattern for pattern in unstable if "*" in pattern)
        return event not in unstable and not any(fnmatch.fnmatchcase(event, pattern) for pattern in patterns)

    expected, actual = events(golden, "events"), events(recorded, "events")
    missing = [
        Difference(path="event missing", golden=event)
        for event in sorted(filter(is_stable, _unpaired(expected, actual)))
    ]
    extra = [
        Difference(path="event extra", recorded=event)
        for event in sorted(filter(is_stable, _unpaired(actual, expected)))
    ]
    return missing + extra


def _unpaired(texts: set[str], others: set[str]) -> set[str]:
    """The texts that the others lack.

    An object that is gone before the player looks has no name: then `<uid>` equals any UID.
    """
    unseen = {_without_names(other) for other in others if _UNSEEN in other}
    seen = {_without_names(other) for other in others}
    return {text for text in texts - others if _without_names(text) not in (seen if _UNSEEN in text else unseen)}


def _without_names(text: str) -> str:
    return _NAMED_UID.sub(_UNSEEN, text)


def _fields(document: Json) -> dict[str, Any]:
    return _flatten({key: value for key, value in document.items() if key not in _NOT_COMPARED})


def _flatten(value: Any, path: str = "") -> dict[str, Any]:
    """Leaves by path; elements of a list are named by their label, type or name if they have one."""
    if isinstance(value, dict) and value:
        entries: Iterable[tuple[Any, Any]] = value.items()
    elif isinstance(value, list) and value:
        has_names = all(isinstance(item, dict) and item.keys() & {"type", "label", "name"} for item in value)
        entries = (
            (item.get("label") or item.get("type") or item.get("name") if has_names else index, item)
            for index, item in enumerate(value)
        )
    else:
        return {path: value}
    leaves: dict[str, Any] = {}
    for key, item in entries:
        leaves |= _flatten(item, f"{path}/{str(key).replace('/', '|')}")
    return leaves


def recordings(directory: Path) -> dict[str, Path]:
    """The files of a folder of recordings, by `variant/story.json`."""
    return {file.relative_to(directory).as_posix(): file for file in sorted(directory.rglob("*.json"))}


def load(file: Path) -> Json:
    document: Json = json.loads(file.read_text())
    return document


def save(file: Path, document: Json) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n")


def consolidate(runs: list[Json]) -> Json:
    """The first run, with the list of fields and events that were not the same in all runs."""
    fields = [_fields(run) for run in runs]
    unstable = {
        path
        for path in set().union(*fields)
        if len({json.dumps(run.get(path, _ABSENT), sort_keys=True) for run in fields}) > 1
    }
    events = [set(run.get("events") or ()) for run in runs]
    common = set.intersection(*events)
    return {
        **runs[0],
        "events": sorted(common),
        "runs": len(runs),
        "unstable": sorted(unstable.union(*(run.get("unstable") or () for run in runs))),
        "unstableEvents": sorted(
            (set().union(*events) - common).union(*(run.get("unstableEvents") or () for run in runs))
        ),
    }
