"""The table of rights that the embedded broker decides by: compiled from the database, published to Redis.

Its keys and rows are those of `brokercore.policy.table`. A disabled or expired key is simply absent. The table is
compiled whole, so that nothing old can linger.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from redis.exceptions import WatchError

from brokercore.policy import mns_resource, mq_resource
from brokercore.policy.table import HOLDERS, KEYS, LIMITS, OWNERS, RATES, VERSION, KeyRow
from console.accounts.credentials import actor_of, usable_keys
from console.accounts.models import AccessKey, Policy
from console.rights import limits
from console.rights.resources import resources
from console.web import regions
from console.web.after_commit import after_commit
from console.web.provided import Provided
from console.web.redis import connection

_ALL = {"Effect": "Allow", "Action": "*", "Resource": "*", "Source": "tenant administrator"}
_POLICIES = ("user__policies", "user__user_groups__policies", "role__policies")

_Grants = defaultdict[int, list[dict[str, Any]]]

#: Asks a worker to carry rights over to the clusters that keep lists of their own; a lost request is mended by a sweep.
carriers = Provided[Callable[[], None]](f"{__name__}.carriers", "console.cluster")


def publish_on_commit() -> None:
    """Publish once the current transaction has committed; a repair task publishes each minute as well."""
    after_commit(publish)
    carry_over_on_commit()


def carry_over_on_commit() -> None:
    """Once the current transaction has committed, have a worker carry rights over to a cluster that keeps its own.

    For changes that the embedded broker's table says nothing of as well: a cluster is told each topic by its name.
    """
    after_commit(_carry_over)


def _carry_over() -> None:
    carriers.get()()


def publish() -> bool:
    """Compile and publish the table; returns whether it had changed.

    Two publishers may run at once, and the one that read the database earlier may come to write later: whoever finds
    another version than the one it began with compiles again, so that no disabled key comes back.
    """
    client = connection()
    with client.pipeline(transaction=True) as pipeline:
        while True:
            pipeline.watch(VERSION)  # type: ignore[no-untyped-call]
            table = {key: row.encode() for key, row in compiled().items()}
            found = resources.get()
            rates = {name: row.encode() for name, row in found.rates()}
            tables = {KEYS: table, HOLDERS: found.holders(), OWNERS: found.owners()}
            tables |= {LIMITS: limits.published(), RATES: rates}
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
            except WatchError:
                continue
            return True


def publish_group_on_commit(physical_name: str, holder: str | None, *, embedded: bool) -> None:
    """Publish who may use one group (None: it was deleted), without compiling everything.

    The table has only those on the `embedded` brokers.
    """

    def change() -> None:
        with connection().pipeline(transaction=True) as pipeline:
            if holder is None:
                pipeline.hdel(HOLDERS, physical_name)
            else:
                pipeline.hset(HOLDERS, physical_name, holder)
            pipeline.incr(VERSION)
            pipeline.execute()

    if embedded:
        after_commit(change)
    carry_over_on_commit()


def compiled(cluster: int | None = None) -> dict[str, KeyRow]:
    """The rights of every usable AccessKey by its id, on the cluster of this row or else on the embedded brokers.

    Names without a namespace are one account's on one cluster and may be another's on the next.
    """
    tables = _Tables(cluster)
    return {key.access_key_id: tables.entry(key) for key in usable_keys().prefetch_related(*_POLICIES)}


class _Tables:
    """What all entries have in common, read once."""

    def __init__(self, cluster: int | None) -> None:
        self._region = regions.default() if cluster is None else resources.get().region(cluster)
        self._boundaries = _boundaries(cluster)
        self._user_grants, self._tenant_grants = _grants(cluster)
        self._policies: dict[int, list[dict[str, Any]]] = {}

    def entry(self, key: AccessKey) -> KeyRow:
        """One AccessKey's row."""
        actor = actor_of(key)
        tenant = actor.tenant
        received = self._user_grants[key.user_id] if key.user_id and not actor.is_account else []
        return KeyRow(
            secret=key.secret_encrypted,
            tenant=tenant.uid,
            region=self._region,
            principal=actor.name,
            is_account=actor.is_account or actor.role is not None,
            token=key.security_token or None,
            expires_ms=int(key.expires_at.timestamp() * 1000) if key.expires_at else None,
            boundary=[
                mq_resource(f"MQ_INST_{tenant.uid}_*"),
                mns_resource(tenant.uid, "*"),
                *self._boundaries[tenant.uid],
            ],
            statements=[_ALL] if actor.is_account else self._statements(key),
            grants=received,
            delegated=self._tenant_grants[tenant.pk],
        )

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


def _boundaries(cluster: int | None) -> defaultdict[str, list[str]]:
    """Bare topic names of default instances by the account's uid; namespaced ones are covered by one pattern.

    Embedded brokers have those of theirs from the table of owners: in each row of an account with thousands they would
    be the table's size, thousands of times.
    """
    names: defaultdict[str, list[str]] = defaultdict(list)
    if cluster is None:
        return names
    for physical_name, uid in resources.get().owners(cluster).items():
        names[uid].append(mq_resource(physical_name))
    return names


def _grants(cluster: int | None) -> tuple[_Grants, _Grants]:
    """Granted statements by user and by tenant."""
    users: _Grants = defaultdict(list)
    tenants: _Grants = defaultdict(list)
    for grant in resources.get().grants(cluster):
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
