"""Carries out probes and hooks on this machine: a command, an HTTP request, or a connection. Used by the process runtime."""

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable

import msgspec

from pykueue.api.scheme import Object
from pykueue.cluster.runtimes.port_mapping import ADDRESS
from pykueue.cluster.runtimes.protocol import ContainerRequest, Execution, StartError

Execute = Callable[[ContainerRequest], Awaitable[Execution]]

_MOST_OUTPUT = 10 * 1024
_FIRST_GOOD, _FIRST_BAD = 200, 400


async def carry_out(handler: Object, request: ContainerRequest, execute: Execute) -> str:
    """What was wrong, "" if nothing was. Of gRPC, only that somebody listens is looked at."""
    if "exec" in handler:
        command = tuple(map(str, handler["exec"].get("command") or ()))
        return await _command(msgspec.structs.replace(request, command=command), execute)
    if "httpGet" in handler:
        return await _http(handler["httpGet"], request)
    for way in ("tcpSocket", "grpc"):
        if way in handler:
            return await _connection(handler[way], request)
    return "the handler names nothing to do"


async def _command(request: ContainerRequest, execute: Execute) -> str:
    try:
        execution = await execute(request)
    except StartError as error:
        return str(error)
    try:
        said, complained = await asyncio.gather(_all(execution.output), _all(execution.errors))
        code = await execution.wait()
    finally:
        execution.close()
    text = (said + complained)[:_MOST_OUTPUT].decode(errors="replace").strip()
    return "" if code == 0 else text or f"the command ended with exit code {code}"


async def _all(read: Callable[[], Awaitable[bytes]]) -> bytes:
    parts = []
    while part := await read():
        parts.append(part)
    return b"".join(parts)


async def _connection(target: Object, request: ContainerRequest) -> str:
    host, port = target.get("host") or ADDRESS, _port(target.get("port"), request)
    try:
        _, writer = await asyncio.open_connection(host, port)
    except OSError as error:
        return f"dial tcp {host}:{port}: connect: {(error.strerror or str(error)).lower()}"
    writer.close()
    return ""


async def _http(target: Object, request: ContainerRequest) -> str:
    host, port = target.get("host") or ADDRESS, _port(target.get("port"), request)
    scheme, path = (target.get("scheme") or "HTTP").lower(), target.get("path") or "/"
    url = f"{scheme}://{host}:{port}{path}"
    tls = _unchecked() if scheme == "https" else None
    try:
        reader, writer = await asyncio.open_connection(host, port, ssl=tls)
    except OSError as error:
        return f'Get "{url}": dial tcp {host}:{port}: connect: {(error.strerror or str(error)).lower()}'
    headers = {"Host": f"{host}:{port}", "User-Agent": "kube-probe/pykueue", "Accept": "*/*", "Connection": "close"}
    headers |= {header["name"]: header["value"] for header in target.get("httpHeaders") or ()}
    lines = [f"GET {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    try:
        writer.write("\r\n".join(lines).encode())
        await writer.drain()
        words = (await reader.readline()).split()
    except OSError as error:
        return f'Get "{url}": {error}'
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
    code = int(words[1]) if len(words) > 1 and words[1].isdigit() else 0
    if not code:
        return f'Get "{url}": EOF'
    return "" if _FIRST_GOOD <= code < _FIRST_BAD else f"HTTP probe failed with statuscode: {code}"


def _port(stated: object, request: ContainerRequest) -> int:
    """A number, or the name of one of the container's ports."""
    text = str(stated)
    if text.isdigit():
        return int(text)
    for port in request.container.get("ports") or ():
        if port.get("name") == text:
            return int(port["containerPort"])
    return 0


def _unchecked() -> ssl.SSLContext:
    """As a kubelet: whether somebody answers matters, not who."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
