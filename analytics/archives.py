"""Spark job: writes messages of a topic to the lake, each (queue, offset) once, whatever is killed in between.

    oss://gantry-archive-<uid>/<instance>/<topic>-<number>/
      day=2026-01-15/00000003-00001.parquet     messages of step 3 that were stored on that UTC day
      _step-00000003/                           what step 3 has written and not yet put in its place
      _step-00000003.json                       step 3 has written everything: which file goes where

A step archives fixed ranges of offsets, which the caller noted before. Its files are written aside, then listed in the
`.json`, then moved. Until the list is there the step begins anew; from then on no broker is asked again, only moves are
finished. A reader knows up to which offsets steps are committed and leaves the rest of the files out.
"""

import io
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from analytics import lake, uses
from analytics.errors import LakeError, QueryFailed
from analytics.lake import allowed_paths
from analytics.specs import Archived, ArchiveRanges, ArchiveStep, QuerySpec, TableSpec
from analytics.sql import failures, running
from analytics.sql.backend import Backend

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Small row groups: the tasks of a statement share a file by them, and skip those of other queues and times.
_ROW_GROUP_BYTES = 16 * 1024**2
_TABLE = "topic"


class _File(NamedTuple):
    source: str
    destination: str
    size: int


class _Listed(NamedTuple):
    messages: int
    files: list[_File]


def plan(options: Mapping[str, str], archived: Mapping[str, int], most: int) -> ArchiveRanges:
    """The next ranges: from where the archive ends to now, at most `most` messages. Raises QueryFailed.

    A queue that reaches less far than it is archived was made anew; its messages would be taken for archived ones, so
    that is an error.
    """
    from analytics.sources import mq

    try:
        reach = mq.fix(options).reach
        longest = mq.ends(options)
    except mq.MessagesUnreadable as error:
        raise QueryFailed(str(error), "MESSAGES_UNREADABLE") from error
    for place, offset in archived.items():
        if longest.get(place, offset) < offset:
            raise QueryFailed(
                f"Queue {place} ends at offset {longest[place]}, the archive at {offset}: the topic was made anew."
                " Delete the archive, or keep its files under another table, and archive again.",
                "ARCHIVE_AHEAD",
            )
    begin: dict[str, int] = {}
    end: dict[str, int] = {}
    missed = 0
    for found in reach:
        place = f"{found.broker}:{found.queue}"
        known = archived.get(place)
        start = max(found.begin, known or 0)
        missed += start - known if known is not None else 0
        stop = min(found.end, start + most)
        if start < stop:
            begin[place], end[place] = start, stop
            most -= stop - start
    return ArchiveRanges(begin, end, missed)


def write_step(spec: ArchiveStep, check: Callable[[], None]) -> Archived:
    """Archive the ranges of a step; a step that was begun before is finished.

    `check` raises when another worker has taken the step. Raises what `run_query` raises.
    """
    listed = _read_list(spec)
    if listed is None:
        lake.remove(_aside(spec))
        listed = _Listed(_write_aside(spec), _destinations(spec))
        check()
        lake.write_file(_list(spec), io.BytesIO(json.dumps(listed).encode()))
    placed = _move(spec, listed.files, check)
    return Archived(listed.messages, len(listed.files), sum(file.size for file in listed.files), placed)


def clean_up(location: str, number: int) -> None:
    """Forget how a committed step came about."""
    spec = ArchiveStep("", "", TableSpec(_TABLE, "", "mq"), location, number, 0)
    lake.remove(_list(spec))
    lake.remove(_aside(spec))


def _write_aside(spec: ArchiveStep) -> int:
    """Write the messages with Spark; returns how many."""
    with uses.one():
        return _written(spec)


def _written(spec: ArchiveStep) -> int:
    from pyspark.sql import functions as F  # noqa: N812  Spark's documentation calls it so

    spark = Backend()
    table = replace(spec.table, name=_TABLE)
    query = QuerySpec(
        task_id=spec.task_id,
        tenant=spec.tenant,
        sql=f"select * from mq.{_TABLE}",  # noqa: S608  a constant
        schema="mq",
        tables={},
        parameters=(),
        result_file="",
        time_limit_s=spec.time_limit_s,
        lookup=lambda _schema, _name: table,
    )
    with running.watched(spark, spec.task_id, spec.time_limit_s) as statement:
        try:
            with spark.statement(spec.tenant, statement.tag):
                lake.make_ready(_aside(spec))
                frame = spark.prepare(query).withColumn("day", F.to_date("store_time"))
                with allowed_paths.reaching(frame.sparkSession, _aside(spec)) as url:
                    _write(frame, url)
                return spark.counters(statement.tag).output_rows
        except Exception as error:
            statement.check()
            raise failures.translate(error) from error


def _write(frame: "DataFrame", url: str) -> None:
    # Spark's own default has no statistics, by which a condition on the store time skips what it does not mean.
    frame.sparkSession.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    options = {"compression": "zstd", "parquet.block.size": str(_ROW_GROUP_BYTES)}
    ordered = frame.sortWithinPartitions("day", "broker", "queue", "offset")
    ordered.write.options(**options).partitionBy("day").mode("overwrite").parquet(url)


def _destinations(spec: ArchiveStep) -> list[_File]:
    """Names hold the number of the step: two steps never share one."""
    base, aside = spec.location.rstrip("/"), _aside(spec)
    found = []
    for number, file in enumerate(lake.files(aside)):
        folder = file.location.removeprefix(aside).rpartition("/")[0]
        found.append(_File(file.location, f"{base}/{folder}/{spec.number:08}-{number:05}.parquet", file.size))
    return found


def _move(spec: ArchiveStep, files: list[_File], check: Callable[[], None]) -> tuple[lake.LakeFile, ...]:
    there = {file.location for file in lake.files(_aside(spec))}
    for file in files:
        if file.source in there:
            check()
            lake.move(file.source, file.destination)
    placed = {file.location: file for file in lake.files(spec.location)}
    for file in files:
        if file.destination not in placed:
            raise LakeError(f"The file {file.destination} of the archive is gone.")
    return tuple(placed[file.destination] for file in files)


def _read_list(spec: ArchiveStep) -> _Listed | None:
    try:
        with lake.open_file(_list(spec)) as file:
            messages, files = json.load(file)
    except LakeError as error:
        if error.is_missing:
            return None
        raise
    return _Listed(messages, [_File(*values) for values in files])


def _aside(spec: ArchiveStep) -> str:
    return f"{spec.location.rstrip('/')}/_step-{spec.number:08}/"


def _list(spec: ArchiveStep) -> str:
    return f"{spec.location.rstrip('/')}/_step-{spec.number:08}.json"
