"""The webhooks of `pykueue controller` as its command line describes them."""

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from pykueue.api.configuration.types import Configuration
    from pykueue.kube.client import Client
    from pykueue.webhooks.service import Webhooks

AS_CONFIGURED = "configured"


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookOptions:
    """`address` is host:port, or AS_CONFIGURED."""

    address: str
    certificate_life: str

    def made(self, client: "Client", configuration: "Configuration") -> "Webhooks":
        from pykueue.webhooks.certificate_lifecycle import CertificateLifetimes
        from pykueue.webhooks.service import ListenAddress, Webhooks

        address = None
        if self.address != AS_CONFIGURED:
            host, _, port = self.address.rpartition(":")
            if not port.isdigit():
                raise click.BadParameter(f"{self.address} is not ADDRESS:PORT", param_hint="--webhooks")
            address = ListenAddress(host=host.strip("[]"), port=int(port))
        return Webhooks(client, configuration, address=address, lifetimes=CertificateLifetimes.of(self._life()))

    def _life(self) -> dt.timedelta:
        from pykueue.api import durations
        from pykueue.api.times import SECOND_NS

        try:
            seconds = durations.to_ns(self.certificate_life) / SECOND_NS
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint="--certificate-life") from None
        if seconds < 10:
            raise click.BadParameter("a certificate lasts 10s at least", param_hint="--certificate-life")
        return dt.timedelta(seconds=seconds)
