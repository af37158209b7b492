"""Container logs for `kubectl logs` and its options container, previous, tail and follow."""

import asyncio
import errno
import os
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from pykueue.api import errors, integers, objects
from pykueue.api.scheme import Object
from pykueue.cluster import pods

_CHUNK = 1 << 16
_POLL_SECONDS = 0.1
_LONGEST_READ = 1 << 30
"""A process may make a hole in its log as long as it likes; zeros before this are not read."""

LogOf = Callable[[Object, str, int], Path | bytes | None]
"""Returns the log of a pod's container and attempt: a file, its whole text, or None."""


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
            return max(integers.signed(text, name), 0) if text else None

        return cls(
            container=query.get("container", ""),
            follow=query.get("follow") in ("true", "1"),
            previous=query.get("previous") in ("true", "1"),
            tail_lines=number("tailLines"),
            limit_bytes=number("limitBytes"),
        )


def container_status(pod: Object, query: Query) -> Object:
    """The status of the queried container; ApiError 400 in the API server's words."""
    containers = pods.containers(pod["spec"])
    names = [container["name"] for container in (*containers, *pods.ephemeral_containers(pod["spec"]))]
    mains = [container["name"] for container in pod["spec"]["containers"]]
    name = query.container or (mains[0] if len(containers) == 1 else "")
    if not name:
        choices = f"choose one of: [{' '.join(mains)}]"
        raise errors.bad_request(f"a container name must be specified for pod {objects.name(pod)}, {choices}")
    if name not in names:
        raise errors.bad_request(f"container {name} is not valid for pod {objects.name(pod)}")
    for candidate in (*pods.container_statuses(pod), *pods.ephemeral_statuses(pod)):
        if candidate["name"] == name:
            return dict(candidate)
    return {"name": name, "state": {"waiting": {"reason": "ContainerCreating"}}, "restartCount": 0}


def find(pod: Object, query: Query, log_of: LogOf) -> Path | bytes:
    """The log that the query selects; ApiError 400 if there is none yet."""
    status = container_status(pod, query)
    name, attempt = status["name"], int(status.get("restartCount", 0))
    if query.previous:
        log = log_of(pod, name, attempt - 1) if attempt else None
        if log is None:
            raise errors.bad_request(f'previous terminated container "{name}" in pod "{objects.name(pod)}" not found')
        return log
    log = log_of(pod, name, attempt)
    waiting = objects.nested(status, "state", "waiting")
    if log is None and attempt:
        log = log_of(pod, name, attempt - 1)
    terminated = objects.nested(status, "state", "terminated") or objects.nested(status, "lastState", "terminated")
    if log is None and terminated:
        cause = terminated.get("message") or f"exit code {terminated.get('exitCode', 0)}"
        reason = f"{terminated.get('reason', 'Error')}: {cause}"
        raise errors.bad_request(f'container "{name}" in pod "{objects.name(pod)}" has no output: {reason}')
    if log is None:
        reason = waiting.get("reason", "ContainerCreating")
        raise errors.bad_request(f'container "{name}" in pod "{objects.name(pod)}" is waiting to start: {reason}')
    return log


async def stream(log: Path | bytes, query: Query, is_running: Callable[[], bool]) -> AsyncIterator[bytes]:
    """The bytes of the log; with `follow`, until the container has ended."""
    remaining = query.limit_bytes
    async for chunk in _chunks(log, query, is_running):
        piece = chunk if remaining is None else chunk[:remaining]
        if piece:
            yield piece
        if remaining is not None:
            remaining -= len(piece)
            if remaining <= 0:
                return


async def _chunks(log: Path | bytes, query: Query, is_running: Callable[[], bool]) -> AsyncIterator[bytes]:
    if isinstance(log, bytes):
        yield b"".join(tail(log, query.tail_lines))
        return
    with log.open("rb") as file:
        file.seek(await asyncio.to_thread(_start_offset, file, query.tail_lines))
        while True:
            was_running = is_running()
            for chunk in iter(lambda: file.read(_CHUNK), b""):
                yield chunk
            if not query.follow or not was_running:
                return
            await asyncio.sleep(_POLL_SECONDS)


def tail(text: bytes, lines: int | None) -> list[bytes]:
    all_lines = text.splitlines(keepends=True)
    return all_lines if lines is None else all_lines[len(all_lines) - lines :] if lines else []


def _start_offset(file: BinaryIO, tail_lines: int | None) -> int:
    return _first_offset(file) if tail_lines is None else _tail_offset(file, tail_lines)


def _first_offset(file: BinaryIO) -> int:
    """The offset of the first line that is left: a log loses its oldest lines to a hole."""
    size = os.fstat(file.fileno()).st_size
    try:
        start = os.lseek(file.fileno(), 0, os.SEEK_DATA)
    except OSError as error:
        start = size if error.errno == errno.ENXIO else 0  # ENXIO: the file is empty, or one hole
    start = max(start, size - _LONGEST_READ)
    if start in (0, size):
        return start
    file.seek(start)
    file.readline(_CHUNK)
    return file.tell()


def _tail_offset(file: BinaryIO, lines: int) -> int:
    """The offset at which the last lines begin. Reads one block after the other from the end."""
    first, size = _first_offset(file), os.fstat(file.fileno()).st_size
    # A newline at the very end belongs to the last line.
    missing, end, ignored = lines, size, 1
    while missing and end > first:
        start = max(first, end - _CHUNK)
        block = os.pread(file.fileno(), end - start, start)
        position, ignored = len(block) - ignored, 0
        while (position := block.rfind(b"\n", 0, position)) >= 0:
            missing -= 1
            if not missing:
                return start + position + 1
        end = start
    return size if not lines else first
