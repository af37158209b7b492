"""Non-resource paths: health, version, discovery, OpenAPI, and the pages of `hooks`."""

import msgspec

from pykueue.apiserver.http import negotiation, openapi_protobuf, routes
from pykueue.apiserver.http.discovery import Discovery
from pykueue.apiserver.http.hooks import Hooks
from pykueue.apiserver.http.messages import HttpRequest, HttpResponse
from pykueue.apiserver.http.openapi import VERSION, OpenApi

PUBLIC_PATHS = ("/healthz", "/livez", "/readyz", "/version")
"""The paths that need no token."""

_TEXT = "text/plain; charset=utf-8"
NOT_FOUND = HttpResponse(status=404, body=b"404 page not found\n", content_type=_TEXT)
_MAJOR, _MINOR = VERSION.removeprefix("v").split(".")[:2]
_VERSION_PAGE = msgspec.json.encode(
    {
        "major": _MAJOR,
        "minor": _MINOR,
        "gitVersion": f"{VERSION}+pykueue",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "2026-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "cpython",
        "platform": "linux/amd64",
    }
)


async def page_not_found(_request: HttpRequest) -> HttpResponse:
    return NOT_FOUND


def is_public(path: str) -> bool:
    return path in PUBLIC_PATHS or path.startswith(("/livez/", "/readyz/", "/healthz/"))


class NonResourcePaths:
    def __init__(self, discovery: Discovery, openapi: OpenApi, hooks: Hooks) -> None:
        self._discovery = discovery
        self._openapi = openapi
        self._hooks = hooks
        self.checks: dict[str, bool] = {"ping": True}
        """The checks that `/readyz?verbose` lists; False means not ready."""

    async def handle(self, request: HttpRequest, *, etag: str = "", address: str = "") -> HttpResponse:
        path = request.route.path
        if request.method == "POST" and path in self._hooks.posted_pages:
            return await self._hooks.posted_pages[path](request)
        if request.method not in ("GET", "HEAD"):
            raise routes.method_not_allowed()
        if path in self._hooks.pages:
            return await self._hooks.pages[path](request)
        if path == "/version":
            return HttpResponse(body=_VERSION_PAGE)
        if is_public(path):
            return self._health(path, is_verbose="verbose" in request.query)
        if path == "/":
            return self._root()
        if path.startswith("/openapi/"):
            return _not_modified_or(*await self._openapi_page(request, path), etag)
        return _not_modified_or(*self._discovery_page(request, path, address), etag)

    def _health(self, path: str, *, is_verbose: bool) -> HttpResponse:
        endpoint, _, check = path.strip("/").partition("/")
        if check and check not in self.checks:
            return NOT_FOUND
        checks = {name: is_ready for name, is_ready in self.checks.items() if not check or name == check}
        failed = [name for name, is_ready in checks.items() if not is_ready and endpoint != "livez"]
        status = 500 if failed else 200
        if not failed and not is_verbose:
            return HttpResponse(body=b"ok", content_type=_TEXT)
        lines = [f"[{'-' if name in failed else '+'}]{name} {'failed' if name in failed else 'ok'}" for name in checks]
        lines.append(f"{endpoint} check {'failed' if failed else 'passed'}")
        return HttpResponse(status=status, body=("\n".join(lines) + "\n").encode(), content_type=_TEXT)

    def _root(self) -> HttpResponse:
        versions = [
            f"/apis/{group}/{version}"
            for group, versions in self._discovery.groups().items()
            if group
            for version in versions
        ]
        paths = ["/api", "/api/v1", "/apis", *versions, *PUBLIC_PATHS, "/openapi/v2", "/openapi/v3", *self._hooks.pages]
        return HttpResponse(body={"paths": sorted(paths)})

    def _discovery_page(self, request: HttpRequest, path: str, address: str) -> tuple[HttpResponse, str]:
        if path in ("/api", "/apis"):
            form = negotiation.discovery_form(request.accept)
            if form.discovery_version:
                aggregated = self._discovery.aggregated(path, form.discovery_version)
                assert aggregated is not None
                data, etag = aggregated
                return HttpResponse(body=data, content_type=form.content_type, headers={"Vary": "Accept"}), etag
        document = self._discovery.document(path, address)
        return (HttpResponse(body=document[0]), document[1]) if document else (NOT_FOUND, "")

    async def _openapi_page(self, request: HttpRequest, path: str) -> tuple[HttpResponse, str]:
        if path == "/openapi/v3":
            return HttpResponse(body=await self._openapi.index()), ""
        if path == "/openapi/v2" and openapi_protobuf.REQUESTED_TYPE in request.accept:
            data, etag = await self._openapi.v2_protobuf()
            content_type = openapi_protobuf.MEDIA_TYPE
            return HttpResponse(body=data, content_type=content_type, headers={"Vary": "Accept"}), f'"{etag}"'
        if path == "/openapi/v2":
            document: tuple[bytes, str] | None = await self._openapi.v2()
        else:
            document = await self._openapi.document(path.removeprefix("/openapi/v3/"))
        if document is None:
            return NOT_FOUND, ""
        return HttpResponse(body=document[0], headers={"Vary": "Accept"}), f'"{document[1]}"'


def _not_modified_or(response: HttpResponse, etag: str, if_none_match: str) -> HttpResponse:
    """A 304 if the client already has the document, else `response`; both with its ETag.

    Caches replace their stored headers with those of a 304, so both have the same headers.
    """
    if not etag:
        return response
    is_current = etag in [tag.strip() for tag in if_none_match.split(",")]
    return HttpResponse(
        status=304 if is_current else response.status,
        body=b"" if is_current else response.body,
        content_type=response.content_type,
        headers={**response.headers, "ETag": etag},
    )
