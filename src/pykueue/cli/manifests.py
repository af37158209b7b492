"""`pykueue manifests`: print the objects that a real cluster needs.

Without a subcommand it prints everything, in the order in which it must be applied.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import click

import pykueue
from pykueue.app import process
from pykueue.cli import options
from pykueue.cli import output as outputs

if TYPE_CHECKING:
    from pykueue.api.configuration.loading import Loaded
    from pykueue.api.scheme import Object

DEFAULT_IMAGE = f"pykueue:{pykueue.__version__}"

_CONFIG = options.with_config("the shipped one")
_IMAGE = click.option("--image", default=DEFAULT_IMAGE, show_default=True, help="The image of the controller.")
_WEBHOOKS = click.option("--webhooks", is_flag=True, help="Use webhooks instead of admission policies.")
_URL = click.option(
    "--webhook-url",
    default="",
    metavar="https://HOST:PORT",
    help="The address of a controller outside the cluster. Default: the Service in the cluster.",
)
_REPLICAS = click.option(
    "--replicas", type=click.IntRange(min=1), default=2, show_default=True, help="How many controllers to run."
)


@click.group(invoke_without_command=True)
@_CONFIG
@_IMAGE
@_REPLICAS
@_WEBHOOKS
@outputs.with_manifest_output
@click.pass_context
def manifests(
    context: click.Context, *, config: Path | None, image: str, replicas: int, webhooks: bool, output: str
) -> None:
    """Print the manifests to install on a cluster.

    A subcommand prints one part of them.
    """
    if context.invoked_subcommand is None:
        configuration = process.load_configuration(config)
        admission = webhook_objects(configuration) if webhooks else policy_objects(configuration)
        controller_objects = _controller(configuration, image, replicas, webhooks=webhooks)
        # The API server calls a webhook once it is registered, so the controller comes first.
        after = [controller_objects, admission] if webhooks else [admission, controller_objects]
        rights = [_namespace(configuration), *right_objects(configuration, webhooks=webhooks)]
        outputs.show_manifests([obj for part in (definition_objects(), rights, *after) for obj in part], output)


@manifests.command
@click.option(
    "--conversion-webhook",
    metavar="NAMESPACE/NAME",
    default="",
    help="A Service that converts between versions. Default: conversion without a webhook.",
)
@outputs.with_manifest_output
def crds(*, conversion_webhook: str, output: str) -> None:
    """Print the CustomResourceDefinitions of kueue.x-k8s.io."""
    outputs.show_manifests(definition_objects(conversion_webhook), output)


@manifests.command
@_CONFIG
@_WEBHOOKS
@outputs.with_manifest_output
def rbac(*, config: Path | None, webhooks: bool, output: str) -> None:
    """Print the namespace, and the roles for RBAC.

    The roles are those of the controller and of users.
    """
    configuration = process.load_configuration(config)
    outputs.show_manifests([_namespace(configuration), *right_objects(configuration, webhooks=webhooks)], output)


@manifests.command
@_CONFIG
@outputs.with_manifest_output
def policies(*, config: Path | None, output: str) -> None:
    """Print the admission policies.

    They suspend new jobs that have a queue, and refuse mistakes.
    """
    outputs.show_manifests(policy_objects(process.load_configuration(config)), output)


@manifests.command
@_CONFIG
@_URL
@outputs.with_manifest_output
def webhooks(*, config: Path | None, webhook_url: str, output: str) -> None:
    """Print the webhook configurations.

    They replace the policies on clusters without MutatingAdmissionPolicy.
    """
    outputs.show_manifests(webhook_objects(process.load_configuration(config), webhook_url), output)


@manifests.command
@_CONFIG
@_IMAGE
@_REPLICAS
@_WEBHOOKS
@outputs.with_manifest_output
def controller(*, config: Path | None, image: str, replicas: int, webhooks: bool, output: str) -> None:
    """Print the Deployment of the controller.

    Its Configuration and its Services are printed, too.
    """
    outputs.show_manifests(_controller(process.load_configuration(config), image, replicas, webhooks=webhooks), output)


@manifests.command
@_CONFIG
@outputs.with_manifest_output
def visibility(*, config: Path | None, output: str) -> None:
    """Print the APIServices of the visibility API.

    `pykueue manifests` without a subcommand leaves them out: Kubernetes deletes no namespace while
    an APIService is unavailable.
    """
    from pykueue.install import visibility as visibility_manifests

    outputs.show_manifests(visibility_manifests.objects(process.load_configuration(config).value), output)


def definition_objects(conversion_webhook: str = "") -> "list[Object]":
    from pykueue.api import crds as definitions
    from pykueue.api import registry
    from pykueue.api.kueue.kinds import GROUP
    from pykueue.install import version_aliases

    if conversion_webhook:
        kueue_kinds = [kind for kind in registry.scheme() if kind.group == GROUP]
        return definitions.definitions(kueue_kinds, conversion_service=conversion_webhook)
    return definitions.definitions(version_aliases.kinds())


def _namespace(configuration: "Loaded") -> "Object":
    from pykueue.install import deployment

    return deployment.namespace(configuration)


def right_objects(configuration: "Loaded", *, webhooks: bool) -> "list[Object]":
    from pykueue.install import rbac as rights

    objects = rights.objects(configuration.value)
    if webhooks:
        secret = configuration.value.internal_cert_management.webhook_secret_name
        objects += rights.of_webhooks(configuration.value.namespace, secret)
    return objects


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
