"""The certificate of an HTTPS server, which can be replaced while the server runs."""

import asyncio
import logging
import ssl
import tempfile
from pathlib import Path

from pykueue.api.configuration import tls_names
from pykueue.api.configuration.types import Tls
from pykueue.kube.clock import Clock
from pykueue.kube.issuing import KeyPair

log = logging.getLogger(__name__)

_SECONDS_BETWEEN_READS = 10
_VERSIONS = {"VersionTLS12": ssl.TLSVersion.TLSv1_2, "VersionTLS13": ssl.TLSVersion.TLSv1_3}


class ServingCertificate:
    """All connections that are made after `use` get the new certificate."""

    def __init__(self, tls: Tls | None = None) -> None:
        self.context = _context(tls or Tls())
        self.is_loaded = asyncio.Event()
        """Set when there is a certificate to serve."""

    def use(self, pair: KeyPair) -> None:
        """Load the certificate from private temporary files, because OpenSSL reads only files."""
        with tempfile.TemporaryDirectory(prefix="pykueue-") as folder:
            certificate, key = Path(folder, "tls.crt"), Path(folder, "tls.key")
            certificate.write_bytes(pair.certificate)
            key.write_bytes(pair.key)
            self.context.load_cert_chain(certificate, key)
        self.is_loaded.set()


def _context(tls: Tls) -> ssl.SSLContext:
    """A context with the version, cipher suites and curve of the Configuration.

    Python's `ssl` offers one curve, so the first one is used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS.get(tls.min_version, ssl.TLSVersion.TLSv1_2)
    suites = [name for suite in tls.cipher_suites if (name := tls_names.CIPHER_SUITES[suite])]
    if suites:
        context.set_ciphers(":".join(suites))
    for curve in tls.curve_preferences[:1]:
        context.set_ecdh_curve(tls_names.CURVES[curve])
    return context


async def follow_files(certificate: ServingCertificate, folder: Path, clock: Clock) -> None:
    """Use `tls.crt` and `tls.key` of the folder, and their later versions.

    A pair that does not match is tried again. Without `internalCertManagement` an administrator or
    cert-manager keeps the files in `webhook.certDir`.
    """
    used: KeyPair | None = None
    while True:
        pair = _read(folder)
        if pair is not None and pair != used:
            try:
                certificate.use(pair)
                used = pair
            except ssl.SSLError as error:
                log.warning("the certificate in %s cannot be used: %s", folder, error)
        await clock.sleep(_SECONDS_BETWEEN_READS)


def _read(folder: Path) -> KeyPair | None:
    """None while the files are absent."""
    try:
        return KeyPair(certificate=(folder / "tls.crt").read_bytes(), key=(folder / "tls.key").read_bytes())
    except FileNotFoundError:
        return None
