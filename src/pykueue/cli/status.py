"""`pykueue status`: whether a cluster runs on this machine, and what it does."""

import os
import sys
from typing import TYPE_CHECKING, Any

import click

from pykueue.cli import data_directory
from pykueue.cli import output as outputs
from pykueue.cli.connection import ClusterAccess
from pykueue.cli.data_directory import DataDirectory, with_data_dir

if TYPE_CHECKING:
    from pykueue.api.scheme import Object
    from pykueue.kube.client import Client

NOT_RUNNING = 3
"""The exit code of `systemctl status` for a service that does not run."""


@click.command()
@with_data_dir
@outputs.with_report_output
def status(*, directory: DataDirectory, output: str) -> None:
    """Show whether `pykueue up` runs, and its queues.

    The exit code is 3 if it does not run.
    """
    directory = data_directory.to_read(directory)
    process = directory.holder()
    if process is None:
        from pykueue.app import running_jobs

        jobs = running_jobs.find(directory.path)
        if output == "json":
            outputs.show_json({"running": False, "dataDirectory": str(directory.path), "pods": len(jobs)})
        else:
            outputs.echo(f"Nothing runs with data in {directory.path}. Start it with `pykueue up{directory.options}`.")
            if os.environ.get("KUBECONFIG"):
                outputs.echo("KUBECONFIG names a cluster that may run elsewhere: `pykueue top --once` shows it.")
            if jobs:
                outputs.echo(f"{running_jobs.count(jobs, ('goes on', 'go on'))} without it.")
        sys.exit(NOT_RUNNING)
    report = ClusterAccess(kubeconfig=directory.kubeconfig).run(read)
    report = {
        "running": True,
        "dataDirectory": str(directory.path),
        "kubeconfig": str(directory.kubeconfig),
        "process": {"pid": process.pid, "host": process.host, "since": process.since},
    } | report
    if output == "json":
        outputs.show_json(report)
    else:
        _show(report)


async def read(client: "Client", _namespace: str) -> dict[str, Any]:
    """What the API says about nodes, queues and workloads."""
    from pykueue.api import labels, objects, resources

    nodes = (await client.list(resources.NODE)).items
    queues = (await client.list(resources.CLUSTER_QUEUE)).items
    runtimes = {objects.annotations(node).get(labels.CREATED_BY_RUNTIME, "") for node in nodes}
    return {
        "runtime": next(iter(sorted(runtimes - {""})), "none"),
        "nodes": [{"name": objects.name(node), **_capacity(node)} for node in nodes],
        "queues": [_queue(queue) for queue in queues],
    }


def _capacity(node: "Object") -> dict[str, str]:
    from pykueue.api import objects, quantity
    from pykueue.api.gpu_resources import GPU, is_gpu

    allocatable = objects.nested(node, "status", "allocatable")
    gib = quantity.parse(allocatable.get("memory", "0")).units() / 2**30
    return {
        "cpu": str(allocatable.get("cpu", "0")),
        "memory": f"{gib:.1f}Gi",
        "gpu": str(allocatable.get(GPU, "0")),
    } | {name: str(amount) for name, amount in allocatable.items() if name != GPU and is_gpu(name)}


def _queue(queue: "Object") -> dict[str, Any]:
    from pykueue.api import objects
    from pykueue.cli.list import quota_in_use

    state = objects.status(queue)
    return {
        "name": objects.name(queue),
        "pending": state.get("pendingWorkloads", 0),
        "admitted": state.get("admittedWorkloads", 0),
        "quotaInUse": list(quota_in_use(queue)),
    }


def _show(report: dict[str, Any]) -> None:
    process = report["process"]
    outputs.echo(
        f"pykueue runs since {process['since']} (process {process['pid']}, data in {report['dataDirectory']})."
    )
    outputs.echo(f"  export KUBECONFIG={report['kubeconfig']}")
    for node in report["nodes"]:
        outputs.echo(f"  {node_line(node, report['runtime'])}")
    if report["queues"]:
        rows = [
            (queue["name"], str(queue["pending"]), str(queue["admitted"]), "; ".join(queue["quotaInUse"]))
            for queue in report["queues"]
        ]
        outputs.show_table(("CLUSTERQUEUE", "PENDING", "ADMITTED", "QUOTA IN USE"), rows)
    else:
        outputs.echo("  There is no ClusterQueue yet: `pykueue create clusterqueue --help` says how to create one.")


def node_line(node: dict[str, str], runtime: str) -> str:
    parts = [f"{amount} {name.partition('/')[2]}" for name, amount in node.items() if "/" in name]
    whole = [f"{node['gpu']} GPUs"] if node["gpu"] != "0" else [] if parts else ["no GPU"]
    gpus = ", ".join([*whole, *parts])
    return f"node {node['name']}: {node['cpu']} CPUs, {node['memory']} memory, {gpus} (runtime {runtime})"
