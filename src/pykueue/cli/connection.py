"""How a command reaches a cluster: the options, one client, and errors printed as one line."""

import contextlib
import functools
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from pykueue.cli import output as outputs

if TYPE_CHECKING:
    from pykueue.api.scheme import Resource
    from pykueue.kube.access import Access
    from pykueue.kube.client import Client

Answer = TypeVar("Answer")
Command = Callable[..., Any]

_NO_ANSWER = "Is the cluster running? `pykueue up` starts one on this machine."
RESTART_SECONDS = 60.0
"""How long a command that follows a job waits for an API that is restarted."""
_RETRY_SECONDS = 0.5
_NO_KUBECONFIG = "`pykueue up` starts a cluster on this machine; --kubeconfig or KUBECONFIG names another one."


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAccess:
    """The cluster and namespace that the options select; "" is the namespace of the kubeconfig."""

    kubeconfig: Path | None = None
    context: str = ""
    namespace: str = ""

    def run(
        self,
        action: "Callable[[Client, str], Awaitable[Answer]]",
        *,
        hint: str = "",
        hint_codes: tuple[int, ...] = (),
    ) -> Answer:
        """Call the action with a client and the namespace; print an API error with the hint.

        The hint belongs to errors with one of `hint_codes`, or to all errors.
        """
        import asyncio

        from pykueue.api import escaping
        from pykueue.api.errors import ApiError
        from pykueue.kube.access import AccessError

        try:
            return asyncio.run(self._run(action))
        except AccessError as error:
            reason = f"{error}\n{_NO_KUBECONFIG}"
            if self.kubeconfig is None and not os.environ.get("KUBECONFIG"):
                reason = f"{_no_cluster()}\n({error})"
            raise click.ClickException(reason) from None
        except OSError as error:
            raise click.ClickException(f"{error}\n{_NO_ANSWER}") from None
        except UnicodeEncodeError as error:
            raise click.ClickException(f"{error.object!r} is not UTF-8, which all texts of an API are") from None
        except ApiError as error:
            used_hint = hint if not hint_codes or error.code in hint_codes else ""
            message = escaping.paragraphs("\n".join(filter(None, (error.message, used_hint))))
            raise click.ClickException(message) from None

    async def credentials(self) -> "Access":
        from pykueue.kube import access

        return await access.find(self.kubeconfig or running_kubeconfig(), self.context)

    async def _run(self, action: "Callable[[Client, str], Awaitable[Answer]]") -> Answer:
        from pykueue.kube.http_client import HttpClient

        credentials = await self.credentials()
        client = HttpClient(credentials)
        try:
            return await action(client, self.namespace or credentials.namespace)
        finally:
            await client.close()


def _no_cluster() -> str:
    """Why no cluster was found: none runs here, or only those with names."""
    from pykueue.cli import data_directory

    names = data_directory.running_names()
    if not names:
        return f"no cluster runs here. {_NO_KUBECONFIG}"
    return (
        f"no cluster without a name runs here; with a name: {', '.join(names)}. "
        f"`export PYKUEUE_NAME={names[0]}` selects one; --kubeconfig or KUBECONFIG does, too."
    )


def running_kubeconfig() -> Path | None:
    """The kubeconfig of this machine's `pykueue up`, unless the environment names a cluster."""
    if os.environ.get("KUBECONFIG") or os.environ.get("KUBERNETES_SERVICE_HOST"):
        return None
    from pykueue.cli import data_directory

    path = data_directory.running_kubeconfig()
    if path and (Path.home() / ".kube" / "config").exists():
        outputs.echo("The cluster is the `pykueue up` of this machine; --kubeconfig names another one.", err=True)
    return path


async def existing_names(client: "Client", resource: "Resource") -> list[str] | None:
    """The names of all objects of a kind; None if the user may not list them."""
    from pykueue.api import objects
    from pykueue.api.errors import ApiError

    try:
        return sorted(map(objects.name, (await client.list(resource)).items))
    except ApiError as error:
        if error.code == 403:
            return None
        raise


async def when_back(read: Callable[[], Awaitable[Answer]]) -> Answer:
    """The result of a read after the API was lost, tried again while it is restarted."""
    import asyncio

    outputs.echo("The API does not answer; waiting for it.", err=True)
    attempts = int(RESTART_SECONDS / _RETRY_SECONDS)
    for _ in range(attempts):
        with contextlib.suppress(OSError):
            return await read()
        await asyncio.sleep(_RETRY_SECONDS)
    return await read()


def with_cluster(command: Command) -> Command:
    """Add the options that select a cluster; the command receives them as `cluster`."""

    @click.option("--namespace", "-n", default="", help="The namespace. Default: that of the kubeconfig.")
    @click.option(
        "--kubeconfig",
        type=click.Path(path_type=Path),
        help="The kubeconfig file. Default: KUBECONFIG, else that of the running `pykueue up`, else ~/.kube/config.",
    )
    @click.option("--context", default="", help="The context of the kubeconfig. Default: the current one.")
    @functools.wraps(command)
    def wrapped(*, namespace: str, kubeconfig: Path | None, context: str, **options: Any) -> Any:
        return command(cluster=ClusterAccess(kubeconfig=kubeconfig, context=context, namespace=namespace), **options)

    return wrapped
