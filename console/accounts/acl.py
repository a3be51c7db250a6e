"""The ACL table that the embedded broker decides by: compiled from the database, published to Redis.

Key space (Redis database 0):
  gantry:acl:version  string  grows with each change; the broker reloads when it does
  gantry:acl:keys     hash    AccessKey ID -> JSON: secret (encrypted), tenant, region, principal, token, expires_ms,
                              is_account, boundary, statements, grants, delegated
  gantry:acl:holders  hash    physical name of a group -> who may use it
  gantry:acl:owners   hash    topic of a default instance (its name tells no account) -> ID of the account
  gantry:acl:limits   hash    ID of an account, or * for all others -> JSON: what it may take

A disabled or expired key is simply absent. The table is compiled whole, so that nothing old can linger.
"""

from __future__ import annotations

from collections import defaultdict
from functools import lru_cache
from typing import Any

import orjson
import redis
from django.conf import settings

from brokercore.policy import mq_resource
from console.accounts import limits
from console.accounts.credentials import actor_of, usable_keys
from console.accounts.models import AccessKey, Policy
from console.celery import app
from console.settings import redis_url
from console.topics.models import Grant, Group, Topic, group_holder
from console.web.after_commit import after_commit

VERSION = "gantry:acl:version"
KEYS = "gantry:acl:keys"
HOLDERS = "gantry:acl:holders"
OWNERS = "gantry:acl:owners"
LIMITS = "gantry:acl:limits"
_ALL = {"Effect": "Allow", "Action": "*", "Resource": "*", "Source": "tenant administrator"}
_POLICIES = ("user__policies", "user__user_groups__policies", "role__policies")


def publish_on_commit() -> None:
    """Publish once the current transaction has committed; a repair task publishes each minute as well."""
    after_commit(publish)
    carry_over_on_commit()


def carry_over_on_commit() -> None:
    """Once the current transaction has committed, have a worker carry rights over to a cluster that keeps its own.

    For changes that the embedded broker's table says nothing of as well: a cluster is told each topic by its name.
    """
    if not settings.EMBEDDED_BROKER:
        after_commit(_carry_over)


def _carry_over() -> None:
    """A lost request is mended by the sweep of console.cluster."""
    app.send_task("console.cluster.tasks.synchronise", retry=False)


def publish() -> bool:
    """Compile and publish the table; returns whether it had changed.

    Two publishers may run at once, and the one that read the database earlier may come to write later: whoever finds
    another version than the one it began with compiles again, so that no disabled key comes back.
    """
    client = _redis(redis_url(0))
    with client.pipeline(transaction=True) as pipeline:
        while True:
            pipeline.watch(VERSION)  # type: ignore[no-untyped-call]
            table = {key: orjson.dumps(row, option=orjson.OPT_SORT_KEYS).decode() for key, row in compiled().items()}
            tables = {KEYS: table, HOLDERS: holders(), OWNERS: owners(), LIMITS: limits.published()}
            if all(pipeline.hgetall(key) == rows for key, rows in tables.items()):
                return False
            pipeline.multi()
            for key, rows in tables.items():
                pipeline.delete(key)
                if rows:
                    pipeline.hset(key, items=[word for pair in rows.items() for word in pair])
            pipeline.incr(VERSION)
            try:
                pipeline.execute()
            except redis.WatchError:
                continue
            return True


def publish_group_on_commit(physical_name: str, holder: str | None) -> None:
    """Publish who may use one group (None: it was deleted), without compiling everything."""

    def change() -> None:
        with _redis(redis_url(0)).pipeline(transaction=True) as pipeline:
            if holder is None:
                pipeline.hdel(HOLDERS, physical_name)
            else:
                pipeline.hset(HOLDERS, physical_name, holder)
            pipeline.incr(VERSION)
            pipeline.execute()

    after_commit(change)
    carry_over_on_commit()


def compiled() -> dict[str, dict[str, Any]]:
    """The rights of every usable AccessKey by its id."""
    tables = _Tables()
    return {key.access_key_id: tables.entry(key) for key in usable_keys().prefetch_related(*_POLICIES)}


def holders() -> dict[str, str]:
    """Who may use each group, by its physical name (`brokercore.policy.Grantee.holders`)."""
    rows = Group.objects.values_list(
        "physical_name", "owner__uid", "creator__username", "creator__is_tenant_admin", "shared"
    )
    return {
        name: group_holder(uid, "" if is_admin else creator or "", shared=shared)
        for name, uid, creator, is_admin, shared in rows
    }


def owners() -> dict[str, str]:
    """Whose each topic of a default instance is; the others' names tell it."""
    rows = Topic.objects.filter(instance__independent_naming=False)
    return dict(rows.values_list("physical_name", "instance__tenant__uid"))


class _Tables:
    """What all entries have in common, read once."""

    def __init__(self) -> None:
        self._boundaries = _boundaries()
        self._user_grants, self._tenant_grants = _grants()
        self._policies: dict[int, list[dict[str, Any]]] = {}

    def entry(self, key: AccessKey) -> dict[str, Any]:
        """One AccessKey's row."""
        actor = actor_of(key)
        tenant = actor.tenant
        received = self._user_grants[key.user_id] if key.user_id and not actor.is_account else []
        return {
            "secret": key.secret_encrypted,
            "tenant": tenant.uid,
            "region": settings.REGION,
            "principal": actor.name,
            "is_account": actor.is_account or actor.role is not None,
            "token": key.security_token or None,
            "expires_ms": int(key.expires_at.timestamp() * 1000) if key.expires_at else None,
            "boundary": [mq_resource(f"MQ_INST_{tenant.uid}_*"), *self._boundaries[tenant.pk]],
            "statements": [_ALL] if actor.is_account else self._statements(key),
            "grants": received,
            "delegated": self._tenant_grants[tenant.pk],
        }

    def _statements(self, key: AccessKey) -> list[dict[str, Any]]:
        found: dict[int, Policy] = {}
        holders: list[Any] = [key.role] if key.role else [key.user, *key.user.user_groups.all()] if key.user else []
        for holder in holders:
            found |= {policy.pk: policy for policy in holder.policies.all()}
        return [row for policy in found.values() for row in self._rows(policy)]

    def _rows(self, policy: Policy) -> list[dict[str, Any]]:
        """The statements of a policy, with its name for the broker's explanation; worked out once a policy."""
        if policy.pk not in self._policies:
            self._policies[policy.pk] = [row | {"Source": policy.name} for row in policy.document.get("Statement", [])]
        return self._policies[policy.pk]


def _boundaries() -> defaultdict[int, list[str]]:
    """Bare topic names of default instances by tenant; namespaced ones are covered by one pattern."""
    names: defaultdict[int, list[str]] = defaultdict(list)
    rows = Topic.objects.filter(instance__independent_naming=False)
    for tenant_id, physical_name in rows.values_list("instance__tenant_id", "physical_name"):
        names[tenant_id].append(mq_resource(physical_name))
    return names


_Grants = defaultdict[int, list[dict[str, Any]]]


def _grants() -> tuple[_Grants, _Grants]:
    """Granted statements by user and by tenant."""
    users: _Grants = defaultdict(list)
    tenants: _Grants = defaultdict(list)
    for grant in Grant.objects.select_related("topic"):
        statement = grant.statement
        row = {
            "Effect": "Allow",
            "Action": list(statement.actions),
            "Resource": list(statement.resources),
            "Source": statement.source,
        }
        if grant.user_id:
            users[grant.user_id].append(row)
        elif grant.tenant_id:
            tenants[grant.tenant_id].append(row)
    return users, tenants


@lru_cache(maxsize=2)
def _redis(url: str) -> redis.Redis:
    return redis.Redis.from_url(url, socket_timeout=5, decode_responses=True)
