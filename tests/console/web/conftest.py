"""An account of which every page has something to show."""

from __future__ import annotations

import pytest
from django.utils import timezone

from brokercore.smq.wire.subscriptions import Format, Strategy
from console.accounts import services as accounts
from console.accounts.models import ResourceSet
from console.accounts.policy_documents import system_policy
from console.accounts.services.keys import create_organization_key
from console.alarms import services as alarms
from console.alarms.models import Alarm, Condition, RecipientKind
from console.archive.models import ArchiveStatus, TopicArchive
from console.audit.models import Entry
from console.catalog.models import Bucket
from console.pipelines import services as pipelines
from console.pipelines.models import Kind
from console.queues import services as queue_services
from console.queues.topics import services as queue_topics
from console.sql.models import QueryTask
from console.tracking import services as tracking
from console.tracking.models import Kind as TrackedKind
from tests.support.cast import Cast, make_group, make_topic
from tests.support.queue_service import QueueServiceProcess
from tests.support.roles import make_role


@pytest.fixture
def world(cast: Cast, queues: QueueServiceProcess) -> dict[str, str]:
    """What the rows of the matrix name."""
    alice = cast.actor("alice")
    topic = make_topic(cast.alice, cast.instance)
    archive = TopicArchive.objects.create(
        tenant=cast.acme,
        topic=topic,
        physical_name=topic.physical_name,
        location=f"oss://gantry-archive-{cast.acme.uid}/matrix/",
        status=ArchiveStatus.IDLE,
        requested_at=timezone.now(),
    )
    make_group(cast.alice, cast.instance)
    key = accounts.create_access_key(actor=alice, user=cast.alice)
    bobs_key = accounts.create_access_key(actor=cast.actor("bob"), user=cast.bob)
    accounts.create_group(actor=alice, name="senders")
    document = {"Version": "1", "Statement": [{"Effect": "Allow", "Action": "mq:PUB", "Resource": "*"}]}
    accounts.create_policy(actor=alice, name="own-policy", description="", document=document)
    make_role(alice)
    organization = cast.acme.organization
    organization_key = create_organization_key(actor=cast.actor("petra"), organization=organization, tenant=cast.acme)
    task = QueryTask.objects.create(
        id="q-matrix", tenant=cast.acme, creator=cast.alice, table_schema="acme", command="x"
    )
    Bucket.objects.create(tenant=cast.acme, name="acme-lake")
    queue_services.create_queue(actor=alice, name="matrix", attributes={})
    pipelines.create(actor=alice, name="matrix")
    pipelines.create(actor=alice, name="matrix", kind=Kind.INFLOW, draft="{}")
    pipelines.set_secret(actor=alice, name="made", value="x")
    pipelines.set_variable(actor=alice, name="made", value="x")
    tracked = tracking.create(
        actor=alice, name="matrix", kind=TrackedKind.POSTGRESQL, host="127.0.0.1", port=1,
        database="shop", user="reader", password="read-it-all", tables=["public.*"],
    )  # fmt: skip
    tracking.create_group(actor=alice, task=tracked, name="readers", account="reader", password="read-it-all")
    queue_topics.create_topic(actor=alice, name="matrix", attributes={})
    queue_topics.subscribe(
        actor=alice,
        topic="matrix",
        name="ends",
        receiver="matrix",
        strategy=Strategy.BACKOFF,
        form=Format.XML,
    )
    recipient = alarms.create_recipient(
        actor=alice,
        values=alarms.RecipientValues(name="matrix", kind=RecipientKind.WEBHOOK, address="http://127.0.0.1:9/"),
    )
    rule = alarms.create_rule(
        actor=alice,
        values=alarms.RuleValues(
            name="matrix", condition=Condition.BACKLOG, instance=cast.instance, recipients=[recipient]
        ),
    )
    alarm = Alarm.objects.create(
        tenant=cast.acme, rule=rule, rule_name="matrix", condition=Condition.AWAY, severity=rule.severity,
        subject="cluster:DefaultCluster", sentence="Cluster DefaultCluster does not answer", path="/",
        began_at=timezone.now(), fired_at=timezone.now(), told_at=timezone.now(),
    )  # fmt: skip
    return {
        "alarm": str(alarm.pk),
        "alarm_recipient": str(recipient.pk),
        "alarm_rule": str(rule.pk),
        "instance": cast.instance.instance_id,
        "topic": "orders",
        "group": "GID_orders",
        "alices_key": key.access_key_id,
        "bobs_key": bobs_key.access_key_id,
        "policy": str(system_policy("AliyunMQReadOnlyAccess").pk),
        "alices_task": task.pk,
        "alices_archive": str(archive.pk),
        "alices_entry": str(Entry.objects.filter(tenant=cast.acme).earliest("pk").pk),
        "tracking_task": tracked.task_id,
        "cluster": str(cast.instance.cluster_id),
        "organization": str(organization.pk),
        "organization_key": organization_key.access_key_id,
        "resource_set": str(ResourceSet.objects.create(organization=organization, name="standing").pk),
    }
