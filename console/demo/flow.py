"""From the demo's database to a topic: a change tracking task, and an inflow task that nobody has started yet.

The database is the launcher's (launcher/demo_database.py), which tells its port by GANTRY_DEMO_PORT and keeps the
password beside the secrets. Each is made once: who deletes one does not get it again.
"""

from __future__ import annotations

import secrets
from typing import Any

from django.conf import settings
from django.db import transaction

from console.accounts.actor import Actor
from console.inflow import services as inflow
from console.instances.models import Instance
from console.messaging.flight_rows import Place
from console.pipelines.event_logs import Login
from console.pipelines.models import Kind as PipelineKind
from console.pipelines.models import Pipeline
from console.topics import services as topics
from console.topics.models import OrderType, Topic
from console.tracking import services as tracking
from console.tracking.models import Kind, State, TrackingTask

TRACKING, GROUP, TASK, TOPIC = "flights", "flight-changes", "flight-changes", "flight-changes"
_TOPIC_REMARK = "Changes of the flights in the demo's database, in order per flight"
_DATABASE, _USER, _TABLES = "demo", "gantry", ("public.flights",)
_PASSWORD_FILE = "demo_database_password"  # noqa: S105 - the file's name


def place() -> Place:
    """Where the demo's database is. Raises OSError when its password cannot be read."""
    password = (settings.SECRETS / _PASSWORD_FILE).read_text().strip()
    return Place("127.0.0.1", settings.DEMO_PORT, _DATABASE, _USER, password)


def ensure(actor: Actor, instance: Instance, database: Place) -> None:
    """Make what there is not yet.

    Raises ClientError, and Refused where the lake or an address does not allow it, or a user's own things are in the
    way.
    """
    task = _task(actor) or _track(actor, database)
    if not Topic.objects.filter(instance=instance, name=TOPIC).exists():
        topics.create_topic(
            actor=actor,
            instance=instance,
            name=TOPIC,
            order_type=OrderType.PARTITIONALLY_ORDERED,
            remark=_TOPIC_REMARK,
        )
    if not Pipeline.objects.filter(tenant=actor.tenant, kind=PipelineKind.INFLOW, name=TASK).exists():
        _prepare(actor, instance, task)


def mend(actor: Actor, database: Place, *, is_new: bool) -> None:
    """Let the change tracking task read the database where it is now; anew, where the database was made just now.

    Nothing happens to a task of which a user has made another one. Raises Refused.
    """
    task = _task(actor)
    if task is None or (task.host, task.database, task.user) != (database.host, database.database, database.user):
        return
    if task.port != database.port:
        tracking.change(actor=actor, task=task, port=database.port, password=database.password)
    if is_new and task.position:
        tracking.resume(actor=actor, task=task, anew=True)


def _task(actor: Actor) -> TrackingTask | None:
    found = TrackingTask.objects.filter(tenant=actor.tenant, name=TRACKING)
    return found.exclude(state=State.DELETING).first()


def _track(actor: Actor, database: Place) -> TrackingTask:
    return tracking.create(
        actor=actor,
        name=TRACKING,
        kind=Kind.POSTGRESQL,
        host=database.host,
        port=database.port,
        database=database.database,
        user=database.user,
        password=database.password,
        tables=_TABLES,
    )


@transaction.atomic
def _prepare(actor: Actor, instance: Instance, task: TrackingTask) -> None:
    """The inflow task with its consumer group, of which nobody else needs the password."""
    password = secrets.token_urlsafe(24)
    tracking.create_group(actor=actor, task=task, name=GROUP, account=TASK, password=password)
    document = _document(instance.instance_id, task.task_id)
    inflow.create(actor=actor, document=document, login=Login(TASK, password), start=False)


def _document(instance_id: str, task_id: str) -> dict[str, Any]:
    return {
        "name": TASK,
        "description": "Changes of the flights in the demo's database, as make traffic makes them",
        "source": {"task": task_id, "group": GROUP},
        "pattern": {"data": {"operation": ["INSERT", "UPDATE", "DELETE"]}},
        "sink": {
            "topic": TOPIC,
            "instanceID": instance_id,
            "ordered": True,
            "body": {"method": "data_extraction", "path": "$.data"},
            "key": {"method": "data_extraction", "path": "$.data.primaryKey.id"},
            "tag": {"method": "data_extraction", "path": "$.data.operation"},
        },
    }
