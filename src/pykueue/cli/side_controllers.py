"""`pykueue populator` and `pykueue priority-booster`: controllers beside those of Kueue."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pykueue.app import process
from pykueue.cli import option_files, options
from pykueue.cli import output as outputs
from pykueue.cli.connection import ClusterAccess, with_cluster

if TYPE_CHECKING:
    from pykueue.kube.client import Client

_FILE = click.option("--config", type=options.EXISTING_FILE, help="A YAML file with options.")


def _document(path: Path | None) -> "dict[str, Any]":
    if path is None:
        return {}
    document = option_files.load(path)
    if not isinstance(document, dict):
        raise click.ClickException(f"{path}: write a mapping of options")
    return document


@click.command()
@_FILE
@options.with_log_options("warning")
@with_cluster
def populator(*, config: Path | None, log: process.LogOptions, cluster: ClusterAccess) -> None:
    """Create LocalQueues in namespaces of ClusterQueues.

    A namespace gets a LocalQueue for a ClusterQueue that selects it.

    Runs until SIGINT or SIGTERM. Options of the file: localQueueName (default),
    localQueueNameMode (Static or AsClusterQueue) and managedJobsNamespaceSelector.
    """
    from pykueue.app import side_controllers

    process.prepare(log)
    try:
        chosen = side_controllers.populator_options(_document(config))
    except side_controllers.OptionsError as error:
        raise click.ClickException(f"{config}: {error}") from None

    async def run(client: "Client", _namespace: str) -> None:
        outputs.echo("The populator runs; stop it with Ctrl-C.")
        await side_controllers.SideProcess(client, "kueue-populator").populate(chosen).run()

    cluster.run(run)


@click.command(name="priority-booster")
@_FILE
@options.with_log_options("warning")
@with_cluster
def priority_booster(*, config: Path | None, log: process.LogOptions, cluster: ClusterAccess) -> None:
    """Lower the priority of long-running workloads.

    Others of the same priority can then preempt them. Runs until SIGINT or SIGTERM. Needs the gate
    PriorityBoost, and withinClusterQueue: LowerPriority. Options of the file: timeSharing
    (interval, negativeBoost), workloadSelector and maxWorkloadPriority.
    """
    from pykueue.app import side_controllers

    process.prepare(log)
    try:
        chosen = side_controllers.booster_options(_document(config))
    except side_controllers.OptionsError as error:
        raise click.ClickException(f"{config}: {error}") from None
    if not chosen.interval_ns:
        raise click.ClickException("timeSharing.interval is 0, which turns the booster off; set for example 30m")

    async def run(client: "Client", _namespace: str) -> None:
        outputs.echo("The priority booster runs; stop it with Ctrl-C.")
        await side_controllers.SideProcess(client, "kueue-priority-booster").boost(chosen).run()

    cluster.run(run)
