"""`pykueue version`: the version of pykueue, and the image of the cluster's controller."""

import os
from typing import TYPE_CHECKING

import click

import pykueue
from pykueue.cli import output as outputs
from pykueue.cli.connection import ClusterAccess, with_cluster

if TYPE_CHECKING:
    from pykueue.kube.client import Client

_MANAGERS = (("kueue-controller-manager", "manager"), ("pykueue-controller", "controller"))
"""The Deployments of Kueue and pykueue, and the container of the controller in each."""


@click.command()
@outputs.with_report_output
@with_cluster
def version(*, output: str, cluster: ClusterAccess) -> None:
    """Print the versions of pykueue and of the controller.

    The version of the controller is its image; nothing is printed if none is installed, or if
    there is no cluster.
    """
    if output != "json":  # printed although no cluster may answer
        outputs.echo(f"Client Version: v{pykueue.__version__}")

    async def images(client: "Client", _namespace: str) -> list[str]:
        from pykueue.api import objects
        from pykueue.api.resources import DEPLOYMENT, KUEUE_NAMESPACE

        deployments = (await client.list(DEPLOYMENT, KUEUE_NAMESPACE)).items
        installed = {objects.name(deployment): deployment for deployment in deployments}
        return [
            container["image"]
            for name, container_name in _MANAGERS
            if name in installed
            for container in installed[name]["spec"]["template"]["spec"]["containers"]
            if container["name"] == container_name
        ]

    try:
        running = cluster.run(images)
    except click.ClickException as error:
        if cluster.kubeconfig or cluster.context:
            raise
        if os.environ.get("KUBECONFIG"):
            outputs.echo(error.message, err=True)
        running = []
    lines = [f"Kueue Controller Manager Image: {image}" for image in running]
    outputs.show_report({"clientVersion": f"v{pykueue.__version__}", "images": running}, lines, output)
