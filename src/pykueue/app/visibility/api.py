"""The content of the visibility API, and its registration in the embedded API of `pykueue up`."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pykueue.api import errors, resources
from pykueue.api.scheme import Object
from pykueue.apiserver.http.hooks import ExtraGroup, ExtraResource
from pykueue.apiserver.http.messages import HttpRequest, HttpResponse
from pykueue.engine import values
from pykueue.translate import pending_report

if TYPE_CHECKING:
    from pykueue.apiserver.embedded import EmbeddedApi
    from pykueue.app.configured_controllers import ConfiguredControllers
    from pykueue.engine.view import EngineView
    from pykueue.kube.controller.cache import ObjectCache

VERSIONS = ("v1beta1", "v1beta2")
RESOURCES = (
    ExtraResource(
        name="clusterqueues/pendingworkloads", kind="PendingWorkloadsSummary", namespaced=False, verbs=("get",)
    ),
    ExtraResource(name="localqueues/pendingworkloads", kind="PendingWorkloadsSummary", namespaced=True, verbs=("get",)),
)


def register(api: "EmbeddedApi", controllers: "ConfiguredControllers") -> None:
    async def handler(call: HttpRequest) -> HttpResponse:
        route, view = call.route, controllers.scheduler.engine.view
        namespace = route.namespace if route.plural == "localqueues" else ""
        summary = pending(view, controllers.cache, route.name, namespace, version=route.version, query=call.query)
        return HttpResponse(body=summary)

    for version in VERSIONS:
        group = ExtraGroup(group=pending_report.GROUP, version=version, resources=RESOURCES, handler=handler)
        api.hooks.add_group(group)


def pending(
    view: "EngineView", cache: "ObjectCache", name: str, namespace: str, *, version: str, query: Mapping[str, str]
) -> Object:
    """The summary of a LocalQueue, or of a ClusterQueue if `namespace` is empty."""

    def find(key: values.WorkloadKey) -> Object | None:
        workload_namespace, _, workload_name = key.partition("/")
        return cache.get(resources.WORKLOAD, workload_name, workload_namespace)

    if namespace:
        items = pending_report.of_local_queue(view, namespace, name, find)
    else:
        items = pending_report.of_cluster_queue(view, name, find)
    return pending_report.summary(
        items,
        version=version,
        offset=_number(query, "offset", 0),
        limit=_number(query, "limit", pending_report.DEFAULT_LIMIT),
    )


def _number(query: Mapping[str, str], name: str, default: int) -> int:
    text = query.get(name) or str(default)
    try:
        return int(text)
    except ValueError:
        raise errors.bad_request(f"{name} must be a number, not {text!r}") from None
