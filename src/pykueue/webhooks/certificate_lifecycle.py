"""The life of the webhooks' certificates: trusted authorities and a serving certificate. Pure.

    fresh ──▶ in use
    in use ──2/3 of the authority's life──▶ second authority announced ──all trust it──▶ in use
    in use ──2/3 of the certificate's life──▶ new certificate of the same authority ──▶ in use

An authority is removed when it has expired: by then all its certificates have expired too.
"""

import base64
import binascii
import datetime as dt
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from cryptography import x509
from cryptography.exceptions import InvalidSignature

from pykueue.kube import issuing
from pykueue.kube.issuing import KeyPair, Validity

_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----\s*", re.DOTALL)
_SERVER = "pykueue-webhooks"


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateLifetimes:
    """How long certificates are valid.

    `settling` is how long an authority must be trusted before a certificate of it is served.
    """

    authority: dt.timedelta = dt.timedelta(days=3650)
    serving: dt.timedelta = dt.timedelta(days=365)
    settling: dt.timedelta = dt.timedelta(minutes=1)

    @classmethod
    def of(cls, life: dt.timedelta) -> "CertificateLifetimes":
        """Lifetimes that follow from the life of a serving certificate."""
        return cls(authority=life * 10, serving=life, settling=min(life / 20, cls().settling))


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    authorities: tuple[bytes, ...]
    """Certificates of authorities, the newest last."""
    authority_key: bytes
    serving: KeyPair

    @classmethod
    def read(cls, data: Mapping[str, str]) -> "Credentials | None":
        """Read a Secret, ours or one that Kueue left; None if it cannot be used."""
        try:
            decoded = {name: base64.b64decode(value, validate=True) for name, value in data.items()}
            credentials = cls(
                authorities=tuple(_PEM.findall(decoded["ca.crt"])),
                authority_key=decoded["ca.key"],
                serving=KeyPair(certificate=decoded["tls.crt"], key=decoded["tls.key"]),
            )
            credentials.check()
        except (binascii.Error, KeyError, IndexError, TypeError, ValueError, InvalidSignature):
            return None
        return credentials

    def check(self) -> None:
        """Raise ValueError or InvalidSignature if the parts do not belong together."""
        serving = _loaded(self.serving.certificate)
        keys = ((self.newest, self.authority_key), (serving, self.serving.key))
        if any(certificate.public_key() != issuing.private_key(key).public_key() for certificate, key in keys):
            raise ValueError("a key does not belong to its certificate")
        if not any(_has_signed(_loaded(authority), serving) for authority in self.authorities):
            raise ValueError("no authority of the Secret has signed the certificate")

    def data(self) -> dict[str, str]:
        parts = {
            "ca.crt": self.trust,
            "ca.key": self.authority_key,
            "tls.crt": self.serving.certificate,
            "tls.key": self.serving.key,
        }
        return {name: base64.b64encode(value).decode() for name, value in parts.items()}

    @property
    def trust(self) -> bytes:
        """The content of every `caBundle`."""
        return b"".join(self.authorities)

    @property
    def newest(self) -> x509.Certificate:
        return _loaded(self.authorities[-1])

    @property
    def end(self) -> dt.datetime:
        return _loaded(self.serving.certificate).not_valid_after_utc


@dataclass(frozen=True, slots=True, kw_only=True)
class Renewal:
    """Decides what is renewed next, and when."""

    hosts: frozenset[str]
    lifetimes: CertificateLifetimes = CertificateLifetimes()

    def fresh(self, now: dt.datetime) -> Credentials:
        authority = self._authority(now)
        serving = self._serving(authority, now)
        return Credentials(authorities=(authority.certificate,), authority_key=authority.key, serving=serving)

    def next(self, current: Credentials, now: dt.datetime, trusted_since: dt.datetime) -> Credentials | None:
        """The next credentials, or None while nothing is due.

        `trusted_since` is when the newest authority became trusted by every webhook configuration.
        """
        newest = current.newest
        if newest.not_valid_after_utc <= now:
            return self.fresh(now)
        if _renewal_time(newest) <= now:
            added = self._authority(now)
            unexpired = _unexpired(current.authorities, now)
            return replace(current, authorities=(*unexpired, added.certificate), authority_key=added.key)
        if self._is_serving_due(current, now) and self._may_serve(current, now, trusted_since):
            authority = KeyPair(certificate=current.authorities[-1], key=current.authority_key)
            return replace(current, serving=self._serving(authority, now))
        unexpired = _unexpired(current.authorities, now)
        return replace(current, authorities=unexpired) if unexpired != current.authorities else None

    def due(self, current: Credentials, now: dt.datetime, trusted_since: dt.datetime) -> dt.datetime:
        """When `next` will return credentials, if nothing else changes."""
        if self._is_serving_due(current, now):
            return trusted_since + self.lifetimes.settling
        serving = _loaded(current.serving.certificate)
        ends = (_loaded(authority).not_valid_after_utc for authority in current.authorities)
        return min(_renewal_time(current.newest), _renewal_time(serving), *ends)

    def _is_serving_due(self, current: Credentials, now: dt.datetime) -> bool:
        serving = _loaded(current.serving.certificate)
        is_old = _renewal_time(serving) <= now or not _has_signed(current.newest, serving)
        return is_old or not self.hosts <= issuing.hosts_of(serving)

    def _may_serve(self, current: Credentials, now: dt.datetime, trusted_since: dt.datetime) -> bool:
        """A new authority must be trusted first, unless the certificate in use has expired."""
        is_in_use = _has_signed(current.newest, _loaded(current.serving.certificate))
        return is_in_use or trusted_since + self.lifetimes.settling <= now or current.end <= now

    def _authority(self, now: dt.datetime) -> KeyPair:
        """Each authority has its own subject name, so that TLS clients pick the right one."""
        life = Validity(begin=now, end=now + self.lifetimes.authority)
        return issuing.make_authority(f"pykueue-webhooks-ca-{now:%Y%m%dT%H%M%S}", life)

    def _serving(self, authority: KeyPair, now: dt.datetime) -> KeyPair:
        end = min(now + self.lifetimes.serving, _loaded(authority.certificate).not_valid_after_utc)
        return issuing.make_server(authority, _SERVER, sorted(self.hosts), Validity(begin=now, end=end))


def is_trusted(bundle: bytes, certificate: bytes) -> bool:
    """Whether an authority of the bundle has signed the certificate."""
    return any(_has_signed(_loaded(authority), _loaded(certificate)) for authority in _PEM.findall(bundle))


def _loaded(pem: bytes) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pem)


def _has_signed(authority: x509.Certificate, certificate: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _renewal_time(certificate: x509.Certificate) -> dt.datetime:
    begin, end = certificate.not_valid_before_utc + issuing.BACKDATED, certificate.not_valid_after_utc
    return begin + (end - begin) * 2 / 3


def _unexpired(authorities: Iterable[bytes], now: dt.datetime) -> tuple[bytes, ...]:
    return tuple(authority for authority in authorities if _loaded(authority).not_valid_after_utc > now)
