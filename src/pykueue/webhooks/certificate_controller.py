"""Keeps our certificate: in a Secret that all replicas share, in `caBundle` of every webhook, and renewed in time.

Every replica does the same, and resourceVersions decide races. A step looks at what is there and does what is due;
informers only say when to look, so nothing is lost if somebody else writes in between.
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
from pykueue.kube.client import Client
from pykueue.kube.clock import Clock
from pykueue.kube.informer import Informer
from pykueue.kube.issuing import KeyPair
from pykueue.webhooks.certificate_lifecycle import Credentials, Renewal, Terms

log = logging.getLogger(__name__)

_CONFIGURATIONS = [(resource, name) for resource in (MUTATING, VALIDATING) for name in (QUEUED, UNQUEUED)]
_SECONDS_AFTER_A_FAILURE = 2.0
_LONGEST_REST = dt.timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookService:
    """The Secret, and the Service by which the API server knows us."""

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
        place: WebhookService,
        use: Callable[[KeyPair], None],
        *,
        terms: Terms | None = None,
    ) -> None:
        self._client = client
        self._clock = clock
        self._place = place
        self._use = use
        self._terms = terms or Terms()
        self._known: Credentials | None = None
        self._trusted: tuple[bytes, dt.datetime] = (b"", self._now())
        self._something_changed = asyncio.Event()

    @property
    def is_serving(self) -> bool:
        return self._known is not None

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for informer in self._informers():
                informer.add_handler(lambda _change: self._something_changed.set())
                group.create_task(informer.run())
            while True:
                self._something_changed.clear()
                await self._rest(await self._try())

    def _informers(self) -> list[Informer]:
        secret = Informer(
            self._client,
            resources.SECRET,
            namespace=self._place.namespace,
            field_selector=f"metadata.name={self._place.secret}",
        )
        followed = [
            Informer(self._client, resource, field_selector=f"metadata.name={name}")
            for resource, name in _CONFIGURATIONS
        ]
        return [secret, *followed]

    async def _try(self) -> float:
        """A step, and how many seconds to rest after it."""
        try:
            due = await self.step()
        except (ApiError, OSError, TimeoutError) as error:
            if isinstance(error, ApiError) and error.code == 409:
                return 0
            log.warning("the certificate of the webhooks: %s", error)
            return _SECONDS_AFTER_A_FAILURE
        return max(0.0, (due - self._now()).total_seconds())

    async def _rest(self, seconds: float) -> None:
        waits = [
            asyncio.ensure_future(self._clock.sleep(seconds)),
            asyncio.ensure_future(self._something_changed.wait()),
        ]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def step(self) -> dt.datetime:
        """Do what is due; returns when to look again."""
        secret = await self._get(resources.SECRET, self._place.secret, self._place.namespace)
        configurations = [
            (resource, found) for resource, name in _CONFIGURATIONS if (found := await self._get(resource, name))
        ]
        renewal = Renewal(hosts=self._place.hosts | _url_hosts(found for _, found in configurations), terms=self._terms)
        current = Credentials.read((secret or {}).get("data") or {})
        if current is None:
            await self._write(secret, self._known or renewal.fresh(self._now()))
            return self._now()
        self._take(current)
        trusted_since = await self._make_trusted(current, configurations)
        changed = renewal.next(current, self._now(), trusted_since)
        if changed is None:
            return min(renewal.due(current, self._now(), trusted_since), self._now() + _LONGEST_REST)
        await self._write(secret, changed)
        return self._now()

    def _take(self, current: Credentials) -> None:
        if self._known is None or self._known.serving != current.serving:
            self._use(current.serving)
            log.info("the webhooks serve a certificate that is good until %s", current.end.isoformat())
        self._known = current

    async def _make_trusted(self, current: Credentials, configurations: list[tuple[Resource, Object]]) -> dt.datetime:
        """Put our authorities into every webhook; returns since when the newest is seen in all of them."""
        bundle = base64.b64encode(current.trust).decode()
        newest = current.authorities[-1]
        is_seen_everywhere = True
        for resource, configuration in configurations:
            bundles = [each["clientConfig"].get("caBundle") or "" for each in configuration.get("webhooks") or ()]
            is_seen_everywhere &= all(newest in base64.b64decode(each) for each in bundles)
            if any(each != bundle for each in bundles):
                await self._client.patch(
                    resource, configuration["metadata"]["name"], "", _trusting(configuration, bundle)
                )
        if not is_seen_everywhere or self._trusted[0] != newest:
            self._trusted = (newest, self._now())
        return self._trusted[1]

    async def _write(self, secret: Object | None, credentials: Credentials) -> None:
        """ApiError 409 if another replica was faster."""
        if secret is None:
            metadata = {"name": self._place.secret, "namespace": self._place.namespace}
            made = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": credentials.data()}
            await self._client.create(resources.SECRET, made, self._place.namespace)
        else:
            await self._client.update(resources.SECRET, {**secret, "data": credentials.data()})
        log.info("Secret %s has other certificates", self._place.secret)

    async def _get(self, resource: Resource, name: str, namespace: str = "") -> Object | None:
        try:
            return await self._client.get(resource, name, namespace)
        except ApiError as error:
            if error.code == 404:
                return None
            raise

    def _now(self) -> dt.datetime:
        """Certificates count in whole seconds."""
        return dt.datetime.fromtimestamp(self._clock.now_ns() // SECOND_NS, dt.UTC)


def _url_hosts(configurations: Iterable[Object]) -> frozenset[str]:
    """Outside a cluster the API server knows us by the addresses that the configurations name."""
    urls = (each["clientConfig"].get("url") for found in configurations for each in found.get("webhooks") or ())
    return frozenset(host for url in urls if url and (host := urlsplit(url).hostname))


def _trusting(configuration: Object, bundle: str) -> Object:
    """A merge patch, refused if somebody else has written since."""
    webhooks = [
        {**each, "clientConfig": {**each["clientConfig"], "caBundle": bundle}} for each in configuration["webhooks"]
    ]
    return {"metadata": {"resourceVersion": configuration["metadata"]["resourceVersion"]}, "webhooks": webhooks}
