"""The way of a command to a cluster: its options, its errors in one line, and one client for what it does."""

import asyncio
import functools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from pykueue.kube.client import Client

Answer = TypeVar("Answer")
Command = Callable[..., Any]

_NOBODY_THERE = "Is the cluster running? `pykueue up` starts one on this machine."
_NO_KUBECONFIG = "Name one with --kubeconfig or KUBECONFIG; `pykueue up --kubeconfig FILE` writes one."


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Which cluster, and which namespace of it; "" is the namespace of the kubeconfig."""

    kubeconfig: Path | None = None
    context: str = ""
    namespace: str = ""

    def run(self, action: "Callable[[Client, str], Awaitable[Answer]]", *, hint: str = "") -> Answer:
        """Call the action with a client and the namespace; what the cluster refuses is told in one line."""
        from pykueue.api.errors import ApiError
        from pykueue.kube.access import AccessError

        try:
            return asyncio.run(self._run(action))
        except AccessError as error:
            raise click.ClickException(f"{error}\n{_NO_KUBECONFIG}") from None
        except OSError as error:
            raise click.ClickException(f"{error}\n{_NOBODY_THERE}") from None
        except ApiError as error:
            raise click.ClickException("\n".join(filter(None, (error.message, hint)))) from None

    async def _run(self, action: "Callable[[Client, str], Awaitable[Answer]]") -> Answer:
        from pykueue.kube import access
        from pykueue.kube.http_client import HttpClient

        way_in = await access.find(self.kubeconfig, self.context)
        client = HttpClient(way_in)
        try:
            return await action(client, self.namespace or way_in.namespace)
        finally:
            await client.close()


def connects(command: Command) -> Command:
    """Give a command the options of a cluster; it receives them as `cluster`."""

    @click.option("--namespace", "-n", default="", help="Default: the namespace of the kubeconfig.")
    @click.option("--kubeconfig", type=click.Path(path_type=Path), help="Default: as kubectl finds it.")
    @click.option("--context", default="", help="The context of the kubeconfig to use.")
    @functools.wraps(command)
    def wrapped(*, namespace: str, kubeconfig: Path | None, context: str, **options: Any) -> Any:
        return command(cluster=Cluster(kubeconfig=kubeconfig, context=context, namespace=namespace), **options)

    return wrapped
