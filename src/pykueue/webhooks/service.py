"""The webhooks of one replica: certificate, lookup cache and HTTPS server.

`pykueue controller --webhooks` runs them on every replica, whether it leads or not.
"""

import asyncio
import logging
from dataclasses import dataclass
from pathlib import Path

from pykueue.api.configuration.types import Configuration
from pykueue.kube.client import Client
from pykueue.kube.clock import Clock, WallClock
from pykueue.webhooks.certificate_controller import CertificateController, WebhookService
from pykueue.webhooks.certificate_lifecycle import CertificateLifetimes
from pykueue.webhooks.endpoints import Endpoints
from pykueue.webhooks.lookups import LookupCache
from pykueue.webhooks.serving_certificate import ServingCertificate, follow_files

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenAddress:
    """Where to listen; the host "" is every address of this machine."""

    host: str
    port: int


class Webhooks:
    def __init__(
        self,
        client: Client,
        configuration: Configuration,
        *,
        address: ListenAddress | None = None,
        lifetimes: CertificateLifetimes | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._client = client
        self._configuration = configuration
        self._address = address or ListenAddress(host=configuration.webhook.host, port=configuration.webhook.port)
        self._lifetimes = lifetimes
        self._clock = clock or WallClock()
        self._certificate = ServingCertificate(configuration.tls_options)
        self._lookups = LookupCache(client)
        self._endpoints = Endpoints(self._lookups, configuration.settings())

    @property
    def is_ready(self) -> bool:
        return self._endpoints.is_listening and self._certificate.is_loaded.is_set() and self._lookups.is_synced

    @property
    def port(self) -> int:
        return self._endpoints.port

    async def run(self) -> None:
        """Run until cancelled; OSError if the address is in use."""
        background = [asyncio.create_task(self._lookups.run()), asyncio.create_task(self._keep_certificate())]
        serving = asyncio.create_task(self._serve())
        try:
            await asyncio.wait([*background, serving], return_when=asyncio.FIRST_EXCEPTION)
            for task in (*background, serving):
                if task.done():
                    task.result()
        finally:
            for task in (*background, serving):
                task.cancel()
            await asyncio.gather(*background, serving, return_exceptions=True)
            await self._endpoints.stop()

    async def _keep_certificate(self) -> None:
        management = self._configuration.internal_cert_management
        if not management.enable:
            await follow_files(self._certificate, Path(self._configuration.webhook.cert_dir), self._clock)
            return
        service = WebhookService(
            namespace=self._configuration.namespace,
            secret=management.webhook_secret_name,
            service=management.webhook_service_name,
        )
        controller = CertificateController(
            self._client, self._clock, service, self._certificate.use, lifetimes=self._lifetimes
        )
        await controller.run()

    async def _serve(self) -> None:
        """Listen only when every review can be answered."""
        await self._certificate.is_loaded.wait()
        await self._lookups.synced()
        await self._endpoints.start(self._address.host, self._address.port, self._certificate.context)
        log.info("the webhooks are served at %s:%d", self._address.host or "*", self._endpoints.port)
        await asyncio.Event().wait()
