"""Runs pipelines: starts the queries of a plan, watches them, stops them, all in the one Spark of this process.

A pipeline holds its state by a fencing number (checkpoints). When one of its queries ends by an error, or a later
runner has taken the state over, all of them end, and the pipeline is to be started anew by whoever decides that.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from analytics import lake
from analytics import session as spark_session
from analytics.errors import (
    AnalyticsError,
    EngineBusy,
    EngineLost,
    PipelineFailed,
    PipelineFenced,
    PipelineRefused,
    QueryFailed,
    QueryRefused,
)
from analytics.lake import allowed_paths
from analytics.pipelines import checkpoints, connectors, intake, waits
from analytics.pipelines.connector_errors import failure_of, said
from analytics.pipelines.connectors import Place
from analytics.pipelines.executors import Executors
from analytics.pipelines.plan import Column, Insert, Plan, Settings, Sink, Source, Value
from analytics.pipelines.print_sink import Tail
from analytics.pipelines.queue_source import QueueSource
from analytics.pipelines.reports import InsertWatch, Report, operators_of
from analytics.specs import Decide, TableSpec
from analytics.sql import failures, guard, sessions, spelling

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

log = logging.getLogger(__name__)

#: The schema of a plan's own tables and views, whose names stand alone.
_OWN = "default"
_CHECKPOINT_FILES = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
#: Between two looks at the queries, s.
_PERIOD_S = 0.5
_LOOK_S = 0.02
_WARM_BUCKET, _WARM_S = "gantry-warm", 120.0
#: Rows that are handed on between the JVM and Python at once: one makes the next ones while the other has these.
_ROWS_AT_ONCE = 1000
#: How long a batch that is under way may take to end before it is given up, s; it is then repeated.
_PATIENCE_S = 30.0


@dataclass(frozen=True, slots=True)
class Start:
    """A pipeline that is to run, and everything that it may read and write."""

    pipeline: str
    tenant: str
    plan: Plan
    #: Folder of its state, an `oss://` location that is no one else's.
    location: str
    #: Higher than that of every runner before.
    number: int
    #: Where it begins: see checkpoints.
    origin: str = checkpoints.CHECKPOINT
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    #: The catalog's tables that the plan names, by schema.
    tables: Mapping[str, list[TableSpec]] = field(default_factory=dict)
    decide: Decide | None = None
    #: By the table's name in small letters, options beside those of the plan: address and keys of what is the account's
    #: own, which its text leaves out.
    given: Mapping[str, Mapping[str, Value]] = field(default_factory=dict, repr=False)
    #: Which start of its owner's it is; further attempts have the same. A batch job that came to its end in one of them
    #: does not run again in the next.
    begun: str = ""


class Pipeline:
    """A pipeline that was started. Methods are safe in threads; after its end it stays readable."""

    def __init__(self, spec: Start, held: checkpoints.Held) -> None:
        self.spec = spec
        self._held = held
        self._folders = spec.plan.checkpoints()
        self._watches = [
            InsertWatch(insert.sink, insert.line, number) for number, insert in enumerate(spec.plan.inserts)
        ]
        #: Kept for as long as the queries run: what they may reach of the lake is forgotten with it (allowed_paths).
        self._session: SparkSession | None = None
        self._queries: list[StreamingQuery | None] = [None] * len(spec.plan.inserts)
        self._sources: list[QueueSource] = []
        self._ending = threading.Event()
        self._lock = threading.Lock()
        self._cancelled = threading.Event()
        self._stopped = threading.Event()
        self._failure: AnalyticsError | None = None
        printed = (sink.name for sink in spec.plan.sinks if sink.connector == "print")
        self._tails = [Tail(connectors.printed_file(held.state, name)) for name in printed]
        if spec.origin.startswith(checkpoints.SAVEPOINT):
            for tail in self._tails:
                tail.skip()

    # What its owner asks

    @property
    def is_running(self) -> bool:
        """False after the end, whatever it came by."""
        return not self._stopped.is_set()

    @property
    def failure(self) -> AnalyticsError | None:
        """Why it ended, when nobody stopped it: PipelineFailed, PipelineFenced or EngineLost."""
        return self._failure

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for the end; False when it goes on."""
        return self._stopped.wait(seconds)

    def report(self) -> Report:
        """How it goes; as of its end when it has ended."""
        operators = operators_of(self._watches)
        left_out: Counter[str] = Counter()
        for watch in self._watches:  # added up: several inserts may write to one table
            left_out.update({name: rows for name, rows in watch.operators.items() if name.startswith(connectors.EMPTY)})
        now_ms = round(time.time() * 1000)
        state = str(self._held.state)
        tables: list[Source | Sink] = [*self.spec.plan.sources, *self.spec.plan.sinks]
        return Report(
            inserts=tuple(watch.report(now_ms) for watch in self._watches),
            operators={name: rows for name, rows in operators.items() if name not in left_out},
            connectors={
                table.name: connectors.counters_of(state, table)
                for table in tables
                if table.connector in ("mns", "inflow")
            }
            | {name.removeprefix(connectors.EMPTY): {"emptyRows": rows} for name, rows in left_out.items() if rows},
            reached={
                source.name: reached
                for source in self.spec.plan.sources
                if (reached := connectors.reached(state, source)) is not None
            },
            waiting=waits.told(self._held.state) if self.is_running else (),
        )

    def printed(self) -> list[str]:
        """The lines that came to be printed since the last call, of all tables `print`; of one thread."""
        return [line for tail in self._tails for line in tail.lines()]

    def stop(self, savepoint: str = "") -> str:
        """End it, and keep its state under a name when one is given; returns the savepoint's location.

        A batch that is under way may end. Raises PipelineFailed when it had failed, PipelineFenced, PipelineRefused for
        the name, LakeError.
        """
        with self._lock:
            if self._failure is not None:
                raise self._failure
            self._ending.set()
            self._end_queries(_PATIENCE_S)
            self._settle()
            self._stopped.set()
            return checkpoints.save(self._held, savepoint) if savepoint else ""

    def abandon(self, patience_s: float = 0) -> None:
        """End it and leave its state to the next runner: nothing is deleted or told any more.

        A batch that is under way may end within `patience_s`; else it is repeated.
        """
        with self._lock:
            if self._stopped.is_set():
                return
            self._ending.set()
            self._end_queries(patience_s)
            self._stopped.set()

    # Its own life

    def _run(self) -> None:
        """Begin; then watch, in a thread. Raises what `start` raises."""
        if self.spec.plan.settings.mode == "batch" and checkpoints.has_ended(self._held, self.spec.begun):
            log.info("%s has come to its end before; it does not run again", self.spec.pipeline)
            self._stopped.set()
            return
        with _translated():
            place = self._place()
            with _in_session(place.spark, self.spec.tenant, self.spec.pipeline):
                outputs = self._outputs(place)
                executors = Executors(place.spark)
                executors.require(self._held, connectors.topics(self.spec.plan, place))
                work: list[Callable[[], None]] = [lambda: self._watch(executors)]
                if place.is_batch:
                    work.append(lambda: self._finish(place, outputs))
                else:
                    self._start_queries(place, outputs)
                    if not any(self._queries):
                        work = [self._stopped.set]
        for one in work:
            threading.Thread(target=one, name=f"pipeline {self.spec.pipeline}", daemon=True).start()

    def _place(self) -> Place:
        spark = self._session = sessions.with_own_catalog(spark_session.get())
        settings = self.spec.plan.settings
        spark.conf.set("spark.sql.shuffle.partitions", str(max(1, settings.parallelism)))
        spark.conf.set("spark.sql.streaming.checkpointFileManagerClass", _CHECKPOINT_FILES)
        spark.conf.set("spark.sql.streaming.minBatchesToRetain", "20")
        spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(_ROWS_AT_ONCE))
        spark.conf.set("spark.sql.streaming.stopTimeout", f"{_PATIENCE_S:.0f}s")
        if settings.time_zone:
            spark.conf.set("spark.sql.session.timeZone", settings.time_zone)
        url = allowed_paths.add(spark, self._held.state_location)
        return Place(spark, str(self._held.state), url, settings, self.spec.secrets, self.spec.decide, self.spec.given)

    def _outputs(self, place: Place) -> list[tuple[Insert, DataFrame, Sink]]:
        """The rows of each insert, ready to be written. Raises QueryRefused and PipelineRefused."""
        plan = self.spec.plan
        tables = sessions.TenantSession(place.spark, "", dict(self.spec.tables))
        names = _Names(place.spark, tables, self.spec)
        for source in plan.sources:
            rows = connectors.frame(source, place)
            if sql := connectors.with_computed(source):
                names.add(source.name, rows)
                rows = names.query(sql, 0)
            names.add(source.name, connectors.watched(rows, source))
            if source.connector == "mns":
                self._sources.append(connectors.queue_source(source, place))
        for view in plan.views:
            names.add(view.name, _counted(names.query(view.sql, 0), f"view:{view.name}"))
        sinks = {sink.name.lower(): sink for sink in plan.sinks}
        found = []
        for number, insert in enumerate(plan.inserts):
            sink = sinks[insert.sink.lower()]
            rows = connectors.fitted(names.query(insert.sql, insert.line), sink)
            found.append((insert, _counted(rows, f"insert:{number}"), sink))
        for queue in self._sources:
            read_by = [number for number, (_, rows, _) in enumerate(found) if connectors.reads(rows, queue.name)]
            queue.note_readers([self._folders[number] for number in read_by])
        return found

    def _start_queries(self, place: Place, outputs: list[tuple[Insert, DataFrame, Sink]]) -> None:
        checkpoints.keep_only(self._held, self._folders)
        try:
            for number, (insert, rows, sink) in enumerate(outputs):
                if rows.isStreaming:
                    self._queries[number] = self._query(place, number, insert, rows, connectors.output(sink, place))
                else:
                    connectors.output(sink, place).write(rows)
        except BaseException:
            self._end_queries()
            raise

    def _query(
        self, place: Place, number: int, insert: Insert, rows: DataFrame, output: connectors.Output
    ) -> StreamingQuery:
        writer = output.stream(rows).outputMode(insert.output)
        writer = writer.option("checkpointLocation", f"{place.url.rstrip('/')}/{self._folders[number]}")
        writer = writer.trigger(processingTime=f"{place.settings.batch_interval_ms} milliseconds")
        query: StreamingQuery = writer.start()
        return query

    def _watch(self, executors: Executors) -> None:
        """Until the pipeline is stopped, or ends by itself."""
        while not self._ending.wait(_PERIOD_S):
            try:
                self._held.check()
                executors.check()
                self._look()
                continue
            except Exception as error:  # noqa: BLE001  the border of the thread
                self._fail(_as_failure(error))
            return

    def _look(self) -> None:
        for number, query in enumerate(self._queries):
            if query is None:
                continue
            _take(self._watches[number], query)
            if not query.isActive:
                raise _ended(query, self.spec.plan.inserts[number].line)

    def _fail(self, failure: AnalyticsError) -> None:
        with self._lock:
            if self._ending.is_set():
                return
            self._ending.set()
            self._failure = failure
            self._end_queries()
            if isinstance(failure, PipelineFailed):
                self._settle()
            self._stopped.set()

    def _finish(self, place: Place, outputs: list[tuple[Insert, DataFrame, Sink]]) -> None:
        """Write the rows of a batch job, one insert after the other."""
        failure: AnalyticsError | None = None
        line = 0
        try:
            with _in_session(place.spark, self.spec.tenant, self.spec.pipeline):
                for number, (insert, rows, sink) in enumerate(outputs):
                    if self._ending.is_set():
                        break
                    line = insert.line
                    started = time.time()
                    count = self._written(place, number, rows, connectors.output(sink, place))
                    log.info(
                        "insert %s of %s wrote %s rows in %.1f s",
                        number,
                        self.spec.pipeline,
                        count,
                        time.time() - started,
                    )
        except Exception as error:  # noqa: BLE001  the border of the thread
            failure = _as_failure(error, line)
        with self._lock:
            if not self._ending.is_set():
                self._failure = failure or self._noted_end()
            self._ending.set()
            self._stopped.set()

    def _noted_end(self) -> AnalyticsError | None:
        """Note in the state that a batch job has come to its end; why that cannot be."""
        try:
            checkpoints.note_end(self._held, self.spec.begun)
        except AnalyticsError as error:
            return _as_failure(error)
        return None

    def _written(self, place: Place, number: int, rows: DataFrame, output: connectors.Output) -> int:
        from pyspark.sql import Observation
        from pyspark.sql import functions as F  # noqa: N812

        seen = Observation(f"written-{number}")
        is_empty = F.lit(False) if output.empty is None else output.empty[1]
        output.write(rows.observe(seen, F.count(F.lit(1)).alias("rows"), F.count_if(is_empty).alias("empty")))
        count = int(seen.get["rows"])
        if output.empty is not None:
            self._watches[number].operators[output.empty[0]] += int(seen.get["empty"])
        self._watches[number].operators[f"insert:{number}"] += count
        return count

    def _end_queries(self, patience_s: float = 0) -> None:
        if self.spec.plan.settings.mode == "batch":  # a stream's jobs bear the tag too, and it stops by itself
            spark_session.get().sparkContext.cancelJobsWithTag(_tag(self.spec.pipeline))
        deadline = time.monotonic() + patience_s
        for insert, running in zip(self.spec.plan.inserts, self._queries, strict=True):
            while running is not None and time.monotonic() < deadline and _has_batch(running):
                if insert.sink in {waiting.sink for waiting in waits.told(self._held.state)}:
                    break  # its next try may be an hour away; the batch is repeated
                time.sleep(_LOOK_S)
        for number, query in enumerate(self._queries):
            if query is not None:
                try:
                    query.stop()
                    _take(self._watches[number], query)
                except Exception as error:  # noqa: BLE001  what does not stop is fenced off by the next runner
                    log.warning("insert %s of %s does not stop: %s", number, self.spec.pipeline, error)

    def _settle(self) -> None:
        """Delete in the queues what was committed last; what cannot be is deleted by the next runner."""
        for source in self._sources:
            try:
                self._held.check()
                intake.settle(source)
            except (OSError, PipelineFenced) as error:
                log.info("messages of %s are not deleted now: %s", source.queue, error)


class _Names:
    """What queries of a plan may name, and the frames behind."""

    def __init__(self, spark: SparkSession, tables: sessions.TenantSession, spec: Start) -> None:
        self._spark, self._tables, self._spec = spark, tables, spec
        self._own: list[str] = []

    def add(self, name: str, rows: DataFrame) -> None:
        """Give rows a name that queries know from now on."""
        rows.createOrReplaceTempView(spelling.quoted(name))
        if name not in self._own:
            self._own.append(name)

    def query(self, sql: str, line: int) -> DataFrame:
        """The rows of a query that the guard lets through. Raises QueryRefused and QueryFailed, which name the line."""
        from pyspark.sql import DataFrame

        known = {schema: [table.name for table in listed] for schema, listed in self._spec.tables.items()}
        try:
            guarded = guard.check(self._spark, sql, schema=_OWN, tables=known | {_OWN: self._own})
            self._tables.register((pair for pair in guarded.relations if pair[0] != _OWN), self._spec.decide)
            jvm: Any = self._spark._jvm
            rows = jvm.org.apache.spark.sql.classic.Dataset.ofRows(self._spark._jsparkSession, guarded.plan)
        except QueryRefused as error:
            raise PipelineRefused(f"{error.user_message}{_at(line)}") from error
        except Exception as error:
            raise PipelineRefused(f"{failures.translate(error).user_message}{_at(line)}") from error
        return DataFrame(rows, self._spark)


def _at(line: int) -> str:
    return f" (in the statement of line {line})" if line else ""


def _tag(pipeline: str) -> str:
    return f"pipeline-{pipeline}"


def _counted(rows: DataFrame, name: str) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    return rows.observe(name, F.count(F.lit(1)).alias("rows"))


def _take(watch: InsertWatch, query: StreamingQuery) -> None:
    java: Any = query._jsq
    latest = java.lastProgress()
    if latest is None or latest.batchId() <= watch.last:
        return
    for told in java.recentProgress():
        watch.take(str(told.json()))


def _has_batch(query: StreamingQuery) -> bool:
    status = query.status
    return bool(query.isActive and status["isTriggerActive"] and status["isDataAvailable"])


def _ended(query: StreamingQuery, line: int) -> AnalyticsError:
    error = query.exception()
    if error is None:
        return PipelineFailed("The query ended, and Spark does not tell why.", line)
    return _as_failure(error, line)


def _as_failure(error: Exception, line: int = 0) -> AnalyticsError:
    """What ended a pipeline, in a sentence."""
    if isinstance(error, PipelineFailed | PipelineFenced | EngineLost):
        return error
    if (failure := failure_of(str(error), line or None)) is not None:
        return failure
    translated = failures.translate(error)
    if isinstance(translated, EngineLost):
        return translated
    if isinstance(translated, QueryFailed) and translated.condition == failures.BUSY:
        return EngineBusy(translated.user_message)
    return PipelineFailed(translated.user_message, line or None)


@contextmanager
def _translated() -> Iterator[None]:
    """What Spark raises while a pipeline is started, as ours."""
    try:
        yield
    except AnalyticsError:
        raise
    except Exception as error:
        if sentence := said(str(error)):
            raise PipelineRefused(sentence) from error
        raise failures.translate(error) from error


@contextmanager
def _in_session(spark: SparkSession, tenant: str, pipeline: str) -> Iterator[None]:
    """In this thread, and in those of the queries that it starts: the tenant's share of the cores, and the session.

    Spark finds data sources written in Python by the session that is active.
    """
    active: Any = spark._jvm.org.apache.spark.sql.classic.SparkSession  # type: ignore[union-attr]
    context = spark.sparkContext
    spark_session.ensure_pool(context, tenant)
    context.setLocalProperty("spark.scheduler.pool", tenant)
    context.addJobTag(_tag(pipeline))
    active.setActiveSession(spark._jsparkSession)
    try:
        yield
    finally:
        active.clearActiveSession()
        context.removeJobTag(_tag(pipeline))
        context.setLocalProperty("spark.scheduler.pool", None)  # type: ignore[arg-type]


def start(spec: Start) -> Pipeline:
    """Start a pipeline; returns when its queries run, or a batch job has begun.

    Raises PipelineRefused, PipelineFenced, QueryRefused (a table or folder that its owner may not use), QueryFailed,
    LakeError, EngineUnavailable, EngineLost.
    """
    pipeline = Pipeline(spec, checkpoints.claim(spec.location, spec.number, spec.origin))
    spark_session.before_end(pipeline.abandon)
    pipeline._run()
    return pipeline


def warm() -> None:
    """Start Spark, and run a small pipeline until its first rows are written: the first of a user is then no slower.

    Raises as `start`, and PipelineFailed.
    """
    location = f"oss://{_WARM_BUCKET}/{uuid.uuid4().hex}/"
    numbers = Source("numbers", "datagen", (Column("n", "bigint"),), options={"rows-per-second": 10})
    sink = Sink("shown", "print", (Column("n", "bigint"), Column("times", "bigint")))
    insert = Insert(sink.name, "select n, count(*) from numbers where n > 0 group by n", "update")
    plan = Plan((numbers,), (sink,), (), (insert,), Settings(batch_interval_ms=200))
    try:
        pipeline = start(Start("warm", "gantry", plan, location, 1))
        deadline = time.monotonic() + _WARM_S
        while pipeline.report().inserts[0].batch is None and time.monotonic() < deadline:
            if pipeline.wait(_LOOK_S):
                break
        pipeline.stop()
    finally:
        lake.remove(location)
