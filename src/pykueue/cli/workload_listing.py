"""`pykueue list workload`: workloads with their jobs, queues and places in the queue."""

import time
from typing import TYPE_CHECKING, Any

import click

from pykueue.api import conditions
from pykueue.cli import output as outputs
from pykueue.cli.completion import completes
from pykueue.cli.connection import Cluster, connects
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


@click.command()
@click.option(
    "--clusterqueue",
    "-c",
    default="",
    help="Only those that hold quota in this ClusterQueue.",
    shell_complete=completes("clusterqueue"),
)
@click.option(
    "--localqueue", "-q", default="", help="Only those of this LocalQueue.", shell_complete=completes("localqueue")
)
@click.option(
    "--status", "statuses", multiple=True, type=click.Choice(_STATUSES, case_sensitive=False), help="May be repeated."
)
@click.option("--for", "owner", default="", metavar="TYPE[.GROUP]/NAME", help="Only those of this job.")
@click.option("--all-namespaces", "-A", is_flag=True, help="In all namespaces.")
@click.option("--selector", "-l", default="", help="A label selector.")
@click.option("--field-selector", default="", help="A field selector.")
@outputs.shows
@connects
def workload(*, all_namespaces: bool, cluster: Cluster, output: str | None, owner: str, **filters: Any) -> None:
    """List Workloads."""
    if owner and "/" not in owner:
        raise click.ClickException("--for must be in resource/name form")

    async def gather(client: "Client", namespace: str) -> "tuple[list[Object], list[outputs.Row], str]":
        job_uid = await _job_uid(client, owner, "" if all_namespaces else namespace) if owner else ""
        if owner and not job_uid:
            return [], [], namespace
        chosen = await _chosen(client, "" if all_namespaces else namespace, job_uid, **filters)
        rows = [] if outputs.is_structured(output) else await _rows(client, chosen)
        return chosen, rows, namespace

    found, rows, namespace = cluster.run(gather)
    if outputs.is_structured(output):
        outputs.show_list(RESOURCES["workload"], found, str(output))
    elif not found:
        outputs.nothing_found(None if all_namespaces else namespace)
    else:
        namespaces = [obj["metadata"]["namespace"] for obj in found] if all_namespaces else None
        outputs.show_table(_HEADERS, rows, namespaces=namespaces)


async def _job_uid(client: "Client", owner: str, namespace: str) -> str:
    """Empty if there is no such job."""
    from pykueue.cli import discovery
    from pykueue.kube.client import ListOptions

    word, _, name = owner.partition("/")
    try:
        resource = await discovery.find(client, word)
    except discovery.UnknownKindError as fault:
        raise click.ClickException(str(fault)) from None
    found = await client.list(resource, namespace, ListOptions(field_selector=f"metadata.name={name}"))
    return str(found.items[0]["metadata"]["uid"]) if found.items else ""


async def _chosen(client: "Client", namespace: str, job_uid: str, **filters: Any) -> "list[Object]":
    from pykueue.kube.client import ListOptions

    options = ListOptions(label_selector=filters["selector"], field_selector=filters["field_selector"])
    listed = (await client.list(RESOURCES["workload"], namespace, options)).items
    if job_uid:
        listed = [obj for obj in listed if _is_of(obj, job_uid)]
    return [
        obj
        for obj in listed
        if _is_wanted(
            obj, filters["clusterqueue"], filters["localqueue"], {word.lower() for word in filters["statuses"]}
        )
    ]


def _is_of(obj: "Object", job_uid: str) -> bool:
    labels = obj["metadata"].get("labels") or {}
    owners = obj["metadata"].get("ownerReferences") or ()
    return labels.get(_JOB_UID) == job_uid or any(reference["uid"] == job_uid for reference in owners)


def _is_wanted(obj: "Object", cluster_queue: str, local_queue: str, statuses: set[str]) -> bool:
    admission = (obj.get("status") or {}).get("admission") or {}
    if cluster_queue and admission.get("clusterQueue") != cluster_queue:
        return False
    if local_queue and obj["spec"].get("queueName") != local_queue:
        return False
    return not statuses or "all" in statuses or _status(obj).lower() in statuses


async def _rows(client: "Client", chosen: "list[Object]") -> list[outputs.Row]:
    behind = await _queues_behind(client, chosen)
    positions = await _positions(client, {_queue_of(obj, behind) for obj in chosen if _status(obj) == "pending"})
    types = await _job_types(client, chosen)
    return [_row(obj, behind, positions, types) for obj in chosen]


async def _queues_behind(client: "Client", chosen: "list[Object]") -> dict[str, str]:
    """The ClusterQueues of LocalQueues, where the Workload itself does not tell."""
    behind = {}
    for namespace in sorted({obj["metadata"]["namespace"] for obj in chosen}):
        for queue in (await client.list(RESOURCES["localqueue"], namespace)).items:
            behind[_key(queue)] = str(queue["spec"]["clusterQueue"])
    return behind


async def _positions(client: "Client", names: set[str]) -> dict[str, str]:
    """Positions in the local queues, by workload; empty where the visibility API is not served."""
    from pykueue.api.errors import ApiError

    found: dict[str, str] = {}
    for name in sorted(filter(None, names)):
        try:
            summary = await client.raw("GET", _VISIBILITY.format(name=name))
        except ApiError as error:
            if error.code in (403, 404, 503):
                continue
            raise
        for item in summary.get("items") or ():
            found[_key(item)] = str(item.get("positionInLocalQueue", 0))
    return found


async def _job_types(client: "Client", chosen: "list[Object]") -> dict[tuple[str, str], str]:
    """As the cluster names the owners' kinds; what it does not serve has no name."""
    from pykueue.api.errors import ApiError

    owners = {
        (str(reference["apiVersion"]), str(reference["kind"]))
        for obj in chosen
        for reference in obj["metadata"].get("ownerReferences") or ()
    }
    types = {}
    for version in {version for version, _ in owners}:
        try:
            listed = await client.raw("GET", f"/apis/{version}" if "/" in version else f"/api/{version}")
        except ApiError as error:
            if error.code != 404:
                raise
            continue
        for entry in listed.get("resources") or ():
            if entry.get("singularName") and "/" not in entry["name"]:
                types[version, str(entry["kind"])] = _job_type(entry)
    return types


def _job_type(entry: "Object") -> str:
    name = ".".join(filter(None, (entry["singularName"], entry.get("group", ""))))
    return name if len(name) <= _LONGEST_TYPE else f"{name[:_LONGEST_TYPE]}..."


def _row(
    obj: "Object", behind: dict[str, str], positions: dict[str, str], types: dict[tuple[str, str], str]
) -> outputs.Row:
    owners = obj["metadata"].get("ownerReferences") or ()
    kinds = {types.get((reference["apiVersion"], reference["kind"]), "") for reference in owners}
    return (
        obj["metadata"]["name"],
        ", ".join(sorted(filter(None, kinds))),
        ", ".join(sorted({reference["name"] for reference in owners})),
        obj["spec"].get("queueName", ""),
        _queue_of(obj, behind),
        _status(obj).upper(),
        positions.get(_key(obj), ""),
        _execution_time(obj),
        outputs.age(obj),
    )


def _status(obj: "Object") -> str:
    from pykueue.controllers.workloads import predicates

    return predicates.status_word(obj)


def _key(obj: "Object") -> str:
    return f"{obj['metadata'].get('namespace', '')}/{obj['metadata']['name']}"


def _queue_of(obj: "Object", behind: dict[str, str]) -> str:
    admission = (obj.get("status") or {}).get("admission") or {}
    local_queue = f"{obj['metadata']['namespace']}/{obj['spec'].get('queueName', '')}"
    return str(admission.get("clusterQueue") or behind.get(local_queue, ""))


def _execution_time(obj: "Object") -> str:
    from pykueue.apiserver.tables import ages

    found = conditions.by_type(obj)
    if not conditions.has_status_true(found.get("Admitted")):
        return ""
    finished = found.get("Finished")
    end = (
        ages.parse(finished["lastTransitionTime"]) if finished and conditions.has_status_true(finished) else time.time()
    )
    start = ages.parse(found["Admitted"]["lastTransitionTime"])
    return ages.duration(end - start) if start is not None and end is not None else ""
