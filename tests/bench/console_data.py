"""The database of the console's figures, made by bulk inserts.

Account 0 has a quarter of all topics and groups in one instance, 1 has ten of everything, 2 has two hundred; the others
share the rest.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth.hashers import make_password
from django.core.management import call_command
from django.utils import timezone

from analytics.pipelines.reports import InsertReport, Report
from brokercore.policy.table import RATES_USED, USE, RateUse, UseRow, use_field
from console.accounts.crypto import encrypt
from console.accounts.models import AccessKey, Organization, Policy, Role, Tenant, User, UserGroup
from console.accounts.policy_documents import ensure_system_policies
from console.alarms.models import Condition, Recipient, RecipientKind, Rule
from console.audit.models import Entry
from console.instances.models import Cluster, Instance
from console.metrics.store import Change, Latest, Store
from console.pipelines import samples
from console.pipelines.models import Kind, Pipeline, State
from console.topics.models import Grant, Group, OrderType, Relation, Topic
from console.web.redis import connection

TENANTS, TOPICS, GROUPS, ENTRIES = 200, 10_000, 5_000, 100_000
RULES = 5 * TENANTS
LARGE, SMALL, MIDDLE = 0, 1, 2
USERS = {LARGE: 1000, SMALL: 10, MIDDLE: 200}
POLICIES = {LARGE: 300, SMALL: 10, MIDDLE: 200}
INSTANCES = {LARGE: 300, SMALL: 10, MIDDLE: 200}
ATTACHED = 50
"""Policies of the RAM user whose rights are measured."""
SECRET = "bench-secret-of-every-key"
BATCH = 1000


@dataclass
class World:
    """What the measurements need of it."""

    tenants: list[Tenant]
    admins: list[User]
    members: dict[int, User]
    """By account, a RAM user with ATTACHED policies."""
    instances: list[Instance]
    """The first instance of each account; its topics and groups are there."""


def build() -> World:
    """Fill an empty database."""
    call_command("migrate", verbosity=0)
    ensure_system_policies()
    organizations = Organization.objects.bulk_create(Organization(name=f"Department {n}") for n in range(20))
    tenants = Tenant.objects.bulk_create(
        Tenant(uid=f"{1_000_000_000_000_000 + n}", name=f"account-{n:03}", organization=organizations[n % 20])
        for n in range(TENANTS)
    )
    cluster = Cluster.objects.create(
        name="DefaultCluster", origin="embedded", region=settings.REGION, namesrv=settings.NAMESRV
    )
    instances = _instances(tenants, cluster)
    admins, members = _people(tenants)
    _policies(tenants, members, instances)
    _topics_and_groups(tenants, instances)
    _audit(tenants[LARGE])
    return World(tenants, admins, members, instances)


def add_alarm_rules(world: World) -> None:
    """Of each account one rule of five conditions, three of them of all its groups, one of its topics."""
    recipients = Recipient.objects.bulk_create(
        Recipient(tenant=tenant, name="on call", kind=RecipientKind.QUEUE, queue="alarms", shown="queue alarms")
        for tenant in world.tenants
    )
    conditions = (
        (Condition.BACKLOG, 500),
        (Condition.STALLED, 0),
        (Condition.DEAD_LETTERS, 1),
        (Condition.DELAY, 3600),
        (Condition.ABOVE, 1_000_000),
    )
    rules = Rule.objects.bulk_create(
        Rule(tenant=tenant, name=condition.value, condition=condition, threshold=threshold, minutes=0, creator="bench")
        for tenant in world.tenants
        for condition, threshold in conditions
    )
    Rule.recipients.through.objects.bulk_create(
        Rule.recipients.through(rule=rule, recipient=recipients[number // len(conditions)])
        for number, rule in enumerate(rules)
    )


def add_rules_of_accounts(world: World) -> None:
    """In the place of these as many, of what accounts and pipelines do; one job of five of each account is late."""
    Rule.objects.all().delete()
    conditions = (
        (Condition.THROTTLED, 1),
        (Condition.REFUSED, 1),
        (Condition.ROOM, 90),
        (Condition.PIPELINE_DELAY, 60),
        (Condition.STOPPED, 0),
    )
    Rule.objects.bulk_create(
        Rule(
            tenant=tenant, name=condition.value, condition=condition, threshold=threshold, repeat_minutes=60,
            minutes=5 if condition.is_counted else 0, creator="bench",
        )
        for tenant in world.tenants
        for condition, threshold in conditions
    )  # fmt: skip
    now = timezone.now()
    Pipeline.objects.bulk_create(
        Pipeline(tenant=tenant, name=f"job-{number}", kind=Kind.JOB, state=State.RUNNING, running_at=now)
        for tenant in world.tenants
        for number in range(5)
    )
    report_jobs()
    client = connection()
    told = UseRow(stored_bytes=1000, refused={"permission": 3, "stored_bytes": 1})
    client.hset(USE, mapping={use_field(tenant.uid, "broker-a"): told.encode() for tenant in world.tenants})
    client.hset(USE, use_field("", "broker-a"), int(time.time() * 1000) + 3600_000)
    instances = Instance.objects.values_list("instance_id", flat=True)
    held = RateUse(sent=10, held_back=7).encode()
    client.hset(RATES_USED, mapping={use_field(name, "broker-a"): held for name in instances})


def report_jobs() -> None:
    """What the jobs say just now: one of five is late."""
    for number, key in enumerate(Pipeline.objects.order_by("pk").values_list("pk", flat=True)):
        delay_ms = 0 if number % 5 else 120_000
        samples.keep(key, Report((InsertReport("x", 1, batch=1, watermark_delay_ms=delay_ms),)))


def add_samples() -> None:
    """What the sampler read just now: rates of each second topic; each tenth group is behind, and consumes."""
    store, cluster = Store("DefaultCluster"), Cluster.objects.get()
    topics = Topic.objects.filter(instance__cluster=cluster).order_by("pk").values_list("physical_name", flat=True)
    groups = Group.objects.filter(instance__cluster=cluster).order_by("pk").values_list("physical_name", flat=True)
    # It stays recent for as long as the bench takes.
    change = Change(Latest(int(time.time() * 1000) + 50_000, 10.0, ["broker-a"], []))
    change.in_rates.update(dict.fromkeys(topics[::2], 12.5))
    change.stored.update(dict.fromkeys(topics, 1000))
    change.backlog.update({name: 1000 if number % 10 == 0 else 0 for number, name in enumerate(groups)})
    change.out_rates.update(dict.fromkeys(groups, 10.0))
    with store.lease() as token:
        if not store.commit(token, change):
            raise AssertionError("the samples were not taken")


def _instances(tenants: list[Tenant], cluster: Cluster) -> list[Instance]:
    rows = [
        Instance(
            instance_id=f"MQ_INST_{tenant.uid}_B{number:07}", tenant=tenant, cluster=cluster, region=settings.REGION,
            name=f"instance-{number:03}",
        )
        for n, tenant in enumerate(tenants)
        for number in range(INSTANCES.get(n, 1))
    ]  # fmt: skip
    made = Instance.objects.bulk_create(rows, batch_size=BATCH)
    return [next(i for i in made if i.tenant_id == tenant.pk) for tenant in tenants]


def _people(tenants: list[Tenant]) -> tuple[list[User], dict[int, User]]:
    password = make_password("not used")
    uid = iter(range(100_000_000_000_000_000, 10**18))

    def user(tenant: Tenant, name: str, **more: Any) -> User:
        return User(username=f"{name}@{tenant.name}", uid=str(next(uid)), tenant=tenant, password=password, **more)

    admins = User.objects.bulk_create(user(t, "admin", is_tenant_admin=True) for t in tenants)
    rows = [user(t, f"user-{k:04}") for n, t in enumerate(tenants) for k in range(USERS.get(n, 5))]
    users = User.objects.bulk_create(rows, batch_size=BATCH)
    groups = UserGroup.objects.bulk_create(
        UserGroup(tenant=t, name=f"group-{k:03}") for n, t in enumerate(tenants) for k in range(POLICIES.get(n, 2))
    )
    Role.objects.bulk_create(
        Role(tenant=t, name=f"role-{k:03}", trust_policy={"Version": "1", "Statement": []})
        for n, t in enumerate(tenants)
        for k in range(POLICIES.get(n, 2))
    )
    by_tenant: dict[int, list[User]] = {}
    for one in users:
        by_tenant.setdefault(one.tenant_id or 0, []).append(one)
    through = UserGroup.users.through
    through.objects.bulk_create(
        [
            through(usergroup_id=group.pk, user_id=mine[(number + k) % len(mine)].pk)
            for number, group in enumerate(groups)
            for mine in (by_tenant[group.tenant_id],)
            for k in range(5)
        ],
        batch_size=BATCH,
    )
    secret = encrypt(SECRET)
    AccessKey.objects.bulk_create(
        (AccessKey(access_key_id=f"LTAI{u.uid}", secret_encrypted=secret, user=u) for u in [*admins, *users]),
        batch_size=BATCH,
    )
    return admins, {n: by_tenant[tenants[n].pk][-1] for n in (LARGE, SMALL, MIDDLE)}


def _policies(tenants: list[Tenant], members: dict[int, User], instances: list[Instance]) -> None:
    rows = [
        Policy(
            tenant=tenant,
            name=f"policy-{k:03}",
            document=_document(instances[n], k, last=k == min(ATTACHED, count) - 1),
        )
        for n, tenant in enumerate(tenants)
        for count in (POLICIES.get(n, 2),)
        for k in range(count)
    ]
    made = Policy.objects.bulk_create(rows, batch_size=BATCH)
    for n, member in members.items():
        member.policies.set([p for p in made if p.tenant_id == tenants[n].pk][:ATTACHED])


def _document(instance: Instance, number: int, *, last: bool) -> dict[str, Any]:
    """The last policy of the RAM user lets everything be seen; the others are about a few topics each."""
    resource = f"acs:mq:*:*:{instance.instance_id}"
    if last:
        return {"Version": "1", "Statement": [{"Effect": "Allow", "Action": ["mq:Query*"], "Resource": f"{resource}*"}]}
    statements = [
        {"Effect": "Allow", "Action": ["mq:PUB", "mq:SUB"], "Resource": [f"{resource}%team-{number}-*", f"{resource}"]},
        {"Effect": "Deny", "Action": ["mq:Delete*"], "Resource": f"{resource}%*-{number:03}*",
         "Condition": {"IpAddress": {"acs:SourceIp": "10.0.0.0/8"}}},
    ]  # fmt: skip
    return {"Version": "1", "Statement": statements}


def _shares(total: int, large: int) -> Iterator[tuple[int, int]]:
    """Account and its number of rows; the sum is `total`."""
    fixed = {LARGE: large, SMALL: 10, MIDDLE: 200}
    others = TENANTS - len(fixed)
    rest, more = divmod(total - sum(fixed.values()), others)
    for n in range(TENANTS):
        yield n, fixed.get(n, rest + (1 if n - len(fixed) < more else 0))


def _topics_and_groups(tenants: list[Tenant], instances: list[Instance]) -> None:
    topics = Topic.objects.bulk_create(
        (
            Topic(instance=instances[n], name=name, physical_name=instances[n].physical_name(name), order_type=kind)
            for n, count in _shares(TOPICS, TOPICS // 4)
            for name, kind in ((f"topic-{k:05}", OrderType.NORMAL) for k in range(count))
        ),
        batch_size=BATCH,
    )
    Group.objects.bulk_create(
        (
            Group(
                instance=instances[n], group_id=name, physical_name=instances[n].physical_name(name), owner=tenants[n],
                shared=True,
            )
            for n, count in _shares(GROUPS, GROUPS // 4)
            for name in (f"GID_{k:05}" for k in range(count))
        ),
        batch_size=BATCH,
    )  # fmt: skip
    for n, wanted in ((LARGE, 1000), (SMALL, 10), (MIDDLE, 200)):
        own = [t for t in topics if t.instance_id == instances[n].pk]
        Grant.objects.bulk_create(
            (
                Grant(topic=own[k % len(own)], tenant=tenants[3 + k // len(own)], relation=Relation.PUBLISH_SUBSCRIBE)
                for k in range(wanted)
            ),
            batch_size=BATCH,
        )


def _audit(tenant: Tenant) -> None:
    now = timezone.now()
    Entry.objects.bulk_create(
        (
            Entry(
                tenant=tenant, tenant_uid=tenant.uid, actor=f"user-{k % 1000:04}@{tenant.name}", channel="api",
                at=now - timedelta(seconds=k), action="topics.topic.create", resource=f"topic-{k:05}",
                result="refused" if k % 10 == 0 else "success", detail={"number": k}, source_ip="10.0.0.1",
            )
            for k in range(ENTRIES)
        ),
        batch_size=BATCH,
    )  # fmt: skip
