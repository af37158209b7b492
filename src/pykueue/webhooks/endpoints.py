"""The HTTPS server of the webhooks. Every replica of the controller runs one.

If a review cannot be answered, the response is an HTTP error, and the API server applies the
failurePolicy.
"""

import logging
import ssl
from collections.abc import Callable
from functools import partial

import msgspec
from aiohttp import web

from pykueue.api.errors import ApiError
from pykueue.api.scheme import Lookup, Object, Settings
from pykueue.install.webhooks import MUTATE, VALIDATE
from pykueue.kube import server_header
from pykueue.webhooks.lookups import LookupCache
from pykueue.webhooks.reviews import API_VERSION, KIND, Reviewer

log = logging.getLogger(__name__)

_REVIEW_BYTES = 16 * 1024 * 1024
"""A review holds two objects of up to 1.5 MiB each, whose JSON may be larger."""
_Decide = Callable[[Reviewer, Object], Object]


class _Kind(msgspec.Struct):
    group: str
    version: str
    kind: str


class _ReviewRequest(msgspec.Struct):
    """The fields that every request of a review must have."""

    uid: str
    operation: str
    kind: _Kind
    object: Object


class _Review(msgspec.Struct):
    request: _ReviewRequest


class Endpoints:
    def __init__(self, lookups: LookupCache, settings: Settings) -> None:
        self._lookups = lookups
        self._settings = settings
        application = web.Application(client_max_size=_REVIEW_BYTES)
        application.router.add_post(MUTATE, partial(self._answer, Reviewer.mutate))
        application.router.add_post(VALIDATE, partial(self._answer, Reviewer.validate))
        self._runner = web.AppRunner(application, access_log=None)
        self._site: web.TCPSite | None = None

    @property
    def is_listening(self) -> bool:
        return self._site is not None

    @property
    def port(self) -> int:
        return int(self._runner.addresses[0][1])

    async def start(self, host: str, port: int, tls: ssl.SSLContext) -> None:
        """OSError if the address is in use."""
        await self._runner.setup()
        server_header.hide_versions()
        site = web.TCPSite(self._runner, host or None, port, ssl_context=tls)
        await site.start()
        self._site = site

    async def stop(self) -> None:
        self._site = None
        await self._runner.cleanup()

    async def _answer(self, decide: _Decide, request: web.Request) -> web.Response:
        body = await request.read()
        try:
            msgspec.json.decode(body, type=_Review)
            review_request: Object = msgspec.json.decode(body)["request"]
        except (msgspec.DecodeError, RecursionError) as error:
            return web.Response(text=f"not an AdmissionReview: {error}", status=400)

        def decide_with(lookup: Lookup) -> Object:
            return decide(Reviewer(lookup=lookup, settings=self._settings), review_request)

        try:
            response = await self._lookups.run_with_lookups(decide_with)
        except (ApiError, OSError, TimeoutError) as error:
            log.warning("no answer to the review of a %s: %s", review_request["kind"]["kind"], error)
            return web.Response(text=f"cannot read what the decision depends on: {error}", status=503)
        answer = {"apiVersion": API_VERSION, "kind": KIND, "response": response}
        return web.Response(body=msgspec.json.encode(answer), content_type="application/json")
