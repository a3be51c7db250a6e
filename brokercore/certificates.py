"""Certificates of this copy: self-signed, made when there is none, renewed before they end."""

from __future__ import annotations

import ipaddress
import os
import ssl
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_LIFETIME = timedelta(days=825)
_RENEW_BEFORE = timedelta(days=30)


def server_context(folder: Path, name: str, hosts: Iterable[str]) -> ssl.SSLContext:
    """The context of a TLS server with `folder/<name>.crt` and `.key`; both are made, for `hosts`, when missing.

    Put a pair of your own there to have clients check it; one that ends within 30 days is replaced. Raises OSError and
    ssl.SSLError when the files cannot be used.
    """
    certificate, key = folder / f"{name}.crt", folder / f"{name}.key"
    if not key.is_file() or not certificate.is_file() or _ends_soon(certificate):
        _make(certificate, key, f"Gantry {name}", hosts)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificate, key)
    return context


def _ends_soon(file: Path) -> bool:
    certificate = x509.load_pem_x509_certificate(file.read_bytes())
    return certificate.not_valid_after_utc < datetime.now(UTC) + _RENEW_BEFORE


def _make(certificate_file: Path, key_file: Path, common_name: str, hosts: Iterable[str]) -> None:
    key_file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + _LIFETIME)
        .add_extension(x509.SubjectAlternativeName([_name(h) for h in dict.fromkeys(hosts)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    _write(key_file, pem, 0o600)
    _write(certificate_file, certificate.public_bytes(serialization.Encoding.PEM), 0o644)


def _name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _write(file: Path, content: bytes, mode: int) -> None:
    """In one step, so that a start that is interrupted leaves no half file."""
    half = file.with_suffix(f"{file.suffix}.new")
    with os.fdopen(os.open(half, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as output:
        output.write(content)
    half.replace(file)
