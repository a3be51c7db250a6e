"""The key that pushes are signed with: made once, kept in Redis, encrypted. Everybody may read its certificate.

A receiver finds the certificate by the URL in a push, and keeps it: another key has another URL.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from binascii import b2a_base64
from datetime import UTC, datetime, timedelta
from http import HTTPStatus

from cryptography import x509
from cryptography.fernet import Fernet, InvalidToken
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.x509.oid import NameOID

from brokercore.server.storage.redis_connection import RedisConnection
from brokercore.smq.server.http import Answer
from brokercore.smq.storage import keys
from brokercore.smq.wire.errors import Code, SmqError

logger = logging.getLogger(__name__)

_BITS = 2048
_LIFETIME, _RENEW_BEFORE = timedelta(days=3650), timedelta(days=30)
#: The folder of certificates.
PATH, _SUFFIX = "/certificates/", ".pem"
_TYPE = {"Content-Type": "application/x-pem-file"}


class Signer:
    """Signs with the service's key, which it makes when there is none that can be read and will hold for long."""

    def __init__(self, redis: RedisConnection, master_key: str, address: str) -> None:
        self._redis, self._fernet, self._address = redis, Fernet(master_key), address
        self._key: rsa.RSAPrivateKey | None = None
        self._name = ""
        self._reading = asyncio.Lock()

    async def start(self) -> None:
        """Read the key, or make one. Raises RedisError and StoreUnavailable."""
        async with self._reading:
            if self._key is not None:
                return
            kept = await self._redis.call("GET", keys.SIGNING)
            pair = None if kept is None else self._read(kept)
            if pair is None:
                made = await asyncio.to_thread(_make)
                # Whoever reads finds a key whose certificate is there.
                await self._redis.call("HSET", keys.CERTIFICATES, _name(made[1]), _pem(made[1]))
                sealed = self._fernet.encrypt(_key_pem(made[0]) + _pem(made[1]))
                words = ("SET", keys.SIGNING, sealed, *(() if kept else ("NX",)))
                await self._redis.call(*words)
                pair = self._read(await self._redis.call("GET", keys.SIGNING)) or made
            self._key, self._name = pair[0], _name(pair[1])

    @property
    def certificate_url(self) -> str:
        """Where the certificate is, for receivers. There is one once the signer has started."""
        return f"{self._address}{PATH}{self._name}{_SUFFIX}"

    def sign(self, text: str) -> str:
        """The signature of a text (RSA, SHA-1, PKCS #1 1.5), in Base64. Raises RuntimeError before the start."""
        if self._key is None:
            raise RuntimeError("the signer has not started")
        # The vendor's scheme: who verifies pushes expects it.
        signature = self._key.sign(text.encode(), padding.PKCS1v15(), hashes.SHA1())  # noqa: S303  # nosec B303
        return b2a_base64(signature, newline=False).decode()

    async def page(self, path: str) -> Answer:
        """The certificate at this path, for whoever asks. Raises SmqError, RedisError and StoreUnavailable."""
        name = path.removeprefix(PATH).removesuffix(_SUFFIX)
        found = await self._redis.call("HGET", keys.CERTIFICATES, name)
        if found is None:
            raise SmqError(Code.CERTIFICATE_NOT_EXIST, f"There is no certificate {name[:80]}.")
        return Answer(HTTPStatus.OK, found, _TYPE)

    def _read(self, sealed: bytes) -> tuple[rsa.RSAPrivateKey, x509.Certificate] | None:
        try:
            opened = self._fernet.decrypt(sealed)
        except InvalidToken:
            logger.warning("the key that pushes are signed with is encrypted with another master key: it is replaced")
            return None
        key = serialization.load_pem_private_key(opened, None)
        certificate = x509.load_pem_x509_certificate(opened)
        holds_for_long = certificate.not_valid_after_utc > datetime.now(UTC) + _RENEW_BEFORE
        return (key, certificate) if holds_for_long and isinstance(key, rsa.RSAPrivateKey) else None


def _make() -> tuple[rsa.RSAPrivateKey, x509.Certificate]:
    key = rsa.generate_private_key(public_exponent=65537, key_size=_BITS)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Gantry notifications")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + _LIFETIME)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    return key, certificate


def _name(certificate: x509.Certificate) -> str:
    return hashlib.sha256(certificate.public_bytes(serialization.Encoding.DER)).hexdigest()[:32]


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
