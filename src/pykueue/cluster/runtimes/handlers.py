"""Performs the handlers of probes and hooks: exec, httpGet, tcpSocket, grpc.

Used by the process runtime.
"""

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable

import msgspec

from pykueue.api.scheme import Object
from pykueue.cluster.runtimes.port_mapping import ADDRESS
from pykueue.cluster.runtimes.protocol import ContainerRequest, Execution, StartError

Execute = Callable[[ContainerRequest], Awaitable[Execution]]

_OUTPUT_LIMIT_BYTES = 10 * 1024
_DISCARD_SECONDS = 0.01
_FIRST_SUCCESS_CODE, _FIRST_FAILURE_CODE = 200, 400


async def perform(handler: Object, request: ContainerRequest, execute: Execute) -> str:
    """Perform a handler; return an error or "". For grpc, only connect.

    A server of the pod may answer anything, for example a line without an end.
    """
    try:
        return await _perform(handler, request, execute)
    except ValueError as error:
        return f"{type(error).__name__}: {error}"


async def _perform(handler: Object, request: ContainerRequest, execute: Execute) -> str:
    if "exec" in handler:
        command = tuple(map(str, handler["exec"].get("command") or ()))
        return await _command(msgspec.structs.replace(request, command=command), execute)
    if "httpGet" in handler:
        return await _http(handler["httpGet"], request)
    for kind in ("tcpSocket", "grpc"):
        if kind in handler:
            return await _connection(handler[kind], request)
    return "the handler names nothing to do"


async def _command(request: ContainerRequest, execute: Execute) -> str:
    try:
        execution = await execute(request)
    except StartError as error:
        return str(error)
    try:
        stdout, stderr = await asyncio.gather(_all(execution.output), _all(execution.errors))
        code = await execution.wait()
    finally:
        execution.close()
    text = (stdout + stderr)[:_OUTPUT_LIMIT_BYTES].decode(errors="replace").strip()
    return "" if code == 0 else text or f"the command ended with exit code {code}"


async def _all(read: Callable[[], Awaitable[bytes]]) -> bytes:
    """The beginning of an output. The rest is read, so that the command goes on, but slowly."""
    output = b""
    while part := await read():
        if len(output) < _OUTPUT_LIMIT_BYTES:
            output += part
        else:
            await asyncio.sleep(_DISCARD_SECONDS)
    return output[:_OUTPUT_LIMIT_BYTES]


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
    tls = _unverified_tls() if scheme == "https" else None
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
        status_line = (await reader.readline()).split()
    except OSError as error:
        return f'Get "{url}": {error}'
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
    code = int(status_line[1]) if len(status_line) > 1 and status_line[1].isdigit() else 0
    if not code:
        return f'Get "{url}": EOF'
    return "" if _FIRST_SUCCESS_CODE <= code < _FIRST_FAILURE_CODE else f"HTTP probe failed with statuscode: {code}"


def _port(port: object, request: ContainerRequest) -> int:
    """The port number; `port` is a number or the name of one of the container's ports."""
    text = str(port)
    if text.isdigit():
        return int(text)
    for container_port in request.container.get("ports") or ():
        if container_port.get("name") == text:
            return int(container_port["containerPort"])
    return 0


def _unverified_tls() -> ssl.SSLContext:
    """TLS without verification of the certificate, as the kubelet probes."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
