"""`kubectl kueue …`: the commands that are about queues, and kubectl's own for the rest. Installed as `kubectl-kueue`."""

import os
import shutil

import click

import pykueue
from pykueue.cli import main as whole
from pykueue.cli.kinds import ALIASES, RESOURCES

_OURS = ("completion", "create", "delete", "explain", "list", "resume", "stop", "version")
_KUBECTLS = ("get", "describe", "edit", "patch")


class PluginGroup(click.Group):
    def list_commands(self, _ctx: click.Context) -> list[str]:
        return sorted({*_OURS, *_KUBECTLS})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in _OURS:
            return whole.cli.get_command(ctx, cmd_name)
        return _passed_on(cmd_name) if cmd_name in _KUBECTLS else None


def _passed_on(verb: str) -> click.Command:
    @click.command(
        name=verb,
        help=f"`kubectl {verb}` for workloads, queues and flavors.",
        context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    )
    @click.argument("kind")
    @click.argument("rest", nargs=-1, type=click.UNPROCESSED)
    def run(*, kind: str, rest: tuple[str, ...]) -> None:
        noun = ALIASES.get(kind, kind)
        if noun not in RESOURCES:
            raise click.UsageError(f"{kind} is not one of {', '.join(RESOURCES)}")
        kubectl = shutil.which("kubectl")
        if kubectl is None:
            raise click.ClickException("kubectl is not on PATH")
        resource = RESOURCES[noun]
        os.execv(kubectl, [kubectl, verb, f"{resource.plural}.{resource.group}", *rest])  # noqa: S606 - the same user's kubectl

    return run


@click.group(cls=PluginGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(pykueue.__version__, prog_name="kubectl kueue")
def kueue() -> None:
    """Work with queues from kubectl."""


def main() -> None:
    kueue(prog_name="kubectl kueue")
