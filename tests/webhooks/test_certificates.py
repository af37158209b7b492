"""At every moment of a long life the API server trusts the serving certificate."""

import asyncio
import base64
import datetime as dt
import ssl

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID
from cryptography.x509.verification import PolicyBuilder, Store
from tests.webhooks.webhook_cluster import (
    CONFIGURATION,
    ENDPOINT,
    HOST,
    NAMESPACES,
    SERVICE,
    VirtualClock,
    api,
    bundles,
    cluster,
    configurations,
    replica,
    until,
)  # fmt: skip

from pykueue.api.errors import ApiError
from pykueue.api.resources import SECRET
from pykueue.install.webhooks import MUTATING, QUEUED, Endpoint
from pykueue.kube import issuing
from pykueue.webhooks.certificate_lifecycle import CertificateLifetimes, Credentials, Renewal
from pykueue.webhooks.service import ListenAddress, Webhooks

_NO_CHECK_TIME = ssl.VerifyFlags(0x200000)
"""Of OpenSSL: it knows the time of this machine only, so `served` compares times itself."""


async def served(port, bundle, now, host=HOST):
    """The certificate of a real connection, verified as the API server does it, at this time."""
    context = ssl.create_default_context(cadata=bundle.decode())
    context.verify_flags |= _NO_CHECK_TIME
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=host)
    certificate = x509.load_der_x509_certificate(writer.get_extra_info("ssl_object").getpeercert(binary_form=True))
    writer.close()
    await writer.wait_closed()
    builder = PolicyBuilder().store(Store(x509.load_pem_x509_certificates(bundle))).time(now)
    builder.build_server_verifier(x509.DNSName(HOST)).verify(certificate, [])
    return certificate


async def seen_by_all(client, port, now):
    """The certificate, if every webhook trusts it."""
    certificates = [await served(port, bundle, now) for bundle in set(await bundles(client))]
    return certificates[0]


async def trusts(client):
    return all(await bundles(client))


class Reported:
    """A client that calls `on_write` after each write."""

    def __init__(self, client, on_write):
        self._client = client
        self._on_write = on_write

    def __getattr__(self, name):
        return getattr(self._client, name)

    async def update(self, *arguments, **options):
        done = await self._client.update(*arguments, **options)
        await self._on_write()
        return done

    async def patch(self, *arguments, **options):
        done = await self._client.patch(*arguments, **options)
        await self._on_write()
        return done


async def test_a_dozen_years_pass_and_the_certificate_is_trusted_at_every_write_and_in_between():
    clock, looks = VirtualClock(), []

    async def look():
        if looks:
            looks.append(await seen_by_all(client, service.port, clock.now))

    async with cluster() as client, replica(Reported(client, look), clock) as service:
        await until(lambda: trusts(client))
        looks.append(await seen_by_all(client, service.port, clock.now))
        for _ in range(12 * 2):
            clock.advance(dt.timedelta(days=182))
            await until(lambda: is_young(client, service.port, clock))
            await look()
        authorities = {certificate.issuer for certificate in looks}
    assert len({certificate.serial_number for certificate in looks}) > 12
    assert len(authorities) == 2


async def is_young(client, port, clock):
    """Whether less than two thirds of the certificate's life have passed."""
    clock.advance(dt.timedelta(seconds=1))
    certificate = await seen_by_all(client, port, clock.now)
    return certificate.not_valid_after_utc - clock.now > dt.timedelta(days=365) / 3


async def test_a_new_authority_is_trusted_a_minute_before_it_signs():
    clock, life = VirtualClock(), dt.timedelta(days=90)
    lifetimes = CertificateLifetimes(authority=life, serving=life)
    async with cluster() as client, replica(client, clock, lifetimes=lifetimes) as service:
        await until(lambda: trusts(client))
        old = await seen_by_all(client, service.port, clock.now)
        clock.advance(life * 2 / 3)
        await until(lambda: trust_two(client))
        clock.advance(dt.timedelta(seconds=59))
        await until(lambda: clock.sleeps)
        assert await seen_by_all(client, service.port, clock.now) == old
        clock.advance(dt.timedelta(seconds=60))
        await until(lambda: is_of_another(client, service.port, clock, old.issuer))


async def trust_two(client):
    return all(bundle.count(b"BEGIN CERTIFICATE") == 2 for bundle in await bundles(client))


async def is_of_another(client, port, clock, issuer):
    return (await seen_by_all(client, port, clock.now)).issuer != issuer


async def test_two_replicas_serve_one_certificate():
    now = dt.datetime.now(dt.UTC)
    async with cluster() as client, replica(client) as one, replica(client) as other:
        await until(lambda: trusts(client))
        serials = {(await seen_by_all(client, service.port, now)).serial_number for service in (one, other)}
        assert len(serials) == 1


async def test_two_replicas_that_start_at_once_agree():
    async with cluster() as client:
        pair = [Webhooks(client, CONFIGURATION), Webhooks(client, CONFIGURATION)]
        keeping = [asyncio.create_task(service._keep_certificate()) for service in pair]
        await asyncio.gather(*(service._certificate.is_loaded.wait() for service in pair))
        await until(lambda: trusts(client))
        secret = await client.get(SECRET, SERVICE.secret, SERVICE.namespace)
        assert set(await bundles(client)) == {base64.b64decode(secret["data"]["ca.crt"])}
        for task in keeping:
            task.cancel()
        await asyncio.gather(*keeping, return_exceptions=True)


async def test_a_bundle_that_somebody_reverts_is_put_right():
    async with cluster() as client, replica(client):
        await until(lambda: trusts(client))
        before = await bundles(client)
        (configuration,) = [
            obj for obj in await configurations(client)
            if (obj["kind"], obj["metadata"]["name"]) == (MUTATING.kind, QUEUED)
        ]  # fmt: skip
        for webhook in configuration["webhooks"]:
            del webhook["clientConfig"]["caBundle"]
        await client.update(MUTATING, configuration)
        await until(lambda: are(client, before))


async def are(client, expected):
    return await bundles(client) == expected


async def test_a_secret_that_somebody_deletes_comes_back_the_same():
    async with cluster() as client, replica(client):
        before = await client.get(SECRET, SERVICE.secret, SERVICE.namespace)
        await client.delete(SECRET, SERVICE.secret, SERVICE.namespace)
        assert await until(lambda: data_of(client)) == before["data"]


async def data_of(client):
    try:
        return (await client.get(SECRET, SERVICE.secret, SERVICE.namespace))["data"]
    except ApiError:
        return None


def mixed():
    """Parts of two that do not belong together."""
    one, other = (Renewal(hosts=SERVICE.hosts).fresh(dt.datetime.now(dt.UTC)).data() for _ in range(2))
    return one | {"tls.key": other["tls.key"]}


@pytest.mark.parametrize("data", [{}, {"ca.crt": "Cg=="}, mixed()], ids=["empty", "half", "mixed"])
async def test_a_secret_that_cannot_be_used_is_replaced(data):
    async with cluster() as client:
        place = {"name": SERVICE.secret, "namespace": SERVICE.namespace}
        await client.create(SECRET, {"metadata": place, "data": data}, SERVICE.namespace)
        async with replica(client) as service:
            await until(lambda: trusts(client))
            assert await seen_by_all(client, service.port, dt.datetime.now(dt.UTC))


def test_what_kueue_left_is_used():
    """Its authority has an RSA key."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    authority = of_rsa(key)
    now = dt.datetime.now(dt.UTC)
    life = issuing.Validity(begin=now, end=now + dt.timedelta(days=365))
    serving = issuing.make_server(authority, "kueue", [HOST], life)
    left = Credentials(authorities=(authority.certificate,), authority_key=authority.key, serving=serving)
    assert Credentials.read(left.data()) == left


def of_rsa(key):
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kueue-ca")])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + dt.timedelta(days=3650))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption())
    return issuing.KeyPair(certificate=certificate.public_bytes(pem), key=private)


async def test_the_certificate_is_good_for_the_url_of_a_controller_outside():
    endpoint = Endpoint(namespace=ENDPOINT.namespace, service=ENDPOINT.service, url="https://127.0.0.1:9443")
    async with cluster(endpoint) as client, replica(client) as service:
        await until(lambda: trusts(client))
        (bundle,) = set(await bundles(client))
        assert await served(service.port, bundle, dt.datetime.now(dt.UTC), host="127.0.0.1")


async def test_without_a_certificate_nobody_is_ready():
    clock = VirtualClock()
    async with api() as client:
        service = Webhooks(client, CONFIGURATION, address=ListenAddress(host="127.0.0.1", port=0), clock=clock)
        running = asyncio.create_task(service.run())
        await until(lambda: service._lookups.is_synced and clock.sleeps)
        assert not service.is_ready
        await client.create(NAMESPACES, {"metadata": {"name": SERVICE.namespace}})
        clock.advance(dt.timedelta(seconds=2))
        await until(lambda: service.is_ready)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
