"""Shell completion: the command `pykueue completion`, and the names of objects as values.

kubectl completes the words of a plugin by running `kubectl_complete-kueue`, which is
`complete_plugin`.
"""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from pykueue.cli import output as outputs
from pykueue.cli.kinds import ALIASES

if TYPE_CHECKING:
    from pykueue.api.scheme import Object, Resource
    from pykueue.kube.client import Client

Completer = Callable[[click.Context, click.Parameter, str], list[str]]

_MAX_NAMES = 100
_NO_FILES = ":4"
"""Tells kubectl not to add file names (ShellCompDirectiveNoFileComp of cobra)."""


def complete_names(singular: str, matches: "Callable[[Object], bool] | None" = None) -> Completer:
    """Complete names of objects of the cluster that the command line selects.

    Without an answer from the cluster there are no completions, and no error.
    """

    def complete(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
        present = ctx.params.get(str(parameter.name)) or ()
        names = _names(ctx, _resource(singular), matches)
        return [name for name in names if name.startswith(incomplete) and name not in present]

    return complete


def complete_kind_and_name(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete `[KIND] NAME` of a job: the names of its kind, or of Jobs and then the kinds."""
    from pykueue.api.rules.jobs.job_kinds import JOB_KINDS

    kinds = {job_kind.resource.kind.lower(): job_kind.resource for job_kind in JOB_KINDS.values()}
    present = ctx.params.get(str(parameter.name)) or ()
    if len(present) > 1:
        return []
    if present:
        word = str(present[0]).lower()
        resource = kinds.get(word) or kinds.get(word.removesuffix("s")) or _resource(ALIASES.get(word, word))
        return [name for name in _names(ctx, resource) if name.startswith(incomplete)]
    words = [*_names(ctx, _resource("job")), *sorted(kinds), "workload"]
    return [word for word in words if word.startswith(incomplete)]


def _resource(singular: str) -> "Resource | None":
    from pykueue.api import resources
    from pykueue.cli.kinds import RESOURCES

    others = {"job": resources.JOB, "priorityclass": resources.WORKLOAD_PRIORITY_CLASS}
    return others.get(singular) or RESOURCES.get(singular)


def _names(
    ctx: click.Context, resource: "Resource | None", matches: "Callable[[Object], bool] | None" = None
) -> list[str]:
    """The names of the objects in the cluster of the command line; none without an answer."""
    from pykueue.api import objects
    from pykueue.cli.connection import ClusterAccess

    if resource is None:
        return []
    options = {key: ctx.params.get(key) for key in ("kubeconfig", "context", "namespace")}
    cluster = ClusterAccess(**{key: value for key, value in options.items() if value})

    async def list_objects(client: "Client", namespace: str) -> "list[Object]":
        from pykueue.kube.client import ListOptions

        scope = namespace if resource.namespaced else ""
        return (await client.list(resource, scope, ListOptions(limit=_MAX_NAMES))).items

    try:
        candidates = cluster.run(list_objects)
    except click.ClickException:
        return []
    return [objects.name(obj) for obj in candidates if matches is None or matches(obj)]


def is_stopped(queue: "Object") -> bool:
    return (queue["spec"].get("stopPolicy") or "None") != "None"


def is_not_stopped(queue: "Object") -> bool:
    return not is_stopped(queue)


def is_active(workload: "Object") -> bool:
    return workload["spec"].get("active") is not False


def is_inactive(workload: "Object") -> bool:
    return not is_active(workload)


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script of a shell.

    It completes commands and the names of objects.
    For example: source <(pykueue completion bash)
    """
    from click.shell_completion import get_completion_class

    from pykueue.cli.main import cli

    kind = get_completion_class(shell)
    assert kind is not None
    outputs.echo(kind(cli, {}, "pykueue", "_PYKUEUE_COMPLETE").source())


def words(command: click.Command, arguments: list[str]) -> list[str]:
    """The completions of the last argument."""
    from click.shell_completion import ShellComplete

    *before, incomplete = arguments or [""]
    shell = ShellComplete(command, {}, "kubectl kueue", "_KUBECTL_KUEUE_COMPLETE")
    return [item.value for item in shell.get_completions(before, incomplete) if item.type == "plain"]


def complete_plugin() -> Any:
    """Complete `kubectl kueue`. Installed as `kubectl_complete-kueue`."""
    from pykueue.cli.kubectl_plugin import kueue

    for word in words(kueue, sys.argv[1:]):
        outputs.echo(word)
    outputs.echo(_NO_FILES)
