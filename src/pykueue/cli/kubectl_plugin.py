"""`kubectl kueue`: the commands about queues, and kubectl's own for the rest.

Installed as `kubectl-kueue`.
"""

import os
import shutil

import click

import pykueue
from pykueue.cli import main as pykueue_main
from pykueue.cli.kinds import ALIASES, RESOURCES
from pykueue.cli.suggestions import SuggestingGroup

_OWN_COMMANDS = ("completion", "create", "delete", "explain", "list", "resume", "stop", "version")
_KUBECTL_COMMANDS = ("get", "describe", "edit", "patch")


class PluginGroup(SuggestingGroup):
    def list_commands(self, _ctx: click.Context) -> list[str]:
        return sorted({*_OWN_COMMANDS, *_KUBECTL_COMMANDS})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in _OWN_COMMANDS:
            return pykueue_main.cli.get_command(ctx, cmd_name)
        return _kubectl_command(cmd_name) if cmd_name in _KUBECTL_COMMANDS else None


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


@click.group(cls=PluginGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(pykueue.__version__, prog_name="kubectl kueue")
def kueue() -> None:
    """Work with queues from kubectl."""


def main() -> None:
    kueue(prog_name="kubectl kueue")
