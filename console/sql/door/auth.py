"""Who may sign in at the MySQL door: an AccessKey pair (id as user name, secret as password) or a database account."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Q, QuerySet
from django.utils import timezone

from console.accounts.actor import Actor
from console.accounts.crypto import decrypt
from console.accounts.models import AccessKey, DatabaseAccount, User
from console.sql.door import errors
from console.sql.door.errors import DoorError
from console.sql.door.scrambles import DoubleHashes


@dataclass(frozen=True, slots=True)
class SqlAccount:
    """A user that may sign in, and what the password is checked against."""

    user_id: int
    hashes: DoubleHashes
    access_key_id: str = ""


def find_account(name: str) -> SqlAccount | None:
    """The account of a user name; None when there is none, or it is disabled."""
    account = DatabaseAccount.objects.filter(name=name, user__is_active=True, user__tenant__isnull=False).first()
    if account is not None:
        hashes = DoubleHashes(bytes.fromhex(account.sha1_of_sha1), bytes.fromhex(account.sha256_of_sha256))
        return SqlAccount(account.user_id, hashes)
    key = _usable_keys().filter(access_key_id=name).first()
    if key is not None and key.user_id is not None:
        return SqlAccount(key.user_id, DoubleHashes.of(decrypt(key.secret_encrypted)), key.access_key_id)
    return None


def load_actor(account: SqlAccount, *, source_ip: str, secure: bool) -> Actor:
    """Who acts in the next statement, as the rights are now. Raises DoorError once the account was disabled."""
    user = User.objects.select_related("tenant").filter(pk=account.user_id, is_active=True).first()
    key_gone = account.access_key_id and not _usable_keys().filter(access_key_id=account.access_key_id).exists()
    if user is None or user.tenant is None or key_gone:
        raise DoorError(errors.ACCESS_DENIED, "This account has been disabled.")
    return Actor(user=user, channel="sql", access_key_id=account.access_key_id, source_ip=source_ip, secure=secure)


def _usable_keys() -> QuerySet[AccessKey]:
    now = timezone.now()
    return AccessKey.objects.filter(
        Q(expires_at=None) | Q(expires_at__gt=now), enabled=True, user__is_active=True, user__tenant__isnull=False
    )
