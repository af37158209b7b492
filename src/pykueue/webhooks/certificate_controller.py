"""Keeps the webhooks' certificate in a Secret that all replicas share, and makes it trusted.

Every webhook gets the authority in its `caBundle`. Every replica runs this controller, and
resourceVersions decide races. Reconciling is level-based: it reads what exists and does what is
due. Informers only say when to reconcile, so that nothing is lost if somebody else writes in
between.
"""

import asyncio
import base64
import datetime as dt
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

from pykueue.api import resources
from pykueue.api.errors import ApiError
from pykueue.api.scheme import Object, Resource
from pykueue.api.times import SECOND_NS
from pykueue.install.webhooks import MUTATING, QUEUED, UNQUEUED, VALIDATING
from pykueue.kube.client import Client, get_or_none
from pykueue.kube.clock import Clock
from pykueue.kube.informer import Informer
from pykueue.kube.issuing import KeyPair
from pykueue.webhooks.certificate_lifecycle import CertificateLifetimes, Credentials, Renewal

log = logging.getLogger(__name__)

_CONFIGURATIONS = [(resource, name) for resource in (MUTATING, VALIDATING) for name in (QUEUED, UNQUEUED)]
_SECONDS_AFTER_A_FAILURE = 2.0
_LONGEST_WAIT = dt.timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookService:
    """The Secret of the certificate, and the Service of the webhooks."""

    namespace: str
    secret: str
    service: str

    @property
    def hosts(self) -> frozenset[str]:
        names = (self.service, f"{self.service}.{self.namespace}", f"{self.service}.{self.namespace}.svc")
        return frozenset({*names, f"{names[-1]}.cluster.local"})


class CertificateController:
    """`use` is called with each new certificate to serve."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        service: WebhookService,
        use: Callable[[KeyPair], None],
        *,
        lifetimes: CertificateLifetimes | None = None,
    ) -> None:
        self._client = client
        self._clock = clock
        self._service = service
        self._use = use
        self._lifetimes = lifetimes or CertificateLifetimes()
        self._current: Credentials | None = None
        self._trusted: tuple[bytes, dt.datetime] = (b"", self._now())
        self._something_changed = asyncio.Event()

    @property
    def is_serving(self) -> bool:
        return self._current is not None

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for informer in self._informers():
                informer.add_handler(lambda _change: self._something_changed.set())
                group.create_task(informer.run())
            while True:
                self._something_changed.clear()
                await self._wait(await self._try_to_reconcile())

    def _informers(self) -> list[Informer]:
        secret = Informer(
            self._client,
            resources.SECRET,
            namespace=self._service.namespace,
            field_selector=f"metadata.name={self._service.secret}",
        )
        configurations = [
            Informer(self._client, resource, field_selector=f"metadata.name={name}")
            for resource, name in _CONFIGURATIONS
        ]
        return [secret, *configurations]

    async def _try_to_reconcile(self) -> float:
        """Reconcile; return how many seconds to wait before the next time."""
        try:
            requeue_at = await self.reconcile()
        except (ApiError, OSError, TimeoutError) as error:
            if isinstance(error, ApiError) and error.code == 409:
                return 0
            log.warning("the certificate of the webhooks: %s", error)
            return _SECONDS_AFTER_A_FAILURE
        return max(0.0, (requeue_at - self._now()).total_seconds())

    async def _wait(self, seconds: float) -> None:
        waits = [
            asyncio.ensure_future(self._clock.sleep(seconds)),
            asyncio.ensure_future(self._something_changed.wait()),
        ]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def reconcile(self) -> dt.datetime:
        """Do what is due; return the time at which to reconcile again."""
        secret = await get_or_none(self._client, resources.SECRET, self._service.secret, self._service.namespace)
        configurations = [
            (resource, configuration)
            for resource, name in _CONFIGURATIONS
            if (configuration := await get_or_none(self._client, resource, name))
        ]
        hosts = self._service.hosts | _url_hosts(configuration for _, configuration in configurations)
        renewal = Renewal(hosts=hosts, lifetimes=self._lifetimes)
        current = Credentials.read((secret or {}).get("data") or {})
        if current is None:
            await self._write(secret, self._current or renewal.fresh(self._now()))
            return self._now()
        self._serve(current)
        trusted_since = await self._make_trusted(current, configurations)
        renewed = renewal.next(current, self._now(), trusted_since)
        if renewed is None:
            return min(renewal.due(current, self._now(), trusted_since), self._now() + _LONGEST_WAIT)
        await self._write(secret, renewed)
        return self._now()

    def _serve(self, current: Credentials) -> None:
        if self._current is None or self._current.serving != current.serving:
            self._use(current.serving)
            log.info("the webhooks serve a certificate that is good until %s", current.end.isoformat())
        self._current = current

    async def _make_trusted(self, current: Credentials, configurations: list[tuple[Resource, Object]]) -> dt.datetime:
        """Put our authorities into every webhook; return since when all trust the newest."""
        bundle = base64.b64encode(current.trust).decode()
        newest = current.authorities[-1]
        is_trusted_everywhere = True
        for resource, configuration in configurations:
            webhooks = configuration.get("webhooks") or ()
            bundles = [webhook["clientConfig"].get("caBundle") or "" for webhook in webhooks]
            is_trusted_everywhere &= all(newest in base64.b64decode(old_bundle) for old_bundle in bundles)
            if any(old_bundle != bundle for old_bundle in bundles):
                await self._client.patch(
                    resource, configuration["metadata"]["name"], "", _trusting(configuration, bundle)
                )
        if not is_trusted_everywhere or self._trusted[0] != newest:
            self._trusted = (newest, self._now())
        return self._trusted[1]

    async def _write(self, secret: Object | None, credentials: Credentials) -> None:
        """ApiError 409 if another replica has written it first."""
        if secret is None:
            metadata = {"name": self._service.secret, "namespace": self._service.namespace}
            new = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": credentials.data()}
            await self._client.create(resources.SECRET, new, self._service.namespace)
        else:
            await self._client.update(resources.SECRET, {**secret, "data": credentials.data()})
        log.info("Secret %s has other certificates", self._service.secret)

    def _now(self) -> dt.datetime:
        """The time in whole seconds, which is the resolution of certificates."""
        return dt.datetime.fromtimestamp(self._clock.now_ns() // SECOND_NS, dt.UTC)


def _url_hosts(configurations: Iterable[Object]) -> frozenset[str]:
    """The hosts in the URLs of the configurations, for a controller outside the cluster."""
    webhooks = (webhook for configuration in configurations for webhook in configuration.get("webhooks") or ())
    urls = (webhook["clientConfig"].get("url") for webhook in webhooks)
    return frozenset(host for url in urls if url and (host := urlsplit(url).hostname))


def _trusting(configuration: Object, bundle: str) -> Object:
    """A merge patch that sets the bundle, unless the configuration has changed since."""
    webhooks = [
        {**webhook, "clientConfig": {**webhook["clientConfig"], "caBundle": bundle}}
        for webhook in configuration["webhooks"]
    ]
    return {"metadata": {"resourceVersion": configuration["metadata"]["resourceVersion"]}, "webhooks": webhooks}
