"""`pykueue list`: workloads, queues, flavors and pods, with kueuectl's columns and filters."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

from pykueue.api import conditions, objects
from pykueue.cli import options
from pykueue.cli import output as outputs
from pykueue.cli.completion import complete_names
from pykueue.cli.connection import ClusterAccess, with_cluster
from pykueue.cli.kinds import RESOURCES, KindGroup
from pykueue.cli.list_pods import list_pods
from pykueue.cli.list_workloads import list_workloads

if TYPE_CHECKING:
    from pykueue.api.scheme import Object
    from pykueue.kube.client import Client

Command = Callable[..., Any]


@click.group(name="list", cls=KindGroup)
def list_objects() -> None:
    """List workloads, queues, flavors or pods."""


list_objects.add_command(list_workloads)
list_objects.add_command(list_pods)


def _with_list_options(command: Command) -> Command:
    return options.with_selectors(outputs.with_object_output(with_cluster(command)))


@list_objects.command()
@click.option(
    "--active",
    type=click.Choice(["true", "false"]),
    help="List only queues that admit workloads, or only those that do not.",
)
@_with_list_options
def clusterqueue(*, active: str | None, cluster: ClusterAccess, output: str | None, **selectors: str) -> None:
    """List ClusterQueues, with their workloads and quota.

    The last column shows the quota in use and the nominal quota, for each flavor and resource.
    """
    queues = cluster.run(_lister("clusterqueue", everywhere=True, **selectors))
    chosen = [obj for obj in queues if active is None or _is_active(obj) == (active == "true")]
    if outputs.is_structured(output):
        outputs.show_list(RESOURCES["clusterqueue"], chosen, str(output))
    elif not chosen:
        outputs.nothing_found(None)
    else:
        headers = ("NAME", "COHORT", "PENDING WORKLOADS", "ADMITTED WORKLOADS", "ACTIVE", "AGE", "QUOTA IN USE")
        outputs.show_table(headers, map(_cluster_queue_row, chosen))


@list_objects.command()
@click.option(
    "--clusterqueue",
    "-c",
    default="",
    help="List only LocalQueues of this ClusterQueue.",
    shell_complete=complete_names("clusterqueue"),
)
@options.with_all_namespaces
@_with_list_options
def localqueue(
    *, clusterqueue: str, all_namespaces: bool, cluster: ClusterAccess, output: str | None, **selectors: str
) -> None:
    """List LocalQueues, with the numbers of their workloads."""

    async def select(client: "Client", namespace: str) -> "tuple[list[Object], str]":
        queues = await _lister("localqueue", everywhere=all_namespaces, **selectors)(client, namespace)
        return [obj for obj in queues if clusterqueue in ("", obj["spec"]["clusterQueue"])], namespace

    chosen, namespace = cluster.run(select)
    if outputs.is_structured(output):
        outputs.show_list(RESOURCES["localqueue"], chosen, str(output))
    elif not chosen:
        outputs.nothing_found(None if all_namespaces else namespace)
    else:
        headers = ("NAME", "CLUSTERQUEUE", "PENDING WORKLOADS", "ADMITTED WORKLOADS", "AGE")
        namespaces = [objects.namespace(obj) for obj in chosen] if all_namespaces else None
        outputs.show_table(headers, map(_local_queue_row, chosen), namespaces=namespaces)


@list_objects.command()
@_with_list_options
def resourceflavor(*, cluster: ClusterAccess, output: str | None, **selectors: str) -> None:
    """List ResourceFlavors, with their node labels."""
    flavors = cluster.run(_lister("resourceflavor", everywhere=True, **selectors))
    if outputs.is_structured(output):
        outputs.show_list(RESOURCES["resourceflavor"], flavors, str(output))
    elif not flavors:
        outputs.nothing_found(None)
    else:
        outputs.show_table(("NAME", "NODE LABELS", "AGE"), map(_flavor_row, flavors))


def _lister(singular: str, *, everywhere: bool, selector: str, field_selector: str) -> Callable[..., Any]:
    async def list_all(client: "Client", namespace: str) -> "list[Object]":
        from pykueue.kube.client import ListOptions

        options = ListOptions(label_selector=selector, field_selector=field_selector)
        return (await client.list(RESOURCES[singular], "" if everywhere else namespace, options)).items

    return list_all


def _cluster_queue_row(obj: "Object") -> outputs.Row:
    return (
        objects.name(obj),
        obj["spec"].get("cohortName", ""),
        *_counts(obj),
        str(_is_active(obj)).lower(),
        outputs.age(obj),
        "; ".join(quota_in_use(obj)),
    )


def quota_in_use(obj: "Object") -> Iterator[str]:
    """For example `default: cpu 2/4, memory 1Gi/8Gi`, for each flavor."""
    used = {
        (flavor["name"], resource["name"]): resource.get("total", "0")
        for flavor in objects.nested_list(obj, "status", "flavorsReservation")
        for resource in flavor.get("resources") or ()
    }
    for group in objects.nested_list(obj, "spec", "resourceGroups"):
        for flavor in group["flavors"]:
            quotas = [
                f"{quota['name']} {used.get((flavor['name'], quota['name']), '0')}/{quota['nominalQuota']}"
                for quota in flavor["resources"]
            ]
            yield f"{flavor['name']}: {', '.join(quotas)}"


def _local_queue_row(obj: "Object") -> outputs.Row:
    return (objects.name(obj), obj["spec"]["clusterQueue"], *_counts(obj), outputs.age(obj))


def _flavor_row(obj: "Object") -> outputs.Row:
    labels = sorted(objects.nested(obj, "spec", "nodeLabels").items())
    return (objects.name(obj), ", ".join(f"{key}={value}" for key, value in labels), outputs.age(obj))


def _counts(obj: "Object") -> tuple[str, str]:
    status = objects.status(obj)
    return str(status.get("pendingWorkloads", 0)), str(status.get("admittedWorkloads", 0))


def _is_active(obj: "Object") -> bool:
    return conditions.is_true(obj, "Active")
