"""Recording what was done, by whom, and with what result."""

from __future__ import annotations

import getpass
import logging
from typing import Any, Protocol

from django.db import DatabaseError
from django.utils import timezone

from console.audit.models import Entry
from console.audit.record import journal, unwritten
from console.audit.record.masking import masked

log = logging.getLogger(__name__)


class Account(Protocol):
    """A tenant account, as far as the trail knows it."""

    @property
    def uid(self) -> str: ...


class Author(Protocol):
    """Who does what is recorded, and from where: the actor of a request."""

    @property
    def name(self) -> str: ...

    @property
    def own_tenant(self) -> Account | None: ...

    @property
    def access_key_id(self) -> str: ...

    @property
    def channel(self) -> str: ...

    @property
    def source_ip(self) -> str: ...

    @property
    def request_id(self) -> str: ...


def record(
    actor: Author,
    action: str,
    resource: str = "",
    *,
    result: str = "success",
    detail: dict[str, Any] | None = None,
    tenant: Account | None = None,
) -> Entry:
    """Add one entry: `action` is `app.object.verb` for changes, or the refused permission action.

    It stands in the trail of the actor's account; `tenant` names another one, whose business it is: what the platform's
    administrator does with an account, the account can read.
    """
    return _add(**_values(actor, action, resource, tenant), result=result, detail=masked(detail or {}))


def conclude(actor: Author, action: str, resource: str, result: str, detail: dict[str, Any]) -> None:
    """Record what became of an attempt, at once or as soon as the database takes it. Raises nothing for an outage."""
    _add_or_keep(_values(actor, action, resource) | {"result": result, "detail": masked(detail)})


def _values(actor: Author, action: str, resource: str, tenant: Account | None = None) -> dict[str, Any]:
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
    action: str, resource: str = "", *, detail: dict[str, Any] | None = None, tenant: Account | None = None
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


def record_refused_key(actor: Author, reason: str) -> Entry:
    """A sign-in with a known AccessKey that failed: wrong signature, password, token or clock. `actor` is whose it is.

    Unknown keys belong to nobody's trail and are only logged.
    """
    return record(actor, "accounts.access_key.use", actor.access_key_id, result="refused", detail={"reason": reason})


def record_at_server(
    tenant: Account,
    name: str,
    *,
    access_key_id: str,
    channel: str,
    source_ip: str,
    action: str,
    resource: str,
    result: str,
    detail: dict[str, Any],
    request_id: str,
) -> Entry:
    """A broker or the queue service (`channel`) tells of requests with an AccessKey of the account; `name` is whose."""
    return _add(
        tenant=tenant,
        tenant_uid=tenant.uid,
        actor=name[:150],
        access_key_id=access_key_id,
        channel=channel,
        source_ip=source_ip,
        action=action[:64],
        resource=resource[:512],
        result=result,
        detail=masked(detail),
        request_id=request_id,
    )


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
        unwritten.keep(values)


def _system_user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run under a number that has no name
        return "unknown"
