"""The `pods/log` subresource of the embedded API, answered by the machine room. Registered by `app.components`."""

from collections.abc import AsyncIterator

from pykueue.api import resources
from pykueue.apiserver.embedded import EmbeddedApi
from pykueue.apiserver.http import pod_subresources as pod_resources
from pykueue.apiserver.http.messages import HttpRequest, HttpResponse
from pykueue.cluster.kubelet import logs
from pykueue.cluster.kubelet.logs import Query
from pykueue.cluster.local_cluster import LocalCluster
from pykueue.kube.client import Client

_TEXT = "text/plain"


def register(api: EmbeddedApi, room: LocalCluster) -> None:
    client = api.client()

    async def handler(call: HttpRequest) -> HttpResponse:
        return HttpResponse(body=await _open(client, room, call), content_type=_TEXT)

    api.hooks.add_subresource("", pod_resources.LOG, handler)


async def _open(client: Client, room: LocalCluster, call: HttpRequest) -> AsyncIterator[bytes]:
    pod = await client.get(resources.POD, call.route.name, call.route.namespace)
    query = Query.parse(call.query)
    found = logs.find(pod, query, room.log_of)
    uid = pod["metadata"]["uid"]
    name = logs.container_status(pod, query)["name"]
    return logs.stream(found, query, lambda: not query.previous and room.is_running(uid, name))
