"""What brokers and the queue service tell, moved into the trails of the accounts whose AccessKeys were used.

Refusals of both, and what clients changed at the queue service. The streams of brokercore.policy.table are written, and
bounded, by those servers.

An entry is written before its row leaves the stream; its request id is the row's, so that a row which is read twice
after a crash is written once.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import cast

from brokercore.policy.table import CHANGED, CHANGED_FIELD, REFUSED, REFUSED_FIELD, Changed, Refused
from console.accounts.models import Tenant
from console.audit import record
from console.audit.models import Entry
from console.web.redis import connection

_AT_ONCE = 200


def move() -> int:
    """Move what waits into the trails and return how many entries that made. Raises RedisError."""
    refused = _move(REFUSED, lambda number, fields: _refused(number, Refused.decode(fields[REFUSED_FIELD])))
    return refused + _move(CHANGED, lambda number, fields: _changed(number, Changed.decode(fields[CHANGED_FIELD])))


def _move(stream: str, recorded: Callable[[str, dict[str, str]], bool]) -> int:
    client, made = connection(), 0
    while rows := cast("list[tuple[str, dict[str, str]]]", client.xrange(stream, count=_AT_ONCE)):
        made += sum(recorded(number, fields) for number, fields in rows)
        client.xdel(stream, *(number for number, _ in rows))
    return made


def _changed(number: str, row: Changed) -> bool:
    request_id = f"smq/{number}"[:36]
    tenant = Tenant.objects.filter(uid=row.tenant).first()
    if tenant is None or Entry.objects.filter(request_id=request_id).exists():
        return False
    record.record_at_server(
        tenant,
        row.name,
        access_key_id=row.key,
        channel="queues",
        source_ip=row.address,
        action=row.action,
        resource=row.resource,
        result="success",
        detail={**row.detail, "at": _moment(row.at_ms), "request": row.request_id},
        request_id=request_id,
    )
    return True


def _refused(number: str, row: Refused) -> bool:
    request_id = f"{row.channel}/{number}"[:36]
    tenant = Tenant.objects.filter(uid=row.tenant).first()
    if tenant is None or Entry.objects.filter(request_id=request_id).exists():
        return False
    detail = {"reason": row.remark, "kind": row.kind, "times": row.count}
    if row.count > 1:
        detail |= {"first": _moment(row.first_ms), "last": _moment(row.last_ms)}
    if row.request:
        detail["request"] = row.request
    record.record_at_server(
        tenant,
        row.name,
        access_key_id=row.key,
        channel=row.channel,
        source_ip=row.address,
        action=row.action or f"{row.channel}.{row.kind}",
        resource=row.resource,
        result="refused",
        detail=detail,
        request_id=request_id,
    )
    return True


def _moment(epoch_ms: int) -> str:
    return datetime.fromtimestamp(epoch_ms / 1000, UTC).isoformat(timespec="milliseconds")
