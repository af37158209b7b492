"""The `Client` over HTTP, with `http_connections` for the bytes and msgspec for JSON.

A request fails with `ApiError` (the server refused it) or `OSError` (the server was not reached).
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

import pykueue
from pykueue.api.errors import ApiError
from pykueue.api.scheme import Object, Resource
from pykueue.kube.access import Access
from pykueue.kube.client import DeleteOptions, ListOptions, ObjectList, PatchType, WatchEvent, WriteOptions
from pykueue.kube.http_connections import LARGEST_RESPONSE_BYTES, HttpConnections, Response
from pykueue.kube.rate_limit import RateLimit

if TYPE_CHECKING:
    import aiohttp

log = logging.getLogger(__name__)

_JSON = "application/json"
_REQUEST_SECONDS = 60.0
_WATCH_SECONDS = 300
_TRIES_WHEN_BUSY = 10
_NEVER_LATE = "/apis/coordination.k8s.io/"
"""The Lease is renewed without waiting for the rate limit: a late renewal loses the leadership."""
_LONGEST_BUSY_WAIT = 30.0


class _ListMeta(msgspec.Struct):
    resource_version: str = msgspec.field(name="resourceVersion", default="")
    token: str = msgspec.field(name="continue", default="")


class _List(msgspec.Struct):
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)
    items: list[Object] | None = None


class _Event(msgspec.Struct):
    type: str
    object: Object


_LIST = msgspec.json.Decoder(_List)
_EVENT = msgspec.json.Decoder(_Event)
_OBJECT = msgspec.json.Decoder(dict[str, Any])
Decoded = TypeVar("Decoded")


class ResponseLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much a server may send."""

    response_bytes: int = LARGEST_RESPONSE_BYTES
    line_bytes: int = 2**26
    """Of one event of a watch."""
    watch_bytes: int | None = None
    """Of all events of a watch."""


class HttpClient:
    """Create it inside a running event loop; any number of tasks may use it at once."""

    def __init__(
        self,
        access: Access,
        *,
        user_agent: str = f"pykueue/{pykueue.__version__}",
        rate_limit: RateLimit | None = None,
        limits: ResponseLimits | None = None,
    ) -> None:
        self._access = access
        self._limits = limits or ResponseLimits()
        self._rate_limit = rate_limit
        self._headers = {"User-Agent": user_agent, "Accept": _JSON, **access.headers}
        self._connections = HttpConnections(access.server, access.tls, self._limits.response_bytes)

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        obj: Object = await self.raw("GET", resource.path(namespace, name))
        return obj

    async def list(self, resource: Resource, namespace: str = "", options: ListOptions | None = None) -> ObjectList:
        options = options or ListOptions()
        query = {
            "labelSelector": options.label_selector,
            "fieldSelector": options.field_selector,
            "limit": str(options.limit or ""),
            "continue": options.continue_token,
            "resourceVersion": options.resource_version,
        }
        data = await self._request("GET", resource.path(namespace), query=query)
        page = _decoded(_LIST, data)
        items = page.items or []
        for item in items:
            item.setdefault("apiVersion", resource.api_version)
            item.setdefault("kind", resource.kind)
        return ObjectList(
            items=items,
            resource_version=page.metadata.resource_version,
            continue_token=page.metadata.token,
            size_bytes=len(data),
        )

    async def watch(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        resource_version: str = "",
        label_selector: str = "",
        field_selector: str = "",
    ) -> AsyncIterator[WatchEvent]:
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(_WATCH_SECONDS),
            "resourceVersion": resource_version,
            "labelSelector": label_selector,
            "fieldSelector": field_selector,
        }
        async with self._open("GET", resource.path(namespace), query=query) as response:
            if response.status >= 400:
                raise _refusal(response.status, await response.read())
            async for line in _lines(response, self._limits):
                event = _decoded(_EVENT, line)
                if event.type == "ERROR":
                    raise ApiError.from_status(event.object)
                yield WatchEvent(type=event.type, object=event.object)

    async def create(
        self, resource: Resource, obj: Object, namespace: str = "", options: WriteOptions | None = None
    ) -> Object:
        namespace = namespace or (obj.get("metadata") or {}).get("namespace", "")
        body = _with_type_meta(resource, obj)
        return await self._write("POST", resource.path(namespace), body, options)

    async def update(
        self, resource: Resource, obj: Object, *, subresource: str = "", options: WriteOptions | None = None
    ) -> Object:
        metadata = obj["metadata"]
        path = resource.path(metadata.get("namespace", ""), metadata["name"], subresource)
        return await self._write("PUT", path, _with_type_meta(resource, obj), options)

    async def patch(
        self,
        resource: Resource,
        name: str,
        namespace: str,
        patch: Any,
        *,
        patch_type: PatchType = PatchType.MERGE,
        subresource: str = "",
        options: WriteOptions | None = None,
    ) -> Object:
        path = resource.path(namespace, name, subresource)
        body = _with_type_meta(resource, patch) if patch_type is PatchType.APPLY else patch
        query = _write_query(options)
        if patch_type is PatchType.APPLY and options is not None and options.force:
            query["force"] = "true"
        data = await self._request("PATCH", path, query=query, body=body, content_type=patch_type.value)
        return _decoded(_OBJECT, data)

    async def delete(
        self, resource: Resource, name: str, namespace: str = "", options: DeleteOptions | None = None
    ) -> None:
        options = options or DeleteOptions()
        body: dict[str, Any] = {"kind": "DeleteOptions", "apiVersion": "v1"}
        if options.propagation_policy:
            body["propagationPolicy"] = options.propagation_policy
        if options.grace_period_seconds is not None:
            body["gracePeriodSeconds"] = options.grace_period_seconds
        if options.preconditions:
            body["preconditions"] = options.preconditions
        if options.dry_run:
            body["dryRun"] = ["All"]
        await self._request("DELETE", resource.path(namespace, name), body=body)

    async def raw(self, method: str, path: str, body: Any = None) -> Any:
        content_type = PatchType.MERGE.value if method == "PATCH" else _JSON
        data = await self._request(method, path, body=body, content_type=content_type)
        try:
            return msgspec.json.decode(data)
        except (msgspec.DecodeError, RecursionError):
            return data.decode(errors="replace")

    async def stream(self, path: str, query: Mapping[str, str]) -> AsyncIterator[bytes]:
        """Yield the body of a response as it arrives; used to follow logs."""
        async with self._open("GET", path, query=query) as response:
            if response.status >= 400:
                raise _refusal(response.status, await response.read())
            async for chunk in response.chunks():
                yield chunk

    @contextlib.asynccontextmanager
    async def connect(
        self, path: str, query: Sequence[tuple[str, str]], protocols: Sequence[str]
    ) -> AsyncIterator["aiohttp.ClientWebSocketResponse"]:
        """A WebSocket to a subresource such as `attach`."""
        import aiohttp

        connector = aiohttp.TCPConnector(ssl=self._access.tls if self._access.tls is not None else True)
        url, headers = self._access.server + path, await self._all_headers()
        try:
            async with (
                aiohttp.ClientSession(connector=connector, headers=headers) as session,
                session.ws_connect(url, params=list(query), protocols=protocols, max_msg_size=0) as connection,
            ):
                yield connection
        except aiohttp.WSServerHandshakeError as error:
            raise _refusal(error.status, error.message.encode()) from None
        except aiohttp.ClientError as error:
            raise ConnectionError(f"{url}: {error or type(error).__name__}") from error

    async def close(self) -> None:
        await self._connections.close()

    async def _write(self, method: str, path: str, body: Object, options: WriteOptions | None) -> Object:
        return _decoded(_OBJECT, await self._request(method, path, query=_write_query(options), body=body))

    async def _request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = _JSON,
    ) -> bytes:
        """Return the body of the response; repeat the request after a 429 with Retry-After."""
        data = None if body is None else msgspec.json.encode(body)
        headers = {"Content-Type": content_type} if data is not None else {}
        for attempt in range(1, _TRIES_WHEN_BUSY + 1):
            async with self._open(
                method, path, query=query or {}, data=data, headers=headers, seconds=_REQUEST_SECONDS
            ) as response:
                content = await response.read()
                if response.status < 400:
                    _log_warnings(method, path, response)
                    return content
                wait = response.header("retry-after")
                if response.status != 429 or not wait.isdecimal() or attempt == _TRIES_WHEN_BUSY:
                    raise _refusal(response.status, content)
            await asyncio.sleep(min(float(wait), _LONGEST_BUSY_WAIT))
        raise AssertionError

    @contextlib.asynccontextmanager
    async def _open(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str],
        data: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        seconds: float | None = None,
    ) -> AsyncIterator[Response]:
        if self._rate_limit is not None and not path.startswith(_NEVER_LATE):
            await self._rate_limit.wait(path)
        parameters = {name: value for name, value in query.items() if value}
        all_headers = {**await self._all_headers(), **(headers or {})}
        try:
            async with (
                asyncio.timeout(seconds),
                self._connections.request(method, path, query=parameters, headers=all_headers, body=data) as response,
            ):
                yield response
        except OSError as error:
            reason = "no answer in time" if isinstance(error, TimeoutError) else error
            raise ConnectionError(f"{method} {self._access.server}{path}: {reason}") from error

    async def _all_headers(self) -> dict[str, str]:
        token = await self._access.token()
        return {**self._headers, "Authorization": f"Bearer {token}"} if token else self._headers


def _decoded(decoder: msgspec.json.Decoder[Decoded], data: bytes) -> Decoded:
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ConnectionError(f"the server does not answer as an API server: {error}") from None


async def _lines(response: Response, limits: ResponseLimits) -> AsyncIterator[bytes]:
    rest, size = b"", 0
    async for chunk in response.chunks(idle_seconds=_WATCH_SECONDS + 30):
        *lines, rest = (rest + chunk).split(b"\n")
        size += len(chunk)
        if len(rest) > limits.line_bytes or (limits.watch_bytes is not None and size > limits.watch_bytes):
            raise ConnectionError(f"a watch has sent {size} bytes, of which the last line has {len(rest)}")
        for line in lines:
            if line.strip():
                yield line


def _with_type_meta(resource: Resource, obj: Object) -> Object:
    return {"apiVersion": resource.api_version, "kind": resource.kind, **obj}


def _write_query(options: WriteOptions | None) -> dict[str, str]:
    options = options or WriteOptions()
    return {
        "fieldManager": options.field_manager,
        "dryRun": "All" if options.dry_run else "",
        "fieldValidation": options.field_validation,
    }


def _refusal(code: int, content: bytes) -> ApiError:
    try:
        status = msgspec.json.decode(content, type=dict[str, Any])
    except msgspec.MsgspecError:
        return ApiError(code, "", content.decode(errors="replace").strip() or f"the server answered {code}")
    return ApiError.from_status(status, code)


def _log_warnings(method: str, path: str, response: Response) -> None:
    for name, value in response.headers:
        if name == "warning":
            log.info("%s %s: %s", method, path, value)
