"""Shell completion: `pykueue completion SHELL`, the names of objects as values, and kubectl's way of asking a plugin.

kubectl asks an executable `kubectl_complete-kueue` for words, which is `complete_plugin`.
"""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from pykueue.api.scheme import Object
    from pykueue.kube.client import Client

Completer = Callable[[click.Context, click.Parameter, str], list[str]]

_MOST_NAMES = 100
_NO_FILES = ":4"
"""What kubectl reads as: these words, and no file names."""


def completes(noun: str, wants: "Callable[[Object], bool] | None" = None) -> Completer:
    """Names of that kind on the cluster that the command line chooses; none if it cannot be asked."""

    def names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
        from pykueue.api.resources import JOB
        from pykueue.cli.connection import Cluster
        from pykueue.cli.kinds import RESOURCES

        given = ctx.params.get(str(parameter.name)) or ()
        chosen = {key: ctx.params.get(key) for key in ("kubeconfig", "context", "namespace")}
        cluster = Cluster(**{key: value for key, value in chosen.items() if value})

        async def listed(client: "Client", namespace: str) -> "list[Object]":
            from pykueue.kube.client import ListOptions

            resource = JOB if noun == "job" else RESOURCES[noun]
            place = namespace if resource.namespaced else ""
            return (await client.list(resource, place, ListOptions(limit=_MOST_NAMES))).items

        try:
            found = cluster.run(listed)
        except click.ClickException:
            return []
        fitting = [str(obj["metadata"]["name"]) for obj in found if wants is None or wants(obj)]
        return [name for name in fitting if name.startswith(incomplete) and name not in given]

    return names


def is_stopped(queue: "Object") -> bool:
    return (queue["spec"].get("stopPolicy") or "None") != "None"


def is_going(queue: "Object") -> bool:
    return not is_stopped(queue)


def is_active(workload: "Object") -> bool:
    return workload["spec"].get("active") is not False


def is_inactive(workload: "Object") -> bool:
    return not is_active(workload)


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print a script that completes commands: `source <(pykueue completion bash)`."""
    from click.shell_completion import get_completion_class

    from pykueue.cli.main import cli

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(cli, {}, "pykueue", "_PYKUEUE_COMPLETE").source())


def words(command: click.Command, arguments: list[str]) -> list[str]:
    """What may stand where the last argument stands."""
    from click.shell_completion import ShellComplete

    *before, incomplete = arguments or [""]
    asked = ShellComplete(command, {}, "kubectl kueue", "_KUBECTL_KUEUE_COMPLETE")
    return [item.value for item in asked.get_completions(before, incomplete) if item.type == "plain"]


def complete_plugin() -> Any:
    """Installed as `kubectl_complete-kueue`."""
    from pykueue.cli.kubectl_plugin import kueue

    for word in words(kueue, sys.argv[1:]):
        click.echo(word)
    click.echo(_NO_FILES)
