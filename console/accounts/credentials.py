"""AccessKey pairs as credentials: which are usable, whom they stand for, and when they were last used."""

from __future__ import annotations

import hmac
import secrets
from functools import lru_cache
from typing import Any

from django.conf import settings
from django.db.models import BooleanField, Case, Q, QuerySet, Value, When
from django.utils import timezone

from console.accounts import key_use
from console.accounts.actor import Actor
from console.accounts.crypto import decrypt, encrypt
from console.accounts.models import AccessKey

_LAST_USED_SECONDS = 60


_OWNERS = ("user__tenant", "role__tenant", "organization", "tenant")


def usable_keys() -> QuerySet[AccessKey]:
    """Keys that are enabled, not expired, and whose user and account are enabled, with all that `actor_of` reads."""
    return AccessKey.objects.select_related(*_OWNERS).filter(_usable())


def find_key(access_key_id: str) -> AccessKey | None:
    """The usable key of this id."""
    return usable_keys().filter(access_key_id=access_key_id).first()


def key_of_claim(access_key_id: str) -> tuple[AccessKey | None, bool]:
    """The key that somebody says is theirs, and whether it is usable.

    By one query whatever there is: what is not usable is told to nobody but who then proves to hold its secret.
    """
    is_usable = Case(When(_usable(), then=Value(True)), default=Value(False), output_field=BooleanField())
    keys = AccessKey.objects.select_related(*_OWNERS).annotate(is_usable=is_usable)
    key = keys.filter(access_key_id=access_key_id).first()
    return key, key is not None and key.is_usable


def secret_of(key: AccessKey | None) -> str:
    """The secret that a signature is held against; without a key one that nobody knows, which takes as long to read."""
    return decrypt(key.secret_encrypted if key is not None else _nobodys(settings.MASTER_KEY))


@lru_cache(maxsize=2)
def _nobodys(_master_key: str) -> str:
    return encrypt(secrets.token_hex(15))


def _usable() -> Q:
    not_expired = Q(expires_at=None) | Q(expires_at__gt=timezone.now())
    of_somebody = (
        Q(user__is_active=True, user__tenant__enabled=True)
        | Q(role__tenant__enabled=True)
        | Q(organization__isnull=False, tenant__enabled=True)
    )
    return not_expired & of_somebody & Q(enabled=True)


def actor_of(key: AccessKey, **circumstances: Any) -> Actor:
    """The user, role session or organization that a key stands for; `circumstances` are further fields of Actor."""
    return Actor(
        user=key.user,
        role=key.role,
        session_name=key.session_name,
        organization=key.organization,
        account=key.tenant,
        access_key_id=key.access_key_id,
        **circumstances,
    )


def token_fits(key: AccessKey, given: str) -> bool:
    """True when a temporary key comes with its security token, and any other key with none."""
    return hmac.compare_digest(key.security_token.encode(), given.encode())


def note_use(key: AccessKey, channel: str = "api", source_ip: str = "") -> None:
    """Remember time and place: one write a minute a key at most, so that a busy caller makes no writes of reads."""
    now = timezone.now()
    if key.last_used_at is None or (now - key.last_used_at).total_seconds() > _LAST_USED_SECONDS:
        AccessKey.objects.filter(pk=key.pk).update(last_used_at=now)
        if not key.security_token:
            key_use.note(key.access_key_id, channel, source_ip)
