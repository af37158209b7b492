"""The kinds that commands accept, by singular name, with kueuectl's short names."""

import click

from pykueue.api import resources
from pykueue.api.scheme import Resource
from pykueue.cli.suggestions import SuggestingGroup

RESOURCES: dict[str, Resource] = {
    "workload": resources.WORKLOAD,
    "clusterqueue": resources.CLUSTER_QUEUE,
    "localqueue": resources.LOCAL_QUEUE,
    "resourceflavor": resources.RESOURCE_FLAVOR,
}

ALIASES = {
    "cq": "clusterqueue",
    "clusterqueues": "clusterqueue",
    "lq": "localqueue",
    "localqueues": "localqueue",
    "queues": "localqueue",
    "rf": "resourceflavor",
    "flavor": "resourceflavor",
    "flavors": "resourceflavor",
    "resourceflavors": "resourceflavor",
    "kwl": "workload",
    "wl": "workload",
    "workloads": "workload",
    "kueueworkload": "workload",
    "kueueworkloads": "workload",
    "po": "pods",
    "pod": "pods",
}


class KindGroup(SuggestingGroup):
    """A group whose commands are kinds, also by their short names: `cq` is `clusterqueue`."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return super().get_command(ctx, ALIASES.get(cmd_name, cmd_name))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            if "Did you mean" in error.message or "workload" not in self.list_commands(ctx):
                raise
            if args[0] in ("job", "jobs"):
                example = " ".join((ctx.command_path, "workload", *args[1:]))
                raise click.UsageError(f"{error.message} A job is its workload: `{example}`.", ctx) from None
            example = f"{ctx.command_path} workload {args[0]}"
            raise click.UsageError(f"{error.message} Name the kind first, for example `{example}`.", ctx) from None


def qualified(singular: str, name: str) -> str:
    """The name that kubectl prints after a write: `clusterqueue.kueue.x-k8s.io/team-a`."""
    return f"{singular}.{RESOURCES[singular].group}/{name}"
