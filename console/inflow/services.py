"""Inflow tasks on behalf of a user: made, changed, started, paused and deleted.

The text of a task's pipeline is its document as JSON (`analytics.inflow.task`). Names of fields in refusals are places
in the document, such as `source.group`. The login of a consumer group is kept nowhere.
"""

from __future__ import annotations

import json
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _

from analytics.inflow import task_sources
from analytics.inflow.parts import TaskError
from analytics.inflow.task import Task
from analytics.inflow.task_sinks import TopicSink
from analytics.inflow.task_transforms import ExpressionTransform
from analytics.inflow.transform import TransformFailed
from brokercore.names import wrap
from console.accounts.actor import Actor
from console.audit import record as audit
from console.feeds import queries as feeds
from console.feeds import services as feed_services
from console.feeds.middleware import PREFIX as HOOKS
from console.inflow import places, providers, sinks
from console.inflow.documents import document_in, source_of
from console.inflow.providers.shape import NOBODY, Document
from console.inflow.sinks.queue import require_queue
from console.inflow.sinks.topic import require_kind
from console.pipelines import event_logs, groups, room, starts
from console.pipelines import services as pipelines
from console.pipelines.event_logs import Login
from console.pipelines.models import BUSY, Kind, Pipeline, StartFrom, Version
from console.web.errors import Refused

INVALID = "INFLOW_TASK_INVALID"
ADDRESS, KEY = "address", "key"
"""Of a webhook, what can be made anew."""


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
    if isinstance(task.transform, ExpressionTransform):
        _require_expression(actor, task.transform)
    providers.PROVIDERS[task.source.kind].require(actor, task, before)
    starts.given(actor, task.plan())
    sinks.DESTINATIONS[task.sink.kind].require(actor, task)
    _require_dead_letters(actor, task)
    return task


@transaction.atomic
def create(*, actor: Actor, document: Document, login: Login = NOBODY, start: bool = True) -> Pipeline:
    """A new task with its first version, which is started unless told otherwise. Raises Refused and PermissionDenied.

    `login` is that of the consumer group.
    """
    # The source of a task that does not start now need not be Normal now, as that of one which is there need not.
    task = look(actor=actor, document=document, before=None if start else document)
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
        raise Refused(
            INVALID, _("The name is %(pipeline)s, and cannot be changed.") % {"pipeline": pipeline.name}, "name"
        )
    before = document_of(pipeline)
    task = look(actor=actor, document=document, before=before)
    moved = task_sources.place_of(before.get("source")) != task_sources.place_of(document.get("source"))
    _hold(actor, pipeline, task, before, login)
    version = pipelines.deploy(actor=actor, pipeline=pipeline, text=text_of(document), plan=task.plan())
    pipeline.refresh_from_db()
    if pipeline.state in BUSY:
        _begun(pipeline, document)
    if pipeline.state in BUSY and pipeline.started_version_id != version.pk:
        origin = StartFrom.NOTHING if moved else StartFrom.CHECKPOINT
        pipelines.restart(actor=actor, pipeline=pipeline, start_from=origin)
    return version


@transaction.atomic
def begin(*, actor: Actor, pipeline: Pipeline, anew: bool = False) -> None:
    """Start the task where it stopped, or where its document says when it never ran, or read another source then.

    `anew` is for a task whose next events are gone: it begins where its document says, or with the first event that
    there is behind that. Raises Refused, where the lake is full too, and PermissionDenied.
    """
    room.require_for_start(actor.tenant)
    plan = starts.plan_of(pipeline, pipeline.version)
    starts.secrets_of(actor, plan)
    starts.given(actor, plan)
    groups.require_free(actor, plan, event_logs.holder_of(pipeline), "source.group")
    others = _begun(pipeline, document_in(pipeline.version.text if pipeline.version else ""))
    origin = StartFrom.NOTHING if anew or others or _has_moved(pipeline) else StartFrom.CHECKPOINT
    pipelines.start(actor=actor, pipeline=pipeline, start_from=origin, judged=pipeline.version)


@transaction.atomic
def pause(*, actor: Actor, pipeline: Pipeline) -> None:
    """Stop the task; what it has begun is delivered. Raises Refused when it does not run."""
    pipelines.stop(actor=actor, pipeline=pipeline)
    provider = providers.of(source_of(document_of(pipeline)))
    provider.paused(actor.tenant, event_logs.holder_of(pipeline))


@transaction.atomic
def renew_webhook(*, actor: Actor, pipeline: Pipeline, part: str = ADDRESS) -> str:
    """A new address (its path), or a new key for signatures, of a task whose source is a webhook; told this once.

    The one before is refused from now on. Raises Refused for a task with another source.
    """
    feed = feeds.feed(pipeline.tenant, pipeline.name)
    if feed is None or feed.kind != task_sources.WEBHOOK:
        raise Refused(
            "NO_WEBHOOK", _("The source of %(pipeline)s is no webhook.") % {"pipeline": pipeline.name}, "task"
        )
    made = feed_services.renew_key(feed) if part == KEY else f"{HOOKS}{feed_services.renew_token(feed)}"
    audit.record(actor, "pipelines.inflow.renew_webhook", pipeline.name, detail={"part": part})
    return made


def new_webhook(*, actor: Actor, pipeline: Pipeline) -> tuple[str, str]:
    """The path of the first address of a task that was just made, and its key where signatures are asked for.

    Both are empty where its source is no webhook.
    """
    source = source_of(document_of(pipeline))
    if source.get("kind") != task_sources.WEBHOOK:
        return "", ""
    key = renew_webhook(actor=actor, pipeline=pipeline, part=KEY) if source.get("signature") else ""
    return renew_webhook(actor=actor, pipeline=pipeline), key


@transaction.atomic
def delete(*, actor: Actor, pipeline: Pipeline) -> None:
    """Delete the task with its versions, samples and log; its consumer group is free.

    One that runs delivers what it has begun, and nothing behind that. Raises Refused when it is gone.
    """
    holder = event_logs.holder_of(pipeline)
    pipelines.delete(actor=actor, pipeline=pipeline, stops=True)
    for provider in providers.PROVIDERS.values():
        provider.release(actor.tenant, holder)


def text_of(document: Document) -> str:
    """A document as the text of a version, line by line, so that versions can be compared."""
    return json.dumps(document, indent=2, ensure_ascii=False)


def document_of(pipeline: Pipeline) -> dict[str, Any]:
    """What a task is now; of one that was never saved whole what there is of it."""
    return document_in(pipeline.draft)


def _has_moved(pipeline: Pipeline) -> bool:
    """Whether it is to read other events than those that it read when it ran last."""
    ran, now = pipeline.started_version, pipeline.version
    if ran is None or now is None:
        return False
    before, after = (task_sources.place_of(document_in(one.text).get("source")) for one in (ran, now))
    return before != after


def _begun(pipeline: Pipeline, document: Document) -> bool:
    provider = providers.of(source_of(document))
    return provider.begun(pipeline.tenant, event_logs.holder_of(pipeline), pipeline.started_at)


def _require_expression(actor: Actor, told: ExpressionTransform) -> None:
    expression = told.opened()
    try:
        with places.place(actor.tenant.uid):
            expression.check()
    except TransformFailed as error:
        raise Refused(INVALID, error.user_message, told.place) from error
    finally:
        expression.close()


def _require_dead_letters(actor: Actor, task: Task) -> None:
    """They are where they can be written to. Of a topic beside that of the sink the sink knows."""
    dead = task.dead_letters
    if dead.queue:
        require_queue(actor, "deadLetterQueue", dead.queue)
    elif dead.topic and not isinstance(task.sink, TopicSink):
        require_kind(actor, "deadLetterTopic", wrap(dead.instance, dead.topic))


def _hold(actor: Actor, pipeline: Pipeline, task: Task, before: Document | None, login: Login) -> None:
    """Let the task be the one reader of its source, where there can be one only, and of no other any more."""
    holder = event_logs.holder_of(pipeline)
    provider = providers.PROVIDERS[task.source.kind]
    earlier = None if before is None else providers.of(source_of(before))
    if earlier is not None and earlier is not provider:
        earlier.release(actor.tenant, holder)
        before = None
    provider.hold(actor, task, before, login, holder)
