"""The kinds that commands name, with kueuectl's short names, and a command group that knows them."""

import click

from pykueue.api import resources
from pykueue.api.scheme import Resource

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


class NounGroup(click.Group):
    """A group whose commands are kinds: `cq` is `clusterqueue`."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return super().get_command(ctx, ALIASES.get(cmd_name, cmd_name))


def qualified(noun: str, name: str) -> str:
    """As kubectl names an object after a write: `clusterqueue.kueue.x-k8s.io/team-a`."""
    return f"{noun}.{RESOURCES[noun].group}/{name}"
