"""`kubectl exec` and `attach`: the subresources `pods/exec` and `pods/attach` of the embedded API, answered by the machine room.

Messages carry a channel in their first byte: input, output, errors, the outcome, the size of the terminal. Registered by
`app.local_cluster`.
"""

import asyncio
import json
import urllib.parse
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

from pykueue.api import errors, resources
from pykueue.api.scheme import Object
from pykueue.apiserver.embedded import EmbeddedApi
from pykueue.apiserver.http import pod_subresources as pod_resources
from pykueue.apiserver.http.messages import HttpRequest, HttpResponse, MessageStream, Upgrade
from pykueue.apiserver.http.routes import is_set
from pykueue.cluster.kubelet import logs
from pykueue.cluster.local_cluster import LocalCluster
from pykueue.cluster.runtimes.protocol import Execution, StartError

PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_INPUT, _OUTPUT, _ERRORS, _OUTCOME, _RESIZE, _CLOSE = 0, 1, 2, 3, 4, 255
_DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"


def register(api: EmbeddedApi, room: LocalCluster) -> None:
    client = api.client()

    async def execute(call: HttpRequest) -> HttpResponse:
        asked = Asked.of(call)
        if not asked.command:
            raise errors.bad_request("you must specify at least 1 command for the container")
        pod = await client.get(resources.POD, call.route.name, call.route.namespace)
        assert room.kubelet is not None
        container = _container(pod, asked.container)
        try:
            execution = await room.kubelet.execute(
                pod["metadata"]["uid"],
                container,
                asked.command,
                terminal=asked.terminal,
                wants_input=asked.wants_input,
            )
        except StartError as error:
            raise errors.bad_request(str(error)) from None
        return HttpResponse(body=Upgrade(protocols=PROTOCOLS, serve=lambda line: _accompany(line, execution)))

    async def attach(call: HttpRequest) -> HttpResponse:
        pod = await client.get(resources.POD, call.route.name, call.route.namespace)
        query = logs.Query.parse({"container": _container(pod, Asked.of(call).container), "follow": "true"})
        found = logs.find(pod, query, room.log_of)
        uid, name = pod["metadata"]["uid"], query.container
        stream = logs.stream(found, query, lambda: room.is_running(uid, name))
        return HttpResponse(body=Upgrade(protocols=PROTOCOLS, serve=lambda line: _show(line, stream)))

    api.hooks.add_subresource("", pod_resources.EXEC, execute)
    api.hooks.add_subresource("", pod_resources.ATTACH, attach)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    command: tuple[str, ...]
    container: str
    terminal: bool
    wants_input: bool

    @classmethod
    def of(cls, call: HttpRequest) -> "Asked":
        words = urllib.parse.parse_qs(call.target.partition("?")[2], keep_blank_values=True)
        return cls(
            command=tuple(words.get("command") or ()),
            container=call.query.get("container", ""),
            terminal=is_set(call.query, "tty"),
            wants_input=is_set(call.query, "stdin"),
        )


def _container(pod: Object, name: str) -> str:
    preferred = (pod["metadata"].get("annotations") or {}).get(_DEFAULT_CONTAINER)
    known = [each["name"] for key in ("containers", "initContainers") for each in pod["spec"].get(key) or ()]
    chosen = name or preferred or known[0]
    if chosen not in known:
        raise errors.bad_request(f"container {chosen} is not valid for pod {pod['metadata']['name']}")
    return str(chosen)


async def _accompany(line: MessageStream, execution: Execution) -> None:
    """Both ways, until the command has ended or the client has gone."""
    listening = asyncio.ensure_future(_listen(line, execution))
    ending = asyncio.ensure_future(_tell(line, execution))
    try:
        await asyncio.wait([listening, ending], return_when=asyncio.FIRST_COMPLETED)
    finally:
        execution.close()
        for task in (listening, ending):
            task.cancel()
        await asyncio.gather(listening, ending, return_exceptions=True)


async def _listen(line: MessageStream, execution: Execution) -> None:
    """Returns when the client has gone."""
    while (message := await line.receive()) is not None:
        if not message:
            continue
        channel, data = message[0], message[1:]
        if channel == _INPUT:
            await execution.write(data)
        elif channel == _RESIZE:
            _resize(execution, data)
        elif channel == _CLOSE and data[:1] == bytes([_INPUT]):
            execution.close_input()


def _resize(execution: Execution, data: bytes) -> None:
    try:
        size = json.loads(data)
        execution.resize(int(size["Width"]), int(size["Height"]))
    except (ValueError, KeyError, TypeError):
        return


async def _tell(line: MessageStream, execution: Execution) -> None:
    await asyncio.gather(_pass_on(line, _OUTPUT, execution.output), _pass_on(line, _ERRORS, execution.errors))
    code = await execution.wait()
    await line.send(bytes([_OUTCOME]) + json.dumps(_outcome(code)).encode())


async def _pass_on(line: MessageStream, channel: int, read: Callable[[], Awaitable[bytes]]) -> None:
    while piece := await read():
        await line.send(bytes([channel]) + piece)


def _outcome(code: int) -> Object:
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


async def _show(line: MessageStream, stream: AsyncIterator[bytes]) -> None:
    async def hung_up() -> None:
        while await line.receive() is not None:
            pass

    async def show() -> None:
        async for piece in stream:
            await line.send(bytes([_OUTPUT]) + piece)
        await line.send(bytes([_OUTCOME]) + json.dumps(_outcome(0)).encode())

    tasks = [asyncio.ensure_future(hung_up()), asyncio.ensure_future(show())]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
