"""The page of `pykueue controller`, on the loopback address of its pod for port-forwarding.

The cluster's API server authenticates users (TokenReview) and decides what they may list
(SubjectAccessReview). Every other request of the page is passed on to it with the user's own
token.
"""

import logging
from typing import Any

from aiohttp import web

from pykueue.api.errors import ApiError, bad_request, unauthorized
from pykueue.apiserver.http import host_names
from pykueue.dashboard import quota_preview, static_files
from pykueue.dashboard.feed import Feed
from pykueue.dashboard.history import History, Totals
from pykueue.dashboard.page_stream import PageStream
from pykueue.dashboard.quota_preview import PreviewChange
from pykueue.dashboard.static_files import PREFIX
from pykueue.kube import server_header
from pykueue.kube.access import Access
from pykueue.kube.client import Client
from pykueue.kube.delegation import AccessRequest, AuthenticatedUser, DelegatedAuth
from pykueue.kube.forwarding import Forwarder

log = logging.getLogger(__name__)

_HOST = "127.0.0.1"
_SCOPE_SECONDS = 60.0
_LARGEST_BODY_BYTES = 3 * 1024 * 1024


class ClusterDashboard:
    def __init__(
        self, client: Client, access: Access, totals: Totals, *, port: int, preview: PreviewChange | None = None
    ) -> None:
        self._preview = preview
        self._delegation = DelegatedAuth(client)
        self._access = access
        self._wanted_port = port
        self._feed = Feed(client)
        self._history = History(client, totals)
        self._forwarder: Forwarder | None = None
        self._runner: web.AppRunner | None = None

    @property
    def port(self) -> int:
        assert self._runner is not None
        return int(self._runner.addresses[0][1])

    async def run(self) -> None:
        """Serve until cancelled. If the port is taken, log a warning; the controllers run on."""
        try:
            await self.start()
            await self._history.run()
        finally:
            await self.stop()

    async def start(self) -> None:
        self._forwarder = Forwarder(self._access)
        server_header.hide_versions()
        self._runner = web.AppRunner(self._application(), access_log=None)
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, _HOST, self._wanted_port).start()
            log.info("the page is served at http://%s:%d%s/", _HOST, self.port, PREFIX)
        except OSError as error:
            log.warning("the page is not served: %s; choose another --dashboard-port", error)

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
        await self._feed.stop()
        if self._forwarder is not None:
            await self._forwarder.close()

    def _application(self) -> web.Application:
        application = web.Application(middlewares=[_guarded], client_max_size=_LARGEST_BODY_BYTES)
        for path, file in static_files.load().items():
            application.router.add_get(path, _page(file))
        application.router.add_get(f"{PREFIX}/stream", self._stream)
        application.router.add_post(f"{PREFIX}/preview", self._previewed)
        for prefix in ("/api", "/apis"):
            application.router.add_route("*", prefix + "/{rest:.*}", self._forward)
        return application

    async def _user(self, request: web.Request) -> AuthenticatedUser | None:
        return await self._delegation.user(None, {"Authorization": request.headers.getall("Authorization", [])})

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        user = await self._user(request)
        if user is None:
            raise unauthorized()

        async def may_access(access: AccessRequest) -> bool:
            return await self._delegation.is_allowed(user, access)

        async def is_still_valid() -> bool:
            return await self._user(request) is not None

        stream = PageStream(
            feed=self._feed,
            history=self._history,
            may_access=may_access,
            user=user.name,
            mode="controller",
            scope_seconds=_SCOPE_SECONDS,
            is_still_valid=is_still_valid,
        )
        response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson", "Cache-Control": "no-store"})
        await response.prepare(request)
        async for line in stream.lines():
            await response.write(line)
        return response

    async def _previewed(self, request: web.Request) -> web.Response:
        user = await self._user(request)
        if user is None:
            raise unauthorized()

        async def may_access(access: AccessRequest) -> bool:
            return await self._delegation.is_allowed(user, access)

        if self._preview is None:
            raise ApiError(404, "NotFound", "there is no preview", {})
        try:
            body = await request.json()
        except ValueError:
            raise bad_request("the body is not JSON") from None
        answer = await quota_preview.answer(body, self._preview, may_access, user.name)
        return web.json_response(answer, headers={"Cache-Control": "no-store"})

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        assert self._forwarder is not None
        if not request.headers.get("Authorization", "").lower().startswith("bearer "):
            raise unauthorized()
        body = await request.read()
        async with self._forwarder.send(request.method, request.raw_path, request.headers, body) as answer:
            content_type = answer.headers.get("Content-Type", "application/json")
            response = web.StreamResponse(status=answer.status, headers={"Content-Type": content_type})
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
        return response


def _page(file: static_files.StaticFile) -> Any:
    async def page(_request: web.Request) -> web.Response:
        headers = {**static_files.HEADERS, "Cache-Control": "no-cache", "Content-Type": file.content_type}
        return web.Response(body=file.data, headers=headers)

    return page


@web.middleware
async def _guarded(request: web.Request, handler: Any) -> web.StreamResponse:
    """Refuse other names than those of this machine; answer errors as Kubernetes does."""
    if host_names.host_name(request.headers.get("Host", "")) not in host_names.LOOPBACK:
        refusal = ApiError(421, "MisdirectedRequest", "the Host header names another server", {})
        return web.json_response(refusal.status(), status=refusal.code)
    try:
        response: web.StreamResponse = await handler(request)
    except ApiError as error:
        return web.json_response(error.status(), status=error.code)
    except web.HTTPException as error:
        return web.json_response(ApiError(error.status, error.reason, error.reason).status(), status=error.status)
    except ConnectionError as error:
        return web.json_response(ApiError(502, "BadGateway", str(error)).status(), status=502)
    return response
