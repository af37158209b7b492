"""The visibility API of `pykueue controller`: an extension API server behind APIServices.

Every replica serves it, whether it leads or not. The cluster's API server authenticates users and
decides what they may read (`kube.delegation`).
"""

import asyncio
import logging
import ssl
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from aiohttp import web

from pykueue.api import errors
from pykueue.api.errors import ApiError
from pykueue.apiserver.slices import Slices
from pykueue.app.self_signed import self_signed
from pykueue.app.visibility import api
from pykueue.app.visibility.start_estimates import StartEstimates
from pykueue.controllers.scheduler.job_facts import JobReference
from pykueue.kube import server_header
from pykueue.kube.delegation import AccessRequest, AuthenticatedUser, DelegatedAuth
from pykueue.translate.pending_report import GROUP

if TYPE_CHECKING:
    from pykueue.api.configuration.types import Configuration
    from pykueue.engine.view import EngineView
    from pykueue.kube.client import Client
    from pykueue.kube.controller.cache import ObjectCache

log = logging.getLogger(__name__)

QueuesOfReplica = Callable[[], "tuple[EngineView, ObjectCache] | None"]
"""The queues as this replica has read them; None before it has read all of them."""

_REFRESH_SECONDS = 60


class VisibilityApiServer:
    def __init__(
        self,
        client: "Client",
        configuration: "Configuration",
        queues: QueuesOfReplica,
        document: Mapping[str, Any] | None = None,
    ) -> None:
        from pykueue.webhooks.serving_certificate import ServingCertificate

        self._client = client
        self._delegation = DelegatedAuth(client)
        self._configuration = configuration
        self._queues = queues
        self._estimates = StartEstimates(lambda: document or {})
        self._slices = Slices()
        self._certificate = ServingCertificate(configuration.tls_options)
        self._trusted_authority = ""
        self._runner: web.AppRunner | None = None

    @property
    def port(self) -> int:
        assert self._runner is not None
        return int(self._runner.addresses[0][1])

    async def start(self) -> None:
        self._certificate.use(self_signed("visibility-server"))
        await self._refresh_authority()
        self._runner = web.AppRunner(self._application(), access_log=None)
        await self._runner.setup()
        server_header.hide_versions()
        settings = self._configuration.visibility_server
        context = self._certificate.context
        site = web.TCPSite(self._runner, settings.bind_address, settings.bind_port, ssl_context=context)
        await site.start()
        log.info("the visibility API is served at %s:%d", settings.bind_address, self.port)

    async def run(self) -> None:
        """Serve until cancelled. If the port is taken, log a warning; the controllers run on."""
        try:
            await self._start_if_possible()
            while True:
                await asyncio.sleep(_REFRESH_SECONDS)
                await self._refresh_authority()
        finally:
            await self.stop()

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _start_if_possible(self) -> None:
        try:
            await self.start()
        except OSError as error:
            log.warning("the visibility API is not served: %s; set visibilityServer.bindPort", error)

    async def _refresh_authority(self) -> None:
        """Read the CA of the front proxy again: it may be replaced while we run.

        New connections are checked against the new one.
        """
        await self._delegation.read_request_header_auth()
        authority = self._delegation.request_header.authority
        if authority and authority != self._trusted_authority:
            self._trusted_authority = authority
            self._certificate.context.load_verify_locations(cadata=authority)
            self._certificate.context.verify_mode = ssl.CERT_OPTIONAL

    def _application(self) -> web.Application:
        application = web.Application(middlewares=[_errors_as_status])
        add = application.router.add_get
        add("/healthz", _healthy)
        add("/readyz", _healthy)
        add("/openapi/v2", self._document(_OPENAPI_V2))
        add("/openapi/v3", self._document({"paths": {}}))
        add("/apis", self._document({"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group()]}))
        add(f"/apis/{GROUP}", self._document(_group()))
        for version in api.VERSIONS:
            path = f"/apis/{GROUP}/{version}"
            add(path, self._document(_resources(version)))
            add(f"{path}/clusterqueues/{{name}}/pendingworkloads", self._pending(version, "clusterqueues"))
            local_queues = f"{path}/namespaces/{{namespace}}/localqueues/{{name}}/pendingworkloads"
            add(local_queues, self._pending(version, "localqueues"))
            add(f"{path}/namespaces/{{namespace}}/{api.EXPLANATIONS}/{{name}}", self._explanation(version))
        return application

    async def _user(self, request: web.Request) -> AuthenticatedUser:
        certificate = request.transport.get_extra_info("peercert") if request.transport is not None else None
        headers = {name: request.headers.getall(name) for name in request.headers}
        user = await self._delegation.user(_common_name(certificate), headers)
        if user is None:
            raise errors.unauthorized()
        return user

    def _document(self, document: dict[str, Any]) -> Any:
        async def handler(request: web.Request) -> web.Response:
            await self._user(request)
            return web.json_response(document)

        return handler

    def _pending(self, version: str, plural: str) -> Any:
        async def handler(request: web.Request) -> web.Response:
            name, namespace = request.match_info["name"], request.match_info.get("namespace", "")
            access = AccessRequest(
                verb="get", group=GROUP, resource=plural, subresource="pendingworkloads", namespace=namespace, name=name
            )
            await self._authorized_user(request, access)
            query = dict(request.query)
            summary = await api.pending(self._current_queues(), name, namespace, version=version, query=query)
            return web.json_response(summary)

        return handler

    def _explanation(self, version: str) -> Any:
        async def handler(request: web.Request) -> web.Response:
            name, namespace = request.match_info["name"], request.match_info["namespace"]
            access = AccessRequest(verb="get", group=GROUP, resource=api.EXPLANATIONS, namespace=namespace, name=name)
            user = await self._authorized_user(request, access)
            everything = AccessRequest(
                verb="get", group=GROUP, resource="clusterqueues", subresource="pendingworkloads"
            )
            queues = self._current_queues()
            job = JobReference(namespace=namespace, name=name, kind=request.query.get("kind", "").lower())
            may_see_all = await self._delegation.is_allowed(user, everything)
            answer = await api.explanation(
                self._client, queues, job, version=version, may_see_all=may_see_all, query=dict(request.query)
            )
            return web.json_response(answer)

        return handler

    async def _authorized_user(self, request: web.Request, access: AccessRequest) -> AuthenticatedUser:
        user = await self._user(request)
        if not await self._delegation.is_allowed(user, access):
            raise errors.forbidden(GROUP, access.resource, access.name, access.refusal(user.name))
        return user

    def _current_queues(self) -> api.Queues:
        queues = self._queues()
        if queues is None:
            raise ApiError(503, "ServiceUnavailable", "the queues are not known yet")
        return api.Queues(view=queues[0], cache=queues[1], estimates=self._estimates, slices=self._slices)


def _common_name(certificate: dict[str, Any] | None) -> str | None:
    """The common name of a client certificate; `ssl` passes only verified ones on."""
    for part in (certificate or {}).get("subject") or ():
        for key, value in part:
            if key == "commonName":
                return str(value)
    return None


@web.middleware
async def _errors_as_status(request: web.Request, handler: Any) -> web.StreamResponse:
    try:
        response: web.StreamResponse = await handler(request)
    except ApiError as error:
        return web.json_response(error.status(), status=error.code)
    except web.HTTPException as error:
        return web.json_response(ApiError(error.status, error.reason, error.reason).status(), status=error.status)
    return response


async def _healthy(_request: web.Request) -> web.Response:
    return web.Response(text="ok")


_OPENAPI_V2 = {"swagger": "2.0", "info": {"title": "Kueue visibility", "version": "v0.19.2"}, "paths": {}}


def _group() -> dict[str, Any]:
    versions = [{"groupVersion": f"{GROUP}/{version}", "version": version} for version in reversed(api.VERSIONS)]
    return {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": GROUP,
        "versions": versions,
        "preferredVersion": versions[0],
    }


def _resources(version: str) -> dict[str, Any]:
    resources = [
        {
            "name": resource.name,
            "singularName": "",
            "namespaced": resource.namespaced,
            "kind": resource.kind,
            "verbs": list(resource.verbs),
        }
        for resource in api.RESOURCES
    ]
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": f"{GROUP}/{version}", "resources": resources}
