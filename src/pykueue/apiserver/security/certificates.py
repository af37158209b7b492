"""The certificate authority and the serving certificate, created at the first start.

`ensure` runs before the server listens. A record beside the certificate has its hosts and its end,
so `kube.issuing`, which imports cryptography, is only needed to create a certificate.
"""

import datetime as dt
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pykueue.apiserver.security import files

if TYPE_CHECKING:
    from pykueue.kube.issuing import KeyPair

_YEARS_OF_CA = 10
_DAYS_OF_SERVING = 365
_RENEW_DAYS_BEFORE_END = 30
_LOCAL_HOSTS = ("127.0.0.1", "::1", "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificates:
    directory: Path

    @property
    def authority(self) -> Path:
        return self.directory / "ca.crt"

    @property
    def authority_key(self) -> Path:
        return self.directory / "ca.key"

    @property
    def serving(self) -> Path:
        return self.directory / "server.crt"

    @property
    def serving_key(self) -> Path:
        return self.directory / "server.key"

    @property
    def record(self) -> Path:
        return self.directory / "server.json"


def ensure(directory: Path, hosts: tuple[str, ...], now: dt.datetime) -> Certificates:
    """Certificates for these hosts, created or renewed if missing, too old, or for other hosts."""
    certificates = Certificates(directory=files.private_directory(directory))
    names = tuple(dict.fromkeys(_LOCAL_HOSTS + hosts))
    if not certificates.authority.exists() or not certificates.authority_key.exists():
        _make_authority(certificates, now)
        certificates.record.unlink(missing_ok=True)
    if not _is_valid(certificates, names, now):
        _make_serving(certificates, names, now)
    return certificates


def _is_valid(certificates: Certificates, hosts: tuple[str, ...], now: dt.datetime) -> bool:
    try:
        record = json.loads(certificates.record.read_text())
        renew_at = dt.datetime.fromisoformat(record["end"]) - dt.timedelta(days=_RENEW_DAYS_BEFORE_END)
        covered = set(hosts) <= set(record["hosts"])
    except (OSError, ValueError, KeyError):
        return False
    return covered and now < renew_at and certificates.serving.exists() and certificates.serving_key.exists()


def _make_authority(certificates: Certificates, now: dt.datetime) -> None:
    from pykueue.kube import issuing

    life = issuing.Validity(begin=now, end=now + dt.timedelta(days=365 * _YEARS_OF_CA))
    _write(certificates.authority, certificates.authority_key, issuing.make_authority("pykueue-ca", life))


def _make_serving(certificates: Certificates, hosts: tuple[str, ...], now: dt.datetime) -> None:
    from pykueue.kube import issuing

    authority = issuing.KeyPair(
        certificate=certificates.authority.read_bytes(), key=certificates.authority_key.read_bytes()
    )
    life = issuing.Validity(begin=now, end=now + dt.timedelta(days=_DAYS_OF_SERVING))
    pair = issuing.make_server(authority, "pykueue-apiserver", hosts, life)
    _write(certificates.serving, certificates.serving_key, pair)
    files.write_private(certificates.record, json.dumps({"hosts": hosts, "end": life.end.isoformat()}))


def _write(certificate: Path, private_key: Path, pair: "KeyPair") -> None:
    files.write_private(private_key, pair.key)
    files.write_private(certificate, pair.certificate)
