"""`kubectl logs`: the subresource `pods/log` of `pykueue up`."""

from collections.abc import AsyncIterator

from pykueue.api import objects, resources
from pykueue.apiserver.embedded import EmbeddedApi
from pykueue.apiserver.http import pod_subresources as pod_resources
from pykueue.apiserver.http.messages import HttpRequest, HttpResponse
from pykueue.cluster.kubelet import logs
from pykueue.cluster.kubelet.logs import Query
from pykueue.cluster.local_cluster import LocalCluster
from pykueue.kube.client import Client

_TEXT = "text/plain"


def register(api: EmbeddedApi, cluster: LocalCluster) -> None:
    client = api.client()

    async def handler(call: HttpRequest) -> HttpResponse:
        return HttpResponse(body=await _open(client, cluster, call), content_type=_TEXT)

    api.hooks.add_subresource("", pod_resources.LOG, handler)


async def _open(client: Client, cluster: LocalCluster, call: HttpRequest) -> AsyncIterator[bytes]:
    pod = await client.get(resources.POD, call.route.name, call.route.namespace)
    query = Query.parse(call.query)
    log = logs.find(pod, query, cluster.log_of)
    name = logs.container_status(pod, query)["name"]
    return logs.stream(log, query, lambda: not query.previous and cluster.is_running(objects.uid(pod), name))
