"""SQL jobs of the account: their texts, versions and life. What texts name: `job_secrets`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from analytics.pipelines.reports import InsertReport, Report
from console.jobs import access, services
from console.jobs import queries as job_queries
from console.jobs.compiler.planning import Checked
from console.jobs.compiler.words import LONGEST_TEXT
from console.jobs.graph import Node
from console.jobs.tables import live_point
from console.openapi.envelope import INVOKE, THROTTLED, Page, cut, in_symbols, milliseconds, page_of
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
from console.pipelines import queries, samples
from console.pipelines import services as pipelines
from console.pipelines.models import BUSY, Kind, Pipeline, Savepoint, StartFrom, State
from console.web.errors import Refused

SYMBOLS = {
    access.NOT_FOUND: "BIZ_JOB_NOT_FOUND",
    "NAME_TAKEN": "BIZ_JOB_EXISTED",
    "JOB_TEXT_INVALID": "BIZ_JOB_TEXT_REFUSED",
    "NOT_DEPLOYED": "BIZ_JOB_STATE_INVALID",
    "DEPLOYED_MEANWHILE": "BIZ_JOB_STATE_INVALID",
    "PIPELINE_BUSY": "BIZ_JOB_STATE_INVALID",
    "PIPELINE_NOT_RUNNING": "BIZ_JOB_STATE_INVALID",
    "STATE_DOES_NOT_FIT": "BIZ_JOB_STATE_INVALID",
    "QUEUE_DOES_NOT_FIT": "BIZ_JOB_STATE_INVALID",
    "GROUP_HELD": "BIZ_JOB_STATE_INVALID",
    "QUEUE_SERVICE_UNAVAILABLE": INVOKE,
    "SAVEPOINT_OF_ANOTHER": "BIZ_SAVEPOINT_NOT_FOUND",
    "SAVEPOINT_MISSING": "BIZ_SAVEPOINT_NOT_FOUND",
    "SAVEPOINT_NOT_FOUND": "BIZ_SAVEPOINT_NOT_FOUND",
    "SAVEPOINT_IN_USE": "BIZ_JOB_STATE_INVALID",
    "SECRET_NOT_FOUND": "BIZ_SECRET_NOT_FOUND",
    "VARIABLE_NOT_FOUND": "BIZ_VARIABLE_NOT_FOUND",
    "PLAN_OUTDATED": "BIZ_JOB_STATE_INVALID",
    "TOPIC_NOT_FOUND": "BIZ_TOPIC_NOT_FOUND",
    "GROUP_NOT_FOUND": "BIZ_SUBSCRIPTION_NOT_FOUND",
    "JOB_LIMIT": "BIZ_JOB_QUOTA_EXCEEDED",
    "RUNNING_JOB_LIMIT": "BIZ_JOB_QUOTA_EXCEEDED",
    "STORAGE_LIMIT": "BIZ_LAKE_QUOTA_EXCEEDED",
    "TOO_MANY_WAITING": THROTTLED,
}
_MISSES = ("BIZ_JOB_NOT_FOUND",)
_STATES = (*_MISSES, "BIZ_JOB_STATE_INVALID")

JobName = Annotated[str, Field(min_length=1, max_length=64, description="Name of the job.", examples=["late_flights"])]
JobText = Annotated[
    str,
    StringConstraints(strip_whitespace=False, min_length=1, max_length=LONGEST_TEXT),
    Field(
        description="The whole text. A secret that stands in it is saved separately.",
        examples=["create temporary table seen (id bigint) with ('connector' = 'datagen');"],
    ),
]


class JobOnly(Parameters):
    job: JobName


class JobList(Parameters):
    job: Annotated[str, Field(max_length=64, description="Part of the names looked for, in any case.")] = ""
    currentPage: ListPage = 1
    pageSize: Annotated[ListSize, Field(description="Jobs a page, 1 to 100.")] = 20


class JobCreate(JobOnly):
    text: Annotated[
        str,
        StringConstraints(strip_whitespace=False, max_length=LONGEST_TEXT),
        Field(description="The draft, right or wrong. A secret that stands in it is saved separately."),
    ] = ""


class JobWithText(JobOnly):
    text: JobText


class TextOnly(Parameters):
    text: JobText


class JobStart(JobOnly):
    startFrom: Annotated[
        Literal["checkpoint", "savepoint", "nothing"],
        Field(description="checkpoint: where it stopped, or the beginning when it never ran."),
    ] = "checkpoint"
    savepoint: Annotated[str, Field(max_length=19, description="ID of the savepoint, with startFrom=savepoint.")] = ""


class JobStop(JobOnly):
    withSavepoint: Annotated[Boolean, Field(description="Whether to keep a savepoint.")] = False


class SavepointOnly(JobOnly):
    savepoint: Annotated[str, Field(min_length=1, max_length=19, description="ID of the savepoint.", examples=["7"])]


class JobPage(Paged, JobOnly):
    pass


class JobVersion(history.VersionOnly, JobOnly):
    pass


class JobLog(history.LogBehind, JobOnly):
    pass


class JobRow(Result):
    """A job."""

    job: str
    state: str = Field(description="draft, starting, running, stopping, stopped, failed or finished.")
    reason: str = Field(description="Why it failed, starts again or waits; else empty.")
    line: int | None = Field(description="Line of the text that the reason is about.")
    waiting: str = Field(description="Why its sinks wait before they try again to write; empty while none does.")
    version: int | None = Field(description="The deployed version; null for a draft.")
    restarts: int = Field(description="After failures and lost workers, since it was started.")
    createTime: int = Field(description="Milliseconds since the epoch.")
    startTime: int | None = Field(description="When it was asked to start, ms.")
    runningSince: int | None = Field(description="Since when its queries run, ms.")
    endTime: int | None = Field(description="When it ended, ms.")
    rowsInPerSecond: float | None = Field(description="Of the last batches; null when it does not run.")
    rowsOutPerSecond: float | None = Field(description="Of the last batches; null when it does not run.")
    lag: int | None = Field(description="Milliseconds that the watermark is behind the clock; null without one.")
    lastCheckpoint: int | None = Field(description="When the last batch was committed, ms.")


class OperatorDo(Result):
    """A part of a job, and the rows that went by it since its start; null where nothing tells."""

    kind: str = Field(description="source, table (of the catalog), view, insert or sink.")
    name: str
    detail: str = Field(description="Connector and format of a table; append or update of an INSERT.")
    line: int | None = Field(description="Of an INSERT.")
    reads: list[str] = Field(description="Names of what it reads.")
    rowsIn: int | None
    rowsOut: int | None


class InsertDo(Result):
    """An INSERT as of its last batch, each of which is a checkpoint."""

    sink: str
    line: int
    batch: int | None = Field(description="Number of the last batch; null before the first.")
    lastCheckpoint: int | None = Field(description="When the last batch was committed, ms.")
    idle: bool = Field(description="Whether no rows have come since then.")
    batchDuration: int | None = Field(description="How long the last batch took, ms.")
    rowsInPerSecond: float | None = Field(description="Of the last batches; null when the job does not run.")
    rowsOutPerSecond: float | None = Field(description="Of the last batches; null when the job does not run.")
    watermark: int | None = Field(description="Rows of a time before it come too late, ms; null without one.")
    lag: int | None = Field(description="Milliseconds that the watermark is behind the clock; null without one.")
    lateRows: int = Field(description="That came too late, since the start.")
    stateRows: int = Field(description="Keys in the state.")
    stateBytes: int


class CounterDo(Result):
    """What a table counts by itself."""

    table: str
    counter: str = Field(
        description="Of a queue, since the first start: duplicateMessages, deletedMessages, failedDeletes, "
        "deserializationErrors and more. Of a topic that is written, since the start: emptyRows."
    )
    count: int


class JobDo(JobRow):
    """A job with its texts, and what its parts tell."""

    draft: str = Field(description="What is being written; no secret in it.")
    text: str = Field(description="Of the deployed version; empty for a draft.")
    operators: list[OperatorDo] = Field(description="Of the version that runs or ran last; else of the deployed one.")
    inserts: list[InsertDo] = Field(description="Of the latest report; empty where there is none.")
    counters: list[CounterDo] = Field(description="Of the latest report; empty where there is none.")


class Refusal(Result):
    """Something that is wrong with a text."""

    line: int
    column: int
    message: str


class PlannedSource(Result):
    name: str
    connector: str
    format: str


class PlannedInsert(Result):
    sink: str
    line: int
    sql: str = Field(description="What Spark runs.")
    output: str = Field(description="append, or update where a group's row comes again.")


class Validated(Result):
    """What a text would do."""

    valid: bool
    refusals: list[Refusal] = Field(description="All that is wrong, by its place; empty for a valid text.")
    warnings: list[str]
    mode: str = Field(description="streaming or batch; empty when the text is not valid.")
    sources: list[PlannedSource]
    inserts: list[PlannedInsert]
    tables: list[str] = Field(description="Tables of the catalog that it reads.")
    secrets: list[str] = Field(description="Names of the secrets that it needs.")


class Kept(Validated):
    """A draft that was kept, and what it would do."""

    text: str = Field(description="As it is kept: without secrets.")


class SavepointDo(Result):
    """A savepoint."""

    savepoint: str = Field(description="Its ID.")
    name: str = Field(description="Of its folder, and as pages call it.")
    version: int | None
    createTime: int = Field(description="Milliseconds since the epoch.")


@operation(
    "job/list",
    service="Job",
    summary="SQL jobs, page by page",
    description="By name. A page past the end is empty and reports the true total.",
    parameters=JobList,
    result=JobRow,
    paged=True,
    needs=(access.QUERY,),
    extension=True,
)
def list_jobs(call: Call, parameters: JobList) -> Page:
    found = queries.pipelines(access.require_right(call.actor, access.QUERY, "*"), Kind.JOB, parameters.job)
    rows = cut(parameters, found)
    nows = samples.latest([job.pk for job in rows])
    entries = [JobRow(**_row(job, nows.get(job.pk))) for job in rows]
    return Page.of(parameters, entries, found.count())


@operation(
    "job/get",
    service="Job",
    summary="A SQL job with its texts",
    description="With the rows of its operators, the last checkpoint of each INSERT, and what its queues and topics "
    "count.",
    parameters=JobOnly,
    result=JobDo,
    needs=(access.QUERY,),
    errors=_MISSES,
    extension=True,
)
def get(call: Call, parameters: JobOnly) -> JobDo:
    return _described(_job(call, parameters, access.QUERY))


@operation(
    "job/create",
    service="Job",
    summary="Create a SQL job",
    description="A draft, which is deployed by job/deploy. The name has 1 to 64 letters, digits, hyphens and "
    "underscores.",
    parameters=JobCreate,
    result=JobDo,
    needs=(access.CREATE,),
    changes=True,
    errors=("BIZ_JOB_EXISTED", "BIZ_JOB_QUOTA_EXCEEDED", "BIZ_JOB_TEXT_REFUSED"),
    extension=True,
)
def create(call: Call, parameters: JobCreate) -> JobDo:
    access.require_right(call.actor, access.CREATE, parameters.job)
    with in_symbols(SYMBOLS):
        services.create(actor=call.actor, name=parameters.job, text=parameters.text)
    return _described(_found(call, parameters.job))


@operation(
    "job/update",
    service="Job",
    summary="Save the draft of a SQL job",
    description="Right or wrong: what is wrong is told in `refusals`. What runs stays as it is.",
    parameters=JobWithText,
    result=Kept,
    needs=(access.UPDATE,),
    changes=True,
    errors=(*_MISSES, "BIZ_JOB_TEXT_REFUSED"),
    extension=True,
)
def update(call: Call, parameters: JobWithText) -> Kept:
    job = _job(call, parameters, access.UPDATE)
    with in_symbols(SYMBOLS):
        checked = services.save_draft(actor=call.actor, pipeline=job, text=parameters.text)
    return Kept(**_validated(checked), text=checked.text)


@operation(
    "job/validate",
    service="Job",
    summary="What a text would do, or all that is wrong with it",
    description="Nothing is saved, and no job is needed.",
    parameters=TextOnly,
    result=Validated,
    needs=(access.QUERY,),
    extension=True,
)
def validate(call: Call, parameters: TextOnly) -> Validated:
    access.require_right(call.actor, access.QUERY, "*")
    with in_symbols(SYMBOLS):
        return Validated(**_validated(services.look(actor=call.actor, text=parameters.text)))


@operation(
    "job/deploy",
    service="Job",
    summary="Make a new version of a SQL job",
    description="The next start runs it; what runs goes on with its version. A text that is deployed already makes no "
    "new version.",
    parameters=JobWithText,
    result=history.VersionRow,
    needs=(access.UPDATE,),
    changes=True,
    errors=(*_MISSES, "BIZ_JOB_TEXT_REFUSED"),
    extension=True,
)
def deploy(call: Call, parameters: JobWithText) -> history.VersionRow:
    job = _job(call, parameters, access.UPDATE)
    with in_symbols(SYMBOLS):
        return history.row_of(services.deploy(actor=call.actor, pipeline=job, text=parameters.text))


@operation(
    "job/start",
    service="Job",
    summary="Start the deployed version of a SQL job",
    description="It runs with the rights of who starts it. A start from what does not fit the version is refused.",
    parameters=JobStart,
    result=Nothing,
    needs=(access.START,),
    changes=True,
    errors=(
        *_STATES,
        "BIZ_SAVEPOINT_NOT_FOUND",
        "BIZ_SECRET_NOT_FOUND",
        "BIZ_TOPIC_NOT_FOUND",
        "BIZ_SUBSCRIPTION_NOT_FOUND",
        "BIZ_JOB_QUOTA_EXCEEDED",
        "BIZ_LAKE_QUOTA_EXCEEDED",
    ),
    extension=True,
)
def start(call: Call, parameters: JobStart) -> dict[str, Any]:
    job = _job(call, parameters, access.START)
    with in_symbols(SYMBOLS):
        services.start(
            actor=call.actor,
            pipeline=job,
            start_from=StartFrom(parameters.startFrom),
            savepoint=_savepoint(job, parameters.savepoint),
        )
    return NOTHING


@operation(
    "job/stop",
    service="Job",
    summary="Stop a SQL job",
    description="It has stopped when job/get says so. A savepoint takes room in the lake.",
    parameters=JobStop,
    result=Nothing,
    needs=(access.STOP,),
    changes=True,
    errors=(*_STATES, "BIZ_LAKE_QUOTA_EXCEEDED"),
    extension=True,
)
def stop(call: Call, parameters: JobStop) -> dict[str, Any]:
    job = _job(call, parameters, access.STOP)
    with in_symbols(SYMBOLS):
        services.stop(actor=call.actor, pipeline=job, with_savepoint=parameters.withSavepoint)
    return NOTHING


@operation(
    "job/delete",
    service="Job",
    summary="Delete a SQL job with its versions and savepoints",
    parameters=JobOnly,
    result=Nothing,
    needs=(access.DELETE,),
    changes=True,
    errors=_STATES,
    extension=True,
)
def delete(call: Call, parameters: JobOnly) -> dict[str, Any]:
    job = _job(call, parameters, access.DELETE)
    with in_symbols(SYMBOLS):
        services.delete(actor=call.actor, pipeline=job)
    return NOTHING


@operation(
    "job/versions",
    service="Job",
    summary="Versions of a SQL job, the newest first",
    parameters=JobPage,
    result=history.VersionRow,
    paged=True,
    needs=(access.QUERY,),
    errors=_MISSES,
    extension=True,
)
def versions(call: Call, parameters: JobPage) -> Page:
    return history.versions(parameters, _job(call, parameters, access.QUERY))


@operation(
    "job/version",
    service="Job",
    summary="The text of a version",
    parameters=JobVersion,
    result=history.VersionDo,
    needs=(access.QUERY,),
    errors=(*_MISSES, history.NO_VERSION),
    extension=True,
)
def version(call: Call, parameters: JobVersion) -> history.VersionDo:
    return history.version(_job(call, parameters, access.QUERY), parameters.version)


@operation(
    "job/events",
    service="Job",
    summary="What happened to a SQL job, the newest first",
    parameters=JobPage,
    result=history.EventDo,
    paged=True,
    needs=(access.QUERY,),
    errors=_MISSES,
    extension=True,
)
def events(call: Call, parameters: JobPage) -> Page:
    return history.events(parameters, _job(call, parameters, access.QUERY))


@operation(
    "job/log",
    service="Job",
    summary="The log of a SQL job, with the rows of its tables print",
    description=history.ABOUT_LOG,
    parameters=JobLog,
    result=list[history.LogLine],
    needs=(access.QUERY,),
    errors=_MISSES,
    extension=True,
)
def log(call: Call, parameters: JobLog) -> list[history.LogLine]:
    return history.log(_job(call, parameters, access.QUERY), parameters.after)


@operation(
    "job/savepoints",
    service="Job",
    summary="Savepoints of a SQL job, the newest first",
    parameters=JobPage,
    result=SavepointDo,
    paged=True,
    needs=(access.QUERY,),
    errors=_MISSES,
    extension=True,
)
def savepoints(call: Call, parameters: JobPage) -> Page:
    found = queries.savepoints(_job(call, parameters, access.QUERY))
    return page_of(
        parameters,
        found,
        lambda one: SavepointDo(
            savepoint=str(one.pk),
            name=one.name,
            version=one.version.number if one.version else None,
            createTime=milliseconds(one.created_at),
        ),
    )


@operation(
    "job/deleteSavepoint",
    service="Job",
    summary="Delete one savepoint of a SQL job",
    description="With its files. What runs has a copy of its own; while a start from it is under way it is refused.",
    parameters=SavepointOnly,
    result=Nothing,
    needs=(access.DELETE_SAVEPOINT,),
    changes=True,
    errors=(*_STATES, "BIZ_SAVEPOINT_NOT_FOUND"),
    extension=True,
)
def delete_savepoint(call: Call, parameters: SavepointOnly) -> dict[str, Any]:
    job = _job(call, parameters, access.DELETE_SAVEPOINT)
    with in_symbols(SYMBOLS):
        found = _savepoint(job, parameters.savepoint)
        if found is None:
            raise Refused("SAVEPOINT_NOT_FOUND", f"{job.name} has no savepoint of this ID.", "savepoint")
        pipelines.delete_savepoint(actor=call.actor, pipeline=job, savepoint=found)
    return NOTHING


def _job(call: Call, parameters: JobOnly, action: str) -> Pipeline:
    with in_symbols(SYMBOLS):
        return access.require_job(call.actor, action, parameters.job)


def _found(call: Call, name: str) -> Pipeline:
    """The job that was made a moment ago."""
    found = queries.pipeline(call.actor.tenant, Kind.JOB, name)
    if found is None:
        raise Refused("BIZ_JOB_NOT_FOUND", f"There is no job {name}.", "job")
    return found


def _savepoint(job: Pipeline, key: str) -> Savepoint | None:
    found = queries.savepoint(job, key) if key else None
    if key and found is None:
        raise Refused("SAVEPOINT_OF_ANOTHER", f"{job.name} has no savepoint {key}.", "savepoint")
    return found


def _described(job: Pipeline) -> JobDo:
    now = samples.latest([job.pk]).get(job.pk)
    graph = job_queries.graph(job, now, queries.running_version(job))
    report = now.report if now is not None else Report(())
    is_live = now is not None and now.is_fresh and job.state == State.RUNNING
    return JobDo(
        **_row(job, now),
        draft=job.draft,
        text=job.version.text if job.version else "",
        operators=[_operator(one) for one in (graph.nodes if graph else ())],
        inserts=[_insert(one, is_live=is_live) for one in report.inserts],
        counters=[
            CounterDo(table=table, counter=name, count=count)
            for table, counters in report.connectors.items()
            for name, count in counters.items()
        ],
    )


def _operator(node: Node) -> OperatorDo:
    return OperatorDo(
        kind=node.kind,
        name=node.name,
        detail=node.detail,
        line=node.line,
        reads=list(node.reads),
        rowsIn=node.rows_in,
        rowsOut=node.rows_out,
    )


def _insert(one: InsertReport, *, is_live: bool) -> InsertDo:
    return InsertDo(
        sink=one.sink,
        line=one.line,
        batch=one.batch,
        lastCheckpoint=one.committed_ms,
        idle=is_live and one.is_idle,
        batchDuration=one.duration_ms,
        rowsInPerSecond=one.rows_in_per_second if is_live else None,
        rowsOutPerSecond=one.rows_out_per_second if is_live else None,
        watermark=one.watermark_ms,
        lag=one.watermark_delay_ms if is_live else None,
        lateRows=one.late_rows,
        stateRows=one.state_rows,
        stateBytes=one.state_bytes,
    )


def _row(job: Pipeline, now: samples.Now | None) -> dict[str, Any]:
    point = live_point(job, now)
    return {
        "job": job.name,
        "state": job.state,
        "reason": job.reason or queries.waits_for(job),
        "line": job.line,
        "waiting": " ".join(one.sentence for one in now.waiting) if now is not None and job.state in BUSY else "",
        "version": job.version.number if job.version else None,
        "restarts": job.restarts,
        "createTime": milliseconds(job.created_at),
        "startTime": milliseconds(job.started_at) if job.started_at else None,
        "runningSince": milliseconds(job.running_at) if job.running_at else None,
        "endTime": milliseconds(job.ended_at) if job.ended_at else None,
        "rowsInPerSecond": point.rows_in,
        "rowsOutPerSecond": point.rows_out,
        "lag": point.delay_ms,
        "lastCheckpoint": now.checkpoint_ms if now is not None else None,
    }


def _validated(checked: Checked) -> dict[str, Any]:
    plan = checked.plan
    refusals = [Refusal(line=one.line, column=one.column, message=one.sentence) for one in checked.refusals]
    return {
        "valid": plan is not None,
        "refusals": refusals,
        "warnings": list(checked.warnings),
        "mode": plan.settings.mode if plan else "",
        "sources": [
            PlannedSource(name=one.name, connector=one.connector, format=one.format)
            for one in (plan.sources if plan else ())
        ],
        "inserts": [
            PlannedInsert(sink=one.sink, line=one.line, sql=one.sql, output=one.output)
            for one in (plan.inserts if plan else ())
        ],
        "tables": [".".join(one) for one in (plan.tables if plan else ())],
        "secrets": list(plan.secrets if plan else ()),
    }
