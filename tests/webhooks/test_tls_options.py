"""The TLS options of the Configuration decide what a server of ours accepts."""

import asyncio
import datetime as dt
import ssl

import pytest

from pykueue.api.configuration.types import Configuration, Tls
from pykueue.kube import issuing
from pykueue.webhooks.serving_certificate import ServingCertificate

AES_128 = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"


async def connected(tls, ciphers="", curve=""):
    """The cipher of a connection; None if the server refuses the client. Curves need TLS 1.3."""
    now = dt.datetime.now(dt.UTC)
    validity = issuing.Validity(begin=now, end=now + dt.timedelta(days=1))
    certificate = ServingCertificate(tls)
    authority = issuing.make_authority("test", validity)
    certificate.use(issuing.make_server(authority, "localhost", ["localhost"], validity))
    server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0, ssl=certificate.context)
    client = ssl.create_default_context()
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    client.maximum_version = ssl.TLSVersion.TLSv1_3 if curve else ssl.TLSVersion.TLSv1_2
    if ciphers:
        client.set_ciphers(ciphers)
    if curve:
        client.set_ecdh_curve(curve)
    try:
        _, writer = await asyncio.open_connection(*server.sockets[0].getsockname(), ssl=client)
    except (ssl.SSLError, ConnectionResetError):
        return None
    else:
        cipher = writer.get_extra_info("cipher")[0]
        writer.close()
        return cipher
    finally:
        server.close()


async def test_only_the_cipher_suites_of_the_configuration_are_offered():
    tls = Tls(cipher_suites=(AES_128,))
    assert await connected(tls) == "ECDHE-ECDSA-AES128-GCM-SHA256"
    assert await connected(tls, ciphers="ECDHE-ECDSA-AES256-GCM-SHA384") is None
    assert await connected(Tls(), ciphers="ECDHE-ECDSA-AES256-GCM-SHA384") is not None


async def test_only_the_first_curve_of_the_configuration_is_offered():
    tls = Tls(curve_preferences=(24, 23))
    assert await connected(tls, curve="secp384r1") is not None
    assert await connected(tls, curve="prime256v1") is None


@pytest.mark.parametrize(("is_on", "expected"), [(True, (24,)), (False, None)])
def test_the_options_obey_their_gate(is_on, expected):
    configuration = Configuration(tls=Tls(curve_preferences=(24,)), feature_gates={"TLSOptions": is_on})
    options = configuration.tls_options
    assert (options and options.curve_preferences) == expected
