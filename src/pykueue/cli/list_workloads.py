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
_VISIBILITY = "/apis/visibility.kueue.x-k8s.io/v1beta2/clusterqueues/{name}/pendingworkloads"
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
    positions = await _positions(client, {_queue_of(obj, cluster_queues) for obj in pending})
    types = await _job_types(client, workloads)
    return [_row(obj, cluster_queues, positions, types) for obj in workloads]


async def _cluster_queues(client: "Client", workloads: "list[Object]") -> dict[str, str]:
    """The ClusterQueue of each LocalQueue: a Workload without an admission does not name it."""
    cluster_queues = {}
    for namespace in sorted({objects.namespace(obj) for obj in workloads}):
        for queue in (await client.list(RESOURCES["localqueue"], namespace)).items:
            cluster_queues[_key(queue)] = str(queue["spec"]["clusterQueue"])
    return cluster_queues


async def _positions(client: "Client", names: set[str]) -> dict[str, str]:
    """Positions in the LocalQueues by workload; empty if the visibility API is not served."""
    from pykueue.api.errors import ApiError

    positions: dict[str, str] = {}
    for name in sorted(filter(None, names)):
        try:
            summary = await client.raw("GET", _VISIBILITY.format(name=name))
        except ApiError as error:
            if error.code in (403, 404, 503):
                continue
            raise
        for item in summary.get("items") or ():
            positions[_key(item)] = str(item.get("positionInLocalQueue", 0))
    return positions


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
    obj: "Object", cluster_queues: dict[str, str], positions: dict[str, str], types: dict[tuple[str, str], str]
) -> outputs.Row:
    owners = objects.owner_references(obj)
    kinds = {types.get((reference["apiVersion"], reference["kind"]), "") for reference in owners}
    return (
        objects.name(obj),
        ", ".join(sorted(filter(None, kinds))),
        ", ".join(sorted({reference["name"] for reference in owners})),
        obj["spec"].get("queueName", ""),
        _queue_of(obj, cluster_queues),
        _status(obj).upper(),
        positions.get(_key(obj), ""),
        _execution_time(obj),
        outputs.age(obj),
    )


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
