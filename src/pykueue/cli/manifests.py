"""`pykueue manifests`: print what a real cluster needs. Without a subcommand everything, in the order of applying it."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

import pykueue
from pykueue.cli import serving

if TYPE_CHECKING:
    from pykueue.api.configuration.loading import Loaded
    from pykueue.api.scheme import Object

DEFAULT_IMAGE = f"pykueue:{pykueue.__version__}"

_CONFIG = click.option(
    "--config", type=click.Path(path_type=Path, exists=True), help="Kueue Configuration or Helm values."
)
_IMAGE = click.option("--image", default=DEFAULT_IMAGE, show_default=True, help="The image of the controller.")
_REPLICAS = click.option("--replicas", type=click.IntRange(min=1), default=2, show_default=True)


@click.group(invoke_without_command=True)
@_CONFIG
@_IMAGE
@_REPLICAS
@click.pass_context
def manifests(context: click.Context, *, config: Path | None, image: str, replicas: int) -> None:
    """Print what to apply to a Kubernetes cluster: everything, or one part of it."""
    if context.invoked_subcommand is None:
        configuration = serving.load_configuration(config)
        parts = [definition_objects(), _rights(configuration), policy_objects(configuration)]
        _print([*(each for part in parts for each in part), *_controller(configuration, image, replicas)])


@manifests.command
@click.option(
    "--conversion-webhook", metavar="NAMESPACE/NAME", default="", help="Service that converts between versions."
)
def crds(conversion_webhook: str) -> None:
    """The CustomResourceDefinitions of kueue.x-k8s.io."""
    _print(definition_objects(conversion_webhook))


@manifests.command
@_CONFIG
def rbac(config: Path | None) -> None:
    """The namespace, and the rights of the controller and of its users."""
    _print(_rights(serving.load_configuration(config)))


@manifests.command
@_CONFIG
def policies(config: Path | None) -> None:
    """The admission policies: jobs with a queue are created suspended, and mistakes are refused."""
    _print(policy_objects(serving.load_configuration(config)))


@manifests.command
@_CONFIG
@_IMAGE
@_REPLICAS
def controller(config: Path | None, image: str, replicas: int) -> None:
    """The Deployment of the controller, its configuration, and the Service of its metrics."""
    _print(_controller(serving.load_configuration(config), image, replicas))


def _print(objects: "list[Object]") -> None:
    from pykueue.api import yaml_text

    click.echo(yaml_text.dump(objects), nl=False)


def definition_objects(conversion_webhook: str = "") -> "list[Object]":
    from pykueue.api import crds as definitions
    from pykueue.api import registry
    from pykueue.api.kueue.kinds import GROUP
    from pykueue.install import spellings

    if conversion_webhook:
        converted = [kind for kind in registry.scheme() if kind.group == GROUP]
        return definitions.definitions(converted, conversion_service=conversion_webhook)
    return definitions.definitions(spellings.kinds())


def _rights(configuration: "Loaded") -> "list[Object]":
    from pykueue.install import deployment, rights

    return [deployment.namespace(configuration), *rights.objects(configuration.value)]


def policy_objects(configuration: "Loaded") -> "list[Object]":
    from pykueue.install import policies

    return policies.objects(configuration.value.settings())


def _controller(configuration: "Loaded", image: str, replicas: int) -> "list[Object]":
    from pykueue.install import deployment, visibility

    return [
        *deployment.objects(configuration, image=image, replicas=replicas),
        *visibility.objects(configuration.value),
    ]
