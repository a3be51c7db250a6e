"""Recording. The one place that masks secrets."""

from __future__ import annotations

import getpass
import logging
from typing import TYPE_CHECKING, Any

from django.db import DatabaseError
from django.utils import timezone

from console.accounts.credentials import actor_of
from console.audit import journal, reserve
from console.audit.models import Entry

if TYPE_CHECKING:
    from console.accounts.actor import Actor
    from console.accounts.models import AccessKey, Tenant

log = logging.getLogger(__name__)
_SECRET_WORDS = ("secret", "password", "passwd", "token", "apikey", "privatekey", "credential")


def record(
    actor: Actor,
    action: str,
    resource: str = "",
    *,
    result: str = "success",
    detail: dict[str, Any] | None = None,
    tenant: Tenant | None = None,
) -> Entry:
    """Add one entry: `action` is `app.object.verb` for changes, or the refused permission action.

    It stands in the trail of the actor's account; `tenant` names another one, whose business it is: what the platform's
    administrator does with an account, the account can read.
    """
    return _add(**_values(actor, action, resource, tenant), result=result, detail=masked(detail or {}))


def conclude(actor: Actor, action: str, resource: str, result: str, detail: dict[str, Any]) -> None:
    """Record what became of an attempt, at once or as soon as the database takes it. Raises nothing for an outage."""
    _add_or_keep(_values(actor, action, resource) | {"result": result, "detail": masked(detail)})


def _values(actor: Actor, action: str, resource: str, tenant: Tenant | None = None) -> dict[str, Any]:
    account = tenant or actor.own_tenant
    return {
        "tenant": account,
        "tenant_uid": account.uid if account else "",
        "actor": actor.name[:150],
        "access_key_id": actor.access_key_id,
        "channel": actor.channel,
        "source_ip": actor.source_ip,
        "action": action[:64],
        "resource": resource[:512],
        "request_id": actor.request_id,
    }


def record_command(
    action: str, resource: str = "", *, detail: dict[str, Any] | None = None, tenant: Tenant | None = None
) -> Entry:
    """Add an entry about a command on the server, which knows the user of its operating system and nobody else."""
    return _add(
        tenant=tenant,
        tenant_uid=tenant.uid if tenant else "",
        actor=f"command line ({_system_user()})"[:150],
        channel="command",
        action=action,
        resource=resource[:512],
        result="success",
        detail=masked(detail or {}),
    )


def again(entry: Entry, result: str, detail: dict[str, Any]) -> None:
    """Write an entry anew that a rollback took back, with what became of the attempt; as `conclude`."""
    values = {f.attname: getattr(entry, f.attname) for f in Entry._meta.concrete_fields if not f.primary_key}
    _add_or_keep(values | {"result": result, "detail": entry.detail | masked(detail)})


def record_refused_key(key: AccessKey, reason: str, *, channel: str, source_ip: str, request_id: str = "") -> Entry:
    """A sign-in with a known AccessKey that failed: wrong signature, password, token or clock.

    Unknown keys belong to nobody's trail and are only logged.
    """
    actor = actor_of(key, channel=channel, source_ip=source_ip, request_id=request_id)
    return record(actor, "accounts.access_key.use", key.access_key_id, result="refused", detail={"reason": reason})


def record_refused_at_broker(
    tenant: Tenant,
    name: str,
    *,
    access_key_id: str,
    source_ip: str,
    action: str,
    resource: str,
    detail: dict[str, Any],
    request_id: str,
) -> Entry:
    """A broker refused requests that named an AccessKey of the account; `name` is whose key it is."""
    return _add(
        tenant=tenant,
        tenant_uid=tenant.uid,
        actor=name[:150],
        access_key_id=access_key_id,
        channel="broker",
        source_ip=source_ip,
        action=action[:64],
        resource=resource[:512],
        result="refused",
        detail=masked(detail),
        request_id=request_id,
    )


def masked(detail: dict[str, Any]) -> dict[str, Any]:
    """A copy in which every value under a key that names a secret is `***`, at any depth."""
    return {key: "***" if _is_secret(key) else _masked_value(value) for key, value in detail.items()}


def _add(**values: Any) -> Entry:
    entry = Entry.objects.create(**values)
    journal.note(entry)
    return entry


def _add_or_keep(values: dict[str, Any]) -> None:
    values = {"at": timezone.now()} | values
    try:
        _add(**values)
    except DatabaseError as error:
        log.warning("an audit entry waits in memory until the database takes it: %s", error)
        reserve.keep(values)


def _system_user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run under a number that has no name
        return "unknown"


def _masked_value(value: Any) -> Any:
    if isinstance(value, dict):
        return masked(value)
    if isinstance(value, list | tuple):
        return [_masked_value(v) for v in value]
    return value


def _is_secret(key: object) -> bool:
    plain = "".join(c for c in str(key).lower() if c not in "-_. ")
    return any(word in plain for word in _SECRET_WORDS)
