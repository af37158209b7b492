"""The content of the visibility API, and its registration in the embedded API of `pykueue up`.

Beside Kueue's pending workloads it serves explanations, by the name of a Workload or of a job:
`GET …/namespaces/NAMESPACE/explanations/NAME?kind=job`. With `?estimatedStart=true` both answers
say when pending workloads may start.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pykueue.api import integers, resources
from pykueue.api.scheme import Object
from pykueue.apiserver.fair_queue import FairQueue
from pykueue.apiserver.http.hooks import ExtraGroup, ExtraResource
from pykueue.apiserver.http.messages import HttpRequest, HttpResponse
from pykueue.apiserver.http.priority_levels import Seat, queue_of
from pykueue.apiserver.slices import Slices
from pykueue.app.visibility.start_estimates import StartEstimates
from pykueue.controllers.scheduler import job_facts
from pykueue.controllers.scheduler.job_facts import JobReference
from pykueue.engine import values
from pykueue.kube.delegation import AccessRequest
from pykueue.simulate.estimates.starts import EstimatedStart
from pykueue.translate import job_explanations, pending_report

if TYPE_CHECKING:
    from pykueue.apiserver.embedded import EmbeddedApi
    from pykueue.app.configured_controllers import ConfiguredControllers
    from pykueue.engine.view import EngineView
    from pykueue.kube.client import Client
    from pykueue.kube.controller.cache import ObjectCache

VERSIONS = ("v1beta1", "v1beta2")
EXPLANATIONS = "explanations"
ESTIMATED_START = "estimatedStart"
_LONGEST_QUEUE = 300
_STEP_WEIGHT = 8 * 1024
RESOURCES = (
    ExtraResource(
        name="clusterqueues/pendingworkloads", kind="PendingWorkloadsSummary", namespaced=False, verbs=("get",)
    ),
    ExtraResource(name="localqueues/pendingworkloads", kind="PendingWorkloadsSummary", namespaced=True, verbs=("get",)),
    ExtraResource(name=EXPLANATIONS, kind="Explanation", namespaced=True, verbs=("get",)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Queues:
    """The queues as this process has read them."""

    view: "EngineView"
    cache: "ObjectCache"
    estimates: StartEstimates
    slices: Slices = field(default_factory=Slices)
    """A queue may be long: few are put in order in one turn of the event loop."""


def register(api: "EmbeddedApi", controllers: "ConfiguredControllers") -> None:
    estimates = StartEstimates(lambda: controllers.configuration)
    explaining = FairQueue(1, _LONGEST_QUEUE)
    """One explanation at a time, users in turn: it reads all Workloads of a namespace."""
    slices = Slices()

    async def handler(call: HttpRequest) -> HttpResponse:
        route = call.route
        queues = Queues(
            view=controllers.scheduler.engine.view, cache=controllers.cache, estimates=estimates, slices=slices
        )
        if route.plural == EXPLANATIONS:
            job = JobReference(namespace=route.namespace, name=route.name, kind=call.query.get("kind", "").lower())
            everything = AccessRequest(
                verb="get", group=pending_report.GROUP, resource="clusterqueues", subresource="pendingworkloads"
            )
            may_see_all = api.authorizer.allows(call.user, everything)
            async with Seat(explaining, queue_of(call.user)):
                answer = await explanation(
                    api.client(), queues, job, version=route.version, may_see_all=may_see_all, query=call.query
                )
            return HttpResponse(body=answer)
        namespace = route.namespace if route.plural == "localqueues" else ""
        summary = await pending(queues, route.name, namespace, version=route.version, query=call.query)
        return HttpResponse(body=summary)

    for version in VERSIONS:
        group = ExtraGroup(group=pending_report.GROUP, version=version, resources=RESOURCES, handler=handler)
        api.hooks.add_group(group)


async def explanation(
    client: "Client",
    queues: Queues,
    job: JobReference,
    *,
    version: str,
    may_see_all: bool,
    query: Mapping[str, str],
) -> Object:
    """The explanation of a job, without names that the user may not see."""
    facts = await job_facts.read(client, queues.view, job, now_ns=time.time_ns(), may_see_all=may_see_all)
    answer = job_explanations.as_json(facts, job_explanations.report(facts))
    if query.get(ESTIMATED_START) == "true" and answer["state"] == "pending":
        start = await queues.estimates.of_workload(queues.view, queues.cache, values.WorkloadKey(answer["workload"]))
        if start is not None:
            answer[ESTIMATED_START] = (start if may_see_all else start.hiding(job.namespace)).as_json()
    return {
        "kind": "Explanation",
        "apiVersion": f"{pending_report.GROUP}/{version}",
        "metadata": {"name": job.name, "namespace": job.namespace},
        **answer,
    }


async def pending(queues: Queues, name: str, namespace: str, *, version: str, query: Mapping[str, str]) -> Object:
    """The summary of a LocalQueue, or of a ClusterQueue if `namespace` is empty."""
    view, cache = queues.view, queues.cache

    def find(key: values.WorkloadKey) -> Object | None:
        workload_namespace, _, workload_name = key.partition("/")
        return cache.get(resources.WORKLOAD, workload_name, workload_namespace)

    user = namespace or name
    await queues.slices.turn(user)
    if namespace:
        items = pending_report.of_local_queue(view, namespace, name, find)
    else:
        items = pending_report.of_cluster_queue(view, name, find)
    summary = pending_report.PendingSummary(
        version=version,
        offset=_number(query, "offset", 0),
        limit=_number(query, "limit", pending_report.DEFAULT_LIMIT),
    )
    await queues.slices.run((_STEP_WEIGHT for _ in summary.fill(items)), user)
    if query.get(ESTIMATED_START) == "true":
        await _add_starts(queues, summary.items)
    return summary.content


async def _add_starts(queues: Queues, items: list[Object]) -> None:
    """Add to each item when it may start; no item names a workload of another namespace.

    The estimates of a queue are looked up once: that alone takes as long as all its workloads.
    """
    keys = [values.WorkloadKey(f"{item['metadata']['namespace']}/{item['metadata']['name']}") for item in items]
    names = dict.fromkeys(filter(None, map(queues.view.cluster_queue_of, keys)))
    starts: dict[values.WorkloadKey, EstimatedStart] = {}
    for name in names:
        starts |= await queues.estimates.of_cluster_queue(queues.view, queues.cache, name) or {}
    for item, key in zip(items, keys, strict=True):
        if key in starts:
            item[ESTIMATED_START] = starts[key].hiding(item["metadata"]["namespace"]).as_json()


def _number(query: Mapping[str, str], name: str, default: int) -> int:
    text = query.get(name, "")
    return integers.signed(text, name) if text else default
