"""`pykueue explain`: why a workload is pending, which workloads hold the quota, and what would
help.

The command only reads. It builds an engine from the objects of the cluster and asks it once.
"""

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pykueue.api import objects
from pykueue.app import process
from pykueue.cli import options
from pykueue.cli import output as outputs
from pykueue.cli.completion import complete_names
from pykueue.cli.connection import ClusterAccess, with_cluster

if TYPE_CHECKING:
    from pykueue.api.scheme import Object
    from pykueue.controllers.scheduler.snapshot import QueueSnapshot
    from pykueue.engine.explain.explanation import Explanation
    from pykueue.engine.values import WorkloadKey
    from pykueue.kube.client import Client


@click.command
@click.argument("words", nargs=-1, required=True, metavar="[KIND] NAME", shell_complete=complete_names("workload"))
@options.with_config("the one that the cluster runs with")
@outputs.with_report_output
@with_cluster
def explain(*, words: tuple[str, ...], config: Path | None, output: str, cluster: ClusterAccess) -> None:
    """Explain why a workload is pending or admitted.

    KIND is `workload` (the default) or the kind of the job: pykueue explain job train
    """
    from pykueue.app import running_configuration
    from pykueue.controllers.scheduler import snapshot as snapshots

    kind, name = _kind_and_name(words)
    chosen = None if config is None else process.load_configuration(config).document
    now_ns = time.time_ns()

    async def read(client: "Client", namespace: str) -> tuple["QueueSnapshot", str]:
        configuration = await running_configuration.find(client) if chosen is None else chosen
        return await snapshots.observe(client, configuration, now_ns=now_ns), namespace

    snapshot, namespace = cluster.run(read, hint="explain reads queues, flavors and workloads of all namespaces")
    key = _find(snapshot, kind, name, namespace)
    explanation = snapshot.engine.view.explain(key)
    assert explanation is not None
    _print(explanation, snapshot.workloads[key], output, now_ns=now_ns)


def _kind_and_name(words: tuple[str, ...]) -> tuple[str, str]:
    parts = words[0].split("/") if len(words) == 1 else list(words)
    if len(parts) == 1:
        return "workload", parts[0]
    if len(parts) == 2:
        return parts[0].lower(), parts[1]
    raise click.UsageError("too many arguments: write a name, or a kind and a name")


def _find(snapshot: "QueueSnapshot", kind: str, name: str, namespace: str) -> "WorkloadKey":
    for key, obj in snapshot.workloads.items():
        if objects.namespace(obj) == namespace and _matches(obj, kind, name):
            return key
    what = "workload" if kind in _WORKLOAD_NAMES else f"workload of {kind}"
    raise click.ClickException(f'{what} "{name}" not found in namespace {namespace}')


_WORKLOAD_NAMES = frozenset({"workload", "workloads", "wl", "kwl"})


def _matches(obj: "Object", kind: str, name: str) -> bool:
    if kind in _WORKLOAD_NAMES:
        return objects.name(obj) == name
    return any(
        owner["name"] == name and owner["kind"].lower() in (kind, kind.removesuffix("s"))
        for owner in objects.owner_references(obj)
    )


def _print(explanation: "Explanation", obj: "Object", output: str, *, now_ns: int) -> None:
    from pykueue.translate import explanations

    if output == "json":
        outputs.show_json(explanations.as_json(explanation))
        return
    for line in explanations.lines(explanation, now_ns=now_ns):
        click.echo(line)
    for condition in objects.nested_list(obj, "status", "conditions"):
        if condition["type"] in ("Evicted", "Preempted") and condition["status"] == "True":
            click.echo(f"\n{condition['type']} at {condition['lastTransitionTime']}: {condition['message']}")
