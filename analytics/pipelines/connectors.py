"""The tables of a plan as Spark sees them: a frame for each source, a writer for each sink."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analytics import lake
from analytics.errors import PipelineFailed, PipelineRefused
from analytics.lake import allowed_paths
from analytics.lake.locations import parse_location
from analytics.pipelines import datagen
from analytics.pipelines.counts import Counts
from analytics.pipelines.plan import EVENT, Column, Plan, Settings, Sink, Source, Value, file_name, filled
from analytics.pipelines.reports import source_key
from analytics.pipelines.values import ISO, SQL
from analytics.specs import Decide
from analytics.sql import spelling

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from pyspark.sql.types import StructType

    from analytics.pipelines.inflow_sql import BatchSql
    from analytics.pipelines.queue_source import QueueSource
    from analytics.pipelines.reports import Reached
    from analytics.sources.mq import Topic

_FILES = ("csv", "json", "parquet", "orc")
#: Options of formats in files, as Spark calls them.
_OF_FILES = {
    "parquet": {"compression": "compression"},
    "orc": {"compress": "compression"},
    "csv": {
        "field-delimiter": "delimiter",
        "quote-character": "quote",
        "escape-character": "escape",
        "null-literal": "nullValue",
    },
}
#: How times stand in files of JSON, by the standard; a fraction has up to six digits.
_TIMES = {SQL: "yyyy-MM-dd HH:mm:ss[.SSSSSS]", ISO: "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS][XXX]"}
_LINE_END = "\n"
#: In front of a sink's name: what counts its rows that are left out since their messages would be empty.
EMPTY = "empty:"
#: In front of a table's name: the file of what is printed to it.
PRINTED = "print"


@dataclass(frozen=True)
class Place:
    """Where a pipeline runs: its session, its state, and what its options are filled with."""

    spark: SparkSession
    #: The state's folder, as a path of this machine and as Spark is given it.
    state: str
    url: str
    settings: Settings
    secrets: Mapping[str, str]
    decide: Decide | None = None
    #: By the table's name in small letters, options that who starts the pipeline gives: see runner.Start.
    given: Mapping[str, Mapping[str, Value]] = field(default_factory=dict, repr=False)
    counts: Counts = field(default_factory=Counts)

    @property
    def is_batch(self) -> bool:
        """Whether the job ends by itself."""
        return self.settings.mode == "batch"

    @property
    def zone(self) -> str:
        """In which zone times without one are."""
        return self.settings.time_zone or "UTC"

    def options(self, table: Source | Sink) -> dict[str, Any]:
        """With the values of secrets, and what the starter gives. Raises PipelineRefused for a missing secret."""
        try:
            return dict(filled(table.options, self.secrets)) | dict(self.given.get(table.name.lower(), {}))
        except KeyError as error:
            raise PipelineRefused(f"There is no secret {error.args[0]}.") from None

    def folder(self, location: str) -> str:
        """A folder of the lake that the session may reach from now on. Raises LakeError, QueryRefused."""
        place = parse_location(location)
        if self.decide is not None:
            self.decide([place])
        return allowed_paths.add(self.spark, place)


def label_of(kind: str, name: str) -> str:
    """A provider's name that is the table's own in the session."""
    return f"{kind}_{file_name(name)}".lower()


def ddl(columns: tuple[Column, ...]) -> str:
    """The columns as Spark's types are written."""
    return ", ".join(f"{spelling.quoted(column.name)} {column.type}" for column in columns)


def structure(columns: tuple[Column, ...]) -> StructType:
    """The columns as Spark's type."""
    from pyspark.sql.types import StructType

    found = StructType.fromDDL(ddl(columns))
    if not isinstance(found, StructType):
        raise TypeError(f"columns that are no row: {found}")
    return found


def arrow(columns: tuple[Column, ...]) -> pa.Schema:
    """The columns as Arrow's."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(structure(columns), timezone="UTC")


# Sources


def frame(source: Source, place: Place) -> DataFrame:
    """The rows of a source with what its connector gives, computed columns aside.

    Raises PipelineRefused, QueryRefused and LakeError.
    """
    from pyspark.sql import functions as F  # noqa: N812  Spark's documentation calls it so

    read = tuple(column for column in source.columns if not column.computed)
    rows = _SOURCES[source.connector](source, place, read)
    return rows.select(*(F.col(spelling.quoted(column.name)) for column in read))


def with_computed(source: Source) -> str:
    """The query that adds the computed columns to the rows, which bear the source's name; empty without any."""
    if not any(column.computed for column in source.columns):
        return ""
    names = ((column, spelling.quoted(column.name)) for column in source.columns)
    columns = (f"({column.computed}) as {name}" if column.computed else name for column, name in names)
    return f"select {', '.join(columns)} from {spelling.quoted(source.name)}"  # noqa: S608  the guard judges it


def watched(rows: DataFrame, source: Source, place: Place) -> DataFrame:
    """All rows of a source, counted, with its watermark."""
    # Below the watermark: what comes too late was read all the same.
    rows = place.counts.counted(rows, source_key(source.name), _number(source))
    if source.watermark is not None and rows.isStreaming:
        rows = rows.withWatermark(source.watermark.column, f"{source.watermark.delay_ms} milliseconds")
    return rows


def _number(table: Source | Sink) -> SparkColumn | None:
    """How many rows those of a table stand for, where they are not just rows."""
    from analytics.pipelines.stretches import number_of

    return number_of(table.columns[0].name) if table.connector in ("events", "inflow") else None


def counted(rows: DataFrame, operator: str, sink: Sink, place: Place) -> DataFrame:
    """The rows that go to a sink, counted under the operator's name."""
    return place.counts.counted(rows, operator, _number(sink))


def queue_source(source: Source, place: Place) -> QueueSource:
    """What reads the queue of a source `mns`. Raises PipelineRefused."""
    from analytics.inflow.messages import QueueEvents
    from analytics.pipelines.decoding import Format
    from analytics.pipelines.queue_source import QueueSource

    options = place.options(source)
    events, batching = None, dict[str, int]()
    if source.format == EVENT:
        _require_events(source, place, source.columns)
        events = QueueEvents(
            str(options["queueName"]), str(options.get("body", "text")), unwraps=bool(options.get("base64", False))
        )
        at_once = int(options.get("messages", 100))
        batching = {
            "messages_at_once": at_once,
            "interval_ms": _interval_ms(options),
            "most_in_batch": at_once * int(options.get("calls", 1)),
        }
    body = Format(
        name="raw" if source.format == EVENT else source.format,
        schema=arrow(tuple(column for column in source.columns if not column.computed)),
        options=dict(source.format_options),
        zone=place.zone,
        is_event=options.get("messageType", "RAW") == "OSS",
    )
    try:
        body.decoder()
    except ValueError as error:
        raise PipelineRefused(f"The table {source.name} cannot be read: {error}.") from None
    return QueueSource(
        name=source.name,
        endpoint=str(options["endpoint"]),
        queue=str(options["queueName"]),
        key_id=str(options["accessKeyId"]),
        secret=str(options["accessKeySecret"]),
        account=str(options.get("account", "")),
        networks=None if "networks" not in options else str(options["networks"]),
        state=place.state,
        body=body,
        most=int(options.get("batchSize", 1)),
        polling_wait_ms=int(options.get("pollingWaitTime", 10_000)),
        batch_wait_ms=place.settings.batch_interval_ms,
        delete_retries=int(options.get("deleteMaxRetries", 3)),
        start_ms=_moment(options),
        events=events,
        **batching,
    )


def require_queue(source: QueueSource, interval_ms: int) -> int:
    """For how long the queue hides a message, s: longer than a checkpoint takes.

    Raises PipelineRefused where it does not, or is not there: it would deliver again what is not committed yet, over
    and over. Raises PipelineFailed when the service does not answer.
    """
    from brokercore.smq.client import QueueServiceUnavailable
    from brokercore.smq.wire.errors import SmqError

    if interval_ms <= 0:
        raise PipelineRefused(
            f"The table {source.name} needs checkpoints: without them no message is deleted, and all come again without"
            " end. Set execution.checkpointing.interval."
        )
    client = source.client()
    try:
        hidden_s = client.queue(source.queue).attributes["VisibilityTimeout"]
    except QueueServiceUnavailable as error:  # by the next start it may be there
        raise PipelineFailed(f"The queue {source.queue} of the table {source.name} cannot be read: {error}") from error
    except SmqError as error:
        raise PipelineRefused(f"The queue {source.queue} of the table {source.name} cannot be read: {error}") from error
    finally:
        client.close()
    if source.events is None and hidden_s * 1000 <= interval_ms:  # else it is hidden again for as long as it takes
        raise PipelineRefused(
            f"The queue {source.queue} hides a received message for {hidden_s} s (VisibilityTimeout), and checkpoints"
            f" are {interval_ms / 1000:g} s apart: it would be delivered again before it is committed. Make the one"
            " longer or the other shorter."
        )
    return hidden_s


def _from_queue(source: Source, place: Place, read: tuple[Column, ...]) -> DataFrame:
    from analytics.pipelines import mns

    if place.is_batch:
        raise PipelineRefused(
            f"The table {source.name} reads a queue, which has no end: the job must be a streaming one."
        )
    queue = queue_source(source, place)
    queue = replace(queue, hidden_s=require_queue(queue, place.settings.checkpoint_interval_ms))
    queue.prepare()
    label = label_of("mns", source.name)
    place.spark.dataSource.register(mns.source_class(label, queue, ddl(read)))
    return place.spark.readStream.format(label).load()


def _from_topic(source: Source, place: Place, read: tuple[Column, ...]) -> DataFrame:
    from analytics.pipelines import topic_source

    if source.format == EVENT:
        return _from_topic_as_events(source, place, read)
    options = place.options(source)
    topic = topic_source.TopicSource(
        topic=_topic(options),
        schema=arrow(read),
        metadata=tuple(column.metadata for column in read),
        format=source.format or "csv",
        group=str(options.get("consumerGroup", "")),
        namespace=str(options.get("instanceID", "")),
        tag=str(options.get("tag", "")),
        start_offset=int(options["startMessageOffset"]) if options.get("startMessageOffset") is not None else None,
        start_ms=_moment(options),
        line_delimiter=str(options.get("lineDelimiter", "\n")),
        field_delimiter=str(options.get("fieldDelimiter", "\x01")),
        encoding=str(options.get("encoding", "utf-8")),
        length_check=str(options.get("lengthCheck", "NONE")).upper(),
        zone=place.zone,
    )
    label = label_of("mq_source", source.name)
    place.spark.dataSource.register(topic_source.source_class(label, topic, ddl(read)))
    reader: Any = place.spark.read if place.is_batch else place.spark.readStream
    rows: DataFrame = reader.format(label).load()
    return rows


def _from_topic_as_events(source: Source, place: Place, read: tuple[Column, ...]) -> DataFrame:
    from analytics.pipelines import reaches, topic_events

    _require_events(source, place, read)
    options = place.options(source)
    events = topic_events.TopicEventsSource(
        name=source.name,
        topic=_topic(options),
        shown=str(options["topic"]),
        state=place.state,
        group=str(options.get("consumerGroup", "")),
        namespace=str(options.get("instanceID", "")),
        tag=str(options.get("tag", "")),
        start_ms=_moment(options),
        format=str(options.get("body", "text")),
        messages_at_once=int(options.get("messages", 100)),
        calls=int(options.get("calls", 1)),
        interval_ms=_interval_ms(options),
    )
    reaches.folder_of(place.state, source.name).mkdir(exist_ok=True)
    label = label_of("topic_events", source.name)
    place.spark.dataSource.register(topic_events.source_class(label, events, ddl(read)))
    return place.spark.readStream.format(label).load()


def _require_events(source: Source, place: Place, read: tuple[Column, ...]) -> None:
    """Events have no end, and are one column. Raises PipelineRefused."""
    if place.is_batch:
        raise PipelineRefused(
            f"The table {source.name} reads events, which have no end: the job must be a streaming one."
        )
    if [(column.name, column.type) for column in read] != [("event", "binary")]:
        raise PipelineRefused(f"The table {source.name} reads events: its one column is event, binary.")


def _interval_ms(options: Mapping[str, Any]) -> int:
    return round(float(options.get("interval", 3)) * 1000)


def _moment(options: Mapping[str, Any]) -> int | None:
    """Where it begins, epoch ms."""
    return int(options["startTimeMs"]) if options.get("startTimeMs") is not None else None


def topics(plan: Plan, place: Place) -> list[tuple[str, Topic]]:
    """Tables that are topics, with what it takes to reach them. Raises PipelineRefused for a missing secret."""
    tables: list[Source | Sink] = [*plan.sources, *plan.sinks]
    named = [table for table in tables if table.connector in ("mq", "inflow") and "topic" in table.options]
    return [(table.name, _topic(place.options(table))) for table in named]


def _topic(options: Mapping[str, Any]) -> Topic:
    from analytics.sources.mq import Topic
    from brokercore.names import wrap

    name = wrap(str(options.get("instanceID", "")), str(options["topic"]))
    key = str(options.get("accessId", "")), str(options.get("accessKey", ""))
    return Topic(str(options["endpoint"]), name, *key, ca=str(options.get("ca", "")))


def _from_generator(source: Source, place: Place, read: tuple[Column, ...]) -> DataFrame:
    interval_ms = 0 if _ends(source, place) else place.settings.batch_interval_ms
    try:
        return datagen.rows(place.spark, read, place.options(source), interval_ms)
    except ValueError as error:
        raise PipelineRefused(f"The table {source.name} cannot be made: {error}.") from None


def _from_files(source: Source, place: Place, read: tuple[Column, ...]) -> DataFrame:
    options = place.options(source)
    _require_files(source.name, source.format)
    reader: Any = place.spark.read if _ends(source, place) else place.spark.readStream
    body = tuple(column for column in read if not column.metadata)
    reader = reader.format(source.format).schema(structure(body)).options(**_of_files(source))
    location = str(options["path"])
    folder = place.folder(location)
    if not lake.is_there(location):
        raise PipelineRefused(f"The table {source.name} reads {location}, and nothing is there.")
    rows: DataFrame = reader.load(folder)
    about = _about_files(location)
    if pattern := options.get("source.path.regex-pattern"):
        rows = rows.where(about["file.path"].rlike(f"^(?:{pattern})$"))
    return rows.select("*", *(about[column.metadata].alias(column.name) for column in read if column.metadata))


def _ends(source: Source, place: Place) -> bool:
    return place.is_batch or source.ends


def _about_files(location: str) -> dict[str, Any]:
    """What is known of the file of a row, by the key of a metadata column; paths are as users write them.

    Spark tells paths of the storage, in which the folder's own path stands once more.
    """
    from pyspark.sql import functions as F  # noqa: N812

    folder = parse_location(location)
    inside = f"/{folder.bucket}/{folder.key.strip('/')}/"
    path = F.col("_metadata.file_path")
    below = F.expr(f"instr(_metadata.file_path, {spelling.text(inside)})")
    return {
        "file.path": F.concat(F.lit("oss:/"), F.substr(path, below)),
        "file.name": F.col("_metadata.file_name"),
        "file.size": F.col("_metadata.file_size"),
        "file.modification-time": F.col("_metadata.file_modification_time"),
    }


def _of_files(table: Source | Sink) -> dict[str, str]:
    known = _OF_FILES.get(table.format, {})
    options = {known[name]: str(value) for name, value in table.format_options.items() if name in known}
    if "ignore-parse-errors" in table.format_options:
        options["mode"] = "DROPMALFORMED" if table.format_options["ignore-parse-errors"] else "FAILFAST"
    if table.format == "json":
        chosen = str(table.format_options.get("timestamp-format.standard", SQL))
        options["timestampFormat"] = str(table.format_options.get("timestamp-format.pattern", _TIMES[chosen]))
    if table.format_options.get("disable-quote-character"):
        options["quote"] = ""
    if table.format_options.get("allow-comments"):
        options["comment"] = "#"
    if table.format == "csv" and (line := str(table.format_options.get("line-delimiter", _LINE_END))) != _LINE_END:
        options["lineSep"] = line  # without it lines may end in \r\n too
    return options


def _require_files(name: str, written: str) -> None:
    if written not in _FILES:
        raise PipelineRefused(f"The table {name} has files of the format {written}; possible are {', '.join(_FILES)}.")


def _from_events(source: Source, place: Place, read: tuple[Column, ...]) -> DataFrame:
    from analytics.pipelines import events_source, reaches

    _require_events(source, place, read)
    options = place.options(source)
    if "log" not in options:
        raise PipelineRefused(f"The table {source.name} is told no event log.")
    location = str(options["log"])
    place.folder(location)
    events = events_source.EventsSource(
        name=source.name,
        log=lake.lake_path(location),
        state=place.state,
        messages=int(options.get("messages", 100)),
        calls=int(options.get("calls", 1)),
        interval_ms=_interval_ms(options),
        start_ms=_moment(options),
        skips=bool(options.get("skips", False)),
        by_stretches=bool(options.get("stretches", False)),
    )
    reaches.folder_of(place.state, source.name).mkdir(exist_ok=True)
    label = label_of("events", source.name)
    place.spark.dataSource.register(events_source.source_class(label, events, ddl(read)))
    return place.spark.readStream.format(label).load()


_Frame = Callable[["Source", Place, "tuple[Column, ...]"], "DataFrame"]
_SOURCES: dict[str, _Frame] = {
    "mns": _from_queue,
    "mq": _from_topic,
    "datagen": _from_generator,
    "filesystem": _from_files,
    "events": _from_events,
}


# Sinks


def fitted(rows: DataFrame, sink: Sink) -> DataFrame:
    """The rows as the sink's columns, by position. Raises PipelineRefused for another number of columns."""
    from pyspark.sql import functions as F  # noqa: N812

    if not sink.columns:  # a SELECT alone is shown as it is
        return rows
    if len(rows.columns) != len(sink.columns):
        raise PipelineRefused(
            f"The query gives {len(rows.columns)} columns, and the table {sink.name} has {len(sink.columns)}."
        )
    types = {field.name: field.dataType for field in structure(sink.columns)}
    named = rows.toDF(*(column.name for column in sink.columns))
    return named.select(*(F.col(spelling.quoted(name)).cast(kind).alias(name) for name, kind in types.items()))


@dataclass(frozen=True)
class Output:
    """How rows reach a sink: a step that is made of them, and a provider of Spark's with its options."""

    provider: str
    options: dict[str, str] = field(default_factory=dict)
    partitions: tuple[str, ...] = ()
    step: Callable[[DataFrame], DataFrame] = lambda rows: rows
    #: Which rows make an empty message, which no broker takes: they are left out and counted by this name.
    empty: tuple[str, SparkColumn] | None = None
    #: Where a query is made over each batch: what does it and writes.
    by_batch: BatchSql | None = None
    sql: str = ""

    def _kept(self, rows: DataFrame, *, counted: bool) -> DataFrame:
        from pyspark.sql import functions as F  # noqa: N812

        if self.empty is None:
            return rows
        name, is_empty = self.empty
        if counted:
            rows = rows.observe(name, F.count_if(is_empty).alias("rows"))
        return rows.where(~is_empty)

    def stream(self, rows: DataFrame) -> DataStreamWriter:
        """What writes a stream."""
        writer = self.step(self._kept(rows, counted=True)).writeStream.format(self.provider).options(**self.options)
        return writer.partitionBy(*self.partitions) if self.partitions else writer

    def write(self, rows: DataFrame) -> None:
        """Write all rows of a batch job. Raises what Spark raises."""
        writer = self.step(self._kept(rows, counted=False)).write.format(self.provider).options(**self.options)
        (writer.partitionBy(*self.partitions) if self.partitions else writer).mode("append").save()


def output(sink: Sink, place: Place) -> Output:
    """Make the sink known to the session. Raises PipelineRefused, QueryRefused and LakeError."""
    return _SINKS[sink.connector](sink, place)


def _to_topic(sink: Sink, place: Place) -> Output:
    from analytics.pipelines import topic_sink

    options = place.options(sink)
    written = sink.format or "csv"
    if problem := topic_sink.problem_of(arrow(sink.columns), written):
        raise PipelineRefused(f"The table {sink.name} cannot be written. {problem}")
    to = topic_sink.TopicSink(
        namesrv=str(options["endpoint"]),
        topic=str(options["topic"]),
        key_id=str(options.get("accessId", "")),
        secret=str(options.get("accessKey", "")),
        ca=str(options.get("ca", "")),
        group=str(options["producerGroup"]),
        format=written,
        tag=str(options.get("tag", "")),
        encoding=str(options.get("encoding", "utf-8")),
        retries=int(options.get("retryTimes", 10)),
        pause_ms=int(options.get("sleepTimeMs", 1000)),
        namespace=str(options.get("instanceID", "")),
        delimiter=str(options.get("fieldDelimiter", "\x01")),
        table=sink.name,
        state=place.state,
    )
    label = label_of("mq_sink", sink.name)
    place.spark.dataSource.register(topic_sink.sink_class(label, to))
    return Output(label, empty=_empty(sink))


def _to_inflow(sink: Sink, place: Place) -> Output:
    from analytics.inflow.delivery import Misset
    from analytics.inflow.parts import TaskError
    from analytics.inflow.task import Task
    from analytics.inflow.task_transforms import SqlTransform
    from analytics.inflow.transform import TransformFailed
    from analytics.pipelines import inflow_sink, inflow_targets
    from analytics.pipelines.inflow_sql import BatchSql

    options = place.options(sink)
    if "task" not in options:
        raise PipelineRefused(f"The table {sink.name} is not told task.")
    document = str(options["task"])
    try:
        to = inflow_sink.InflowSink(
            name=sink.name,
            document=document,
            target=inflow_targets.target_of(Task.read(json.loads(document)), options, place.secrets),
            state=place.state,
            function_key=str(options.get("functionKey", "")).encode(),
            networks=str(options.get("networks", "")),
        )
        to.require()
    except (TaskError, TransformFailed, Misset) as error:
        raise PipelineRefused(f"The task cannot start: {error.user_message}") from None
    except ValueError as error:  # no JSON, or no network
        raise PipelineRefused(f"The table {sink.name} is not told right: {error}.") from None
    inflow_sink.folder_of(place.state, sink.name).mkdir(exist_ok=True)
    label = label_of("inflow", sink.name)
    place.spark.dataSource.register(inflow_sink.sink_class(label, to))
    if isinstance(to.task.transform, SqlTransform):
        return Output(label, by_batch=BatchSql(place.spark, label, to.task.pattern), sql=to.task.transform.sql)
    return Output(label, step=lambda rows: rows.coalesce(1))


def _empty(sink: Sink) -> tuple[str, SparkColumn] | None:
    """Rows of one column alone can be empty: between two there is a delimiter."""
    from pyspark.sql import functions as F  # noqa: N812

    if len(sink.columns) != 1:
        return None
    value = F.col(spelling.quoted(sink.columns[0].name))
    return f"{EMPTY}{sink.name}", F.coalesce(
        F.octet_length(value.cast("binary" if sink.format == "binary" else "string")), F.lit(0)
    ) == 0


def _to_print(sink: Sink, place: Place) -> Output:
    from analytics.pipelines import print_sink

    file = printed_file(Path(place.state), sink.name)
    identifier = str(place.options(sink).get("print-identifier", ""))
    return Output("noop", step=lambda rows: print_sink.printed(rows, file, identifier))


def printed_file(state: Path, sink: str) -> Path:
    """What is printed to a table."""
    return state / f"{PRINTED}-{file_name(sink)}.log"


def _to_nowhere(sink: Sink, place: Place) -> Output:
    return Output("noop")


def _to_files(sink: Sink, place: Place) -> Output:
    _require_files(sink.name, sink.format)
    path = place.folder(str(place.options(sink)["path"]))
    return Output(sink.format, _of_files(sink) | {"path": path}, sink.partitions)


_SINKS: dict[str, Callable[[Sink, Place], Output]] = {
    "mq": _to_topic,
    "print": _to_print,
    "blackhole": _to_nowhere,
    "filesystem": _to_files,
    "inflow": _to_inflow,
}


def counters_of(state: str, table: Source | Sink) -> dict[str, int]:
    """The counters of a source `mns` or a sink `inflow`; empty for another table."""
    if table.connector == "mns":
        return _of_spool(state, table.name)
    if table.connector == "inflow":
        from analytics.pipelines import inflow_sink

        return inflow_sink.read_counters(state, table.name)
    return {}


def _of_spool(state: str, source: str) -> dict[str, int]:
    from analytics.pipelines.queue_source import folder_of
    from analytics.pipelines.spool import Spool

    folder = Path(state) / folder_of(source)
    try:
        return Spool(folder).counters() if folder.is_dir() else {}
    except (OSError, json.JSONDecodeError):  # it moves with the state, which the runner notices itself
        return {}


def reached(state: str, source: Source) -> Reached | None:
    """Where a source of events stands; None for another one, and before it was told."""
    from analytics.pipelines import reaches

    return reaches.reached(state, source.name) if source.connector == "events" or source.format == EVENT else None
