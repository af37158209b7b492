"""`pykueue dashboard`: a link that opens the page of a running `pykueue up`, logged in."""

import urllib.parse
from typing import TYPE_CHECKING

import click

from pykueue.cli import output as outputs
from pykueue.cli.connection import ClusterAccess, with_cluster

if TYPE_CHECKING:
    from pykueue.kube.client import Client

_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_ON_A_CLUSTER = (
    "This cluster does not serve the page itself; `pykueue controller` does, in its pod:\n"
    "  kubectl -n kueue-system port-forward deploy/kueue-controller-manager 8444\n"
    "Then open http://127.0.0.1:8444/dashboard/ and paste a token."
)


@click.command()
@click.option("--open", "is_opened", is_flag=True, help="Open the link in a browser.")
@outputs.with_report_output
@with_cluster
def dashboard(*, cluster: ClusterAccess, is_opened: bool, output: str) -> None:
    """Print a link that opens the page, logged in.

    The link works once, within an hour, and logs in the user of the kubeconfig.
    """

    async def request(client: "Client", _namespace: str) -> str:
        credentials = await cluster.credentials()
        answer = await client.raw("POST", "/dashboard/link", {"token": await credentials.token()})
        return _link(credentials.server, answer)

    link = cluster.run(request, hint=_ON_A_CLUSTER, hint_codes=(403, 404, 405))
    if output == "json":
        outputs.show_json({"link": link})
    else:
        outputs.echo(link)
    if is_opened:
        click.launch(link)


def _link(server: str, answer: dict[str, object]) -> str:
    """The port without TLS if the API is on this machine, else the API itself."""
    name = urllib.parse.urlsplit(server).hostname
    address = f"http://127.0.0.1:{answer['port']}" if name in _LOOPBACK else server
    return f"{address}/dashboard/#code={answer['code']}"
