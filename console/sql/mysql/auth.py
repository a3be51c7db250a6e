"""Who may sign in at the MySQL endpoint: an AccessKey pair (ID and secret) or a database account."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet

from console.accounts.actor import Actor
from console.accounts.credentials import actor_of, find_key, note_use, secret_of
from console.accounts.models import DatabaseAccount, Tenant, User
from console.audit import record as audit
from console.rights import limits
from console.sql.mysql import errors
from console.sql.mysql.errors import EndpointError
from mysqlwire.protocol.handshake import DoubleHashes


@dataclass(frozen=True, slots=True)
class SqlAccount:
    """Who may sign in, and what the password is checked against. `principal` is the same for all keys of a user.

    `tenant` is the one that its connections are counted for, and `most_connections` what that one may have; 0: any.
    """

    principal: str
    hashes: DoubleHashes
    user_id: int | None = None
    access_key_id: str = ""
    tenant: str = ""
    most_connections: int = 0


def find_account(name: str) -> SqlAccount | None:
    """The account of a user name; None when there is none, or it is disabled.

    The password of a temporary AccessKey is `<secret>:<security token>`: the protocol has no field for a token.
    """
    # All is looked up whatever there is: a name that exists is not to be told by the time that it takes.
    account, key = _database_accounts().filter(name=name).first(), find_key(name)
    if key is not None and key.organization_id is not None:
        key = None
    secret = secret_of(key)
    if account is not None:
        hashes = DoubleHashes(bytes.fromhex(account.sha1_of_sha1), bytes.fromhex(account.sha256_of_sha256))
        return SqlAccount(account.user.username, hashes, account.user_id, **_share(account.user.tenant))
    if key is None:
        _share(None)
        return None
    password = f"{secret}:{key.security_token}" if key.security_token else secret
    actor = actor_of(key)
    return SqlAccount(
        actor.name, DoubleHashes.of(password), access_key_id=key.access_key_id, **_share(actor.own_tenant)
    )


def load_actor(account: SqlAccount, *, source_ip: str, secure: bool) -> Actor:
    """Who acts in the next statement, as the rights are now. Raises EndpointError once the account was disabled."""
    if account.access_key_id:
        key = find_key(account.access_key_id)
        if key is None:
            raise _disabled()
        note_use(key, "sql", source_ip)
        return actor_of(key, channel="sql", source_ip=source_ip, secure=secure)
    users = User.objects.select_related("tenant").filter(is_active=True, tenant__enabled=True)
    user = users.filter(pk=account.user_id).first() if account.user_id is not None else None
    if user is None:
        raise _disabled()
    return Actor(user=user, channel="sql", source_ip=source_ip, secure=secure)


def record_refusal(account: SqlAccount, source_ip: str) -> None:
    """Record a wrong password for an account that exists; the names of others are nobody's business."""
    reason = "wrong password"
    if account.access_key_id:
        key = find_key(account.access_key_id)
        if key is not None:
            audit.record_refused_key(actor_of(key, channel="sql", source_ip=source_ip), reason)
        return
    user = User.objects.select_related("tenant").filter(username=account.principal).first()
    if user is not None:
        actor = Actor(user=user, channel="sql", source_ip=source_ip)
        audit.record(actor, "sql.session.sign_in", user.username, result="refused", detail={"reason": reason})


def _database_accounts() -> QuerySet[DatabaseAccount]:
    return DatabaseAccount.objects.select_related("user__tenant").filter(
        user__is_active=True, user__tenant__enabled=True
    )


def _share(tenant: Tenant | None) -> dict[str, Any]:
    own = limits.effective(tenant or Tenant(pk=0))
    return {"tenant": tenant.uid, "most_connections": own["sql_connections"]} if tenant else {}


def _disabled() -> EndpointError:
    return EndpointError(errors.ACCESS_DENIED, "This account has been disabled or its key has expired.")
