"""What embedded brokers refused, moved into the trails of the accounts whose AccessKeys were used.

Key space (Redis database 0), written by the brokers, bounded by them (brokercore/server/refusals.py):
  gantry:acl:refused  stream  field r = JSON: tenant, name, key, request, kind, action, resource, address, remark,
                              count, first_ms, last_ms

An entry is written before its row leaves the stream; its request id is the row's, so that a row which is read twice
after a crash is written once.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, cast

import orjson
import redis
from django.conf import settings

from console.accounts.models import Tenant
from console.audit import services
from console.audit.models import Entry

STREAM = "gantry:acl:refused"
_AT_ONCE = 200


def move() -> int:
    """Move what waits into the trails and return how many entries that made. Raises RedisError."""
    client, made = _redis(settings.REDIS_URL), 0
    while rows := cast("list[tuple[str, dict[str, str]]]", client.xrange(STREAM, count=_AT_ONCE)):
        made += sum(_recorded(number, orjson.loads(fields["r"])) for number, fields in rows)
        client.xdel(STREAM, *(number for number, _ in rows))
    return made


def _recorded(number: str, row: dict[str, Any]) -> bool:
    request_id = f"broker/{number}"[:36]
    tenant = Tenant.objects.filter(uid=row["tenant"]).first()
    if tenant is None or Entry.objects.filter(request_id=request_id).exists():
        return False
    detail = {"reason": row["remark"], "kind": row["kind"], "times": row["count"]}
    if row["count"] > 1:
        detail |= {"first": _moment(row["first_ms"]), "last": _moment(row["last_ms"])}
    if row["request"]:
        detail["request"] = row["request"]
    services.record_refused_at_broker(
        tenant,
        row["name"],
        access_key_id=row["key"],
        source_ip=row["address"],
        action=row["action"] or f"broker.{row['kind']}",
        resource=row["resource"],
        detail=detail,
        request_id=request_id,
    )
    return True


def _moment(epoch_ms: int) -> str:
    return datetime.fromtimestamp(epoch_ms / 1000, UTC).isoformat(timespec="milliseconds")


@lru_cache(maxsize=2)
def _redis(url: str) -> redis.Redis:
    return redis.Redis.from_url(url, db=0, socket_timeout=5, decode_responses=True)
