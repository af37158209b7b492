"""Paths that are no resource: health, version, discovery and OpenAPI documents, and pages that parts have added."""

import msgspec

from pykueue.api import errors
from pykueue.apiserver.http import negotiation, openapi_protobuf
from pykueue.apiserver.http.discovery import Discovery
from pykueue.apiserver.http.exchange import Incoming
from pykueue.apiserver.http.hooks import Hooks, Reply
from pykueue.apiserver.http.openapi import VERSION, OpenApi

OPEN_PATHS = ("/healthz", "/livez", "/readyz", "/version")
"""What anybody may see without a token."""

_TEXT = "text/plain; charset=utf-8"
NOT_FOUND = Reply(status=404, body=b"404 page not found\n", content_type=_TEXT)
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


def is_open(path: str) -> bool:
    return path in OPEN_PATHS or path.startswith(("/livez/", "/readyz/", "/healthz/"))


class Pages:
    def __init__(self, discovery: Discovery, openapi: OpenApi, hooks: Hooks) -> None:
        self._discovery = discovery
        self._openapi = openapi
        self._hooks = hooks
        self.checks: dict[str, bool] = {"ping": True}
        """What `/readyz?verbose` lists; a part that is not ready says False."""

    async def handle(self, request: Incoming, *, etag: str = "", address: str = "") -> Reply:
        path = "/" + request.route.path.strip("/")
        if path in self._hooks.pages:
            return await self._hooks.pages[path](request.call())
        if request.method not in ("GET", "HEAD"):
            raise errors.ApiError(
                405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {}
            )
        if path == "/version":
            return Reply(body=_VERSION_PAGE)
        if is_open(path):
            return self._health(path, is_verbose="verbose" in request.query)
        if path == "/":
            return self._root()
        if path.startswith("/openapi/"):
            return _unless_known(self._openapi_page(request, path), etag)
        return _unless_known(self._discovery_page(request, path, address), etag)

    def _health(self, path: str, *, is_verbose: bool) -> Reply:
        kind, _, one = path.strip("/").partition("/")
        if one and one not in self.checks:
            return NOT_FOUND
        chosen = {name: is_well for name, is_well in self.checks.items() if not one or name == one}
        bad = [name for name, is_well in chosen.items() if not is_well and kind != "livez"]
        status = 500 if bad else 200
        if not bad and not is_verbose:
            return Reply(body=b"ok", content_type=_TEXT)
        lines = [f"[{'-' if name in bad else '+'}]{name} {'failed' if name in bad else 'ok'}" for name in chosen]
        lines.append(f"{kind} check {'failed' if bad else 'passed'}")
        return Reply(status=status, body=("\n".join(lines) + "\n").encode(), content_type=_TEXT)

    def _root(self) -> Reply:
        versions = [
            f"/apis/{group}/{version}"
            for group, versions in self._discovery.groups().items()
            if group
            for version in versions
        ]
        paths = ["/api", "/api/v1", "/apis", *versions, *OPEN_PATHS, "/openapi/v2", "/openapi/v3", *self._hooks.pages]
        return Reply(body={"paths": sorted(paths)})

    def _discovery_page(self, request: Incoming, path: str, address: str) -> tuple[Reply, str]:
        if path in ("/api", "/apis"):
            form = negotiation.discovery_form(request.accept)
            if form.discovery_version:
                found = self._discovery.aggregated(path, form.discovery_version)
                assert found is not None
                return Reply(body=found[0], content_type=form.content_type, headers={"Vary": "Accept"}), found[1]
        found = self._discovery.document(path, address)
        if found is None:
            return NOT_FOUND, ""
        return Reply(body=found[0]), found[1]

    def _openapi_page(self, request: Incoming, path: str) -> tuple[Reply, str]:
        if path == "/openapi/v3":
            return Reply(body=self._openapi.index()), ""
        if path == "/openapi/v2" and openapi_protobuf.REQUESTED_TYPE in request.accept:
            data, etag = self._openapi.v2_protobuf()
            content_type = openapi_protobuf.MEDIA_TYPE
            return Reply(body=data, content_type=content_type, headers={"Vary": "Accept"}), f'"{etag}"'
        if path == "/openapi/v2":
            found = self._openapi.v2()
        else:
            document = self._openapi.document(path.removeprefix("/openapi/v3/"))
            if document is None:
                return NOT_FOUND, ""
            found = document
        return Reply(body=found[0], headers={"Vary": "Accept"}), f'"{found[1]}"'


def _unless_known(answer: tuple[Reply, str], known: str) -> Reply:
    """304 when the client has this very document, else the document; both with its ETag and media type.

    Caches take the headers of a 304 for those of what they kept, so they must be equal.
    """
    reply, etag = answer
    if not etag:
        return reply
    is_known = etag in [each.strip() for each in known.split(",")]
    return Reply(
        status=304 if is_known else reply.status,
        body=b"" if is_known else reply.body,
        content_type=reply.content_type,
        headers={**reply.headers, "ETag": etag},
    )
