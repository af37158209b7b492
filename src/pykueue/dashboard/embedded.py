"""The page of `pykueue up`: served by the embedded API, which authenticates and authorizes.

The page is opened by a one-time link. It is served without TLS on a port of its own, on the
loopback address only, because a browser warns of the certificate of the API; other machines use
`/dashboard/` of the API.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from pykueue.api import errors
from pykueue.apiserver.http import host_names
from pykueue.apiserver.http.listener import Listener, ListenError
from pykueue.apiserver.http.messages import Handler, HttpRequest, HttpResponse
from pykueue.apiserver.http.priority_levels import queue_of
from pykueue.dashboard import quota_preview, static_files
from pykueue.dashboard.feed import Feed
from pykueue.dashboard.history import History, Totals
from pykueue.dashboard.one_time_codes import OneTimeCodes
from pykueue.dashboard.page_stream import PageStream
from pykueue.dashboard.quota_preview import PreviewChange
from pykueue.dashboard.static_files import PREFIX
from pykueue.kube.delegation import AccessRequest
from pykueue.kube.supervisor import Supervisor

if TYPE_CHECKING:
    from pykueue.apiserver.embedded import EmbeddedApi

HISTORY_FILE = "dashboard-history"
_HOST = "127.0.0.1"
_NO_STORE = {"Cache-Control": "no-store"}


class EmbeddedDashboard:
    """A component of `pykueue up`."""

    def __init__(
        self,
        api: "EmbeddedApi",
        *,
        port: int | None,
        totals: Totals,
        directory: Path,
        preview: PreviewChange | None = None,
    ) -> None:
        """Port 0 takes any free one, and None the one after that of the API."""
        self._api = api
        self._preview = preview
        self._wanted_port = port
        self.port = 0
        self.codes = OneTimeCodes()
        self._feed = Feed(api.client())
        self.history = History(api.client(), totals, directory / HISTORY_FILE)
        self._supervisor = Supervisor()
        self._listener = Listener(api.application, is_own_host=_is_loopback)

    async def start(self) -> None:
        add = self._api.hooks.add_page
        for path, file in static_files.load().items():
            add(path, _page(file), is_public=True)
        add(f"{PREFIX}/stream", self._stream)
        add(f"{PREFIX}/login", self._login, is_public=True, method="POST")
        add(f"{PREFIX}/link", self._link, method="POST")
        add(f"{PREFIX}/preview", self._previewed, method="POST")
        self._supervisor.start("history", self.history.run, restart_seconds=60.0)
        await self._listen()

    async def stop(self) -> None:
        await self._supervisor.stop()
        await self._feed.stop()
        await self._listener.stop()

    async def _listen(self) -> None:
        """If the usual port is taken, any other will do. A port of the options must be free."""
        access = self._api.access
        assert access is not None, "the API has started"
        if self._wanted_port is not None:
            self.port = await self._listener.start(_HOST, self._wanted_port, None)
            return
        usual = int(access.server.rpartition(":")[2]) + 1 if self._api.paths.port else 0
        try:
            self.port = await self._listener.start(_HOST, usual, None)
        except ListenError:
            self._listener = Listener(self._api.application, is_own_host=_is_loopback)
            self.port = await self._listener.start(_HOST, 0, None)

    @property
    def address(self) -> str:
        return f"http://{_HOST}:{self.port}{PREFIX}/"

    def link(self) -> str:
        """A link that logs the administrator in, once."""
        assert self._api.access is not None, "the API has started"
        return f"{self.address}#code={self.codes.create(self._api.access.token)}"

    async def _stream(self, request: HttpRequest) -> HttpResponse:
        async def may_access(access: AccessRequest) -> bool:
            return self._api.authorizer.allows(request.user, access)

        stream = PageStream(
            feed=self._feed, history=self.history, may_access=may_access, user=request.user.name, mode="up"
        )
        return HttpResponse(body=stream.lines(), content_type="application/x-ndjson", headers=_NO_STORE)

    async def _previewed(self, request: HttpRequest) -> HttpResponse:
        async def may_access(access: AccessRequest) -> bool:
            return self._api.authorizer.allows(request.user, access)

        if self._preview is None:
            raise errors.ApiError(404, "NotFound", "there is no preview without controllers", {})
        answer = await quota_preview.answer(request.body, self._preview, may_access, request.user.name)
        return HttpResponse(body=answer, headers=_NO_STORE)

    async def _login(self, request: HttpRequest) -> HttpResponse:
        token = self.codes.redeem(str(request.body.get("code") or ""))
        if token is None:
            raise errors.ApiError(403, "Forbidden", "this link was used before, or is too old", {})
        return HttpResponse(body={"token": token}, headers=_NO_STORE)

    async def _link(self, request: HttpRequest) -> HttpResponse:
        """A code for the user's own token, which the request repeats in its body."""
        token = str(request.body.get("token") or "")
        user = self._api.authenticate(token)
        if user is None or user.name != request.user.name:
            raise errors.bad_request("token: must be the token of the request")
        code = self.codes.create(token, queue_of(user))
        return HttpResponse(body={"code": code, "port": self.port}, headers=_NO_STORE)


def _page(file: static_files.StaticFile) -> Handler:
    headers = {**static_files.HEADERS, "Cache-Control": "no-cache"}

    async def page(_request: HttpRequest) -> HttpResponse:
        return HttpResponse(body=file.data, content_type=file.content_type, headers=headers)

    return page


def _is_loopback(_path: str, host: str) -> bool:
    """Another name that resolves to this machine is an attack on the browser (DNS rebinding)."""
    return host_names.host_name(host) in host_names.LOOPBACK
