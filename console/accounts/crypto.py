"""AccessKey secrets at rest: encrypted with GANTRY_MASTER_KEY, since HMAC signatures need them back."""

from __future__ import annotations

from functools import lru_cache

from cryptography.fernet import Fernet
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured


def encrypt(secret: str) -> str:
    """The secret as a Fernet token."""
    return _fernet(settings.MASTER_KEY).encrypt(secret.encode()).decode()


def decrypt(token: str) -> str:
    """The secret of a Fernet token. Raises cryptography's InvalidToken when the master key is another one."""
    return _fernet(settings.MASTER_KEY).decrypt(token.encode()).decode()


@lru_cache(maxsize=2)
def _fernet(key: str) -> Fernet:
    try:
        return Fernet(key)
    except ValueError as error:
        raise ImproperlyConfigured(
            "GANTRY_MASTER_KEY is not a Fernet key (32 bytes, url-safe base64); `make up` generates one."
        ) from error
