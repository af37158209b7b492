"""`pykueue version`: what runs here, and what the cluster at hand runs."""

from typing import TYPE_CHECKING

import click

import pykueue
from pykueue.cli.connection import Cluster, connects

if TYPE_CHECKING:
    from pykueue.kube.client import Client

_MANAGERS = (("kueue-controller-manager", "manager"), ("pykueue-controller", "controller"))
"""Deployments and their containers: Kueue's own, and ours."""


@click.command()
@connects
def version(*, cluster: Cluster) -> None:
    """Print the version, and the image of the controller if one is installed."""
    click.echo(f"Client Version: v{pykueue.__version__}")

    async def images(client: "Client", _namespace: str) -> list[str]:
        from pykueue.api.scheme import Resource
        from pykueue.controllers.settings import DEFAULT_NAMESPACE

        deployments = Resource("apps", "v1", "deployments", "Deployment", namespaced=True)
        installed = {
            each["metadata"]["name"]: each for each in (await client.list(deployments, DEFAULT_NAMESPACE)).items
        }
        return [
            container["image"]
            for name, role in _MANAGERS
            if name in installed
            for container in installed[name]["spec"]["template"]["spec"]["containers"]
            if container["name"] == role
        ]

    for image in cluster.run(images):
        click.echo(f"Kueue Controller Manager Image: {image}")
