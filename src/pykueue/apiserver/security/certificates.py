"""The certificate authority and the serving certificate, made at first start and kept with the data.

`ensure` is called by `pykueue up` before it listens. It imports `cryptography` only when something must be made: a
small record beside the certificate says for which hosts and until when it is good.
"""

import datetime as dt
import ipaddress
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pykueue.apiserver.security import files

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

_YEARS_OF_CA = 10
_DAYS_OF_SERVING = 365
_RENEW_DAYS_BEFORE_END = 30
ALWAYS_SERVED = ("127.0.0.1", "::1", "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")


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
    """Certificates good for these hosts; made or renewed when absent, too old, or for other hosts."""
    certificates = Certificates(directory=files.private_directory(directory))
    wanted = tuple(dict.fromkeys(ALWAYS_SERVED + hosts))
    if not certificates.authority.exists() or not certificates.authority_key.exists():
        _make_authority(certificates, now)
        certificates.record.unlink(missing_ok=True)
    if not _is_good(certificates, wanted, now):
        _make_serving(certificates, wanted, now)
    return certificates


def _is_good(certificates: Certificates, hosts: tuple[str, ...], now: dt.datetime) -> bool:
    try:
        record = json.loads(certificates.record.read_text())
        renew_at = dt.datetime.fromisoformat(record["end"]) - dt.timedelta(days=_RENEW_DAYS_BEFORE_END)
        covered = set(hosts) <= set(record["hosts"])
    except (OSError, ValueError, KeyError):
        return False
    return covered and now < renew_at and certificates.serving.exists() and certificates.serving_key.exists()


def _make_authority(certificates: Certificates, now: dt.datetime) -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("pykueue-ca")
    builder = (
        _certificate(name, name, key, now)
        .not_valid_after(now + dt.timedelta(days=365 * _YEARS_OF_CA))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    _write(certificates.authority, certificates.authority_key, builder, key, signer=key)


def _make_serving(certificates: Certificates, hosts: tuple[str, ...], now: dt.datetime) -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID

    authority = x509.load_pem_x509_certificate(certificates.authority.read_bytes())
    signer = serialization.load_pem_private_key(certificates.authority_key.read_bytes(), password=None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP256R1())
    end = now + dt.timedelta(days=_DAYS_OF_SERVING)
    builder = (
        _certificate(_name("pykueue-apiserver"), authority.subject, key, now)
        .not_valid_after(end)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_alternative(host) for host in hosts]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
    )
    _write(certificates.serving, certificates.serving_key, builder, key, signer=signer)
    files.write_private(certificates.record, json.dumps({"hosts": hosts, "end": end.isoformat()}))


def _name(common_name: str) -> "x509.Name":
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _certificate(
    subject: "x509.Name", issuer: "x509.Name", key: "ec.EllipticCurvePrivateKey", now: dt.datetime
) -> "x509.CertificateBuilder":
    from cryptography import x509

    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
    )


def _key_usage(*, signs_certificates: bool) -> "x509.KeyUsage":
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _alternative(host: str) -> "x509.GeneralName":
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _write(
    certificate: Path,
    private_key: Path,
    builder: "x509.CertificateBuilder",
    key: "ec.EllipticCurvePrivateKey",
    *,
    signer: "ec.EllipticCurvePrivateKey",
) -> None:
    from cryptography.hazmat.primitives import hashes, serialization

    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    files.write_private(private_key, pem)
    signed = builder.sign(signer, hashes.SHA256())
    files.write_private(certificate, signed.public_bytes(serialization.Encoding.PEM))
