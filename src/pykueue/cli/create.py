"""`pykueue create`: queues and flavors, with kueuectl's options."""

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import click

from pykueue.cli import options
from pykueue.cli import output as outputs
from pykueue.cli.completion import complete_names
from pykueue.cli.connection import ClusterAccess, existing_names, with_cluster
from pykueue.cli.kinds import RESOURCES, KindGroup

if TYPE_CHECKING:
    from pykueue.api.scheme import Object
    from pykueue.kube.client import Client

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_QUOTAS = re.compile(r"([a-z0-9][a-z0-9\-.]{0,252}):(.+)")

Command = Callable[..., Any]


@click.group(cls=KindGroup)
def create() -> None:
    """Create a ClusterQueue, LocalQueue or ResourceFlavor."""


def _with_write_options(command: Command) -> Command:
    return outputs.with_object_output(options.with_dry_run(with_cluster(command)))


@create.command()
@click.argument("name")
@click.option("--cohort", default="", help="The cohort of the ClusterQueue.")
@click.option(
    "--queuing-strategy",
    type=click.Choice(["BestEffortFIFO", "StrictFIFO"]),
    default="BestEffortFIFO",
    show_default=True,
    help="Whether a workload that does not fit blocks the ones behind it (StrictFIFO).",
)
@click.option(
    "--namespace-selector",
    default="",
    metavar="KEY=VALUE,…",
    help="The labels of the namespaces that may use the queue. Default: all namespaces.",
)
@click.option(
    "--reclaim-within-cohort",
    type=click.Choice(["Never", "LowerPriority", "Any"]),
    default="Never",
    show_default=True,
    help="Which workloads of other queues may be preempted to get back lent quota.",
)
@click.option(
    "--preemption-within-cluster-queue",
    type=click.Choice(["Never", "LowerPriority", "LowerOrNewerEqualPriority"]),
    default="Never",
    show_default=True,
    help="Which workloads of the same queue may be preempted.",
)
@click.option(
    "--nominal-quota",
    multiple=True,
    metavar="FLAVOR:RESOURCE=VALUE;…",
    help="The quota of each flavor; flavors are separated by commas.",
)
@click.option(
    "--borrowing-limit",
    multiple=True,
    metavar="FLAVOR:RESOURCE=VALUE;…",
    help="How much may be borrowed. Default: no limit.",
)
@click.option(
    "--lending-limit",
    multiple=True,
    metavar="FLAVOR:RESOURCE=VALUE;…",
    help="How much may be lent. Default: all of the quota.",
)
@_with_write_options
def clusterqueue(*, name: str, cluster: ClusterAccess, dry_run: str, output: str | None, **options: Any) -> None:
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
    if groups and dry_run != "client":
        _warn_of_missing_flavors(cluster, {flavor["name"] for group in groups for flavor in group["flavors"]})


def _warn_of_missing_flavors(cluster: ClusterAccess, names: set[str]) -> None:
    """A ClusterQueue admits nothing while one of its flavors does not exist."""

    async def read(client: "Client", _namespace: str) -> list[str] | None:
        return await existing_names(client, RESOURCES["resourceflavor"])

    existing = cluster.run(read)
    missing = [] if existing is None else sorted(names.difference(existing))
    if missing:
        outputs.echo(
            f"Warning: the ClusterQueue admits nothing until ResourceFlavor {' and '.join(missing)} exists; "
            f"existing: {', '.join(existing or ()) or 'none'}. Create it: pykueue create resourceflavor {missing[0]}",
            err=True,
        )


@create.command()
@click.argument("name")
@click.option(
    "--clusterqueue",
    "-c",
    required=True,
    help="The ClusterQueue that the LocalQueue belongs to.",
    shell_complete=complete_names("clusterqueue"),
)
@click.option("--ignore-unknown-cq", "-i", is_flag=True, help="Do not check that the ClusterQueue exists.")
@_with_write_options
def localqueue(
    *, name: str, clusterqueue: str, ignore_unknown_cq: bool, cluster: ClusterAccess, dry_run: str, output: str | None
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
@click.option("--node-labels", default="", metavar="KEY=VALUE,…", help="The labels of the nodes of this flavor.")
@click.option(
    "--node-taints", multiple=True, metavar="KEY[=VALUE]:EFFECT,…", help="The taints of the nodes of this flavor."
)
@click.option(
    "--tolerations", multiple=True, metavar="KEY[=VALUE][:EFFECT],…", help="The tolerations that admitted pods get."
)
@_with_write_options
def resourceflavor(
    *,
    name: str,
    node_labels: str,
    node_taints: tuple[str, ...],
    tolerations: tuple[str, ...],
    cluster: ClusterAccess,
    dry_run: str,
    output: str | None,
) -> None:
    """Create a ResourceFlavor."""
    spec = {
        "nodeLabels": _pairs(node_labels, "--node-labels"),
        "nodeTaints": [_taint(text) for text in _separated(node_taints)],
        "tolerations": [_toleration(text) for text in _separated(tolerations)],
    }
    obj = {"metadata": {"name": name}, "spec": {field: value for field, value in spec.items() if value}}
    _create(cluster, "resourceflavor", obj, dry_run=dry_run, output=output)


def resource_groups(**quotas: Iterable[str]) -> "list[Object]":
    """Parse quotas such as `a:cpu=9;memory=36Gi,b:cpu=1`, by field of the API.

    Flavors with the same resources form one resource group.
    """
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
                if not options.is_amount(value.strip()):
                    raise click.ClickException(
                        f"invalid resource quota {part!r}: {value.strip()!r} is not an amount; "
                        "write for example cpu=4 or memory=16Gi"
                    )
                resources.setdefault(resource.strip(), {})[field] = value.strip()
    groups: dict[tuple[str, ...], list[Object]] = {}
    for flavor, resources in flavors.items():
        entries = [{"name": resource, "nominalQuota": "0", **values} for resource, values in resources.items()]
        groups.setdefault(tuple(resources), []).append({"name": flavor, "resources": entries})
    return [{"coveredResources": list(covered), "flavors": entries} for covered, entries in groups.items()]


def _create(cluster: ClusterAccess, singular: str, obj: "Object", *, dry_run: str, output: str | None) -> None:
    resource = RESOURCES[singular]
    obj = {"apiVersion": resource.api_version, "kind": resource.kind, **obj}

    async def write(client: "Client", namespace: str) -> "Object":
        from pykueue.kube.client import WriteOptions

        scope = namespace if resource.namespaced else ""
        return await client.create(resource, obj, scope, WriteOptions(dry_run=dry_run == "server"))

    created = obj if dry_run == "client" else cluster.run(write)
    outputs.show(resource, created, output, done=f"created{outputs.dry_run_suffix(dry_run)}")


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
    operator = "Equal" if key and value else "Exists"
    return {
        **({"key": key} if key else {}),
        "operator": operator,
        **({"value": value} if value else {}),
        **({"effect": effect} if effect else {}),
    }
