"""A cluster with many topics and groups, made by bulk requests, and the rows of the account that has them all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from threading import Semaphore
from typing import TypeVar

from django.conf import settings
from django.contrib.auth.hashers import make_password
from django.core.management import call_command

from brokercore.client import Admin, Message, Producer, SendResult
from brokercore.client.session import Call
from brokercore.names import dead_letter_topic
from brokercore.protocol.codes import RequestCode
from console.accounts.crypto import encrypt
from console.accounts.models import Organization, Policy, Tenant, User
from console.accounts.policy_documents import ensure_system_policies
from console.instances.broker import system_credentials
from console.instances.models import Cluster, Instance
from console.topics.models import Grant, Group, OrderType, Relation, Topic
from tests.support.many_names import create_groups, create_topics

TOPICS, GROUPS, DEAD = 20_000, 10_000, 2_000
"""Topics, groups, and how many of the groups have dead letters."""
QUEUES, DENIALS = 8, 50
BATCH = 1000
_Row = TypeVar("_Row")


def topic_names() -> list[str]:
    """Names of the topics."""
    return [f"topic-{number:05}" for number in range(TOPICS)]


def group_names() -> list[str]:
    """Names of the groups; each consumes the topic of its number."""
    return [f"GID_{number:05}" for number in range(GROUPS)]


def fill_cluster(admin: Admin) -> None:
    """Create topics, groups, dead-letter topics and one committed offset a group, on the one broker there is."""
    (broker, address), *_ = admin.brokers.masters().items()
    create_topics(admin, topic_names(), QUEUES)
    create_groups(admin, group_names())
    create_topics(admin, map(dead_letter_topic, group_names()[:DEAD]), 1)
    for part in _parts(list(zip(group_names(), topic_names(), strict=False)), 250):
        calls = [
            Call(
                address,
                RequestCode.UPDATE_CONSUMER_OFFSET,
                {"topic": topic, "queueId": str(queue), "bname": broker, "consumerGroup": group, "commitOffset": "0"},
            )
            for group, topic in part
            for queue in range(QUEUES)
        ]
        admin.session.call_each(calls)


def send(producer: Producer, topics: Sequence[str]) -> None:
    """One message to each of these topics."""
    done, failed = Semaphore(0), list[Exception]()

    def told(_result: SendResult | None, error: Exception | None) -> None:
        failed.extend([error] if error else [])
        done.release()

    for topic in topics:
        producer.send_async(Message(topic, b"{}"), told)
    for _ in topics:
        done.acquire(timeout=60)
    if failed:
        raise failed[0]


def _parts(rows: Sequence[_Row], size: int) -> Iterator[Sequence[_Row]]:
    return (rows[at : at + size] for at in range(0, len(rows), size))


def make_account(namesrv: str, others: Sequence[tuple[str, str, str]] = ()) -> tuple[User, Instance]:
    """An account with an instance without namespace on the cluster; `others`: name server, key and secret of others."""
    call_command("migrate", verbosity=0)
    ensure_system_policies()
    company = Organization.objects.create(name="Company")
    tenant = Tenant.objects.create(uid="1000000000000000", name="account", organization=company)
    admin = User.objects.create(
        username="admin@account", uid="100000000000000000", tenant=tenant, password=make_password("not used"),
        is_tenant_admin=True,
    )  # fmt: skip
    keys = system_credentials()
    rows = [(namesrv, keys.access_key_id, keys.access_key_secret), *others]
    clusters = [
        Cluster.objects.create(
            name=f"another-{number}" if number else "large", region=settings.REGION, namesrv=address,
            access_key_id=key, secret_encrypted=encrypt(secret),
        )
        for number, (address, key, secret) in enumerate(rows)
    ]  # fmt: skip
    return admin, Instance.objects.create(
        instance_id=f"MQ_INST_{tenant.uid}_B0000001", tenant=tenant, cluster=clusters[0], region=settings.REGION,
        name="large", independent_naming=False,
    )  # fmt: skip


def fill_database(instance: Instance) -> None:
    """The rows of all topics and groups, and each topic shared with another account."""
    tenant = instance.tenant
    topics = Topic.objects.bulk_create(
        (Topic(instance=instance, name=n, physical_name=n, order_type=OrderType.NORMAL) for n in topic_names()),
        batch_size=BATCH,
    )
    Group.objects.bulk_create(
        (Group(instance=instance, group_id=n, physical_name=n, owner=tenant, shared=True) for n in group_names()),
        batch_size=BATCH,
    )
    other, _ = Tenant.objects.get_or_create(
        uid="1000000000000001", name="receiver", defaults={"organization": tenant.organization}
    )
    Grant.objects.bulk_create(
        (Grant(topic=topic, tenant=other, relation=Relation.PUBLISH_SUBSCRIBE) for topic in topics), batch_size=BATCH
    )


def on_another(instance: Instance, cluster: Cluster) -> Instance:
    """An instance without namespace of the same account on another cluster."""
    return Instance.objects.create(
        instance_id=f"MQ_INST_{instance.tenant.uid}_B1{cluster.pk:06}", tenant=instance.tenant, cluster=cluster,
        region=instance.region, name=cluster.name, independent_naming=False,
    )  # fmt: skip


def make_member(tenant: Tenant) -> User:
    """A RAM user that may look at everything: each topic of a list is a decision."""
    member = User.objects.create(
        username=f"member@{tenant.name}", uid="100000000000000002", tenant=tenant, password=make_password("not used")
    )
    member.policies.add(Policy.objects.get(tenant=None, name="AliyunMQReadOnlyAccess"))
    return member


def make_limited_member(tenant: Tenant) -> User:
    """A RAM user with as many policies as one may have, each of which denies what some names begin and end with."""
    member = User.objects.create(
        username=f"limited@{tenant.name}", uid="100000000000000003", tenant=tenant, password=make_password("not used")
    )
    member.policies.add(Policy.objects.get(tenant=None, name="AliyunMQReadOnlyAccess"))
    for number in range(DENIALS):
        names = [f"acs:mq:*:*:topic-*{number:02}7", f"acs:mq:*:*:*-{number:03}*"]
        statement = {"Effect": "Deny", "Action": ["mq:*"], "Resource": names}
        document = {"Version": "1", "Statement": [statement]}
        member.policies.add(Policy.objects.create(tenant=tenant, name=f"denial-{number:02}", document=document))
    return member


def lose_topics(instance: Instance) -> None:
    """A second instance whose topics the brokers do not have: as many differences."""
    lost = Instance.objects.create(
        instance_id=f"MQ_INST_{instance.tenant.uid}_B0000002", tenant=instance.tenant, cluster=instance.cluster,
        region=instance.region, name="lost",
    )  # fmt: skip
    Topic.objects.bulk_create(
        (
            Topic(instance=lost, name=n, physical_name=lost.physical_name(n), order_type=OrderType.NORMAL)
            for n in topic_names()
        ),
        batch_size=BATCH,
    )


def give_up(instance: Instance) -> User:
    """Nobody has the topics and groups any more; the platform's administrator, who sees that."""
    Grant.objects.all().delete()
    Topic.objects.filter(instance=instance).delete()
    Group.objects.filter(instance=instance).delete()
    return User.objects.create(
        username="platform", uid="100000000000000001", is_platform_admin=True, password=make_password("not used")
    )
