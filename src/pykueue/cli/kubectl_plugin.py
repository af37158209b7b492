"""`kubectl kueue`: the commands about queues, and kubectl's own for the rest.

Installed as `kubectl-kueue`.
"""

import click

import pykueue
from pykueue.cli import kubectl_commands
from pykueue.cli import main as pykueue_main
from pykueue.cli.suggestions import SuggestingGroup

_OWN_COMMANDS = ("completion", "create", "delete", "explain", "list", "resume", "stop", "version")


class PluginGroup(SuggestingGroup):
    def list_commands(self, _ctx: click.Context) -> list[str]:
        return sorted({*_OWN_COMMANDS, *kubectl_commands.COMMANDS})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in _OWN_COMMANDS:
            return pykueue_main.cli.get_command(ctx, cmd_name)
        return kubectl_commands.COMMANDS.get(cmd_name)


@click.group(cls=PluginGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(pykueue.__version__, prog_name="kubectl kueue")
def kueue() -> None:
    """Work with queues from kubectl."""


def main() -> None:
    pykueue_main.run(kueue, "kubectl kueue")
