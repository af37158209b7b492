"""Ends streams (watches, logs, exec, port-forward) whose user has lost the right to them.

A request is authorized when it starts. A stream may last for days, so its token and its access are
checked again and again; a removed user is out after seconds.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import msgspec

from pykueue.api.errors import ApiError
from pykueue.apiserver.http.app import Application
from pykueue.apiserver.http.messages import HttpRequest

_PAUSE_SECONDS = 5.0


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ActiveStream:
    request: HttpRequest
    credentials: Mapping[str, list[str]]
    abort: Callable[[], None]


class Revocation:
    def __init__(self, application: Application) -> None:
        self._application = application
        self._streams: set[ActiveStream] = set()

    @contextlib.contextmanager
    def watching(self, stream: ActiveStream) -> Iterator[None]:
        """Check the stream until the end of the block."""
        self._streams.add(stream)
        try:
            yield
        finally:
            self._streams.discard(stream)

    async def run(self) -> None:
        while True:
            await asyncio.sleep(_PAUSE_SECONDS)
            self.check()

    def check(self) -> None:
        """Abort the streams that would be refused if they started now."""
        for stream in list(self._streams):
            request = stream.request
            try:
                user = self._application.identify(request.route.path, stream.credentials)
                self._application.authorize(msgspec.structs.replace(request, user=user))
            except ApiError:
                stream.abort()
