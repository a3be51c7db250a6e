"""The ACL table that the embedded broker decides by: compiled from the database, published to Redis.

Key space (Redis database 0):
  gantry:acl:version  string  grows with each change; the broker reloads when it does
  gantry:acl:keys     hash    AccessKey ID -> JSON: secret (encrypted), tenant, principal, token, expires_ms,
                              boundary, statements, grants

A disabled or expired key is simply absent. The table is compiled whole, so that nothing old can linger.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import orjson
import redis
from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from brokercore.policy import mq_resource
from console.accounts.models import AccessKey, Tenant
from console.instances.models import Instance
from console.settings import redis_url
from console.topics.models import Grant, Group, Relation, Topic

VERSION = "gantry:acl:version"
KEYS = "gantry:acl:keys"
_ALL = {"Effect": "Allow", "Action": "*", "Resource": "*"}
_ACTIONS = {
    Relation.PUBLISH: ["mq:PUB"],
    Relation.SUBSCRIBE: ["mq:SUB"],
    Relation.PUBLISH_SUBSCRIBE: ["mq:PUB", "mq:SUB"],
}


def publish_on_commit() -> None:
    """Publish once the current transaction has committed; a repair task publishes each minute as well."""
    transaction.on_commit(publish, robust=True)


def publish() -> bool:
    """Compile and publish the table; returns whether it had changed."""
    client = _redis(redis_url(0))
    table = {key: orjson.dumps(entry, option=orjson.OPT_SORT_KEYS).decode() for key, entry in compiled().items()}
    if client.hgetall(KEYS) == table:
        return False
    with client.pipeline(transaction=True) as pipeline:
        pipeline.delete(KEYS)
        if table:
            pipeline.hset(KEYS, items=[word for pair in table.items() for word in pair])
        pipeline.incr(VERSION)
        pipeline.execute()
    return True


def compiled() -> dict[str, dict[str, Any]]:
    """The whole table by AccessKey ID."""
    keys = (
        AccessKey.objects.select_related("user__tenant", "role__tenant")
        .prefetch_related("user__policies", "role__policies")
        .filter(Q(expires_at=None) | Q(expires_at__gt=timezone.now()), enabled=True)
        .exclude(user__is_active=False)
    )
    boundaries = _boundaries()
    grants = _grants()
    table = {}
    for key in keys:
        tenant = key.user.tenant if key.user else key.role.tenant if key.role else None
        if tenant is not None:
            table[key.access_key_id] = _entry(key, tenant, boundaries[tenant.pk], grants)
    return table


def _entry(key: AccessKey, tenant: Tenant, boundary: list[str], grants: _Grants) -> dict[str, Any]:
    user = key.user
    principal = user.username if user else f"role/{key.role.name if key.role else ''}@{tenant.name}"
    policies = user.policies.all() if user else key.role.policies.all() if key.role else []
    received = grants[("user", user.pk)] if user else []
    if user and user.is_tenant_admin:
        received = received + grants[("tenant", tenant.pk)]
    return {
        "secret": key.secret_encrypted,
        "tenant": tenant.uid,
        "principal": principal,
        "token": key.security_token or None,
        "expires_ms": int(key.expires_at.timestamp() * 1000) if key.expires_at else None,
        "boundary": [mq_resource(f"MQ_INST_{tenant.uid}_*"), *boundary],
        "statements": [_ALL] if user and user.is_tenant_admin else [s for p in policies for s in _statements(p)],
        "grants": received,
    }


def _statements(policy: Any) -> Iterable[dict[str, Any]]:
    return list(policy.document.get("Statement", []))


def _boundaries() -> defaultdict[int, list[str]]:
    """Bare names of default instances by tenant; namespaced ones are covered by one pattern."""
    names: defaultdict[int, list[str]] = defaultdict(list)
    default = Instance.objects.filter(independent_naming=False).values_list("pk", "tenant_id")
    tenants = dict(default)
    for model in (Topic, Group):
        rows = model.objects.filter(instance__in=tenants).values_list("instance_id", "physical_name")
        for instance_id, physical_name in rows:
            names[tenants[instance_id]].append(mq_resource(physical_name))
    return names


_Grants = defaultdict[tuple[str, int], list[dict[str, Any]]]


def _grants() -> _Grants:
    grants: _Grants = defaultdict(list)
    for grant in Grant.objects.select_related("topic"):
        holder = ("tenant", grant.tenant_id) if grant.tenant_id else ("user", grant.user_id or 0)
        grants[holder].append(
            {
                "Effect": "Allow",
                "Action": _ACTIONS[Relation(grant.relation)],
                "Resource": mq_resource(grant.topic.physical_name),
            }
        )
    return grants


@lru_cache(maxsize=2)
def _redis(url: str) -> redis.Redis:
    return redis.Redis.from_url(url, socket_timeout=5, decode_responses=True)
