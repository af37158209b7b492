"""The `pykueue` command: the table of its subcommands, and how its process begins and ends."""

import atexit
import gc
import importlib
import io
import os
import sys

import click

import pykueue
from pykueue.cli.suggestions import SuggestingGroup

COMMANDS: dict[str, tuple[str, str]] = {
    "apply": ("pykueue.cli.apply:apply", "Apply manifests, or preview what they would do."),
    "attach": ("pykueue.cli.run:attach", "Connect this terminal with a running Job."),
    "backup": ("pykueue.cli.backup:backup", "Copy the data of `pykueue up` into one file."),
    "cancel": ("pykueue.cli.cancel:cancel", "Delete Jobs that wait or run."),
    "completion": ("pykueue.cli.completion:completion", "Print the completion script of a shell."),
    "conformance": ("pykueue.cli.conformance:conformance", "Replay recorded decisions and print the differences."),
    "controller": ("pykueue.cli.controller:controller", "Run the controllers of a Kubernetes cluster."),
    "convert": ("pykueue.cli.convert:convert", "Print manifests in another version of the Kueue API."),
    "create": ("pykueue.cli.create:create", "Create a ClusterQueue, LocalQueue or ResourceFlavor."),
    "dashboard": ("pykueue.cli.dashboard:dashboard", "Print a link that opens the page, logged in."),
    "delete": ("pykueue.cli.delete:delete", "Delete jobs, workloads, queues or flavors."),
    "demo": ("pykueue.cli.demo.command:demo", "Run the scenario of an example on a simulated cluster."),
    "describe": ("pykueue.cli.kubectl_commands:describe", "Run `kubectl describe` for workloads, queues or flavors."),
    "doctor": ("pykueue.cli.doctor:doctor", "Check an installation, and print how to repair it."),
    "down": ("pykueue.cli.down:down", "Stop `pykueue up` and end its running jobs."),
    "edit": ("pykueue.cli.kubectl_commands:edit", "Run `kubectl edit` for workloads, queues or flavors."),
    "events": ("pykueue.cli.events:events", "Show what happened, and why."),
    "explain": ("pykueue.cli.explain:explain", "Explain why a job waits, or how it runs or ended."),
    "get": ("pykueue.cli.kubectl_commands:get", "Run `kubectl get` for workloads, queues or flavors."),
    "history": ("pykueue.cli.history:history", "Show who used what, and how long jobs waited."),
    "import": ("pykueue.cli.import_pods:import_pods", "Import running pods of a namespace into queues."),
    "lint": ("pykueue.cli.lint:lint", "Find what is wrong with a set of queues."),
    "list": ("pykueue.cli.list:list_objects", "List workloads, queues, flavors or pods."),
    "logs": ("pykueue.cli.logs:logs", "Print the output of a Job or of a pod."),
    "manifests": ("pykueue.cli.manifests:manifests", "Print the manifests to install on a cluster."),
    "patch": ("pykueue.cli.kubectl_commands:patch", "Run `kubectl patch` for workloads, queues or flavors."),
    "populator": ("pykueue.cli.side_controllers:populator", "Create LocalQueues in namespaces of ClusterQueues."),
    "priority-booster": (
        "pykueue.cli.side_controllers:priority_booster",
        "Lower the priority of long-running workloads.",
    ),
    "replay": ("pykueue.cli.replay:replay", "Replay what the scheduler decided, and why."),
    "restore": ("pykueue.cli.backup:restore", "Write the data of a backup to a new directory."),
    "resume": ("pykueue.cli.stop:resume", "Resume a stopped workload or queue."),
    "run": ("pykueue.cli.run:run", "Queue a command, then run it at this terminal."),
    "salvage": ("pykueue.cli.salvage:salvage", "Rebuild the damaged database of a data directory."),
    "service": ("pykueue.cli.service:service", "Start `pykueue up` by systemd."),
    "simulate": ("pykueue.cli.simulate:simulate", "Simulate jobs in queues: waits, usage, preemptions."),
    "status": ("pykueue.cli.status:status", "Show whether `pykueue up` runs, and its queues."),
    "stop": ("pykueue.cli.stop:stop", "Stop a workload, or put a queue on hold."),
    "submit": ("pykueue.cli.submit:submit", "Create a Job that runs a command."),
    "top": ("pykueue.cli.top:top", "Show queues and workloads, live."),
    "up": ("pykueue.cli.up:up", "Start a Kubernetes-compatible API on this machine."),
    "user": ("pykueue.cli.user:user", "Manage the users of the embedded API."),
    "validate": ("pykueue.cli.validate:validate", "Check manifests as a cluster with Kueue would."),
    "version": ("pykueue.cli.version:version", "Print the versions of pykueue and of the controller."),
    "wait": ("pykueue.cli.wait:wait", "Wait until Jobs are finished."),
}
"""Command name to `module:attribute` and first line of its help.

A module is imported only when its command runs, not for the list of commands.
"""


class LazyGroup(SuggestingGroup):
    def list_commands(self, _ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][1]) for name in sorted(COMMANDS)])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(pykueue.__version__, prog_name="pykueue")
def cli() -> None:
    """Queue jobs as Kueue does, on this machine or on a Kubernetes cluster."""


_OBJECTS_BEFORE_COLLECTION = 100_000
"""No collection while modules are imported; long-running commands set their own threshold."""


def main() -> None:
    run(cli, "pykueue")


def run(group: click.Group, name: str) -> None:
    """Run the command of the arguments, and end the process at once.

    To free all modules one by one takes a sixth of the CPU time of a short command.
    """
    gc.set_threshold(_OBJECTS_BEFORE_COLLECTION)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal without UTF-8 shows ? for what it lacks.
            stream.reconfigure(errors="replace")
    codes: list[int] = []
    # Handlers run in the reverse order, so this is the last one; threads have ended before.
    atexit.register(_end_at_once, codes)
    try:
        group(prog_name=name)
    except SystemExit as end:
        if isinstance(end.code, int):
            codes.append(end.code)
        raise


def _end_at_once(codes: list[int]) -> None:
    """End with the exit code; without one, or if output is lost, leave the end to Python."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        return
    if codes:
        os._exit(codes[0])
