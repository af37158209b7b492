"""`pykueue manifests`: print what a real cluster needs. Without a subcommand everything, in the order of applying it."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

import pykueue
from pykueue.app import serving

if TYPE_CHECKING:
    from pykueue.api.configuration.loading import Loaded
    from pykueue.api.scheme import Object

DEFAULT_IMAGE = f"pykueue:{pykueue.__version__}"

_CONFIG = click.option(
    "--config", type=click.Path(path_type=Path, exists=True), help="Kueue Configuration or Helm values."
)
_IMAGE = click.option("--image", default=DEFAULT_IMAGE, show_default=True, help="The image of the controller.")
_WEBHOOKS = click.option("--webhooks", is_flag=True, help="For webhooks instead of admission policies.")
_URL = click.option(
    "--webhook-url", default="", metavar="https://HOST:PORT", help="Of a controller outside the cluster."
)
_REPLICAS = click.option("--replicas", type=click.IntRange(min=1), default=2, show_default=True)


@click.group(invoke_without_command=True)
@_CONFIG
@_IMAGE
@_REPLICAS
@_WEBHOOKS
@click.pass_context
def manifests(context: click.Context, *, config: Path | None, image: str, replicas: int, webhooks: bool) -> None:
    """Print what to apply to a Kubernetes cluster: everything, or one part of it."""
    if context.invoked_subcommand is None:
        configuration = serving.load_configuration(config)
        admission = webhook_objects(configuration) if webhooks else policy_objects(configuration)
        controller_objects = _controller(configuration, image, replicas, webhooks=webhooks)
        # A webhook is asked from the moment on that it is there: last, so that whoever answers is on the way.
        after = [controller_objects, admission] if webhooks else [admission, controller_objects]
        rights = [_namespace(configuration), *right_objects(configuration, webhooks=webhooks)]
        _print([each for part in (definition_objects(), rights, *after) for each in part])


@manifests.command
@click.option(
    "--conversion-webhook", metavar="NAMESPACE/NAME", default="", help="Service that converts between versions."
)
def crds(conversion_webhook: str) -> None:
    """The CustomResourceDefinitions of kueue.x-k8s.io."""
    _print(definition_objects(conversion_webhook))


@manifests.command
@_CONFIG
@_WEBHOOKS
def rbac(*, config: Path | None, webhooks: bool) -> None:
    """The namespace, and the rights of the controller and of its users."""
    configuration = serving.load_configuration(config)
    _print([_namespace(configuration), *right_objects(configuration, webhooks=webhooks)])


@manifests.command
@_CONFIG
def policies(config: Path | None) -> None:
    """The admission policies: jobs with a queue are created suspended, and mistakes are refused."""
    _print(policy_objects(serving.load_configuration(config)))


@manifests.command
@_CONFIG
@_URL
def webhooks(config: Path | None, webhook_url: str) -> None:
    """The webhook configurations, which do the same in clusters without MutatingAdmissionPolicy."""
    _print(webhook_objects(serving.load_configuration(config), webhook_url))


@manifests.command
@_CONFIG
@_IMAGE
@_REPLICAS
@_WEBHOOKS
def controller(*, config: Path | None, image: str, replicas: int, webhooks: bool) -> None:
    """The Deployment of the controller, its configuration, and its Services."""
    _print(_controller(serving.load_configuration(config), image, replicas, webhooks=webhooks))


@manifests.command
@_CONFIG
def visibility(config: Path | None) -> None:
    """APIServices that make the API server pass questions about pending workloads on to the controllers.

    Not part of the whole: while an APIService has nobody behind it, Kubernetes deletes no namespace.
    """
    from pykueue.install import visibility as parts

    _print(parts.objects(serving.load_configuration(config).value))


def _print(objects: "list[Object]") -> None:
    from pykueue.api import yaml_text

    click.echo(yaml_text.dump(objects), nl=False)


def definition_objects(conversion_webhook: str = "") -> "list[Object]":
    from pykueue.api import crds as definitions
    from pykueue.api import registry
    from pykueue.api.kueue.kinds import GROUP
    from pykueue.install import version_aliases

    if conversion_webhook:
        converted = [kind for kind in registry.scheme() if kind.group == GROUP]
        return definitions.definitions(converted, conversion_service=conversion_webhook)
    return definitions.definitions(version_aliases.kinds())


def _namespace(configuration: "Loaded") -> "Object":
    from pykueue.install import deployment

    return deployment.namespace(configuration)


def right_objects(configuration: "Loaded", *, webhooks: bool) -> "list[Object]":
    from pykueue.install import rbac as rights

    found = rights.objects(configuration.value)
    if webhooks:
        secret = configuration.value.internal_cert_management.webhook_secret_name
        found += rights.of_webhooks(configuration.value.namespace, secret)
    return found


def policy_objects(configuration: "Loaded") -> "list[Object]":
    from pykueue.install import policies

    return policies.objects(configuration.value.settings())


def webhook_objects(configuration: "Loaded", url: str = "") -> "list[Object]":
    from pykueue.install import webhooks

    endpoint = webhooks.Endpoint.of(configuration.value, url)
    return webhooks.configurations(configuration.value.settings(), endpoint)


def _controller(configuration: "Loaded", image: str, replicas: int, *, webhooks: bool) -> "list[Object]":
    from pykueue.install import deployment

    return deployment.objects(configuration, image=image, replicas=replicas, webhooks=webhooks)
