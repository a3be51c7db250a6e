"""Inflow tasks on behalf of a user: made, changed, started, paused and deleted.

The text of a task's pipeline is its document as JSON (`analytics.inflow.task`). Names of fields in refusals are places
in the document, such as `source.group`. The login of a consumer group is kept nowhere.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.utils import timezone

from analytics.inflow.expressions import Expression
from analytics.inflow.parts import TaskError
from analytics.inflow.task import Task
from analytics.inflow.task_sinks import TopicSink
from analytics.inflow.transform import TransformFailed
from analytics.pipelines.plan import Plan
from brokercore.names import wrap
from console.accounts.actor import Actor
from console.inflow import places
from console.inflow.queries import ORDERED
from console.pipelines import event_logs, journal, room, samples, starts
from console.pipelines import services as pipelines
from console.pipelines.event_logs import Holder, Login
from console.pipelines.models import BUSY, Kind, Pipeline, StartFrom, Version
from console.topics.models import OrderType, Topic
from console.web import zone
from console.web.errors import Refused

Document = Mapping[str, Any]
INVALID = "INFLOW_TASK_INVALID"
NOBODY = Login()


def read(document: Document) -> Task:
    """The task of a document. Raises Refused with the place that is wrong."""
    try:
        return Task.read(document)
    except TaskError as error:
        reason = error.user_message.removeprefix(f"{error.field}: ")
        raise Refused(INVALID, f"{reason[:1].upper()}{reason[1:]}", error.field) from error


def look(*, actor: Actor, document: Document, before: Document | None = None) -> Task:
    """The task of a document that the actor may save and start; `before` is what it was until now.

    Raises Refused with the place that is wrong, and PermissionDenied.
    """
    task = read(document)
    if (task.transform or {}).get("kind") == "expression":
        _require_expression(actor, task)
    _require_source(actor, task, before)
    starts.given(actor, task.plan())
    _require_kind(task)
    return task


@transaction.atomic
def create(*, actor: Actor, document: Document, login: Login = NOBODY, start: bool = True) -> Pipeline:
    """A new task with its first version, which is started unless told otherwise. Raises Refused and PermissionDenied.

    `login` is that of the consumer group.
    """
    task = look(actor=actor, document=document)
    text = text_of(document)
    pipeline = pipelines.create(actor=actor, name=task.name, draft=text, kind=Kind.INFLOW)
    _hold(actor, pipeline, task, None, login)
    pipelines.deploy(actor=actor, pipeline=pipeline, text=text, plan=task.plan())
    pipeline.refresh_from_db()
    if start:
        begin(actor=actor, pipeline=pipeline)
    return pipeline


@transaction.atomic
def change(*, actor: Actor, pipeline: Pipeline, document: Document, login: Login = NOBODY) -> Version:
    """A new version of the task. One that runs goes on with it, where it was.

    A task that reads another source than before begins there anew, as its document says. Raises Refused and
    PermissionDenied.
    """
    if document.get("name") != pipeline.name:
        raise Refused(INVALID, f"The name is {pipeline.name}, and cannot be changed.", "name")
    before = document_of(pipeline)
    task = look(actor=actor, document=document, before=before)
    moved = _place(before) != _place(document)
    _hold(actor, pipeline, task, before, login)
    version = pipelines.deploy(actor=actor, pipeline=pipeline, text=text_of(document), plan=task.plan())
    pipeline.refresh_from_db()
    if pipeline.state in BUSY and pipeline.started_version_id != version.pk:
        origin = StartFrom.NOTHING if moved else StartFrom.CHECKPOINT
        pipelines.restart(actor=actor, pipeline=pipeline, start_from=origin)
    return version


def begin(*, actor: Actor, pipeline: Pipeline) -> None:
    """Start the task where it stopped, or where its document says when it never ran, or read another source then.

    Raises Refused, where the lake is full too, and PermissionDenied.
    """
    room.require_for_start(actor.tenant)
    plan = starts.plan_of(pipeline, pipeline.version)
    starts.secrets_of(actor, plan)
    starts.given(actor, plan)
    ran = pipeline.started_version
    moved = ran is not None and pipeline.version is not None and _read_from(ran.plan) != _read_from(plan.to_json())
    origin = StartFrom.NOTHING if moved else StartFrom.CHECKPOINT
    pipelines.start(actor=actor, pipeline=pipeline, start_from=origin, judged=pipeline.version)


def pause(*, actor: Actor, pipeline: Pipeline) -> None:
    """Stop the task; what it has begun is delivered. Raises Refused when it does not run."""
    pipelines.stop(actor=actor, pipeline=pipeline)


@transaction.atomic
def delete(*, actor: Actor, pipeline: Pipeline) -> None:
    """Delete the task with its versions, samples and log; its consumer group is free. Raises Refused while it runs."""
    key = pipeline.pk
    pipelines.delete(actor=actor, pipeline=pipeline)
    event_logs.sources.get().release(actor.tenant, _holder(pipeline, key))
    samples.forget(key)
    journal.forget(actor.tenant.uid, key)


def text_of(document: Document) -> str:
    """A document as the text of a version, line by line, so that versions can be compared."""
    return json.dumps(document, indent=2, ensure_ascii=False)


def document_of(pipeline: Pipeline) -> dict[str, Any]:
    """What a task is now; of one that was never saved whole what there is of it."""
    try:
        found = json.loads(pipeline.draft)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _require_expression(actor: Actor, task: Task) -> None:
    expression = Expression(task.transform["expression"])
    try:
        with places.place(actor.tenant.uid):
            expression.check()
    except TransformFailed as error:
        raise Refused(INVALID, error.user_message, "transform.expression") from error
    finally:
        expression.close()


def _require_source(actor: Actor, task: Task, before: Document | None) -> None:
    """The source is there, and has the time at which the task begins, if it begins there."""
    if "task" not in task.source:
        if "log" not in task.source:
            raise Refused("SOURCE_MISSING", "Choose a change tracking task.", "source.task")
        return
    source = event_logs.require_source(actor, str(task.source["task"]))
    group = str(task.source.get("group", ""))
    if group not in source.groups:
        named = f"{source.id} has no consumer group {group}." if group else "Choose a consumer group."
        raise Refused("GROUP_NOT_FOUND", named, "source.group")
    if before is not None and _place(before) == (source.id, ""):
        return  # it goes on where it is
    if source.state != event_logs.NORMAL:
        raise Refused(
            "SOURCE_NOT_NORMAL",
            f"The change tracking task {source.id} is {source.state}; it must be {event_logs.NORMAL}.",
            "source.task",
        )
    _require_time(source, task.source.get("startTimeMs"))


def _require_time(source: event_logs.Source, begin: object) -> None:
    if begin is None or source.first_ms is None:
        return
    last = max(source.last_ms or 0, round(timezone.now().timestamp() * 1000))
    if not source.first_ms // 1000 * 1000 <= int(str(begin)) <= last:
        raise Refused(
            "OFFSET_OUT_OF_RANGE",
            f"{source.id} has data from {_told(source.first_ms)} to {_told(last)}.",
            "source.startTimeMs",
        )


def _require_kind(task: Task) -> None:
    """Topics take messages of one kind. Of a topic of another cluster nothing is known."""
    sink = task.sink
    if not isinstance(sink, TopicSink) or "accessId" in sink.reach:
        return
    namespace = sink.reach.get("instanceID", "")
    for field, name, ordered in (
        ("sink.topic", sink.topic, sink.is_ordered),
        ("deadLetterTopic", task.dead_letters, False),
    ):
        topic = Topic.objects.filter(physical_name=wrap(namespace, name)).first() if name else None
        if topic is None:
            continue
        kind = OrderType(topic.order_type)
        if (kind in ORDERED) != ordered or kind in (OrderType.TRANSACTIONAL, OrderType.DELAYED):
            wanted = "an ordered one, as the task keeps the order of keys," if ordered else "one of the kind Normal"
            raise Refused(
                "TOPIC_OF_OTHER_KIND", f"The topic {name} is of the kind {kind.label}; {wanted} is needed.", field
            )


def _hold(actor: Actor, pipeline: Pipeline, task: Task, before: Document | None, login: Login) -> None:
    """Let the task be the one client of its consumer group; nobody is asked for the login of one that it has."""
    source, group = str(task.source.get("task", "")), str(task.source.get("group", ""))
    earlier = (before or {}).get("source") or {}
    if (earlier.get("task", ""), earlier.get("group", "")) == (source, group):
        return
    sources, holder = event_logs.sources.get(), _holder(pipeline, pipeline.pk)
    if earlier.get("task"):
        sources.release(actor.tenant, holder)
    if source:
        sources.hold(actor, source, group, login, holder)


def _holder(pipeline: Pipeline, key: int) -> Holder:
    return Holder(f"inflow-{key}", f"The inflow task {pipeline.name}")


def _place(document: Document) -> tuple[str, str]:
    """What tells whether two documents read the same events."""
    source = document.get("source")
    source = source if isinstance(source, Mapping) else {}
    return str(source.get("task") or ""), str(source.get("log") or "")


def _read_from(plan: str) -> list[tuple[object, object]]:
    return [(one.options.get("task"), one.options.get("log")) for one in Plan.from_json(plan).sources]


def _told(epoch_ms: int) -> str:
    return f"{zone.local(epoch_ms):%Y-%m-%d %H:%M:%S} ({zone.current_name()})"
