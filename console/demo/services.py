"""The demo tenant: made once, then only mended, so that what its users changed stays."""

from __future__ import annotations

from django.conf import settings
from django.db import transaction

from analytics.demo import write_demo_tables
from analytics.specs import TableSpec
from console.accounts import policy_documents
from console.accounts import services as accounts
from console.accounts.actor import Actor
from console.accounts.models import Tenant, User
from console.accounts.services.platform_admins import set_platform_admin
from console.catalog.models import Bucket, ExternalTable, Schema
from console.demo import account, flow
from console.instances import broker
from console.instances import services as instances
from console.instances.models import Cluster, Instance
from console.jobs import services as jobs
from console.messaging import flight_rows
from console.messaging.traffic import QUEUE, QUEUE_SECONDS
from console.pipelines.models import Kind, Pipeline
from console.queues import services as queues
from console.rights import access_table
from console.topics import services as topics
from console.topics.models import Group, OrderType, Topic
from console.web.errors import Refused

TENANT = "demo"
BUCKET = "gantry-demo"
PLATFORM_ADMIN = "platform"
ROLE = "AliyunOpenAnalyticsAccessingMQRole"
QUERY_SERVICE = "openanalytics.aliyuncs.com"
#: The SQL job, and the topic that it writes.
JOB = "late-flights"
DEMO_TOPICS = {
    "flights": (OrderType.NORMAL, "Flights out of New York in 2013"),
    "flights-fifo": (OrderType.PARTITIONALLY_ORDERED, "The same, in order per aircraft"),
    "bookings-tx": (OrderType.TRANSACTIONAL, "Bookings, sent in transactions"),
    "reminders": (OrderType.DELAYED, "Reminders, delivered later"),
    "query-done": (OrderType.NORMAL, "Completion messages of async SQL"),
    JOB: (OrderType.NORMAL, "Late flights by carrier, written by the SQL job"),
}
DEMO_GROUPS = {
    "GID_flights": "Consumes flights; fails on cancelled ones",
    "GID_fifo": "Consumes flights-fifo in order",
    "GID_bookings": "Produces and consumes bookings-tx",
    "GID_reminders": "Consumes reminders",
    "GID_query": "Sends and receives completion messages",
}

_JOB_TEXT = """\
-- Flights that left 15 minutes late or more, counted by carrier, every ten seconds.
-- `make traffic` fills the queue flights; what comes of it is in Messages, topic late-flights.
CREATE TEMPORARY TABLE flights (
  carrier STRING,
  dep_delay INT,
  at AS PROCTIME()
) WITH (
  'connector' = 'mns',
  'queueName' = '{queue}',
  'format' = 'json',
  'batchSize' = '16'
);

CREATE TEMPORARY TABLE late_flights (carrier STRING, since TIMESTAMP(3), flights BIGINT, minutes DOUBLE) WITH (
  'connector' = 'mq',
  'instanceID' = '{instance}',
  'topic' = '{topic}',
  'producerGroup' = 'GID_flights',
  'fieldDelimiter' = ','
);

INSERT INTO late_flights
SELECT carrier, window_start, COUNT(*), ROUND(AVG(dep_delay), 1)
FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(at), INTERVAL '10' SECOND))
WHERE dep_delay >= 15
GROUP BY carrier, window_start, window_end;
"""


def create(cluster: Cluster) -> dict[str, str]:
    """Create the tenant with everything it starts with; returns its secrets, which are not kept in clear."""
    issued = _create_tenant()
    user = User.objects.get(username=f"admin@{TENANT}")
    actor = Actor(user=user, channel="command")
    instance = instances.create_instance(
        actor=actor,
        cluster=cluster.name,
        name="demo-instance",
        independent_naming=True,
        remark="The demo tenant's instance",
    )
    for name, (order_type, remark) in DEMO_TOPICS.items():
        topics.create_topic(actor=actor, instance=instance, name=name, order_type=order_type, remark=remark)
    for group_id, remark in DEMO_GROUPS.items():
        group = topics.create_group(actor=actor, instance=instance, group_id=group_id, remark=remark)
        topics.set_group_shared(actor=actor, group=group, shared=True)
    _create_schema(actor.tenant, write_demo_tables(BUCKET, TENANT))
    return issued | {"instance_id": instance.instance_id}


def ensure_job(instance_id: str) -> None:
    """Make queue, topic and job where they are not there, and deploy it; who wants it to run starts it.

    Raises ClientError, QueueServiceUnavailable, and Refused where a user's own things are in the way.
    """
    actor = _actor()
    if Pipeline.objects.filter(tenant=actor.tenant, kind=Kind.JOB, name=JOB).exists():
        return
    instance = Instance.objects.get(instance_id=instance_id, tenant=actor.tenant)
    if not Topic.objects.filter(instance=instance, name=JOB).exists():
        order_type, remark = DEMO_TOPICS[JOB]
        topics.create_topic(actor=actor, instance=instance, name=JOB, order_type=order_type, remark=remark)
    _ensure_queue(actor)
    with transaction.atomic():
        job = jobs.create(actor=actor, name=JOB)
        text = _JOB_TEXT.format(queue=QUEUE, instance=instance_id, topic=JOB)
        jobs.deploy(actor=actor, pipeline=job, text=text)


def add_database() -> dict[str, object] | None:
    """The demo's database with its table, None where the copy has none; and its tasks read it where it is now.

    Raises psycopg.Error, OSError and Refused.
    """
    if not settings.DEMO_PORT:
        return None
    place = flow.place()
    is_new = flight_rows.ensure_table(place)
    flow.mend(_actor(), place, is_new=is_new)
    return place.to_demo()


def ensure_flow(instance_id: str) -> None:
    """Make the change tracking task of the demo's database, and an inflow task that nobody has started.

    Raises ClientError, OSError, and Refused where they cannot be.
    """
    actor = _actor()
    flow.ensure(actor, Instance.objects.get(instance_id=instance_id, tenant=actor.tenant), flow.place())


def _actor() -> Actor:
    return Actor(user=User.objects.get(username=f"admin@{TENANT}"), channel="command")


def _ensure_queue(actor: Actor) -> None:
    try:
        queues.create_queue(actor=actor, name=QUEUE, attributes={"MessageRetentionPeriod": QUEUE_SECONDS})
    except Refused as refused:
        if refused.symbol != "BIZ_QUEUE_EXISTED":  # somebody has changed it since
            raise


def mend(cluster: Cluster) -> None:
    """Give the brokers that have the demo again what the database knows and they lost: their store may be new.

    Of every other cluster *Broker drift* shows it, and nothing is made there that nobody asked for.
    """
    policy_documents.ensure_system_policies()
    access_table.publish()
    if cluster.read_only:
        return
    admin = broker.admin(cluster)
    known = admin.topics.configs().keys() | admin.groups.configs().keys()
    for topic in Topic.objects.filter(instance__cluster=cluster).select_related("instance__cluster"):
        if topic.physical_name not in known:
            topics.apply_topic(topic)
    for group in Group.objects.filter(instance__cluster=cluster).select_related("instance__cluster"):
        if group.physical_name not in known:
            topics.apply_group(group)


@transaction.atomic
def _create_tenant() -> dict[str, str]:
    made = account.make(TENANT, organization="Demo")
    key = accounts.create_access_key(actor=made.actor, user=made.actor.person)
    accounts.create_role(
        actor=made.actor,
        name=ROLE,
        description="Lets async SQL send its completion messages",
        trust_policy=_trust_policy(),
        policies=[policy_documents.system_policy("AliyunMQFullAccess")],
    )
    keys = {"access_key_id": key.access_key_id, "access_key_secret": key.access_key_secret}
    return made.passwords | keys


def ensure_platform_admin() -> dict[str, str] | None:
    """Create the administrator of the platform; its password, once, or None when it is there."""
    if User.objects.filter(username=PLATFORM_ADMIN).exists():
        return None
    password = account.drawn_password()
    set_platform_admin(name=PLATFORM_ADMIN, password=password, must_change_password=False)
    return {"username": PLATFORM_ADMIN, "password": password}


def exists() -> bool:
    """True when the demo tenant is there, whole: its schema is the last thing that `create` makes."""
    return Schema.objects.filter(tenant__name=TENANT).exists()


def remove_half_made() -> None:
    """Undo a creation that was interrupted, so that it can begin anew."""
    for tenant in Tenant.objects.filter(name=TENANT):
        Topic.objects.filter(instance__tenant=tenant).delete()
        Group.objects.filter(instance__tenant=tenant).delete()
        Instance.objects.filter(tenant=tenant).delete()
        User.objects.filter(tenant=tenant).delete()
        tenant.delete()


def _create_schema(tenant: Tenant, tables: list[TableSpec]) -> None:
    with transaction.atomic():
        Bucket.objects.create(tenant=tenant, name=BUCKET)
        schema = Schema.objects.create(tenant=tenant, name=TENANT, location=f"oss://{BUCKET}/{TENANT}/")
        for table in tables:
            ExternalTable.objects.create(
                schema=schema,
                name=table.name,
                location=table.location,
                format=table.format,
                columns=[{"name": c.name, "type": c.type} for c in table.columns],
            )


def _trust_policy() -> dict[str, object]:
    statement = {"Action": "sts:AssumeRole", "Effect": "Allow", "Principal": {"Service": [QUERY_SERVICE]}}
    return {"Version": "1", "Statement": [statement]}
