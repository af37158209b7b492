"""`pykueue get`, `describe`, `edit` and `patch`: kubectl's commands for the kinds of queues.

`kubectl kueue` has them, too.
"""

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pykueue.cli.connection import ClusterAccess, running_kubeconfig
from pykueue.cli.kinds import ALIASES, RESOURCES

if TYPE_CHECKING:
    from pykueue.kube.client import Client


def _kubectl_command(verb: str) -> click.Command:
    @click.command(
        name=verb,
        help=f"Run `kubectl {verb}` for workloads, queues or flavors.",
        context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    )
    @click.argument("kind")
    @click.argument("rest", nargs=-1, type=click.UNPROCESSED)
    def run(*, kind: str, rest: tuple[str, ...]) -> None:
        singular = ALIASES.get(kind, kind)
        if singular not in RESOURCES:
            raise click.UsageError(f"{kind} is not one of {', '.join(RESOURCES)}")
        kubectl = shutil.which("kubectl")
        if kubectl is None:
            raise click.ClickException("kubectl is not on PATH; install it, or use `pykueue list`")
        resource = RESOURCES[singular]
        if singular == "workload" and rest and not rest[0].startswith("-"):
            rest = (_workload_name(rest), *rest[1:])
        command = [kubectl, verb, f"{resource.plural}.{resource.group}", *rest]
        path = running_kubeconfig()
        environment = {**os.environ, "KUBECONFIG": str(path)} if path else dict(os.environ)
        os.execve(kubectl, command, environment)  # noqa: S606 - kubectl of the same user

    return run


def _workload_name(words: tuple[str, ...]) -> str:
    """The name of the Workload that a user names by itself or by its job."""
    from pykueue.api import objects
    from pykueue.cli import workload_names

    options = click.Command(
        "kubectl",
        params=[
            click.Option(["-n", "--namespace"], default=""),
            click.Option(["--kubeconfig"]),
            click.Option(["--context"], default=""),
        ],
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
        add_help_option=False,
    )
    values = options.make_context("kubectl", list(words[1:]), resilient_parsing=True).params
    kubeconfig = Path(values["kubeconfig"]) if values["kubeconfig"] else None
    cluster = ClusterAccess(kubeconfig=kubeconfig, context=values["context"], namespace=values["namespace"])

    async def find(client: "Client", namespace: str) -> str:
        return objects.name(await workload_names.find(client, namespace, words[0]))

    return cluster.run(find)


COMMANDS = {verb: _kubectl_command(verb) for verb in ("get", "describe", "edit", "patch")}
get, describe, edit, patch = COMMANDS.values()
