"""The `pykueue` command: the table of its subcommands."""

import importlib

import click

import pykueue
from pykueue.cli.suggestions import SuggestingGroup

COMMANDS: dict[str, str] = {
    "attach": "pykueue.cli.run:attach",
    "apply": "pykueue.cli.apply:apply",
    "backup": "pykueue.cli.backup:backup",
    "cancel": "pykueue.cli.cancel:cancel",
    "completion": "pykueue.cli.completion:completion",
    "conformance": "pykueue.cli.conformance:conformance",
    "controller": "pykueue.cli.controller:controller",
    "convert": "pykueue.cli.convert:convert",
    "create": "pykueue.cli.create:create",
    "dashboard": "pykueue.cli.dashboard:dashboard",
    "delete": "pykueue.cli.delete:delete",
    "describe": "pykueue.cli.kubectl_commands:describe",
    "doctor": "pykueue.cli.doctor:doctor",
    "demo": "pykueue.cli.demo.command:demo",
    "down": "pykueue.cli.down:down",
    "edit": "pykueue.cli.kubectl_commands:edit",
    "explain": "pykueue.cli.explain:explain",
    "get": "pykueue.cli.kubectl_commands:get",
    "import": "pykueue.cli.import_pods:import_pods",
    "lint": "pykueue.cli.lint:lint",
    "list": "pykueue.cli.list:list_objects",
    "logs": "pykueue.cli.logs:logs",
    "manifests": "pykueue.cli.manifests:manifests",
    "patch": "pykueue.cli.kubectl_commands:patch",
    "populator": "pykueue.cli.side_controllers:populator",
    "priority-booster": "pykueue.cli.side_controllers:priority_booster",
    "replay": "pykueue.cli.replay:replay",
    "restore": "pykueue.cli.backup:restore",
    "resume": "pykueue.cli.stop:resume",
    "run": "pykueue.cli.run:run",
    "simulate": "pykueue.cli.simulate:simulate",
    "salvage": "pykueue.cli.salvage:salvage",
    "service": "pykueue.cli.service:service",
    "status": "pykueue.cli.status:status",
    "stop": "pykueue.cli.stop:stop",
    "submit": "pykueue.cli.submit:submit",
    "top": "pykueue.cli.top:top",
    "up": "pykueue.cli.up:up",
    "user": "pykueue.cli.user:user",
    "version": "pykueue.cli.version:version",
    "validate": "pykueue.cli.validate:validate",
    "wait": "pykueue.cli.wait:wait",
}
"""Command name to `module:attribute`; a module is imported only when its command runs."""


class LazyGroup(SuggestingGroup):
    def list_commands(self, _ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name].partition(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(pykueue.__version__, prog_name="pykueue")
def cli() -> None:
    """Queue jobs as Kueue does, on this machine or on a Kubernetes cluster."""


def main() -> None:
    cli(prog_name="pykueue")
