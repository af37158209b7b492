"""`pykueue list`: workloads, queues, flavors and pods as tables, with kueuectl's columns and filters."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from pykueue.api import conditions
from pykueue.cli import output as outputs
from pykueue.cli.completion import completes
from pykueue.cli.connection import Cluster, connects
from pykueue.cli.kinds import RESOURCES, NounGroup
from pykueue.cli.pod_listing import pods
from pykueue.cli.workload_listing import workload

if TYPE_CHECKING:
    from pykueue.api.scheme import Object
    from pykueue.kube.client import Client

Command = Callable[..., Any]


@click.group(name="list", cls=NounGroup)
def list_objects() -> None:
    """List workloads, queues, flavors or pods."""


list_objects.add_command(workload)
list_objects.add_command(pods)


def _selects(command: Command) -> Command:
    label = click.option("--selector", "-l", default="", help="A label selector.")
    field = click.option("--field-selector", default="", help="A field selector.")
    return label(field(outputs.shows(connects(command))))


@list_objects.command()
@click.option(
    "--active", type=click.Choice(["true", "false"]), help="Only those that admit, or only those that do not."
)
@_selects
def clusterqueue(*, active: str | None, cluster: Cluster, output: str | None, **selectors: str) -> None:
    """List ClusterQueues."""
    found = cluster.run(_lister("clusterqueue", everywhere=True, **selectors))
    chosen = [obj for obj in found if active is None or _is_active(obj) == (active == "true")]
    if outputs.is_structured(output):
        outputs.show_list(RESOURCES["clusterqueue"], chosen, str(output))
    elif not chosen:
        outputs.nothing_found(None)
    else:
        headers = ("NAME", "COHORT", "PENDING WORKLOADS", "ADMITTED WORKLOADS", "ACTIVE", "AGE")
        outputs.show_table(headers, map(_cluster_queue_row, chosen))


@list_objects.command()
@click.option(
    "--clusterqueue",
    "-c",
    default="",
    help="Only those of this ClusterQueue.",
    shell_complete=completes("clusterqueue"),
)
@click.option("--all-namespaces", "-A", is_flag=True, help="In all namespaces.")
@_selects
def localqueue(
    *, clusterqueue: str, all_namespaces: bool, cluster: Cluster, output: str | None, **selectors: str
) -> None:
    """List LocalQueues."""

    async def gather(client: "Client", namespace: str) -> "tuple[list[Object], str]":
        listed = await _lister("localqueue", everywhere=all_namespaces, **selectors)(client, namespace)
        return [obj for obj in listed if clusterqueue in ("", obj["spec"]["clusterQueue"])], namespace

    chosen, namespace = cluster.run(gather)
    if outputs.is_structured(output):
        outputs.show_list(RESOURCES["localqueue"], chosen, str(output))
    elif not chosen:
        outputs.nothing_found(None if all_namespaces else namespace)
    else:
        headers = ("NAME", "CLUSTERQUEUE", "PENDING WORKLOADS", "ADMITTED WORKLOADS", "AGE")
        namespaces = [obj["metadata"]["namespace"] for obj in chosen] if all_namespaces else None
        outputs.show_table(headers, map(_local_queue_row, chosen), namespaces=namespaces)


@list_objects.command()
@_selects
def resourceflavor(*, cluster: Cluster, output: str | None, **selectors: str) -> None:
    """List ResourceFlavors."""
    found = cluster.run(_lister("resourceflavor", everywhere=True, **selectors))
    if outputs.is_structured(output):
        outputs.show_list(RESOURCES["resourceflavor"], found, str(output))
    elif not found:
        outputs.nothing_found(None)
    else:
        outputs.show_table(("NAME", "NODE LABELS", "AGE"), map(_flavor_row, found))


def _lister(noun: str, *, everywhere: bool, selector: str, field_selector: str) -> Callable[..., Any]:
    async def listed(client: "Client", namespace: str) -> "list[Object]":
        from pykueue.kube.client import ListOptions

        options = ListOptions(label_selector=selector, field_selector=field_selector)
        found = await client.list(RESOURCES[noun], "" if everywhere else namespace, options)
        return found.items

    return listed


def _cluster_queue_row(obj: "Object") -> outputs.Row:
    return (
        obj["metadata"]["name"],
        obj["spec"].get("cohortName", ""),
        *_counts(obj),
        str(_is_active(obj)).lower(),
        outputs.age(obj),
    )


def _local_queue_row(obj: "Object") -> outputs.Row:
    return (obj["metadata"]["name"], obj["spec"]["clusterQueue"], *_counts(obj), outputs.age(obj))


def _flavor_row(obj: "Object") -> outputs.Row:
    labels = (obj.get("spec") or {}).get("nodeLabels") or {}
    shown = ", ".join(f"{key}={value}" for key, value in sorted(labels.items()))
    return (obj["metadata"]["name"], shown, outputs.age(obj))


def _counts(obj: "Object") -> tuple[str, str]:
    status = obj.get("status") or {}
    return str(status.get("pendingWorkloads", 0)), str(status.get("admittedWorkloads", 0))


def _is_active(obj: "Object") -> bool:

    return conditions.is_true(obj, "Active")
