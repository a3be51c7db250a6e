"""The only door to analytics. Importing it starts nothing and imports neither Spark nor Arrow; calls do when needed.

Statements of tenants, the lake, samples and curves: what the console may ask for. All errors are AnalyticsError, with a
`user_message` that may be shown.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date, datetime

from analytics.errors import (
    AnalyticsError,
    EngineLost,
    EngineUnavailable,
    LakeError,
    QueryCancelled,
    QueryFailed,
    QueryRefused,
    QueryTimedOut,
)
from analytics.infer import Inferred
from analytics.lake import (
    LakeFile,
    files,
    folders,
    is_free,
    lake_path,
    open_file,
    open_result,
    preview_result,
    read_result,
    remove,
    result_location,
    size_of,
    table_location,
    write_file,
)
from analytics.lake.locations import Place
from analytics.lake.locations import parse as parse_location
from analytics.option_values import problem as option_problem
from analytics.specs import (
    READER_OPTIONS,
    Archived,
    ArchiveRanges,
    ArchiveStep,
    Column,
    Decide,
    Progress,
    QueryResult,
    QuerySpec,
    Room,
    Sample,
    TableSpec,
    Target,
)
from analytics.sql.ids import new_query_id

__all__ = [
    "READER_OPTIONS",
    "AnalyticsError",
    "ArchiveRanges",
    "ArchiveStep",
    "Archived",
    "Column",
    "Decide",
    "EngineLost",
    "EngineUnavailable",
    "Inferred",
    "LakeError",
    "LakeFile",
    "Place",
    "Progress",
    "QueryCancelled",
    "QueryFailed",
    "QueryRefused",
    "QueryResult",
    "QuerySpec",
    "QueryTimedOut",
    "Room",
    "Sample",
    "TableSpec",
    "Target",
    "append_samples",
    "archive_step",
    "cancel",
    "clean_up_archive",
    "culprit",
    "days_to_roll_up",
    "delete_archive",
    "discard_write",
    "drop_drafts",
    "drop_results",
    "drop_samples",
    "engine_wall",
    "files",
    "folders",
    "forget_write",
    "infer_table",
    "is_free",
    "is_lost",
    "lake_path",
    "new_query_id",
    "open_file",
    "open_result",
    "option_problem",
    "parse_location",
    "plan_archive",
    "preview_result",
    "progress",
    "read_result",
    "read_series",
    "refused_functions",
    "remove",
    "result_location",
    "rollup",
    "run_query",
    "size_of",
    "statement_kind",
    "stop",
    "table_location",
    "warm",
    "write_demo_tables",
    "write_file",
]


def run_query(spec: QuerySpec) -> QueryResult:
    """Run a statement, write its result.csv, and tell what it cost; blocks until it ended.

    Raises QueryRefused (nothing was executed), QueryFailed (QueryTimedOut among them), QueryCancelled, LakeError,
    EngineUnavailable, and EngineLost: then the process must end, for its Spark cannot be used again.
    """
    from analytics.sql import engine

    return engine.run_query(spec)


def cancel(task_id: str) -> bool:
    """Cancel a statement that runs in this process. Returns whether it does; its `run_query` raises QueryCancelled."""
    from analytics.sql import running

    return running.cancel(task_id)


def progress(task_id: str) -> Progress | None:
    """How far a statement of this process is; None when it does not run here or no stage of it has begun."""
    from analytics.sql import running

    return running.progress(task_id)


def forget_write(location: str, task_id: str) -> None:
    """Remove what a task with a target has left beside the files of its table, once the task has ended."""
    from analytics.sql import moves

    moves.forget(location, task_id)


def discard_write(location: str, task_id: str) -> None:
    """Take back the files that a task with a target has put in place: nobody's table is over them."""
    from analytics.sql import moves

    moves.discard(location, task_id)


def statement_kind(sql: str) -> str:
    """The kind of a statement without its hint: SELECT for every query, otherwise its first word, such as INSERT.

    Raises QueryRefused when it is empty, too large or too deeply nested. Starts nothing.
    """
    from analytics.sql import outline

    word = outline.check(sql)
    return "SELECT" if word in {"SELECT", "WITH", "VALUES", "FROM", "TABLE"} else word


def refused_functions() -> frozenset[str]:
    """Functions of Spark that no statement may call, in lower case: an editor does not offer them. Starts nothing."""
    from analytics.sql import allowed

    return allowed.REFUSED_FUNCTIONS


def engine_wall() -> str:
    """What the wall around the engine lacks on this machine, as a sentence; empty when it is whole. Starts nothing."""
    from analytics import wall

    return wall.shortcoming()


def warm() -> None:
    """Start Spark, and run statements through all layers in the background, so that the first user does not wait.

    Raises EngineUnavailable with one sentence that says what to do.
    """
    from analytics.sql import warming

    warming.warm()


def is_lost() -> bool:
    """Whether Spark was started in this process and has died: then the process must end, and take nothing on."""
    from analytics import session

    return session.is_lost()


def culprit() -> str | None:
    """The task for which Spark's JVM was ended, when that is known; it may have ended before."""
    from analytics import session

    return session.culprit()


def stop() -> None:
    """Cancel what runs and end Spark with its JVM. The next call that needs it starts a new one."""
    from analytics import session
    from analytics.sql import running, sessions

    running.cancel_all(QueryCancelled("The SQL engine is shutting down."))
    session.stop()
    sessions.forget()


def write_demo_tables(bucket: str, schema: str) -> list[TableSpec]:
    """Write flights, airlines, airports, planes, weather to `oss://<bucket>/<schema>/` unless they are there (2 s)."""
    from analytics import demo

    return demo.write_demo_tables(bucket, schema)


def infer_table(location: str, file_format: str | None, options: Mapping[str, str], holder: str = "") -> Inferred:
    """Format, columns and partitions that the files of a folder have, for an account that asks.

    Raises LakeError with the reason why not.
    """
    from analytics import infer

    return infer.infer_table(location, file_format, options, holder)


def append_samples(samples: Iterable[Sample]) -> None:
    """Keep samples of message counts. The same batch again changes nothing."""
    from analytics.jobs import samples as job

    job.append_samples(samples)


def drop_samples(before: date) -> int:
    """Delete samples and rollups of the UTC days before `before`; returns how many days went."""
    from analytics import retention

    return retention.drop_samples(before)


def drop_results(before: date) -> int:
    """Delete results of statements submitted before the UTC day `before`; returns how many folders went."""
    from analytics import retention

    return retention.drop_results(before)


def drop_drafts(before: datetime, buckets: Iterable[str]) -> int:
    """Delete what killed writers left before a time, in these buckets and those of results; returns how many drafts."""
    from analytics import retention

    return retention.drop_drafts(before, buckets)


def rollup(day: date) -> bool:
    """Sum up the samples of a UTC day per 1, 5 and 10 minutes, with Spark. Returns False when nothing new had come."""
    from analytics.jobs import tps

    return tps.rollup(day)


def days_to_roll_up() -> list[date]:
    """The UTC days with samples that no rollup contains yet, oldest first."""
    from analytics.jobs import tps

    return tps.days_to_roll_up()


def read_series(  # noqa: PLR0917  a curve has six coordinates
    kind: str, topic: str, group: str, begin_ms: int, end_ms: int, period_minutes: int
) -> list[tuple[int, int | None]]:
    """Messages per full period as (start in UTC ms, count); None is a gap. `group` is empty for kind "in"."""
    from analytics.jobs import series

    return series.read_series(kind, topic, group, begin_ms, end_ms, period_minutes)


def read_minutes(topics: set[str], first: date) -> Iterator[tuple[str, str, str, datetime, int, float]]:
    """Kind, topic, group, start of the minute, messages, seconds covered: of these topics, from a UTC day on."""
    from analytics.jobs import minutes

    return minutes.read_minutes(topics, first)


def plan_archive(options: Mapping[str, str], archived: Mapping[str, int], most: int) -> ArchiveRanges:
    """What the next step of a topic's archive is to write: at most `most` messages. Raises QueryFailed."""
    from analytics.jobs import archive

    return archive.plan(options, archived, most)


def archive_step(spec: ArchiveStep, check: Callable[[], None]) -> Archived:
    """Write a step of an archive, or finish one that was begun; raises what `run_query` and `check` raise."""
    from analytics.jobs import archive

    return archive.write(spec, check)


def clean_up_archive(location: str, number: int) -> None:
    """Forget how a committed step of an archive came about. Raises LakeError."""
    from analytics.jobs import archive

    archive.clean_up(location, number)


def delete_archive(location: str) -> None:
    """Delete the files of an archive. Raises LakeError."""
    from analytics import lake

    lake.remove(location)
