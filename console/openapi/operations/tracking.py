"""Change tracking tasks of the account, and the consumer groups that read what they keep."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from analytics.errors import AnalyticsError
from console.openapi.envelope import Page, cut, in_symbols, milliseconds
from console.openapi.registry import (
    NOTHING,
    Boolean,
    Call,
    Choice,
    Nothing,
    OrNothing,
    Parameters,
    Positive,
    Result,
    operation,
)
from console.tracking import access, queries, services
from console.tracking.models import ConsumerGroup, Kind, Tls, TrackingTask
from console.tracking.queries import EVENTS_SHOWN
from console.tracking.services import MOST_DAYS, Values
from console.web.errors import Refused

_SYMBOLS = {
    access.NOT_FOUND: "BIZ_TRACKING_TASK_NOT_FOUND",
    access.GROUP_NOT_FOUND: "BIZ_CONSUMER_GROUP_NOT_FOUND",
    "NAME_TAKEN": "BIZ_TRACKING_TASK_EXISTED",
    "TASK_STATE": "BIZ_TRACKING_TASK_STATE_INVALID",
    "GROUP_HELD": "BIZ_TRACKING_TASK_STATE_INVALID",
    "TRACKING_TASK_LIMIT": "BIZ_TRACKING_TASK_QUOTA_EXCEEDED",
}
_MISSES = ("BIZ_TRACKING_TASK_NOT_FOUND",)
_STATES = (*_MISSES, "BIZ_TRACKING_TASK_STATE_INVALID")

TaskId = Annotated[str, Field(min_length=1, max_length=16, description="ID of the task.", examples=["dtsdemo0001abc"])]
Name = Annotated[str, Field(min_length=1, max_length=64)]
Password = Annotated[str, StringConstraints(strip_whitespace=False, max_length=256)]
Port = Annotated[int, Field(ge=1, le=65_535)]
Days = Annotated[int, Field(ge=1, le=MOST_DAYS)]
Patterns = Annotated[
    str,
    Field(
        max_length=16_384,
        description="Patterns of tables, separated by commas or lines: schema.table, in MySQL database.table; * stands "
        "for any characters.",
        examples=["public.*"],
    ),
]
Encryption = Annotated[
    Literal["off", "required", "verified"],
    Field(description="required encrypts and trusts any certificate, verified checks it."),
]
Authorities = Annotated[
    str,
    StringConstraints(max_length=64 * 1024),
    Field(description="Certificates in PEM that are trusted; empty: those of the machine."),
]


class TaskOnly(Parameters):
    task: TaskId


class TaskList(Parameters):
    task: Annotated[str, Field(max_length=64, description="Part of the names and IDs looked for, in any case.")] = ""
    currentPage: Positive = Field(default=1, description="The page, from 1.")
    pageSize: Annotated[int, Field(ge=1, le=100), Choice] = Field(default=20, description="Tasks a page, 1 to 100.")


class Connection(Parameters):
    kind: Annotated[Literal["postgresql", "mysql"], Field(description="mysql is MariaDB too.", examples=["postgresql"])]
    host: Annotated[
        str,
        Field(min_length=1, max_length=253, description="A name or an IP address.", examples=["db.example.com"]),
    ]
    port: Annotated[Port, Choice, Field(description="Of the database.", examples=[5432])]
    database: Annotated[str, Field(max_length=63, description="Of PostgreSQL; empty for MySQL.")] = ""
    user: Annotated[str, Field(min_length=1, max_length=80, description="The account that reads.", examples=["reader"])]
    password: Annotated[Password, Field(min_length=1, description="It is never told again.")]
    tables: Patterns
    tls: Encryption = "off"
    ca: Authorities = ""

    def values(self) -> Values:
        """What was said, as services take it."""
        return {
            "host": self.host, "port": self.port, "database": self.database, "user": self.user,
            "password": self.password, "tables": _patterns(self.tables), "tls": Tls(self.tls), "ca": self.ca,
        }  # fmt: skip


class TaskCreate(Connection):
    name: Annotated[Name, Field(description="Letters, digits, hyphens and underscores.", examples=["orders"])]
    snapshot: Annotated[Boolean, Field(description="Whether the rows that are there come first.")] = False
    retentionDays: Annotated[Days, Choice, Field(description="How long events are kept, days.")] = 7


class TaskUpdate(TaskOnly):
    """What is left out stays."""

    name: Annotated[str, Field(max_length=64, description="Another name.")] = ""
    host: Annotated[str, Field(max_length=253, description="With another one the password is needed.")] = ""
    port: Annotated[
        Annotated[int, Field(ge=1, le=65_535)] | None, OrNothing, Field(description="The same.")
    ] = None  # fmt: skip
    user: Annotated[str, Field(max_length=80, description="The same.")] = ""
    password: Annotated[Password, Field(description="A new one; it is never told again.")] = ""
    tables: Patterns = ""
    tls: Annotated[
        Literal["", "off", "required", "verified"], Field(description="With another one the password is needed.")
    ] = ""
    ca: Annotated[
        str | None, StringConstraints(max_length=64 * 1024), Field(description="Certificates in PEM; the same.")
    ] = None
    snapshot: Annotated[Boolean | None, Field(description="What a beginning anew begins with.")] = None
    retentionDays: Annotated[
        Annotated[int, Field(ge=1, le=MOST_DAYS)] | None, OrNothing, Field(description="How long events are kept.")
    ] = None  # fmt: skip

    def values(self) -> Values:
        """What was said, as services take it."""
        found: Values = {}
        if self.host:
            found["host"] = self.host
        if self.port is not None:
            found["port"] = self.port
        if self.user:
            found["user"] = self.user
        if self.password:
            found["password"] = self.password
        if self.tables:
            found["tables"] = _patterns(self.tables)
        if self.tls:
            found["tls"] = Tls(self.tls)
        if self.ca is not None:
            found["ca"] = self.ca
        if self.snapshot is not None:
            found["snapshot"] = self.snapshot
        if self.retentionDays is not None:
            found["retention_days"] = self.retentionDays
        return found


class TaskResume(TaskOnly):
    anew: Annotated[
        Boolean, Field(description="Whether to forget where it was, when the database has lost its log.")
    ] = False


class EventsOf(TaskOnly):
    most: Annotated[
        int, Field(ge=1, le=EVENTS_SHOWN), Choice, Field(description="Events at most; fewer where they are large.")
    ] = EVENTS_SHOWN  # fmt: skip


class GroupOnly(TaskOnly):
    group: Annotated[Name, Field(description="Name of the consumer group.", examples=["demo_reader"])]


class GroupCreate(GroupOnly):
    account: Annotated[Name, Field(description="Its account.", examples=["demo_reader"])]
    password: Annotated[Password, Field(min_length=8, description="Its password; it is never told again.")]


class TaskRow(Result):
    """A change tracking task."""

    task: str = Field(description="Its ID.")
    name: str
    state: str = Field(description="Starting, Normal, Failed or Paused.")
    code: str = Field(description="Of what is wrong, such as LOG_OFF; else empty.")
    reason: str = Field(description="What is wrong, in a sentence; else empty.")
    mend: str = Field(description="Statements that mend it; empty where none does.")
    kind: str
    host: str
    port: int
    database: str = Field(description="Of PostgreSQL; else empty.")
    user: str
    tls: str
    tables: list[str] = Field(description="Patterns.")
    snapshot: bool
    retentionDays: int
    position: str = Field(description="Up to where changes are kept, in the database's own words.")
    events: int = Field(description="Events that were kept since its creation.")
    firstTime: int | None = Field(description="Time of the oldest event that is there, ms.")
    lastTime: int | None = Field(description="Time of the newest, ms.")
    eventsPerSecond: float | None = Field(description="Lately; null while it is not normal.")
    lag: int | None = Field(description="Milliseconds behind the database; null where it is not known.")
    lagBytes: int | None = Field(description="Of its log that PostgreSQL keeps for the task.")
    createTime: int = Field(description="Milliseconds since the epoch.")


class TaskDo(TaskRow):
    """A change tracking task with its certificates."""

    ca: str = Field(description="Certificates in PEM that are trusted; empty: those of the machine.")


class Fault(Result):
    """Something that keeps a database from being captured."""

    code: str
    message: str
    mend: str = Field(description="Statements that mend it; empty where none does.")


class ChangeDo(Result):
    """An event that is kept."""

    number: int = Field(description="Its place among all events of the task, from 1.")
    time: int = Field(description="When it was committed, ms.")
    position: str = Field(description="In the database's own words.")
    operation: str
    table: str = Field(description="Schema and table, in MySQL database and table.")
    event: str = Field(description="All of it, as JSON.")


class GroupDo(Result):
    """A consumer group, of which the password is not told."""

    group: str
    account: str
    holder: str = Field(description="What reads by it; empty while nothing does.")
    unread: int | None = Field(description="Events that it has still to read; null where it has never read.")
    lostTime: int | None = Field(description="When events were removed that it had still to read, ms; else null.")
    createTime: int = Field(description="Milliseconds since the epoch.")


@operation(
    "tracking/list",
    service="Tracking",
    summary="Change tracking tasks, page by page",
    description="By name. A page behind the last is empty and tells the true total.",
    parameters=TaskList,
    result=TaskRow,
    paged=True,
    needs=(access.QUERY,),
    extension=True,
)
def list_tasks(call: Call, parameters: TaskList) -> Page:
    found = queries.tasks(access.require_right(call.actor, access.QUERY, "*"), parameters.task)
    return Page.of(parameters, [TaskRow(**_row(task)) for task in cut(parameters, found)], found.count())


@operation(
    "tracking/get",
    service="Tracking",
    summary="A change tracking task",
    parameters=TaskOnly,
    result=TaskDo,
    needs=(access.QUERY,),
    errors=_MISSES,
    extension=True,
)
def get(call: Call, parameters: TaskOnly) -> TaskDo:
    return _described(_task(call, parameters, access.QUERY))


@operation(
    "tracking/create",
    service="Tracking",
    summary="Create a change tracking task",
    description="It begins at once. A host must be public, or one that the platform's administrator allows.",
    parameters=TaskCreate,
    result=TaskDo,
    needs=(access.CREATE,),
    changes=True,
    errors=("BIZ_TRACKING_TASK_EXISTED", "BIZ_TRACKING_TASK_QUOTA_EXCEEDED"),
    extension=True,
)
def create(call: Call, parameters: TaskCreate) -> TaskDo:
    access.require_right(call.actor, access.CREATE, "*")
    values = parameters.values()
    values["snapshot"], values["retention_days"] = parameters.snapshot, parameters.retentionDays
    with in_symbols(_SYMBOLS):
        task = services.create(actor=call.actor, name=parameters.name, kind=Kind(parameters.kind), **values)
    return _described(task)


@operation(
    "tracking/test",
    service="Tracking",
    summary="What keeps a database from being captured",
    description="It connects, and tells all that is wrong at once; an empty list when nothing is. Nothing is saved, "
    "and nothing is left in the database.",
    parameters=Connection,
    result=list[Fault],
    needs=(access.CREATE,),
    extension=True,
)
def test(call: Call, parameters: Connection) -> list[Fault]:
    access.require_right(call.actor, access.CREATE, "*")
    with in_symbols(_SYMBOLS):
        found = services.test(actor=call.actor, kind=Kind(parameters.kind), **parameters.values())
    return [Fault(code=one.code, message=one.sentence, mend=one.mend) for one in found]


@operation(
    "tracking/check",
    service="Tracking",
    summary="What keeps a change tracking task from capturing",
    description="As `tracking/test`, for a task as it is and by the password that is kept for it.",
    parameters=TaskOnly,
    result=list[Fault],
    needs=(access.UPDATE,),
    errors=_MISSES,
    extension=True,
)
def check(call: Call, parameters: TaskOnly) -> list[Fault]:
    task = _task(call, parameters, access.UPDATE)
    values: Values = {
        "host": task.host, "port": task.port, "database": task.database, "user": task.user, "tables": task.patterns,
        "tls": Tls(task.tls), "ca": task.ca,
    }  # fmt: skip
    with in_symbols(_SYMBOLS):
        found = services.test(actor=call.actor, kind=Kind(task.kind), task=task, **values)
    return [Fault(code=one.code, message=one.sentence, mend=one.mend) for one in found]


@operation(
    "tracking/events",
    service="Tracking",
    summary="The newest events of a change tracking task",
    description="The newest first; rows of the database stand in them, so they take a right of their own.",
    parameters=EventsOf,
    result=list[ChangeDo],
    needs=(access.EVENTS,),
    errors=_STATES,
    extension=True,
)
def events(call: Call, parameters: EventsOf) -> list[ChangeDo]:
    task = _task(call, parameters, access.EVENTS)
    try:
        found = queries.recent(task, parameters.most)
    except AnalyticsError as error:
        raise Refused("BIZ_TRACKING_TASK_STATE_INVALID", error.user_message, "task") from error
    return [
        ChangeDo(
            number=one.sequence,
            time=one.time_ms,
            position=one.position,
            operation=one.operation,
            table=one.table,
            event=one.text,
        )
        for one in found
    ]


@operation(
    "tracking/update",
    service="Tracking",
    summary="Change a change tracking task",
    description="What is left out stays; it goes on where it was. Kind and database stay what they are.",
    parameters=TaskUpdate,
    result=TaskDo,
    needs=(access.UPDATE,),
    changes=True,
    errors=(*_MISSES, "BIZ_TRACKING_TASK_EXISTED"),
    extension=True,
)
def update(call: Call, parameters: TaskUpdate) -> TaskDo:
    task = _task(call, parameters, access.UPDATE)
    with in_symbols(_SYMBOLS):
        services.change(actor=call.actor, task=task, name=parameters.name, **parameters.values())
        return _described(access.require_task(call.actor, access.UPDATE, parameters.task))


@operation(
    "tracking/pause",
    service="Tracking",
    summary="Pause a change tracking task",
    description="PostgreSQL goes on keeping its log for the task.",
    parameters=TaskOnly,
    result=Nothing,
    needs=(access.PAUSE,),
    changes=True,
    errors=_STATES,
    extension=True,
)
def pause(call: Call, parameters: TaskOnly) -> dict[str, Any]:
    task = _task(call, parameters, access.PAUSE)
    with in_symbols(_SYMBOLS):
        services.pause(actor=call.actor, task=task)
    return NOTHING


@operation(
    "tracking/resume",
    service="Tracking",
    summary="Go on with a change tracking task, or try again at once",
    parameters=TaskResume,
    result=Nothing,
    needs=(access.RESUME,),
    changes=True,
    errors=_STATES,
    extension=True,
)
def resume(call: Call, parameters: TaskResume) -> dict[str, Any]:
    task = _task(call, parameters, access.RESUME)
    with in_symbols(_SYMBOLS):
        services.resume(actor=call.actor, task=task, anew=parameters.anew)
    return NOTHING


@operation(
    "tracking/delete",
    service="Tracking",
    summary="Delete a change tracking task with its log and its consumer groups",
    description="What it has made in the database is removed soon, where that can be reached.",
    parameters=TaskOnly,
    result=Nothing,
    needs=(access.DELETE,),
    changes=True,
    errors=_STATES,
    extension=True,
)
def delete(call: Call, parameters: TaskOnly) -> dict[str, Any]:
    task = _task(call, parameters, access.DELETE)
    with in_symbols(_SYMBOLS):
        services.delete(actor=call.actor, task=task)
    return NOTHING


@operation(
    "tracking/groups",
    service="Tracking",
    summary="Consumer groups of a change tracking task",
    parameters=TaskOnly,
    result=list[GroupDo],
    needs=(access.QUERY,),
    errors=_MISSES,
    extension=True,
)
def groups(call: Call, parameters: TaskOnly) -> list[GroupDo]:
    return [_group(one) for one in queries.groups(_task(call, parameters, access.QUERY))]


@operation(
    "tracking/createGroup",
    service="Tracking",
    summary="Create a consumer group",
    parameters=GroupCreate,
    result=GroupDo,
    needs=(access.CREATE_GROUP,),
    changes=True,
    errors=(*_MISSES, "BIZ_TRACKING_TASK_EXISTED"),
    extension=True,
)
def create_group(call: Call, parameters: GroupCreate) -> GroupDo:
    task = _task(call, parameters, access.CREATE_GROUP)
    with in_symbols(_SYMBOLS):
        made = services.create_group(
            actor=call.actor,
            task=task,
            name=parameters.group,
            account=parameters.account,
            password=parameters.password,
        )
    return _group(made)


@operation(
    "tracking/deleteGroup",
    service="Tracking",
    summary="Delete a consumer group",
    parameters=GroupOnly,
    result=Nothing,
    needs=(access.DELETE_GROUP,),
    changes=True,
    errors=(*_STATES, "BIZ_CONSUMER_GROUP_NOT_FOUND"),
    extension=True,
)
def delete_group(call: Call, parameters: GroupOnly) -> dict[str, Any]:
    task = _task(call, parameters, access.DELETE_GROUP)
    with in_symbols(_SYMBOLS):
        found = queries.group(task, parameters.group)
        if found is None:
            raise Refused(access.GROUP_NOT_FOUND, f"{task.name} has no consumer group {parameters.group}.", "group")
        services.delete_group(actor=call.actor, task=task, group=found)
    return NOTHING


def _task(call: Call, parameters: TaskOnly, action: str) -> TrackingTask:
    with in_symbols(_SYMBOLS):
        return access.require_task(call.actor, action, parameters.task)


def _patterns(text: str) -> list[str]:
    return text.replace(",", " ").split()


def _described(task: TrackingTask) -> TaskDo:
    return TaskDo(**_row(task), ca=task.ca)


def _row(task: TrackingTask) -> dict[str, Any]:
    is_normal = task.is_normal
    return {
        "task": task.task_id,
        "name": task.name,
        "state": task.word,
        "code": task.code,
        "reason": task.sentence,
        "mend": task.mend,
        "kind": task.kind,
        "host": task.host,
        "port": task.port,
        "database": task.database,
        "user": task.user,
        "tls": task.tls,
        "tables": task.patterns,
        "snapshot": task.snapshot,
        "retentionDays": task.retention_days,
        "position": task.position,
        "events": task.events,
        "firstTime": task.first_ms,
        "lastTime": task.last_ms,
        "eventsPerSecond": task.rate if is_normal else None,
        "lag": task.lag_ms if is_normal else None,
        "lagBytes": task.lag_bytes if is_normal else None,
        "createTime": milliseconds(task.created_at),
    }


def _group(group: ConsumerGroup) -> GroupDo:
    return GroupDo(
        group=group.name,
        account=group.account,
        holder=group.holder_name,
        unread=group.unread,
        lostTime=milliseconds(group.lost_at) if group.lost_at else None,
        createTime=milliseconds(group.created_at),
    )
