"""The webhooks of one replica: certificate, neighbours and server, started in the order in which they need each other.

Run by `pykueue controller --webhooks`, whether this replica leads or not.
"""

import asyncio
import logging
from dataclasses import dataclass
from pathlib import Path

from pykueue.api.configuration.types import Configuration
from pykueue.kube.client import Client
from pykueue.kube.clock import Clock, WallClock
from pykueue.webhooks.certificate_controller import CertificateController, WebhookService
from pykueue.webhooks.certificate_lifecycle import Terms
from pykueue.webhooks.endpoints import Endpoints
from pykueue.webhooks.identity import Identity, follow_files
from pykueue.webhooks.lookups import LookupCache

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where to listen; "" is every address of this machine."""

    host: str
    port: int


class Webhooks:
    def __init__(
        self,
        client: Client,
        configuration: Configuration,
        *,
        address: Address | None = None,
        terms: Terms | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._client = client
        self._configuration = configuration
        self._address = address or Address(host=configuration.webhook.host, port=configuration.webhook.port)
        self._terms = terms
        self._clock = clock or WallClock()
        self._identity = Identity(configuration.tls)
        self._neighbours = LookupCache(client)
        self._endpoints = Endpoints(self._neighbours, configuration.settings())

    @property
    def is_ready(self) -> bool:
        return self._endpoints.is_listening and self._identity.known.is_set() and self._neighbours.is_synced

    @property
    def port(self) -> int:
        return self._endpoints.port

    async def run(self) -> None:
        """Until it is cancelled; OSError if somebody else listens at our address."""
        background = [asyncio.create_task(self._neighbours.run()), asyncio.create_task(self._keep_certificate())]
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
        managed = self._configuration.internal_cert_management
        if not managed.enable:
            await follow_files(self._identity, Path(self._configuration.webhook.cert_dir), self._clock)
            return
        place = WebhookService(
            namespace=self._configuration.namespace,
            secret=managed.webhook_secret_name,
            service=managed.webhook_service_name,
        )
        keeper = CertificateController(self._client, self._clock, place, self._identity.use, terms=self._terms)
        await keeper.run()

    async def _serve(self) -> None:
        """Not before we can answer well: until then the API server had better find nobody."""
        await self._identity.known.wait()
        await self._neighbours.synced()
        await self._endpoints.start(self._address.host, self._address.port, self._identity.context)
        log.info("the webhooks are served at %s:%d", self._address.host or "*", self._endpoints.port)
        await asyncio.Event().wait()
