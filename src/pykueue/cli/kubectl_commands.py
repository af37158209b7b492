"""`pykueue get`, `describe`, `edit` and `patch`: kubectl's commands for the kinds of queues.

`kubectl kueue` has them, too.
"""

import os
import shutil

import click

from pykueue.cli.kinds import ALIASES, RESOURCES


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
        command = [kubectl, verb, f"{resource.plural}.{resource.group}", *rest]
        os.execv(kubectl, command)  # noqa: S606 - kubectl of the same user

    return run


COMMANDS = {verb: _kubectl_command(verb) for verb in ("get", "describe", "edit", "patch")}
get, describe, edit, patch = COMMANDS.values()
