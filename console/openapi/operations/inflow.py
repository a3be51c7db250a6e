"""Message inflow tasks of the account: made, changed, started, paused and deleted; a sample event's way through one."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from django.conf import settings
from pydantic import Field, StringConstraints

from console.accounts.actor import Actor
from console.inflow import access, journey, queries, services
from console.inflow.sample_events import LONGEST_SAMPLE
from console.openapi.envelope import Page, cut, in_symbols, milliseconds
from console.openapi.operations import history
from console.openapi.registry import (
    NOTHING,
    Boolean,
    Call,
    ListPage,
    ListSize,
    Nothing,
    Paged,
    Parameters,
    Result,
    operation,
)
from console.pipelines import pages, samples
from console.pipelines import queries as pipelines
from console.pipelines.event_logs import Login
from console.pipelines.models import BUSY, Pipeline
from console.web.errors import Refused

_SYMBOLS = {
    access.NOT_FOUND: "BIZ_INFLOW_TASK_NOT_FOUND",
    services.INVALID: "BIZ_INFLOW_TASK_REFUSED",
    "NAME_TAKEN": "BIZ_INFLOW_TASK_EXISTED",
    "SOURCE_MISSING": "BIZ_INFLOW_TASK_REFUSED",
    "SOURCE_NOT_FOUND": "BIZ_INFLOW_TASK_REFUSED",
    "LAKE_REMOTE": "BIZ_INFLOW_TASK_REFUSED",
    "NO_WEBHOOK": "BIZ_INFLOW_TASK_REFUSED",
    "SOURCE_NOT_NORMAL": "BIZ_INFLOW_TASK_REFUSED",
    "OFFSET_OUT_OF_RANGE": "BIZ_INFLOW_TASK_REFUSED",
    "GROUP_NOT_FOUND": "BIZ_INFLOW_TASK_REFUSED",
    "GROUP_HELD": "BIZ_INFLOW_TASK_REFUSED",
    "TOPIC_OF_OTHER_KIND": "BIZ_INFLOW_TASK_REFUSED",
    "TABLE_NOT_FOUND": "BIZ_INFLOW_TASK_REFUSED",
    "TOPIC_NOT_FOUND": "BIZ_TOPIC_NOT_FOUND",
    "QUEUE_NOT_FOUND": "BIZ_QUEUE_NOT_FOUND",
    "SECRET_NOT_FOUND": "BIZ_SECRET_NOT_FOUND",
    "DEPLOYED_MEANWHILE": "BIZ_INFLOW_TASK_STATE_INVALID",
    "NOT_DEPLOYED": "BIZ_INFLOW_TASK_STATE_INVALID",
    "PIPELINE_BUSY": "BIZ_INFLOW_TASK_STATE_INVALID",
    "PIPELINE_NOT_RUNNING": "BIZ_INFLOW_TASK_STATE_INVALID",
    "PLAN_OUTDATED": "BIZ_INFLOW_TASK_STATE_INVALID",
    "JOB_LIMIT": "BIZ_JOB_QUOTA_EXCEEDED",
    "RUNNING_JOB_LIMIT": "BIZ_JOB_QUOTA_EXCEEDED",
    "STORAGE_LIMIT": "BIZ_LAKE_QUOTA_EXCEEDED",
}
_MISSES = ("BIZ_INFLOW_TASK_NOT_FOUND",)
_STATES = (*_MISSES, "BIZ_INFLOW_TASK_STATE_INVALID")
_WRONG = ("BIZ_INFLOW_TASK_REFUSED", "BIZ_TOPIC_NOT_FOUND", "BIZ_QUEUE_NOT_FOUND", "BIZ_SECRET_NOT_FOUND")
_FULL = ("BIZ_JOB_QUOTA_EXCEEDED", "BIZ_LAKE_QUOTA_EXCEEDED")
_LONGEST_DOCUMENT = 256 * 1024

TaskName = Annotated[
    str, Field(min_length=1, max_length=127, description="Name of the task.", examples=["orders-to-topic"])
]
Document = Annotated[
    str,
    StringConstraints(strip_whitespace=False, min_length=1, max_length=_LONGEST_DOCUMENT),
    Field(
        description="The task as JSON: name, source, pattern, transform, sink, retry, faults, dead letters.",
        examples=['{"name": "orders-to-topic", "source": {"task": "dtsdemo0001"}, "sink": {"topic": "orders"}}'],
    ),
]


class TaskOnly(Parameters):
    task: TaskName


class StartOf(TaskOnly):
    anew: Annotated[
        Boolean,
        Field(
            description="Whether it forgets where it stopped and begins at `startTimeMs` of its source, or with the "
            "first event that is there: for a task whose next events were removed before it read them."
        ),
    ] = False


class TaskList(Parameters):
    task: Annotated[str, Field(max_length=127, description="Part of the names looked for, in any case.")] = ""
    currentPage: ListPage = 1
    pageSize: Annotated[ListSize, Field(description="Tasks a page, 1 to 100.")] = 20


class TaskPage(Paged, TaskOnly):
    pass


class TaskVersion(history.VersionOnly, TaskOnly):
    pass


class TaskLog(history.LogBehind, TaskOnly):
    pass


class TaskSave(Parameters):
    document: Document
    account: Annotated[str, Field(max_length=128, description="Account of the consumer group.")] = ""
    password: Annotated[
        str,
        StringConstraints(strip_whitespace=False, max_length=256),
        Field(description="Of the account. It is checked when the group changes hands, and kept nowhere."),
    ] = ""


class TaskCreate(TaskSave):
    start: Annotated[Boolean, Field(description="Whether it starts at once.")] = True


class TaskRange(TaskOnly):
    range: Annotated[
        Literal["15m", "1h", "6h", "1d"], Field(description="How far back: minutes, hours or a day.")
    ] = "15m"  # fmt: skip


class WebhookRenew(TaskOnly):
    part: Annotated[Literal["address", "key"], Field(description="address, or key: that of signatures.")] = "address"


class TaskTest(Parameters):
    document: Document
    sample: Annotated[
        str,
        StringConstraints(strip_whitespace=False, max_length=LONGEST_SAMPLE),
        Field(description="An event as JSON; without it the last one of the source, or an example."),
    ] = ""


class TaskRow(Result):
    """An inflow task."""

    task: str
    state: str = Field(description="Starting, Running, Pausing, Paused, Ready, Start Failed or Not started.")
    reason: str = Field(description="Why it is in that state, starts again or waits; else empty.")
    waiting: str = Field(description="Why it waits before it tries again to deliver; empty while it does not.")
    source: str = Field(description="The change tracking task, event log, topic or queue.")
    topic: str = Field(description="That of the sink; empty where it is none.")
    sink: str = Field(description="The topic, the queue or the endpoint.")
    version: int | None
    restarts: int = Field(description="After failures and lost workers, since it was started.")
    createTime: int = Field(description="Milliseconds since the epoch.")
    startTime: int | None = Field(description="When it was asked to start, ms.")
    position: str = Field(description="Of the last event that was delivered, in the source's own words.")
    pending: int | None = Field(description="Events of the source that are not delivered yet.")
    behind: int | None = Field(description="Milliseconds that the last delivered event is older than the last one.")
    readPerSecond: float | None = Field(description="Events; null when it does not run.")
    deliveredPerSecond: float | None = Field(description="Messages; null when it does not run.")
    counters: dict[str, int] = Field(description="What was counted since its first start.")


class TaskDo(TaskRow):
    """An inflow task with its document."""

    document: str = Field(description="As JSON.")
    sourceReason: str = Field(description="Why no new event comes from the source now; empty while events may come.")


class SampleDo(Result):
    """A moment of a task."""

    time: int = Field(description="ms")
    counters: dict[str, int] = Field(description="What was counted until then; empty where nothing is known.")
    behind: int | None = Field(description="Milliseconds behind the source; null where it is not known.")


class WebhookDo(Result):
    """What was made for a webhook, and is told this once."""

    path: str = Field(description="Of the address, behind that of the console; empty when none was made.")
    key: str = Field(description="What the signatures of requests are made with; empty when none was made.")


class TaskMade(TaskDo):
    """A new inflow task."""

    webhook: WebhookDo | None = Field(description="Of a task whose source is a webhook; it is not told again.")


class Reason(Result):
    """A part of a pattern that says no."""

    path: str
    message: str


class MessageDo(Result):
    """A message or request that would be sent; `error` tells why none can be built."""

    topic: str = Field(description="That the event names; empty for the task's own.")
    body: str
    properties: dict[str, str] = Field(description="Of a request its headers.")
    key: str | None
    tag: str | None
    error: str


class Tried(Result):
    """What a document does with one event."""

    event: str = Field(description="The event, as JSON.")
    errors: dict[str, str] = Field(description="What is wrong, by its place in the document.")
    passes: bool | None = Field(description="Whether the pattern lets it through; null for a wrong one.")
    reasons: list[Reason] = Field(description="Which parts of the pattern say no.")
    transformed: list[str] = Field(description="Events after the transform; empty without one.")
    messages: list[MessageDo]


@operation(
    "inflow/list",
    service="Inflow",
    summary="Message inflow tasks, page by page",
    description="By name. A page behind the last is empty and tells the true total.",
    parameters=TaskList,
    result=TaskRow,
    paged=True,
    needs=(access.QUERY,),
    extension=True,
)
def list_tasks(call: Call, parameters: TaskList) -> Page:
    found = queries.tasks(access.require_right(call.actor, access.QUERY, "*"), parameters.task)
    rows = cut(parameters, found)
    nows = samples.latest([task.pk for task in rows])
    return Page.of(parameters, [TaskRow(**_row(task, nows.get(task.pk))) for task in rows], found.count())


@operation(
    "inflow/get",
    service="Inflow",
    summary="A message inflow task with its document",
    parameters=TaskOnly,
    result=TaskDo,
    needs=(access.QUERY,),
    errors=_MISSES,
    extension=True,
)
def get(call: Call, parameters: TaskOnly) -> TaskDo:
    return _described(call.actor, _task(call, parameters.task, access.QUERY))


@operation(
    "inflow/create",
    service="Inflow",
    summary="Create a message inflow task",
    description="It is started unless told otherwise, and runs with the rights of who creates it.",
    parameters=TaskCreate,
    result=TaskMade,
    needs=(access.CREATE,),
    changes=True,
    errors=("BIZ_INFLOW_TASK_EXISTED", *_WRONG, *_FULL),
    extension=True,
)
def create(call: Call, parameters: TaskCreate) -> TaskMade:
    with in_symbols(_SYMBOLS):
        document = _read(parameters.document)
        access.require_right(call.actor, access.CREATE, _name_of(document))
        made = services.create(
            actor=call.actor,
            document=document,
            login=Login(parameters.account, parameters.password),
            start=parameters.start,
        )
        path, key = services.new_webhook(actor=call.actor, pipeline=made)
    described = _described(call.actor, _task(call, made.name, access.CREATE))
    return TaskMade(**dict(described), webhook=WebhookDo(path=path, key=key) if path else None)


@operation(
    "inflow/update",
    service="Inflow",
    summary="Change a message inflow task",
    description="The whole document. A task that runs goes on with it where it was; of another source it begins anew.",
    parameters=TaskSave,
    result=TaskDo,
    needs=(access.UPDATE,),
    changes=True,
    errors=(*_STATES, *_WRONG),
    extension=True,
)
def update(call: Call, parameters: TaskSave) -> TaskDo:
    with in_symbols(_SYMBOLS):
        document = _read(parameters.document)
        task = access.require_task(call.actor, access.UPDATE, _name_of(document))
        services.change(
            actor=call.actor,
            pipeline=task,
            document=document,
            login=Login(parameters.account, parameters.password),
        )
    return _described(call.actor, _task(call, task.name, access.UPDATE))


@operation(
    "inflow/start",
    service="Inflow",
    summary="Start a message inflow task",
    description="It goes on where it stopped, with the rights of who starts it.",
    parameters=StartOf,
    result=Nothing,
    needs=(access.START,),
    changes=True,
    errors=(*_STATES, *_WRONG, *_FULL),
    extension=True,
)
def start(call: Call, parameters: StartOf) -> dict[str, Any]:
    task = _task(call, parameters.task, access.START)
    with in_symbols(_SYMBOLS):
        services.begin(actor=call.actor, pipeline=task, anew=parameters.anew)
    return NOTHING


@operation(
    "inflow/stop",
    service="Inflow",
    summary="Pause a message inflow task",
    description="It has stopped when inflow/get says Paused; it keeps its position.",
    parameters=TaskOnly,
    result=Nothing,
    needs=(access.STOP,),
    changes=True,
    errors=_STATES,
    extension=True,
)
def stop(call: Call, parameters: TaskOnly) -> dict[str, Any]:
    task = _task(call, parameters.task, access.STOP)
    with in_symbols(_SYMBOLS):
        services.pause(actor=call.actor, pipeline=task)
    return NOTHING


@operation(
    "inflow/delete",
    service="Inflow",
    summary="Delete a message inflow task",
    description="In every state: one that runs delivers what it has begun, and nothing behind that.",
    parameters=TaskOnly,
    result=Nothing,
    needs=(access.DELETE,),
    changes=True,
    errors=_MISSES,
    extension=True,
)
def delete(call: Call, parameters: TaskOnly) -> dict[str, Any]:
    task = _task(call, parameters.task, access.DELETE)
    with in_symbols(_SYMBOLS):
        services.delete(actor=call.actor, pipeline=task)
    return NOTHING


@operation(
    "inflow/renewWebhook",
    service="Inflow",
    summary="Make a new address, or a new key, of a webhook",
    description="It is told this once. What was there before is refused from then on.",
    parameters=WebhookRenew,
    result=WebhookDo,
    needs=(access.UPDATE,),
    changes=True,
    errors=(*_MISSES, "BIZ_INFLOW_TASK_REFUSED"),
    extension=True,
)
def renew_webhook(call: Call, parameters: WebhookRenew) -> WebhookDo:
    task = _task(call, parameters.task, access.UPDATE)
    with in_symbols(_SYMBOLS):
        made = services.renew_webhook(actor=call.actor, pipeline=task, part=parameters.part)
    is_key = parameters.part == services.KEY
    return WebhookDo(path="" if is_key else made, key=made if is_key else "")


@operation(
    "inflow/versions",
    service="Inflow",
    summary="Versions of a message inflow task, the newest first",
    parameters=TaskPage,
    result=history.VersionRow,
    paged=True,
    needs=(access.QUERY,),
    errors=_MISSES,
    extension=True,
)
def versions(call: Call, parameters: TaskPage) -> Page:
    return history.versions(parameters, _task(call, parameters.task, access.QUERY))


@operation(
    "inflow/version",
    service="Inflow",
    summary="The document of a version",
    parameters=TaskVersion,
    result=history.VersionDo,
    needs=(access.QUERY,),
    errors=(*_MISSES, history.NO_VERSION),
    extension=True,
)
def version(call: Call, parameters: TaskVersion) -> history.VersionDo:
    return history.version(_task(call, parameters.task, access.QUERY), parameters.version)


@operation(
    "inflow/events",
    service="Inflow",
    summary="What happened to a message inflow task, the newest first",
    parameters=TaskPage,
    result=history.EventDo,
    paged=True,
    needs=(access.QUERY,),
    errors=_MISSES,
    extension=True,
)
def events(call: Call, parameters: TaskPage) -> Page:
    return history.events(parameters, _task(call, parameters.task, access.QUERY))


@operation(
    "inflow/log",
    service="Inflow",
    summary="The log of a message inflow task",
    description=history.ABOUT_LOG,
    parameters=TaskLog,
    result=list[history.LogLine],
    needs=(access.QUERY,),
    errors=_MISSES,
    extension=True,
)
def log(call: Call, parameters: TaskLog) -> list[history.LogLine]:
    return history.log(_task(call, parameters.task, access.QUERY), parameters.after)


@operation(
    "inflow/statistics",
    service="Inflow",
    summary="What a message inflow task has counted over time",
    description="Of its curves: a moment every 10 s, kept for a day; of long ranges fewer. The oldest first.",
    parameters=TaskRange,
    result=list[SampleDo],
    needs=(access.QUERY,),
    errors=_MISSES,
    extension=True,
)
def statistics(call: Call, parameters: TaskRange) -> list[SampleDo]:
    task = _task(call, parameters.task, access.QUERY)
    found = samples.counted(task.pk, pages.RANGES[parameters.range][1])
    return [
        SampleDo(
            time=one.at_ms, counters={str(name): count for name, count in one.counts.items()}, behind=one.behind_ms
        )
        for one in found
    ]


@operation(
    "inflow/test",
    service="Inflow",
    summary="What a document does with one event",
    description="Pattern, transform and message; a function is asked. Nothing is saved or delivered.",
    parameters=TaskTest,
    result=Tried,
    needs=(access.CREATE,),
    errors=("BIZ_INFLOW_TASK_REFUSED",),
    extension=True,
)
def test(call: Call, parameters: TaskTest) -> Tried:
    with in_symbols(_SYMBOLS):
        document = _read(parameters.document)
        access.require_right(call.actor, access.CREATE, _name_of(document))
        found = journey.travel(
            actor=call.actor,
            document=document,
            sample=parameters.sample,
            calls=True,
            networks=settings.SMQ_PUSH_ALLOW,
        )
    return Tried(
        event=found.sample,
        errors=found.errors,
        passes=found.passes,
        reasons=[Reason(path=path, message=sentence) for path, sentence in found.reasons],
        transformed=found.after,
        messages=[
            MessageDo(
                topic=one.topic or "",
                body=one.body,
                properties=dict(one.properties),
                key=one.key,
                tag=one.tag,
                error=one.error,
            )
            for one in found.messages
        ],
    )


def _read(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Refused(services.INVALID, f"The document is no JSON: {error}.", "document") from error
    if not isinstance(found, dict):
        raise Refused(services.INVALID, "The document is a JSON object.", "document")
    return found


def _name_of(document: dict[str, Any]) -> str:
    """The name that rights are asked on; any for a document without one, which is refused behind that."""
    name = document.get("name")
    return name if isinstance(name, str) and name else "*"


def _task(call: Call, name: str, action: str) -> Pipeline:
    with in_symbols(_SYMBOLS):
        return access.require_task(call.actor, action, name)


def _topic_of(document: dict[str, Any]) -> str:
    sink = document.get("sink")
    return str(sink.get("topic") or "") if isinstance(sink, dict) else ""


def _described(actor: Actor, task: Pipeline) -> TaskDo:
    return TaskDo(
        **_row(task, samples.latest([task.pk]).get(task.pk)),
        document=task.draft,
        sourceReason=queries.source_trouble(actor, queries.summary(task.draft).document),
    )


def _row(task: Pipeline, now: samples.Now | None) -> dict[str, Any]:
    standing, summary = queries.standing(task, now), queries.summary(task.draft)
    reached = standing.reached
    return {
        "task": task.name,
        "state": standing.state,
        "reason": task.reason or pipelines.waits_for(task),
        "waiting": " ".join(one.sentence for one in now.waiting) if now is not None and task.state in BUSY else "",
        "source": summary.source,
        "topic": _topic_of(summary.document),
        "sink": summary.sink,
        "version": task.version.number if task.version else None,
        "restarts": task.restarts,
        "createTime": milliseconds(task.created_at),
        "startTime": milliseconds(task.started_at) if task.started_at else None,
        "position": reached.position if reached is not None else "",
        "pending": reached.pending if reached is not None else None,
        "behind": standing.behind_ms,
        "readPerSecond": standing.read_rate,
        "deliveredPerSecond": standing.delivered_rate,
        "counters": {str(name): count for name, count in standing.counts.items()},
    }
