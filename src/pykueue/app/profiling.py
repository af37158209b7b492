"""Stacks and profiles of a running process, over HTTP at `pprofBindAddress`.

The paths are those of Go's pprof, the content is plain text. `goroutine` prints the stack of every
thread and asyncio task. `profile?seconds=N` samples the threads and prints folded stacks, which
flamegraph.pl and speedscope.app read. Nothing is measured before a request asks for it.
"""

import asyncio
import sys
import threading
import time
import traceback
from collections import Counter
from types import FrameType

import click
from aiohttp import web

_OFF = ("", "0")
_INDEX = "goroutine: the stacks of all threads and tasks\nprofile?seconds=N: folded stacks of N seconds, sampled\n"
_DEFAULT_SECONDS = 30.0
_LONGEST_SECONDS = 600.0
_SAMPLES_PER_SECOND = 100


class ProfilingServer:
    """Listens on `host:port`; the addresses "" and "0" turn it off."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        if self._address in _OFF:
            return
        application = web.Application()
        application.router.add_get("/debug/pprof/", _index)
        application.router.add_get("/debug/pprof/goroutine", _stacks)
        application.router.add_get("/debug/pprof/profile", _profile)
        self._runner = web.AppRunner(application, access_log=None)
        await self._runner.setup()
        host, _, port = self._address.rpartition(":")
        try:
            await web.TCPSite(self._runner, host.strip("[]") or None, int(port)).start()
        except (OSError, ValueError) as error:
            hint = "set pprofBindAddress in the configuration to HOST:PORT"
            raise click.ClickException(f"cannot listen on {self._address}: {error}; {hint}") from None

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()


async def _index(_request: web.Request) -> web.Response:
    return web.Response(text=_INDEX)


async def _stacks(_request: web.Request) -> web.Response:
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    parts = [
        f"thread {names.get(ident, ident)}\n{''.join(traceback.format_stack(frame))}"
        for ident, frame in sys._current_frames().items()  # noqa: SLF001 - a documented function
    ]
    for task in sorted(asyncio.all_tasks(), key=lambda task: task.get_name()):
        frames = "".join("".join(traceback.format_stack(frame)) for frame in task.get_stack())
        parts.append(f"task {task.get_name()} {getattr(task.get_coro(), '__qualname__', '')}\n{frames}")
    return web.Response(text="\n".join(parts))


async def _profile(request: web.Request) -> web.Response:
    text = request.query.get("seconds", str(_DEFAULT_SECONDS))
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds <= _LONGEST_SECONDS:
        message = f"seconds={text} is not a number of seconds up to {_LONGEST_SECONDS:g}\n"
        return web.Response(text=message, status=400)
    samples = await asyncio.to_thread(_sample, seconds)
    return web.Response(text="".join(f"{stack} {count}\n" for stack, count in sorted(samples.items())))


def _sample(seconds: float) -> Counter[str]:
    """Count the stacks of all threads but this one."""
    samples: Counter[str] = Counter()
    own, end = threading.get_ident(), time.monotonic() + seconds
    while time.monotonic() < end:
        for ident, frame in sys._current_frames().items():  # noqa: SLF001 - a documented function
            if ident != own:
                samples[_folded(frame)] += 1
        time.sleep(1 / _SAMPLES_PER_SECOND)
    return samples


def _folded(frame: FrameType | None) -> str:
    names: list[str] = []
    while frame is not None:
        names.append(f"{frame.f_globals.get('__name__', '?')}.{frame.f_code.co_qualname}")
        frame = frame.f_back
    return ";".join(reversed(names))
