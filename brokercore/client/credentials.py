"""The AccessKey pair that signs requests."""

from __future__ import annotations

from dataclasses import dataclass, field

from brokercore.protocol.signature import ACCESS_KEY, SECURITY_TOKEN, SIGNATURE, sign


@dataclass(frozen=True, slots=True)
class Credentials:
    """An AccessKey pair; `security_token` belongs to temporary ones (STS). The secret is never printed."""

    access_key_id: str
    access_key_secret: str = field(repr=False)
    security_token: str | None = field(default=None, repr=False)

    def sign(self, ext: dict[str, str], body: bytes) -> None:
        """Add AccessKey, SecurityToken and Signature to the ext fields of a request."""
        ext[ACCESS_KEY] = self.access_key_id
        if self.security_token:
            ext[SECURITY_TOKEN] = self.security_token
        ext[SIGNATURE] = sign(ext, body, self.access_key_secret)
