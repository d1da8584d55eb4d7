"""Certificates for loopback, made on the spot: a CA, and what it signs."""

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_DAY = datetime.timedelta(days=1)

_SIGNS_CERTIFICATES = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)


@dataclass(frozen=True)
class CertificateFiles:
    """PEM files of a certificate and its key."""

    cert: Path
    key: Path


class Authority:
    """A certificate authority with its files in a folder."""

    def __init__(
        self, folder: Path, name: str = "test CA", *, key_identifiers: bool = True
    ) -> None:
        self._folder = folder
        self._key_identifiers = key_identifiers
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        self._certificate = (
            self._builder(self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_SIGNS_CERTIFICATES, critical=True)
            .sign(self._key, hashes.SHA256())
        )
        folder.mkdir(parents=True, exist_ok=True)
        self.cert, self.key = folder / "ca.crt", folder / "ca.key"
        self.cert.write_bytes(_pem(self._certificate))
        self.key.write_bytes(private_pem(self._key))

    def issue(
        self,
        name: str,
        organization: str | None = None,
        hosts: tuple[str, ...] = ("127.0.0.1", "10.0.0.1", "localhost"),
    ) -> CertificateFiles:
        """A certificate for a server at those hosts and for a client of that name."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = [_host(host) for host in hosts]
        certificate = (
            self._builder(_name(name, organization), key.public_key())
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        files = CertificateFiles(self._folder / f"{name}.crt", self._folder / f"{name}.key")
        files.cert.write_bytes(_pem(certificate))
        files.key.write_bytes(private_pem(key))
        return files

    def signed(self, request: bytes) -> bytes:
        """A client's certificate for its request, both in PEM."""
        asked = x509.load_pem_x509_csr(request)
        key = asked.public_key()
        assert isinstance(key, ec.EllipticCurvePublicKey)
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
        return _pem(
            self._builder(asked.subject, key)
            .add_extension(usage, critical=True)
            .sign(self._key, hashes.SHA256())
        )

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey
    ) -> x509.CertificateBuilder:
        """With the key identifiers that Python 3.13 and later insist on, unless told otherwise."""
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _DAY)
            .not_valid_after(now + 30 * _DAY)
        )
        if not self._key_identifiers:
            return builder
        ours = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        return builder.add_extension(
            x509.SubjectKeyIdentifier.from_public_key(key), critical=False
        ).add_extension(ours, critical=False)


def private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _host(name: str) -> x509.GeneralName:
    if name.replace(".", "").isdigit():
        return x509.IPAddress(ipaddress.ip_address(name))
    return x509.DNSName(name)


def _name(common: str, organization: str | None = None) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, common)]
    if organization:
        attributes.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
    return x509.Name(attributes)
