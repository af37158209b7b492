"""The certificate that our server shows, replaced while it serves: connections made from then on see the new one.

With `internalCertManagement` off, somebody else keeps it in the folder `webhook.certDir`, and `follow_files` looks there.
"""

import asyncio
import logging
import ssl
import tempfile
from pathlib import Path

from pykueue.api.configuration.types import Tls
from pykueue.kube.clock import Clock
from pykueue.kube.issuing import KeyPair

log = logging.getLogger(__name__)

_SECONDS_BETWEEN_LOOKS = 10
_VERSIONS = {"VersionTLS12": ssl.TLSVersion.TLSv1_2, "VersionTLS13": ssl.TLSVersion.TLSv1_3}


class Identity:
    def __init__(self, tls: Tls | None = None) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = _VERSIONS.get((tls or Tls()).min_version, ssl.TLSVersion.TLSv1_2)
        self.known = asyncio.Event()
        """Set when there is a certificate to show."""

    def use(self, pair: KeyPair) -> None:
        """OpenSSL reads files only; these are private, and gone again at once."""
        with tempfile.TemporaryDirectory(prefix="pykueue-") as folder:
            certificate, key = Path(folder, "tls.crt"), Path(folder, "tls.key")
            certificate.write_bytes(pair.certificate)
            key.write_bytes(pair.key)
            self.context.load_cert_chain(certificate, key)
        self.known.set()


async def follow_files(identity: Identity, folder: Path, clock: Clock) -> None:
    """Use `tls.crt` and `tls.key` of the folder, and what they become; half a change is tried again."""
    used: KeyPair | None = None
    while True:
        pair = _read(folder)
        if pair is not None and pair != used:
            try:
                identity.use(pair)
                used = pair
            except ssl.SSLError as error:
                log.warning("the certificate in %s cannot be used: %s", folder, error)
        await clock.sleep(_SECONDS_BETWEEN_LOOKS)


def _read(folder: Path) -> KeyPair | None:
    """None while it is not there."""
    try:
        return KeyPair(certificate=(folder / "tls.crt").read_bytes(), key=(folder / "tls.key").read_bytes())
    except FileNotFoundError:
        return None
