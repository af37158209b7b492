"""`pykueue controller`: run the controllers of a real cluster (the process: `app.controller`)."""

import asyncio
import gc
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pykueue.app import process
from pykueue.cli import options

if TYPE_CHECKING:
    import datetime as dt

    from pykueue.api.configuration.loading import Loaded
    from pykueue.app.controller import WebhookOptions

_AS_CONFIGURED = "configured"
_SHORTEST_LIFE_SECONDS = 10


@click.command()
@click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path),
    help="The kubeconfig file. Default: the service account of the pod, else as kubectl finds it.",
)
@click.option("--context", default="", help="The context of the kubeconfig. Default: the current one.")
@options.with_config("the shipped one")
@click.option(
    "--webhooks",
    is_flag=False,
    flag_value=_AS_CONFIGURED,
    default="",
    metavar="[ADDRESS:PORT]",
    help="Serve admission webhooks, for clusters without MutatingAdmissionPolicy. "
    "Default address: webhook.host and webhook.port of the Configuration.",
)
@click.option(
    "--certificate-life",
    default="8760h",
    show_default=True,
    metavar="DURATION",
    help="How long a certificate of the webhooks is valid, at least 10s.",
)
@click.option(
    "--dashboard/--no-dashboard",
    default=True,
    show_default=True,
    help="Serve a page that shows the queues, on the loopback address.",
)
@click.option(
    "--dashboard-port",
    type=click.IntRange(min=0, max=65535),
    default=8444,
    show_default=True,
    help="The port of the page; 0 takes any free one.",
)
@click.option(
    "--record",
    type=click.Path(path_type=Path, file_okay=False),
    help="Record the events of the scheduler in this directory, for `pykueue replay`. Default: not recorded.",
)
@options.with_log_options("info")
def controller(
    *,
    kubeconfig: Path | None,
    context: str,
    config: Path | None,
    webhooks: str,
    certificate_life: str,
    dashboard: bool,
    dashboard_port: int,
    record: Path | None,
    log: process.LogOptions,
) -> None:
    """Run the controllers of a Kubernetes cluster.

    They queue its jobs until the process gets SIGINT or SIGTERM. Of several such processes one
    leads, by a Lease, and the others wait.
    """
    gc.disable()  # `process.tune_collector` enables it again: the start makes no garbage.
    from pykueue.kube.access import AccessError

    process.prepare(log)
    configuration = process.load_configuration(config)
    options = _webhook_options(webhooks, certificate_life) if webhooks else None
    try:
        with asyncio.Runner(loop_factory=process.loop_factory()) as runner:
            port = dashboard_port if dashboard else None
            cluster = (kubeconfig, context)
            runner.run(_serve(cluster, configuration, options, record=record, dashboard_port=port))
    except AccessError as error:
        raise click.ClickException(str(error)) from None


async def _serve(
    cluster: tuple[Path | None, str],
    configuration: "Loaded",
    options: "WebhookOptions | None",
    *,
    record: Path | None,
    dashboard_port: int | None,
) -> None:
    """`cluster` is a kubeconfig and its context; without a port, the page is not served."""
    from pykueue.app import controller as controller_process
    from pykueue.kube import access
    from pykueue.kube.http_client import HttpClient
    from pykueue.recording.ring import RingOptions

    credentials = await access.find(*cluster)
    client = HttpClient(credentials, rate_limit=controller_process.rate_limit(configuration))
    dashboard = (
        None
        if dashboard_port is None
        else controller_process.ClusterDashboardOptions(access=credentials, port=dashboard_port)
    )
    try:
        recording = None if record is None else RingOptions(directory=record)
        await controller_process.serve(client, configuration, options, recording, dashboard=dashboard)
    except OSError as error:
        raise click.ClickException(str(error)) from None
    finally:
        await client.close()


def _webhook_options(address: str, certificate_life: str) -> "WebhookOptions":
    from pykueue.app.controller import WebhookOptions

    host, _, port = address.rpartition(":")
    if address != _AS_CONFIGURED and not port.isdigit():
        raise click.BadParameter(f"{address} is not ADDRESS:PORT", param_hint="--webhooks")
    return WebhookOptions(
        address=None if address == _AS_CONFIGURED else (host.strip("[]"), int(port)),
        certificate_life=_duration(certificate_life),
    )


def _duration(text: str) -> "dt.timedelta":
    import datetime as dt

    from pykueue.api import durations
    from pykueue.api.times import SECOND_NS

    try:
        seconds = durations.to_ns(text) / SECOND_NS
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--certificate-life") from None
    if seconds < _SHORTEST_LIFE_SECONDS:
        raise click.BadParameter("a certificate lasts 10s at least", param_hint="--certificate-life")
    return dt.timedelta(seconds=seconds)
