"""`pykueue list workload`: workloads with their jobs, queues and positions in the queue."""

import time
from typing import TYPE_CHECKING, Any

import click

from pykueue.api import conditions, objects
from pykueue.cli import options
from pykueue.cli import output as outputs
from pykueue.cli.completion import complete_names
from pykueue.cli.connection import ClusterAccess, with_cluster
from pykueue.cli.kinds import RESOURCES

if TYPE_CHECKING:
    from pykueue.api.scheme import Object
    from pykueue.kube.client import Client

_STATUSES = ("all", "pending", "quotareserved", "admitted", "finished")
_VISIBILITY = "/apis/visibility.kueue.x-k8s.io/v1beta2"
_OF_CLUSTER_QUEUE = _VISIBILITY + "/clusterqueues/{name}/pendingworkloads?estimatedStart=true"
_OF_LOCAL_QUEUE = _VISIBILITY + "/namespaces/{namespace}/localqueues/{name}/pendingworkloads?estimatedStart=true"
_JOB_UID = "kueue.x-k8s.io/job-uid"
_LONGEST_TYPE = 20
_HEADERS = (
    "NAME",
    "JOB TYPE",
    "JOB NAME",
    "LOCALQUEUE",
    "CLUSTERQUEUE",
    "STATUS",
    "POSITION IN QUEUE",
    "EXEC TIME",
    "AGE",
    "ESTIMATED START",
)


@click.command(name="workload")
@click.option(
    "--clusterqueue",
    "-c",
    default="",
    help="List only workloads with a quota reservation in this ClusterQueue.",
    shell_complete=complete_names("clusterqueue"),
)
@click.option(
    "--localqueue",
    "-q",
    default="",
    help="List only workloads of this LocalQueue.",
    shell_complete=complete_names("localqueue"),
)
@click.option(
    "--status",
    "statuses",
    multiple=True,
    type=click.Choice(_STATUSES, case_sensitive=False),
    help="List only workloads in this state; may be repeated.",
)
@click.option("--for", "owner", default="", metavar="TYPE[.GROUP]/NAME", help="List only the workloads of this job.")
@options.with_all_namespaces
@options.with_selectors
@outputs.with_object_output
@with_cluster
def list_workloads(
    *, all_namespaces: bool, cluster: ClusterAccess, output: str | None, owner: str, **filters: Any
) -> None:
    """List Workloads, with their jobs, queues and positions."""
    if owner and "/" not in owner:
        raise click.ClickException("--for must be in resource/name form")

    async def select(client: "Client", namespace: str) -> "tuple[list[Object], list[outputs.Row], str]":
        job_uid = await _job_uid(client, owner, "" if all_namespaces else namespace) if owner else ""
        if owner and not job_uid:
            return [], [], namespace
        workloads = await _workloads(client, "" if all_namespaces else namespace, job_uid, **filters)
        rows = [] if outputs.is_structured(output) else await _rows(client, workloads)
        return workloads, rows, namespace

    workloads, rows, namespace = cluster.run(select)
    if outputs.is_structured(output):
        outputs.show_list(RESOURCES["workload"], workloads, str(output))
    elif not workloads:
        outputs.nothing_found(None if all_namespaces else namespace)
    else:
        namespaces = [objects.namespace(obj) for obj in workloads] if all_namespaces else None
        outputs.show_table(_HEADERS, rows, namespaces=namespaces)


async def _job_uid(client: "Client", owner: str, namespace: str) -> str:
    """The UID of a job; empty if there is no such job."""
    from pykueue.cli import discovery
    from pykueue.kube.client import ListOptions

    word, _, name = owner.partition("/")
    try:
        resource = await discovery.find(client, word)
    except discovery.UnknownKindError as fault:
        raise click.ClickException(str(fault)) from None
    jobs = (await client.list(resource, namespace, ListOptions(field_selector=f"metadata.name={name}"))).items
    return objects.uid(jobs[0]) if jobs else ""


async def _workloads(client: "Client", namespace: str, job_uid: str, **filters: Any) -> "list[Object]":
    from pykueue.kube.client import ListOptions

    options = ListOptions(label_selector=filters["selector"], field_selector=filters["field_selector"])
    workloads = (await client.list(RESOURCES["workload"], namespace, options)).items
    if job_uid:
        workloads = [obj for obj in workloads if _belongs_to(obj, job_uid)]
    return [
        obj
        for obj in workloads
        if _matches(obj, filters["clusterqueue"], filters["localqueue"], {word.lower() for word in filters["statuses"]})
    ]


def _belongs_to(obj: "Object", job_uid: str) -> bool:
    owners = objects.owner_references(obj)
    return objects.labels(obj).get(_JOB_UID) == job_uid or any(owner["uid"] == job_uid for owner in owners)


def _matches(obj: "Object", cluster_queue: str, local_queue: str, statuses: set[str]) -> bool:
    if cluster_queue and objects.nested(obj, "status", "admission").get("clusterQueue") != cluster_queue:
        return False
    if local_queue and obj["spec"].get("queueName") != local_queue:
        return False
    return not statuses or "all" in statuses or _status(obj).lower() in statuses


async def _rows(client: "Client", workloads: "list[Object]") -> list[outputs.Row]:
    cluster_queues = await _cluster_queues(client, workloads)
    pending = [obj for obj in workloads if _status(obj) == "pending"]
    items = await _pending_items(client, pending, cluster_queues)
    types = await _job_types(client, workloads)
    return [_row(obj, cluster_queues, items.get(_key(obj), {}), types) for obj in workloads]


async def _cluster_queues(client: "Client", workloads: "list[Object]") -> dict[str, str]:
    """The ClusterQueue of each LocalQueue: a Workload without an admission does not name it."""
    cluster_queues = {}
    for namespace in sorted({objects.namespace(obj) for obj in workloads}):
        for queue in (await client.list(RESOURCES["localqueue"], namespace)).items:
            cluster_queues[_key(queue)] = str(queue["spec"]["clusterQueue"])
    return cluster_queues


async def _pending_items(
    client: "Client", workloads: "list[Object]", cluster_queues: dict[str, str]
) -> "dict[str, Object]":
    """What the visibility API says about each workload; empty without that API.

    Users who may not read the ClusterQueues read the LocalQueues of their namespace.
    """
    by_workload = {}
    for name in sorted({_queue_of(obj, cluster_queues) for obj in workloads} - {""}):
        items = await _pending(client, _OF_CLUSTER_QUEUE.format(name=name))
        if items is None:
            local_queues = sorted(key for key, cluster_queue in cluster_queues.items() if cluster_queue == name)
            paths = [
                _OF_LOCAL_QUEUE.format(namespace=key.split("/")[0], name=key.split("/")[1]) for key in local_queues
            ]
            items = [item for path in paths for item in await _pending(client, path) or ()]
        for item in items:
            by_workload[_key(item)] = item
    return by_workload


async def _pending(client: "Client", path: str) -> "list[Object] | None":
    """The items of a PendingWorkloadsSummary; None if it is not served or not allowed."""
    from pykueue.api.errors import ApiError

    try:
        return (await client.raw("GET", path)).get("items") or []
    except ApiError as error:
        if error.code in (403, 404, 503):
            return None
        raise


async def _job_types(client: "Client", workloads: "list[Object]") -> dict[tuple[str, str], str]:
    """The names of the owners' kinds, from discovery; kinds that are not served have none."""
    from pykueue.api.errors import ApiError

    owners = {
        (str(reference["apiVersion"]), str(reference["kind"]))
        for obj in workloads
        for reference in objects.owner_references(obj)
    }
    types = {}
    for version in {version for version, _ in owners}:
        try:
            resource_list = await client.raw("GET", f"/apis/{version}" if "/" in version else f"/api/{version}")
        except ApiError as error:
            if error.code != 404:
                raise
            continue
        for entry in resource_list.get("resources") or ():
            if entry.get("singularName") and "/" not in entry["name"]:
                types[version, str(entry["kind"])] = _job_type(entry)
    return types


def _job_type(entry: "Object") -> str:
    name = ".".join(filter(None, (entry["singularName"], entry.get("group", ""))))
    return name if len(name) <= _LONGEST_TYPE else f"{name[:_LONGEST_TYPE]}..."


def _row(
    obj: "Object", cluster_queues: dict[str, str], item: "Object", types: dict[tuple[str, str], str]
) -> outputs.Row:
    """A row of the table; the item is that of the visibility API, empty if it has none."""
    owners = objects.owner_references(obj)
    kinds = {types.get((reference["apiVersion"], reference["kind"]), "") for reference in owners}
    return (
        objects.name(obj),
        ", ".join(sorted(filter(None, kinds))),
        ", ".join(sorted({reference["name"] for reference in owners})),
        obj["spec"].get("queueName", ""),
        _queue_of(obj, cluster_queues),
        _status(obj).upper(),
        str(item.get("positionInLocalQueue", 0) + 1) if item else "",
        _execution_time(obj),
        outputs.age(obj),
        _estimated_start(item.get("estimatedStart")),
    )


def _estimated_start(estimate: "Object | None") -> str:
    """For example `12m (5m-40m)`: from now, and the bar of nine of ten cases."""
    if estimate is None:
        return ""
    if "unknown" in estimate:
        return "unknown"
    from pykueue.simulate.estimates import starts

    return starts.short_text(estimate, time.time_ns())


def _status(obj: "Object") -> str:
    from pykueue.controllers.workloads import predicates

    return predicates.status_word(obj)


def _key(obj: "Object") -> str:
    return f"{objects.namespace(obj)}/{objects.name(obj)}"


def _queue_of(obj: "Object", cluster_queues: dict[str, str]) -> str:
    local_queue = f"{objects.namespace(obj)}/{obj['spec'].get('queueName', '')}"
    admission = objects.nested(obj, "status", "admission")
    return str(admission.get("clusterQueue") or cluster_queues.get(local_queue, ""))


def _execution_time(obj: "Object") -> str:
    from pykueue.apiserver.tables import ages

    admitted, finished = conditions.find(obj, "Admitted"), conditions.find(obj, "Finished")
    if admitted is None or not conditions.has_status_true(admitted):
        return ""
    is_over = finished is not None and conditions.has_status_true(finished)
    end = ages.parse(finished["lastTransitionTime"]) if finished and is_over else time.time()
    start = ages.parse(admitted["lastTransitionTime"])
    return ages.duration(end - start) if start is not None and end is not None else ""
