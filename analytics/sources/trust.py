"""How a client of ours signs its requests to brokers, and checks who answers them."""

from __future__ import annotations

import ssl
from functools import lru_cache

from brokercore.client import Credentials

SYSTEM = "system"
"""Brokers whose certificates are signed by those that this system trusts."""


def credentials(key_id: str, secret: str) -> Credentials | None:
    """The pair that signs requests; None for brokers that ask for none."""
    return Credentials(key_id, secret) if key_id else None


@lru_cache(maxsize=16)
def tls(ca: str) -> ssl.SSLContext | None:
    """How brokers are checked: by these certificates (PEM), or SYSTEM's; "" is a plain connection."""
    if not ca:
        return None
    return ssl.create_default_context(cadata=None if ca == SYSTEM else ca)
