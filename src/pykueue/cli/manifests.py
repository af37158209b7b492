"""`pykueue manifests`: print what a real cluster needs."""

import click

from pykueue.api import crds as definitions
from pykueue.api import registry, yaml_text
from pykueue.api.kueue.kinds import GROUP


@click.group
def manifests() -> None:
    """Print what to apply to a Kubernetes cluster."""


@manifests.command
@click.option(
    "--conversion-webhook", metavar="NAMESPACE/NAME", default="", help="Service that converts between versions."
)
def crds(conversion_webhook: str) -> None:
    """The CustomResourceDefinitions of kueue.x-k8s.io."""
    kinds = [kind for kind in registry.scheme() if kind.group == GROUP]
    click.echo(yaml_text.dump(definitions.definitions(kinds, conversion_service=conversion_webhook)), nl=False)
