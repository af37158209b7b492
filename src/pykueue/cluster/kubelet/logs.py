"""Container logs as `kubectl logs` asks for them: whole or the tail, of this attempt or the one before, followed or not."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pykueue.api import errors, objects
from pykueue.api.scheme import Object

_CHUNK = 1 << 16
_LOOK_SECONDS = 0.1

LogOf = Callable[[Object, str, int], Path | bytes | None]
"""Pod, container name, attempt: its log, a file or its whole text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    container: str = ""
    follow: bool = False
    previous: bool = False
    tail_lines: int | None = None
    limit_bytes: int | None = None

    @classmethod
    def parse(cls, query: Mapping[str, str]) -> "Query":
        def number(name: str) -> int | None:
            text = query.get(name, "")
            if text and not text.isdecimal():
                raise errors.bad_request(f"{name}: {text!r} is not a number")
            return int(text) if text else None

        return cls(
            container=query.get("container", ""),
            follow=query.get("follow") in ("true", "1"),
            previous=query.get("previous") in ("true", "1"),
            tail_lines=number("tailLines"),
            limit_bytes=number("limitBytes"),
        )


def container_status(pod: Object, query: Query) -> Object:
    """The status of the container that is meant; ApiError 400 as the API server words it."""
    names = [found["name"] for key in ("containers", "initContainers") for found in pod["spec"].get(key) or ()]
    mains = [found["name"] for found in pod["spec"]["containers"]]
    name = query.container or (mains[0] if len(names) == 1 else "")
    if not name:
        shown = f"choose one of: [{' '.join(mains)}]"
        raise errors.bad_request(f"a container name must be specified for pod {objects.name(pod)}, {shown}")
    if name not in names:
        raise errors.bad_request(f"container {name} is not valid for pod {objects.name(pod)}")
    status = pod.get("status", {})
    for shown_status in [*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())]:
        if shown_status["name"] == name:
            return dict(shown_status)
    return {"name": name, "state": {"waiting": {"reason": "ContainerCreating"}}, "restartCount": 0}


def find(pod: Object, query: Query, log_of: LogOf) -> Path | bytes:
    """The log that is asked for; ApiError 400 while there is none."""
    status = container_status(pod, query)
    name, attempt = status["name"], int(status.get("restartCount", 0))
    if query.previous:
        found = log_of(pod, name, attempt - 1) if attempt else None
        if found is None:
            raise errors.bad_request(f'previous terminated container "{name}" in pod "{objects.name(pod)}" not found')
        return found
    found = log_of(pod, name, attempt)
    waiting = (status.get("state") or {}).get("waiting")
    if found is None and attempt:
        found = log_of(pod, name, attempt - 1)
    if found is None:
        reason = (waiting or {}).get("reason", "ContainerCreating")
        raise errors.bad_request(f'container "{name}" in pod "{objects.name(pod)}" is waiting to start: {reason}')
    return found


async def stream(found: Path | bytes, query: Query, is_running: Callable[[], bool]) -> AsyncIterator[bytes]:
    """The bytes of the log; with `follow` until the container no longer runs and everything was read."""
    left = query.limit_bytes
    async for chunk in _chunks(found, query, is_running):
        piece = chunk if left is None else chunk[:left]
        if piece:
            yield piece
        if left is not None:
            left -= len(piece)
            if left <= 0:
                return


async def _chunks(found: Path | bytes, query: Query, is_running: Callable[[], bool]) -> AsyncIterator[bytes]:
    if isinstance(found, bytes):
        yield b"".join(tail(found, query.tail_lines))
        return
    with found.open("rb") as file:
        if query.tail_lines is not None:
            file.seek(_tail_offset(found, query.tail_lines))
        while True:
            was_running = is_running()
            for chunk in iter(lambda: file.read(_CHUNK), b""):
                yield chunk
            if not query.follow or not was_running:
                return
            await asyncio.sleep(_LOOK_SECONDS)


def tail(text: bytes, lines: int | None) -> list[bytes]:
    kept = text.splitlines(keepends=True)
    return kept if lines is None else kept[len(kept) - lines :] if lines else []


def _tail_offset(path: Path, lines: int) -> int:
    """Where the last lines begin: found by reading blocks backwards."""
    size = path.stat().st_size
    if lines == 0:
        return size
    with path.open("rb") as file:
        data = b""
        for block in itertools.count(1):
            start = max(0, size - block * _CHUNK)
            file.seek(start)
            data = file.read(size - start)
            kept = data.splitlines(keepends=True)
            if start == 0 or len(kept) > lines:
                return size - sum(map(len, kept[-lines:]))
    return 0
