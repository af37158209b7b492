"""Issues certificates in PEM: a certificate authority, and server certificates that it signs.

Used by servers with TLS: the embedded API and the webhooks of a controller. They import this
module late, because importing `cryptography` takes long.
"""

import datetime as dt
import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
BACKDATED = dt.timedelta(hours=1)
"""A certificate is valid from this long before it is issued, because clocks differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPair:
    certificate: bytes
    key: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Validity:
    """When a certificate is issued, and when it expires."""

    begin: dt.datetime
    end: dt.datetime


def make_authority(name: str, validity: Validity) -> KeyPair:
    key = ec.generate_private_key(ec.SECP256R1())
    builder = (
        _certificate(name, _name(name), key, validity)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return _pair(builder, key, signer=key)


def make_server(authority: KeyPair, name: str, hosts: Iterable[str], validity: Validity) -> KeyPair:
    issuer = x509.load_pem_x509_certificate(authority.certificate)
    signer = private_key(authority.key)
    key = ec.generate_private_key(ec.SECP256R1())
    builder = (
        _certificate(name, issuer.subject, key, validity)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_alternative(host) for host in hosts]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
    )
    return _pair(builder, key, signer=signer)


def private_key(pem: bytes) -> PrivateKey:
    """Read a private key; raise ValueError or TypeError if it cannot sign certificates here."""
    key = serialization.load_pem_private_key(pem, password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
        raise TypeError(f"a key of type {type(key).__name__} is not used for certificates here")
    return key


def hosts_of(certificate: x509.Certificate) -> set[str]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return set()
    return {*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))}


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _certificate(
    subject: str, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, validity: Validity
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(validity.begin - BACKDATED)
        .not_valid_after(validity.end)
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
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


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pair(builder: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey, *, signer: PrivateKey) -> KeyPair:
    signed = builder.sign(signer, hashes.SHA256())
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return KeyPair(certificate=signed.public_bytes(serialization.Encoding.PEM), key=pem)
