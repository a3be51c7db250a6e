"""AccessKey pairs as credentials: which are usable, whom they stand for, when they were last used.

And how a user changes one for another without a moment in which no key works (`Rotation`), read from its pairs.
"""

from __future__ import annotations

import hmac
import logging
import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, cast

from django.conf import settings
from django.db.models import BooleanField, Case, Q, QuerySet, Value, When
from django.utils import timezone
from redis.exceptions import RedisError

from brokercore.policy.table import USED, Used
from console.accounts.actor import Actor
from console.accounts.crypto import decrypt, encrypt
from console.accounts.models import AccessKey
from console.web.redis import connection

log = logging.getLogger(__name__)

_LAST_USED_SECONDS = 60

_OWNERS = ("user__tenant", "role__tenant", "organization", "tenant")
#: A key that is older is worth a warning: it has been in too many files and hands by then.
OLD_AFTER = timedelta(days=90)


@dataclass(frozen=True, slots=True)
class KeyUse:
    """One use: `channel` is broker, api, mcp or sql; both texts are empty for a use that only left its time."""

    at: datetime
    channel: str = ""
    address: str = ""


def note(access_key_id: str, channel: str, address: str) -> None:
    """Remember a use. That Redis does not answer is logged: it must not stop the caller's request."""
    value = Used(int(time.time() * 1000), channel, address).encode()
    try:
        connection().hset(USED, access_key_id, value)
    except RedisError as error:
        log.warning("the last use of %s was not stored: %s", access_key_id, error)


def forget(access_key_id: str) -> None:
    """Drop what is known of a key that was deleted."""
    try:
        connection().hdel(USED, access_key_id)
    except RedisError as error:
        log.warning("the last use of %s was not dropped: %s", access_key_id, error)


def last_uses(keys: Iterable[AccessKey]) -> dict[str, KeyUse]:
    """The last use of each key that was ever used, by its id. Raises RedisError."""
    keys = list(keys)
    found = {key.access_key_id: KeyUse(key.last_used_at) for key in keys if key.last_used_at is not None}
    if not keys:
        return found
    stored = cast("list[str | None]", connection().hmget(USED, [key.access_key_id for key in keys]))
    for key, text in zip(keys, stored, strict=True):
        use = _read(text)
        # The database's time is up to a minute younger than a Redis that was restored from a copy.
        if use is not None and (key.last_used_at is None or use.at >= key.last_used_at.replace(microsecond=0)):
            found[key.access_key_id] = use
    return found


def known_uses(keys: Iterable[AccessKey]) -> tuple[dict[str, KeyUse], bool]:
    """The last uses, and whether they are all that there is to know: without Redis only those of API and SQL are."""
    keys = list(keys)
    try:
        return last_uses(keys), True
    except RedisError as error:
        log.warning("the last uses of AccessKeys cannot be read: %s", error)
    return {key.access_key_id: KeyUse(key.last_used_at) for key in keys if key.last_used_at is not None}, False


def _read(text: str | None) -> KeyUse | None:
    used = Used.decode(text or "")
    return KeyUse(datetime.fromtimestamp(used.at_ms / 1000, UTC), used.channel, used.address) if used else None


def usable_keys() -> QuerySet[AccessKey]:
    """Keys that are enabled, not expired, and whose user and account are enabled, with all that `actor_of` reads."""
    return AccessKey.objects.select_related(*_OWNERS).filter(_usable())


def find_key(access_key_id: str) -> AccessKey | None:
    """The usable key of this id."""
    return usable_keys().filter(access_key_id=access_key_id).first()


def find_platform_key(access_key_id: str) -> AccessKey | None:
    """The key of this id, if it is one of a platform's administrator.

    Such a key belongs to no account and is no usable key anywhere else: brokers, queues and databases never take it.
    """
    keys = AccessKey.objects.select_related(*_OWNERS).filter(_not_expired(), enabled=True)
    return keys.filter(access_key_id=access_key_id, user__is_platform_admin=True, user__is_active=True).first()


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
    of_somebody = (
        Q(user__is_active=True, user__tenant__enabled=True)
        | Q(role__tenant__enabled=True)
        | Q(organization__isnull=False, tenant__enabled=True)
    )
    return _not_expired() & of_somebody & Q(enabled=True)


def _not_expired() -> Q:
    return Q(expires_at=None) | Q(expires_at__gt=timezone.now())


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
    """Remember time and place: one write a minute a key at most, so that a busy caller makes no writes of reads.

    Of temporary keys no place is kept: they end by themselves.
    """
    now = timezone.now()
    if key.last_used_at is None or (now - key.last_used_at).total_seconds() > _LAST_USED_SECONDS:
        AccessKey.objects.filter(pk=key.pk).update(last_used_at=now)
        if not key.security_token:
            note(key.access_key_id, channel, source_ip)


@dataclass(frozen=True, slots=True)
class Pair:
    """An AccessKey with what the page says about it."""

    key: AccessKey
    use: KeyUse | None

    @property
    def is_old(self) -> bool:
        """True when the pair should be replaced by a new one."""
        return timezone.now() - self.key.created_at > OLD_AFTER


@dataclass(frozen=True, slots=True)
class Rotation:
    """The step that comes next: 0 create the first pair, 1 create the second, 2 move over, 3 delete the older."""

    step: int
    older: Pair | None = None
    newer: Pair | None = None

    @property
    def older_in_use(self) -> bool:
        """True when something still signed with the older pair after the newer one was made."""
        if self.older is None or self.newer is None or self.older.use is None:
            return False
        return self.older.use.at > self.newer.key.created_at


def pairs_of(keys: Sequence[AccessKey], uses: Mapping[str, KeyUse]) -> list[Pair]:
    """The pairs of one user with their last uses, oldest first."""
    ordered = sorted(keys, key=lambda key: (key.created_at, key.pk))
    return [Pair(key, uses.get(key.access_key_id)) for key in ordered]


def rotation_of(pairs: Sequence[Pair]) -> Rotation:
    """Where the user stands, from the pairs in the order of their making."""
    if not pairs:
        return Rotation(0)
    if len(pairs) == 1:
        return Rotation(1, pairs[0])
    older, newer = pairs[0], pairs[1]
    return Rotation(2 if older.key.enabled else 3, older, newer)
