"""`pykueue create`: queues and flavors from a line of options, with kueuectl's names for them."""

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import click

from pykueue.cli import output as outputs
from pykueue.cli.completion import completes
from pykueue.cli.connection import Cluster, connects
from pykueue.cli.kinds import RESOURCES, NounGroup

if TYPE_CHECKING:
    from pykueue.api.scheme import Object
    from pykueue.kube.client import Client

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_QUOTAS = re.compile(r"([a-z0-9][a-z0-9\-.]{0,252}):(.+)")

Command = Callable[..., Any]


@click.group(cls=NounGroup)
def create() -> None:
    """Create a ClusterQueue, LocalQueue or ResourceFlavor."""


def _written(command: Command) -> Command:
    dry_run = click.option(
        "--dry-run", type=click.Choice(["none", "client", "server"]), default="none", show_default=True
    )
    return outputs.shows(dry_run(connects(command)))


@create.command()
@click.argument("name")
@click.option("--cohort", default="", help="The cohort to belong to.")
@click.option("--queuing-strategy", type=click.Choice(["BestEffortFIFO", "StrictFIFO"]), default="BestEffortFIFO")
@click.option(
    "--namespace-selector", default="", metavar="KEY=VALUE,…", help="Labels of the namespaces that may submit."
)
@click.option("--reclaim-within-cohort", type=click.Choice(["Never", "LowerPriority", "Any"]), default="Never")
@click.option(
    "--preemption-within-cluster-queue",
    type=click.Choice(["Never", "LowerPriority", "LowerOrNewerEqualPriority"]),
    default="Never",
)
@click.option("--nominal-quota", multiple=True, metavar="FLAVOR:RESOURCE=VALUE;…", help="Comma-separated by flavor.")
@click.option("--borrowing-limit", multiple=True, metavar="FLAVOR:RESOURCE=VALUE;…")
@click.option("--lending-limit", multiple=True, metavar="FLAVOR:RESOURCE=VALUE;…")
@_written
def clusterqueue(*, name: str, cluster: Cluster, dry_run: str, output: str | None, **options: Any) -> None:
    """Create a ClusterQueue."""
    selector = _pairs(options["namespace_selector"], "--namespace-selector")
    spec: dict[str, Any] = {
        "queueingStrategy": options["queuing_strategy"],
        "namespaceSelector": {"matchLabels": selector} if selector else {},
        "preemption": {
            "reclaimWithinCohort": options["reclaim_within_cohort"],
            "withinClusterQueue": options["preemption_within_cluster_queue"],
        },
    }
    if options["cohort"]:
        spec["cohortName"] = options["cohort"]
    groups = resource_groups(
        nominalQuota=options["nominal_quota"],
        borrowingLimit=options["borrowing_limit"],
        lendingLimit=options["lending_limit"],
    )
    if groups:
        spec["resourceGroups"] = groups
    _create(cluster, "clusterqueue", {"metadata": {"name": name}, "spec": spec}, dry_run=dry_run, output=output)


@create.command()
@click.argument("name")
@click.option(
    "--clusterqueue",
    "-c",
    required=True,
    help="The ClusterQueue behind it.",
    shell_complete=completes("clusterqueue"),
)
@click.option("--ignore-unknown-cq", "-i", is_flag=True, help="Do not ask whether the ClusterQueue exists.")
@_written
def localqueue(
    *, name: str, clusterqueue: str, ignore_unknown_cq: bool, cluster: Cluster, dry_run: str, output: str | None
) -> None:
    """Create a LocalQueue."""

    async def check(client: "Client", _namespace: str) -> None:
        await client.get(RESOURCES["clusterqueue"], clusterqueue)

    if not ignore_unknown_cq:
        cluster.run(check)
    obj = {"metadata": {"name": name}, "spec": {"clusterQueue": clusterqueue}}
    _create(cluster, "localqueue", obj, dry_run=dry_run, output=output)


@create.command()
@click.argument("name")
@click.option("--node-labels", default="", metavar="KEY=VALUE,…")
@click.option("--node-taints", multiple=True, metavar="KEY[=VALUE]:EFFECT,…")
@click.option("--tolerations", multiple=True, metavar="KEY[=VALUE][:EFFECT],…")
@_written
def resourceflavor(
    *,
    name: str,
    node_labels: str,
    node_taints: tuple[str, ...],
    tolerations: tuple[str, ...],
    cluster: Cluster,
    dry_run: str,
    output: str | None,
) -> None:
    """Create a ResourceFlavor."""
    parts = {
        "nodeLabels": _pairs(node_labels, "--node-labels"),
        "nodeTaints": [_taint(text) for text in _separated(node_taints)],
        "tolerations": [_toleration(text) for text in _separated(tolerations)],
    }
    obj = {"metadata": {"name": name}, "spec": {field: value for field, value in parts.items() if value}}
    _create(cluster, "resourceflavor", obj, dry_run=dry_run, output=output)


def resource_groups(**quotas: Iterable[str]) -> "list[Object]":
    """`--nominal-quota "a:cpu=9;memory=36Gi,b:cpu=1"` and the like; flavors of the same resources share a group."""
    flavors: dict[str, dict[str, dict[str, str]]] = {}
    for field, texts in quotas.items():
        for text in _separated(texts):
            match = _QUOTAS.fullmatch(text)
            if match is None:
                raise click.ClickException(
                    f"invalid resources specification {text!r}: write FLAVOR:RESOURCE=VALUE;RESOURCE=VALUE"
                )
            resources = flavors.setdefault(match[1], {})
            for part in filter(None, match[2].split(";")):
                resource, _, value = part.partition("=")
                if not resource or not value:
                    raise click.ClickException(f"invalid resource quota {part!r}: write RESOURCE=VALUE")
                resources.setdefault(resource.strip(), {})[field] = value.strip()
    groups: dict[tuple[str, ...], list[Object]] = {}
    for flavor, resources in flavors.items():
        listed = [{"name": resource, "nominalQuota": "0", **values} for resource, values in resources.items()]
        groups.setdefault(tuple(resources), []).append({"name": flavor, "resources": listed})
    return [{"coveredResources": list(covered), "flavors": listed} for covered, listed in groups.items()]


def _create(cluster: Cluster, noun: str, obj: "Object", *, dry_run: str, output: str | None) -> None:
    resource = RESOURCES[noun]
    obj = {"apiVersion": resource.api_version, "kind": resource.kind, **obj}

    async def write(client: "Client", namespace: str) -> "Object":
        from pykueue.kube.client import WriteOptions

        place = namespace if resource.namespaced else ""
        return await client.create(resource, obj, place, WriteOptions(dry_run=dry_run == "server"))

    made = obj if dry_run == "client" else cluster.run(write)
    suffix = "" if dry_run == "none" else f" ({dry_run} dry run)"
    outputs.show(resource, made, output, done=f"created{suffix}")


def _separated(texts: Iterable[str]) -> list[str]:
    return [part.strip() for text in texts for part in text.split(",") if part.strip()]


def _pairs(text: str, option: str) -> dict[str, str]:
    pairs = {}
    for part in _separated([text]):
        key, equals, value = part.partition("=")
        if not equals or not key:
            raise click.ClickException(f"{option}: {part!r} is not KEY=VALUE")
        pairs[key] = value
    return pairs


def _taint(text: str) -> "Object":
    rest, _, effect = text.partition(":")
    key, _, value = rest.partition("=")
    if not key or effect not in _EFFECTS:
        raise click.ClickException(
            f"invalid taint spec: {text}: write KEY[=VALUE]:EFFECT, effect one of {', '.join(_EFFECTS)}"
        )
    return {"key": key, **({"value": value} if value else {}), "effect": effect}


def _toleration(text: str) -> "Object":
    rest, _, effect = text.partition(":")
    key, _, value = rest.partition("=")
    if value and not key:
        raise click.ClickException(f"invalid toleration spec: {text}: write KEY[=VALUE][:EFFECT]")
    if effect and effect not in _EFFECTS:
        raise click.ClickException(f"invalid toleration spec {text!r}: the effect is one of {', '.join(_EFFECTS)}")
    made = {"key": key} if key else {}
    made["operator"] = "Equal" if key and value else "Exists"
    return {**made, **({"value": value} if value else {}), **({"effect": effect} if effect else {})}
