"""`pykueue list`: workloads, queues and flavors as tables, with kueuectl's columns and filters."""

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import click

from pykueue.cli.connection import Cluster, connects
from pykueue.cli.nouns import RESOURCES, NounGroup

if TYPE_CHECKING:
    from pykueue.api.scheme import Object
    from pykueue.kube.client import Client

Command = Callable[..., Any]
Row = tuple[str, ...]

_STATUSES = ("all", "pending", "quotareserved", "admitted", "finished")
_VISIBILITY = "/apis/visibility.kueue.x-k8s.io/v1beta2/clusterqueues/{name}/pendingworkloads"


@click.group(name="list", cls=NounGroup)
def list_objects() -> None:
    """List workloads, queues or flavors."""


def _selects(command: Command) -> Command:
    label = click.option("--selector", "-l", default="", help="A label selector.")
    field = click.option("--field-selector", default="", help="A field selector.")
    return label(field(connects(command)))


_EVERYWHERE = click.option("--all-namespaces", "-A", is_flag=True, help="In all namespaces.")


@list_objects.command()
@click.option(
    "--active", type=click.Choice(["true", "false"]), help="Only those that admit, or only those that do not."
)
@_selects
def clusterqueue(*, active: str | None, selector: str, field_selector: str, cluster: Cluster) -> None:
    """List ClusterQueues."""
    found = cluster.run(_lister("clusterqueue", selector, field_selector, everywhere=True))
    rows = [_cluster_queue_row(obj) for obj in found if active is None or _is_active(obj) == (active == "true")]
    _show(("NAME", "COHORT", "PENDING WORKLOADS", "ADMITTED WORKLOADS", "ACTIVE", "AGE"), rows)


@list_objects.command()
@click.option("--clusterqueue", "-c", default="", help="Only those of this ClusterQueue.")
@_EVERYWHERE
@_selects
def localqueue(
    *, clusterqueue: str, all_namespaces: bool, selector: str, field_selector: str, cluster: Cluster
) -> None:
    """List LocalQueues."""
    found = cluster.run(_lister("localqueue", selector, field_selector, everywhere=all_namespaces))
    chosen = [obj for obj in found if clusterqueue in ("", obj["spec"]["clusterQueue"])]
    headers = ("NAME", "CLUSTERQUEUE", "PENDING WORKLOADS", "ADMITTED WORKLOADS", "AGE")
    rows = [_local_queue_row(obj) for obj in chosen]
    _show(headers, rows, namespaces=_namespaces(chosen) if all_namespaces else None)


@list_objects.command()
@_selects
def resourceflavor(*, selector: str, field_selector: str, cluster: Cluster) -> None:
    """List ResourceFlavors."""
    found = cluster.run(_lister("resourceflavor", selector, field_selector, everywhere=True))
    rows: list[Row] = []
    for obj in found:
        labels = (obj.get("spec") or {}).get("nodeLabels") or {}
        shown = ", ".join(f"{key}={value}" for key, value in sorted(labels.items()))
        rows.append((obj["metadata"]["name"], shown, _age(obj)))
    _show(("NAME", "NODE LABELS", "AGE"), rows)


@list_objects.command()
@click.option("--clusterqueue", "-c", default="", help="Only those that hold quota in this ClusterQueue.")
@click.option("--localqueue", "-q", default="", help="Only those of this LocalQueue.")
@click.option(
    "--status", "statuses", multiple=True, type=click.Choice(_STATUSES, case_sensitive=False), help="May be repeated."
)
@click.option("--for", "owner", default="", metavar="TYPE[.GROUP]/NAME", help="Only those of this job.")
@_EVERYWHERE
@_selects
def workload(*, all_namespaces: bool, selector: str, field_selector: str, cluster: Cluster, **filters: Any) -> None:
    """List Workloads."""
    if filters["owner"] and "/" not in filters["owner"]:
        raise click.UsageError("--for must be in resource/name form")

    async def gather(client: "Client", namespace: str) -> "tuple[list[Object], list[Row]]":
        listed = await _lister("workload", selector, field_selector, everywhere=all_namespaces)(client, namespace)
        chosen = [obj for obj in listed if _is_wanted(obj, **filters)]
        queues = await _lister("localqueue", "", "", everywhere=all_namespaces)(client, namespace)
        behind = {_key(obj): str(obj["spec"]["clusterQueue"]) for obj in queues}
        positions = await _positions(client, {_queue_of(obj, behind) for obj in chosen if _status(obj) == "pending"})
        return chosen, [_workload_row(obj, behind, positions) for obj in chosen]

    found, rows = cluster.run(gather)
    headers = (
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
    _show(headers, rows, namespaces=_namespaces(found) if all_namespaces else None)


def _lister(noun: str, selector: str, field_selector: str, *, everywhere: bool) -> Callable[..., Any]:
    from pykueue.kube.client import ListOptions

    options = ListOptions(label_selector=selector, field_selector=field_selector)

    async def listed(client: "Client", namespace: str) -> "list[Object]":
        found = await client.list(RESOURCES[noun], "" if everywhere else namespace, options)
        return found.items

    return listed


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


def _is_wanted(obj: "Object", *, clusterqueue: str, localqueue: str, statuses: tuple[str, ...], owner: str) -> bool:
    admission = (obj.get("status") or {}).get("admission") or {}
    if clusterqueue and admission.get("clusterQueue") != clusterqueue:
        return False
    if localqueue and obj["spec"].get("queueName") != localqueue:
        return False
    if owner and owner.lower() not in _owner_names(obj):
        return False
    wanted = {status.lower() for status in statuses}
    return not wanted or "all" in wanted or _status(obj).lower() in wanted


def _owner_names(obj: "Object") -> set[str]:
    """Every way in which `--for` may name an owner."""
    names = set()
    for reference in obj["metadata"].get("ownerReferences") or ():
        kind, group = reference["kind"].lower(), reference["apiVersion"].rpartition("/")[0]
        for word in (kind, f"{kind}s", f"{kind}.{group}", f"{kind}s.{group}"):
            names.add(f"{word}/{reference['name']}".lower())
    return names


def _status(obj: "Object") -> str:
    from pykueue.controllers.workload import facts

    return facts.status_word(obj)


def _key(obj: "Object") -> str:
    return f"{obj['metadata'].get('namespace', '')}/{obj['metadata']['name']}"


def _queue_of(obj: "Object", behind: dict[str, str]) -> str:
    admission = (obj.get("status") or {}).get("admission") or {}
    local_queue = f"{obj['metadata']['namespace']}/{obj['spec'].get('queueName', '')}"
    return str(admission.get("clusterQueue") or behind.get(local_queue, ""))


def _workload_row(obj: "Object", behind: dict[str, str], positions: dict[str, str]) -> Row:
    owners = obj["metadata"].get("ownerReferences") or ()
    kinds = sorted({_owner_type(reference) for reference in owners})
    return (
        obj["metadata"]["name"],
        ", ".join(kinds),
        ", ".join(sorted({reference["name"] for reference in owners})),
        obj["spec"].get("queueName", ""),
        _queue_of(obj, behind),
        _status(obj).upper(),
        positions.get(_key(obj), ""),
        _execution_time(obj),
        _age(obj),
    )


def _owner_type(reference: "Object") -> str:
    group = reference["apiVersion"].rpartition("/")[0]
    return f"{reference['kind'].lower()}.{group}" if group else str(reference["kind"].lower())


def _execution_time(obj: "Object") -> str:
    from pykueue.apiserver.tables import ages
    from pykueue.translate import conditions

    found = conditions.by_type(obj)
    if not conditions.holds(found.get("Admitted")):
        return ""
    finished = found.get("Finished")
    end = ages.parse(finished["lastTransitionTime"]) if finished and conditions.holds(finished) else time.time()
    start = ages.parse(found["Admitted"]["lastTransitionTime"])
    return ages.duration(end - start) if start is not None and end is not None else ""


def _cluster_queue_row(obj: "Object") -> Row:
    return (
        obj["metadata"]["name"],
        obj["spec"].get("cohortName", ""),
        *_counts(obj),
        str(_is_active(obj)).lower(),
        _age(obj),
    )


def _local_queue_row(obj: "Object") -> Row:
    return (obj["metadata"]["name"], obj["spec"]["clusterQueue"], *_counts(obj), _age(obj))


def _counts(obj: "Object") -> tuple[str, str]:
    status = obj.get("status") or {}
    return str(status.get("pendingWorkloads", 0)), str(status.get("admittedWorkloads", 0))


def _is_active(obj: "Object") -> bool:
    from pykueue.translate import conditions

    return conditions.is_true(obj, "Active")


def _age(obj: "Object") -> str:
    from pykueue.apiserver.tables import ages

    return ages.age(obj["metadata"].get("creationTimestamp"), time.time())


def _namespaces(objects: "Iterable[Object]") -> list[str]:
    return [obj["metadata"].get("namespace", "") for obj in objects]


def _show(headers: Row, rows: list[Row], *, namespaces: list[str] | None = None) -> None:
    if not rows:
        click.echo("No resources found", err=True)
        return
    if namespaces is not None:
        headers = ("NAMESPACE", *headers)
        rows = [(namespace, *row) for namespace, row in zip(namespaces, rows, strict=True)]
    widths = [max(len(line[column]) for line in (headers, *rows)) for column in range(len(headers))]
    for line in (headers, *rows):
        click.echo("   ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
