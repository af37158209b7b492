"""Dialogues on WebSockets, for `kubectl exec` and the like. Called by the listener for what a hook answers with a Dialogue."""

import contextlib

from aiohttp import WSMsgType, web

from pykueue.api import errors
from pykueue.apiserver.http.hooks import Upgrade

_LARGEST_MESSAGE_BYTES = 4 * 1024 * 1024


class WebSocketStream:
    def __init__(self, socket: web.WebSocketResponse) -> None:
        self._socket = socket
        self.protocol = socket.ws_protocol or ""

    async def receive(self) -> bytes | None:
        message = await self._socket.receive()
        if message.type is WSMsgType.BINARY:
            return bytes(message.data)
        return str(message.data).encode() if message.type is WSMsgType.TEXT else None

    async def send(self, message: bytes) -> None:
        with contextlib.suppress(ConnectionError):
            await self._socket.send_bytes(message)


async def hold(http: web.BaseRequest, dialogue: Upgrade) -> web.StreamResponse:
    """Until what is to be said has been said, or the client has gone."""
    if http.headers.get("Upgrade", "").lower() != "websocket":
        raise errors.bad_request("you must use a WebSocket here: a recent kubectl does, SPDY is not spoken")
    socket = web.WebSocketResponse(protocols=dialogue.protocols, max_msg_size=_LARGEST_MESSAGE_BYTES)
    await socket.prepare(http)
    try:
        await dialogue.speak(WebSocketStream(socket))
    finally:
        await socket.close()
    return socket
