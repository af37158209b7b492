"""The content of the visibility API, and its registration in the embedded API of `pykueue up`.

Beside Kueue's pending workloads it serves explanations, by the name of a Workload or of a job:
`GET …/namespaces/NAMESPACE/explanations/NAME?kind=job`.
"""

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pykueue.api import integers, resources
from pykueue.api.scheme import Object
from pykueue.apiserver.http.hooks import ExtraGroup, ExtraResource
from pykueue.apiserver.http.messages import HttpRequest, HttpResponse
from pykueue.controllers.scheduler import job_facts
from pykueue.controllers.scheduler.job_facts import JobReference
from pykueue.engine import values
from pykueue.kube.delegation import AccessRequest
from pykueue.translate import job_explanations, pending_report

if TYPE_CHECKING:
    from pykueue.apiserver.embedded import EmbeddedApi
    from pykueue.app.configured_controllers import ConfiguredControllers
    from pykueue.engine.view import EngineView
    from pykueue.kube.client import Client
    from pykueue.kube.controller.cache import ObjectCache

VERSIONS = ("v1beta1", "v1beta2")
EXPLANATIONS = "explanations"
RESOURCES = (
    ExtraResource(
        name="clusterqueues/pendingworkloads", kind="PendingWorkloadsSummary", namespaced=False, verbs=("get",)
    ),
    ExtraResource(name="localqueues/pendingworkloads", kind="PendingWorkloadsSummary", namespaced=True, verbs=("get",)),
    ExtraResource(name=EXPLANATIONS, kind="Explanation", namespaced=True, verbs=("get",)),
)


def register(api: "EmbeddedApi", controllers: "ConfiguredControllers") -> None:
    async def handler(call: HttpRequest) -> HttpResponse:
        route, view = call.route, controllers.scheduler.engine.view
        if route.plural == EXPLANATIONS:
            job = JobReference(namespace=route.namespace, name=route.name, kind=call.query.get("kind", "").lower())
            everything = AccessRequest(
                verb="get", group=pending_report.GROUP, resource="clusterqueues", subresource="pendingworkloads"
            )
            may_see_all = api.authorizer.allows(call.user, everything)
            answer = await explanation(api.client(), view, job, version=route.version, may_see_all=may_see_all)
            return HttpResponse(body=answer)
        namespace = route.namespace if route.plural == "localqueues" else ""
        summary = pending(view, controllers.cache, route.name, namespace, version=route.version, query=call.query)
        return HttpResponse(body=summary)

    for version in VERSIONS:
        group = ExtraGroup(group=pending_report.GROUP, version=version, resources=RESOURCES, handler=handler)
        api.hooks.add_group(group)


async def explanation(
    client: "Client", view: "EngineView", job: JobReference, *, version: str, may_see_all: bool
) -> Object:
    """The explanation of a job, without names that the user may not see."""
    facts = await job_facts.read(client, view, job, now_ns=time.time_ns(), may_see_all=may_see_all)
    return {
        "kind": "Explanation",
        "apiVersion": f"{pending_report.GROUP}/{version}",
        "metadata": {"name": job.name, "namespace": job.namespace},
        **job_explanations.as_json(facts, job_explanations.report(facts)),
    }


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
    text = query.get(name, "")
    return integers.signed(text, name) if text else default
