"""`pykueue explain`: why a workload waits, who holds what it needs, and what would let it in. Reads only."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pykueue.cli import output as outputs
from pykueue.cli.completion import completes
from pykueue.cli.connection import Cluster, connects

if TYPE_CHECKING:
    from pykueue.api.scheme import Object
    from pykueue.controllers.scheduler.snapshot import QueueSnapshot
    from pykueue.engine.explain.explanation import Explanation
    from pykueue.engine.values import WorkloadKey
    from pykueue.kube.client import Client


@click.command
@click.argument("words", nargs=-1, required=True, metavar="[KIND] NAME", shell_complete=completes("workload"))
@click.option(
    "--config",
    type=click.Path(path_type=Path, exists=True),
    help="The Kueue Configuration. Default: the one that the cluster runs with.",
)
@outputs.reports
@connects
def explain(*, words: tuple[str, ...], config: Path | None, output: str, cluster: Cluster) -> None:
    """Say why a workload, or the workload of a job, is where it is.

    KIND is `workload` (the default) or the kind of the job: `pykueue explain job train`.
    """
    from pykueue.app import running_configuration
    from pykueue.controllers.scheduler import snapshot as observation
    from pykueue.engine.explain.explain import explain as explain_workload

    kind, name = _kind_and_name(words)
    given = None if config is None else _configuration(config)
    now_ns = time.time_ns()

    async def observe(client: "Client", namespace: str) -> tuple["QueueSnapshot", str]:
        configuration = await running_configuration.find(client) if given is None else given
        return await observation.observe(client, configuration, now_ns=now_ns), namespace

    observed, namespace = cluster.run(observe, hint="explain reads queues, flavors and workloads of all namespaces")
    key = _find(observed, kind, name, namespace)
    found = explain_workload(observed.engine.world, key)
    assert found is not None
    _show(found, observed.workloads[key], output, now_ns=now_ns)


def _kind_and_name(words: tuple[str, ...]) -> tuple[str, str]:
    parts = words[0].split("/") if len(words) == 1 else list(words)
    if len(parts) == 1:
        return "workload", parts[0]
    if len(parts) == 2:
        return parts[0].lower(), parts[1]
    raise click.UsageError("give a name, or a kind and a name")


def _configuration(path: Path) -> Mapping[str, Any]:
    from pykueue.api.configuration import loading

    try:
        return loading.load(path.read_bytes(), str(path)).document
    except loading.ConfigurationError as error:
        raise click.ClickException(str(error)) from None


def _find(observation: "QueueSnapshot", kind: str, name: str, namespace: str) -> "WorkloadKey":
    for key, obj in observation.workloads.items():
        if obj["metadata"].get("namespace", "") == namespace and _is_meant(obj, kind, name):
            return key
    what = "workload" if kind in _WORKLOAD_WORDS else f"workload of {kind}"
    raise click.ClickException(f'{what} "{name}" not found in namespace {namespace}')


_WORKLOAD_WORDS = frozenset({"workload", "workloads", "wl", "kwl"})


def _is_meant(obj: "Object", kind: str, name: str) -> bool:
    metadata = obj["metadata"]
    if kind in _WORKLOAD_WORDS:
        return bool(metadata["name"] == name)
    return any(
        owner["name"] == name and owner["kind"].lower() in (kind, kind.removesuffix("s"))
        for owner in metadata.get("ownerReferences") or ()
    )


def _show(found: "Explanation", obj: "Object", output: str, *, now_ns: int) -> None:
    from pykueue.translate import explanations

    if output == "json":
        outputs.show_json(explanations.as_json(found))
        return
    for line in explanations.lines(found, now_ns=now_ns):
        click.echo(line)
    for condition in (obj.get("status") or {}).get("conditions") or ():
        if condition["type"] in ("Evicted", "Preempted") and condition["status"] == "True":
            click.echo(f"\n{condition['type']} at {condition['lastTransitionTime']}: {condition['message']}")
