"""Runs pipelines: starts the queries of a plan, watches them, stops them, all in the one Spark of this process.

A pipeline holds its state by a fencing number (checkpoints). When one of its queries ends by an error, or a later
runner has taken the state over, all of them end, and the pipeline is to be started anew by whoever decides that.

An insert whose rows end is no query: it is written once, in a thread beside the queries, and its end is noted in the
state. A job with none but these has come to its end with the last one, which all inserts of a batch job are.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from analytics import lake, uses
from analytics import session as spark_session
from analytics.errors import (
    AnalyticsError,
    EngineBusy,
    EngineLost,
    EngineUnavailable,
    LakeUnavailable,
    PipelineFailed,
    PipelineFenced,
    PipelineRefused,
    QueryFailed,
)
from analytics.lake import allowed_paths
from analytics.pipelines import checkpoints, connectors, intake, waits
from analytics.pipelines.batch_gate import BatchGate
from analytics.pipelines.connector_errors import failure_of, said
from analytics.pipelines.connectors import Place
from analytics.pipelines.counts import reads
from analytics.pipelines.executors import Executors
from analytics.pipelines.plan import Column, Insert, Plan, Settings, Sink, Source, Value
from analytics.pipelines.print_sink import Tail
from analytics.pipelines.queue_source import QueueSource
from analytics.pipelines.reports import InsertWatch, Report, operators_of, rate_of, source_key
from analytics.specs import Decide, TableSpec
from analytics.sql import failures, guard, sessions, spelling

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from analytics.pipelines.inflow_sql import Judged

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
#: And bytes of them, for rows of some megabytes each.
_BYTES_AT_ONCE = 16 << 20
#: How long a batch that is under way may take to end before it is given up, s; it is then repeated.
_PATIENCE_S = 30.0
#: How long what writes rows that end may take to see that it was cut off, s.
_CUT_S = 10.0


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
    #: Which start of its owner's it is; further attempts have the same. A job, and an insert of one, that came to its
    #: end in one of them does not run again in the next.
    begun: str = ""


@dataclass(frozen=True, slots=True)
class _Ready:
    """An insert of the plan with its rows, which are a stream or end, and what writes them."""

    number: int
    insert: Insert
    rows: DataFrame
    output: connectors.Output


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
        is_batch = spec.plan.settings.mode == "batch"
        #: Of each source whether its rows end.
        self._ends = {one.name: is_batch or one.ends for one in spec.plan.sources}
        self._queries: list[StreamingQuery | None] = [None] * len(spec.plan.inserts)
        #: By the insert, the query over each of its batches, and why one of them could not be written.
        self._judged: dict[int, Judged] = {}
        self._unwritten: dict[int, AnalyticsError] = {}
        self._sources: list[QueueSource] = []
        #: What the scheduler was told: how many tasks wait, by run of a query, or by the tag of rows that end.
        self._waiting: dict[str, int] = {}
        self._ending = threading.Event()
        #: Who has it sees whether the pipeline ends, and it does not begin to meanwhile.
        self._going_on = threading.Lock()
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        #: Cleared while rows that end are written.
        self._written = threading.Event()
        self._written.set()
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
        """Why it ended, when nobody stopped it: PipelineFailed, PipelineRefused, PipelineFenced or EngineLost."""
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
            rows_in_per_second=rate_of(self._watches, self._ends, now_ms),
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
            self._begin_to_end()
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
            self._begin_to_end()
            self._end_queries(patience_s)
            self._stopped.set()

    # Its own life

    def _run(self) -> None:
        """Begin; then watch, in a thread. Raises what `start` raises."""
        if checkpoints.has_ended(self._held, self.spec.begun):
            log.info("%s has come to its end before; it does not run again", self.spec.pipeline)
            self._stopped.set()
            return
        with translated():
            place = self._place()
            with in_session(place.spark, self.spec.tenant, self._tag):
                ready = self._ready(place)
                executors = Executors(place.spark)
                executors.require(self._held, connectors.topics(self.spec.plan, place))
                checkpoints.keep_only(self._held, self._folders)
                checkpoints.forget_ends(self._held, self.spec.begun, goes_on=not place.is_batch)
                streams = [one for one in ready if one.rows.isStreaming]
                self._start_queries(place, streams)
        rest = [one for one in ready if not one.rows.isStreaming]
        work = [lambda: self._watch(executors)]
        if rest:
            self._written.clear()
            work.append(lambda: self._write(place, rest, is_all=not streams))
        for one in work:
            threading.Thread(target=one, name=f"pipeline {self.spec.pipeline}", daemon=True).start()

    def _place(self) -> Place:
        spark = self._session = sessions.with_own_catalog(spark_session.get())
        settings = self.spec.plan.settings
        spark.conf.set("spark.sql.shuffle.partitions", str(max(1, settings.parallelism)))
        spark.conf.set("spark.sql.streaming.checkpointFileManagerClass", _CHECKPOINT_FILES)
        # The state is the pipeline's alone. A start that was cut off in its first batch leaves a piece of a file there.
        spark.conf.set("spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart", "false")
        spark.conf.set("spark.sql.streaming.minBatchesToRetain", "20")
        spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(_ROWS_AT_ONCE))
        spark.conf.set("spark.sql.execution.arrow.maxBytesPerBatch", str(_BYTES_AT_ONCE))
        spark.conf.set("spark.sql.streaming.stopTimeout", f"{_PATIENCE_S:.0f}s")
        if settings.time_zone:
            spark.conf.set("spark.sql.session.timeZone", settings.time_zone)
        url = allowed_paths.add(spark, self._held.state_location)
        return Place(spark, str(self._held.state), url, settings, self.spec.secrets, self.spec.decide, self.spec.given)

    def _ready(self, place: Place) -> list[_Ready]:
        """The inserts of the plan. Raises QueryRefused, PipelineRefused and LakeError."""
        plan = self.spec.plan
        tables = sessions.TenantSession(place.spark, "", dict(self.spec.tables))
        names = Names(place.spark, tables, self.spec)
        for source in plan.sources:
            with _of_statement(source.line):
                rows = connectors.frame(source, place)
            if sql := connectors.with_computed(source):
                names.add(source.name, rows)
                rows = names.query(sql, 0)
            names.add(source.name, connectors.watched(rows, source, place))
            if source.connector == "mns":
                self._sources.append(connectors.queue_source(source, place))
        for view in plan.views:
            names.add(view.name, place.counts.counted(names.query(view.sql, 0), f"view:{view.name}"))
        sinks = {sink.name.lower(): sink for sink in plan.sinks}
        found = []
        for number, insert in enumerate(plan.inserts):
            sink = sinks[insert.sink.lower()]
            with _of_statement(insert.line):
                rows = connectors.fitted(names.query(insert.sql, insert.line), sink)
            counted = connectors.counted(rows, f"insert:{number}", sink, place)
            output = connectors.output(sink, place)
            if output.by_batch is not None:
                self._judged[number] = partial(names.judged, output.sql, insert.line)
                try:
                    output.by_batch.require(self._judged[number])
                except Exception as error:
                    raise _refusal(error, insert.line) from error
            found.append(_Ready(number, insert, counted, output))
        for queue in self._sources:
            read_by = [one.number for one in found if reads(one.rows, source_key(queue.name))]
            queue.note_readers([self._folders[number] for number in read_by])
        return found

    def _start_queries(self, place: Place, streams: list[_Ready]) -> None:
        try:
            for one in streams:
                self._queries[one.number] = self._query(place, one)
        except BaseException:
            self._end_queries()
            raise

    def _query(self, place: Place, one: _Ready) -> StreamingQuery:
        from pyspark.errors import AnalysisException

        writer = one.output.stream(one.rows).outputMode(one.insert.output)
        writer = writer.option("checkpointLocation", f"{place.url.rstrip('/')}/{self._folders[one.number]}")
        writer = writer.trigger(processingTime=f"{place.settings.batch_interval_ms} milliseconds")
        gate = None if one.output.by_batch is None else BatchGate(place.spark)
        if gate is not None:
            gate.put_into(writer)
        try:
            query: StreamingQuery = writer.start()
        except AnalysisException as error:  # what no stream can do
            raise _as_failure(error, one.insert.line) from error
        if gate is not None:
            work = threading.Thread(target=self._hand_on, args=(place, one, query, gate), daemon=True)
            work.start()
        return query

    def _hand_on(self, place: Place, one: _Ready, query: StreamingQuery, gate: BatchGate) -> None:
        """Write the batches of a stream over each of which a query is made, in a thread, until it has ended."""
        try:
            with in_session(place.spark, self.spec.tenant, self._tag_of_batches):
                while query.isActive:
                    batch = gate.take()
                    if batch is None:
                        continue
                    failure: AnalyticsError | None = None
                    try:
                        one.output.by_batch.write(batch, self._judged[one.number])  # type: ignore[union-attr]
                    except Exception as error:  # noqa: BLE001  it ends the stream, by which the pipeline ends
                        failure = self._unwritten[one.number] = _as_failure(error, one.insert.line)
                    gate.done(None if failure is None else failure.user_message)
        except Exception as error:  # noqa: BLE001  the border of the thread
            self._fail(_as_failure(error, one.insert.line))

    def _watch(self, executors: Executors) -> None:
        """Until the pipeline is stopped, or ends by itself."""
        try:
            while not self._ending.wait(_PERIOD_S):
                self._held.check()
                executors.check()
                self._look()
                self._note_waiting(waits.processes(self._held.state))
        except Exception as error:  # noqa: BLE001  the border of the thread
            self._fail(_as_failure(error))
        with suppress(Exception):  # the engine may be gone
            self._note_waiting({})

    def _note_waiting(self, processes: Mapping[str, int]) -> None:
        """Tell the scheduler how many tasks of each insert wait for its table: others may have their cores."""
        waiting: dict[str, int] = {}
        for number, insert in enumerate(self.spec.plan.inserts if processes else ()):
            if tasks := processes.get(insert.sink, 0):
                query = self._queries[number]
                tag = self._tag_of_batches if number in self._judged else self._tag_of_writing
                waiting[tag if query is None or number in self._judged else query.runId] = tasks
        context = self._session.sparkContext  # type: ignore[union-attr]
        for work in waiting | self._waiting:
            if waiting.get(work) != self._waiting.get(work):
                spark_session.note_waiting(context, work, waiting.get(work, 0))
        self._waiting = waiting

    def _look(self) -> None:
        for number, query in enumerate(self._queries):
            if query is None:
                continue
            _take(self._watches[number], query)
            if not query.isActive:
                raise self._unwritten.get(number) or _ended(query, self.spec.plan.inserts[number].line)

    def _fail(self, failure: AnalyticsError) -> None:
        with self._lock:
            if self._ending.is_set():
                return
            self._begin_to_end()
            failure = self._failure = self._fence() or failure
            self._end_queries()
            if isinstance(failure, PipelineFailed | PipelineRefused):
                self._settle()
            self._stopped.set()

    def _fence(self) -> PipelineFenced | None:
        """That another runner has the state, where that is so: what fails then most likely fails by it."""
        try:
            self._held.check()
        except PipelineFenced as fenced:
            return fenced
        return None

    def _write(self, place: Place, rest: list[_Ready], *, is_all: bool) -> None:
        """Write the rows of the inserts that end, one after the other; with `is_all` nothing goes on beside them."""
        failure: AnalyticsError | None = None
        line = 0
        try:
            with in_session(place.spark, self.spec.tenant, self._tag_of_writing):
                for one in rest:
                    if self._ending.is_set():
                        break
                    line = one.insert.line
                    self._write_once(place, one)
        except Exception as error:  # noqa: BLE001  the border of the thread
            failure = _as_failure(error, line)
        self._written.set()
        if failure is not None:
            self._fail(failure)
        elif is_all:
            self._come_to_end()

    def _write_once(self, place: Place, one: _Ready) -> None:
        """Write the rows of an insert, unless an earlier attempt has. Raises what Spark raises, and LakeError."""
        folder = self._folders[one.number]
        if checkpoints.insert_has_ended(self._held, folder):
            log.info("insert %s of %s has come to its end before", one.number, self.spec.pipeline)
            return
        started = time.time()
        count = self._rows_written(place, one)
        with self._going_on:
            if self._ending.is_set():  # somebody may be copying the state
                return
            checkpoints.note_end(self._held, self.spec.begun, folder)
        seconds = time.time() - started
        log.info("insert %s of %s wrote %s rows in %.1f s", one.number, self.spec.pipeline, count, seconds)

    def _come_to_end(self) -> None:
        with self._lock:
            if not self._ending.is_set():
                self._failure = self._noted_end()
            self._begin_to_end()
            self._stopped.set()

    def _noted_end(self) -> AnalyticsError | None:
        """Note in the state that the job has come to its end; why that cannot be."""
        try:
            checkpoints.note_end(self._held, self.spec.begun)
        except AnalyticsError as error:
            return _as_failure(error)
        return None

    def _rows_written(self, place: Place, one: _Ready) -> int:
        from pyspark.sql import Observation
        from pyspark.sql import functions as F  # noqa: N812

        seen, empty = Observation(f"written-{one.number}"), one.output.empty
        began_ms = round(time.time() * 1000)
        is_empty = F.lit(False) if empty is None else empty[1]
        one.output.write(one.rows.observe(seen, F.count(F.lit(1)).alias("rows"), F.count_if(is_empty).alias("empty")))
        count = int(seen.get["rows"])
        rows = place.counts.of(one.rows) | {f"insert:{one.number}": count}
        if empty is not None:
            rows[empty[0]] = int(seen.get["empty"])
        self._watches[one.number].take_whole(rows, began_ms, round(time.time() * 1000) - began_ms)
        return count

    @property
    def _tag(self) -> str:
        """What jobs of Spark for its queries bear."""
        return f"pipeline-{self.spec.pipeline}"

    @property
    def _tag_of_writing(self) -> str:
        """What those for rows that end bear: queries stop by themselves, and these are cut off.

        Another runner of the same pipeline, which may be in this process, has another one.
        """
        return f"{self._tag}-{self.spec.number}-ends"

    @property
    def _tag_of_batches(self) -> str:
        """What those for batches over which a query is made bear: the stream waits for them, and does not own them."""
        return f"{self._tag}-{self.spec.number}-batches"

    def _begin_to_end(self) -> None:
        with self._going_on:
            self._ending.set()

    def _end_writing(self) -> None:
        """Cut off what is being written; the next start writes it anew, from its first row."""
        deadline = time.monotonic() + _CUT_S
        while not self._written.is_set() and time.monotonic() < deadline:
            try:  # again and again, since the next job of the same insert may be about to begin
                self._session.sparkContext.cancelJobsWithTag(self._tag_of_writing)  # type: ignore[union-attr]
            except Exception as error:  # noqa: BLE001  with the engine its jobs have ended
                log.warning("the rows of %s that end are not cut off: %s", self.spec.pipeline, error)
                return
            self._written.wait(_LOOK_S)

    def _end_queries(self, patience_s: float = 0) -> None:
        self._end_writing()
        running = [(number, query) for number, query in enumerate(self._queries) if query is not None]
        # At the same time: while one is waited for, another one would begin its next batch.
        threads = [threading.Thread(target=self._end_query, args=(*one, patience_s), daemon=True) for one in running]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _end_query(self, number: int, query: StreamingQuery, patience_s: float) -> None:
        """Stop a query once the batch that is under way has ended; another one may follow without a gap."""
        deadline, deadline_ms = time.monotonic() + patience_s, (time.time() + patience_s) * 1000
        try:
            before = _last_told(query)
            while time.monotonic() < deadline and _has_batch(query) and _last_told(query) == before:
                if self._next_try_ms(number) > deadline_ms:
                    break  # the batch is repeated
                time.sleep(_LOOK_S)
            query.stop()
            if number in self._judged:
                self._session.sparkContext.cancelJobsWithTag(self._tag_of_batches)  # type: ignore[union-attr]
            _take(self._watches[number], query)
        except Exception as error:  # noqa: BLE001  what does not stop is fenced off by the next runner
            log.warning("insert %s of %s does not stop: %s", number, self.spec.pipeline, error)

    def _next_try_ms(self, number: int) -> int:
        """When the sink of an insert, which waits, tries again, epoch ms; 0 for one that does not wait."""
        sink = self.spec.plan.inserts[number].sink
        return max((waiting.next_ms for waiting in waits.told(self._held.state) if waiting.sink == sink), default=0)

    def _settle(self) -> None:
        """Delete in the queues what was committed last; what cannot be is deleted by the next runner."""
        for source in self._sources:
            try:
                self._held.check()
                intake.settle(source)
            except (OSError, PipelineFenced) as error:
                log.info("messages of %s are not deleted now: %s", source.queue, error)


class Readable(Protocol):
    """Tables of the catalog that queries may name, by schema, and what decides about their files."""

    @property
    def tables(self) -> Mapping[str, list[TableSpec]]: ...

    @property
    def decide(self) -> Decide | None: ...


class Names:
    """What queries of a plan, or one that is tried, may name, and the frames behind."""

    def __init__(self, spark: SparkSession, tables: sessions.TenantSession, spec: Readable) -> None:
        self._spark, self._tables, self._spec = spark, tables, spec
        self._own: list[str] = []

    def add(self, name: str, rows: DataFrame) -> None:
        """Give rows a name that queries know from now on."""
        rows.createOrReplaceTempView(spelling.quoted(name))
        self.know(name)

    def know(self, name: str) -> None:
        """Let queries know a name of which there is a view, or will be one."""
        if name not in self._own:
            self._own.append(name)

    def query(self, sql: str, line: int) -> DataFrame:
        """The rows of a query that the guard lets through. Raises QueryRefused and QueryFailed, which name the line."""
        from pyspark.sql import DataFrame

        plan = self.judged(sql, line)
        try:
            jvm: Any = self._spark._jvm
            rows = jvm.org.apache.spark.sql.classic.Dataset.ofRows(self._spark._jsparkSession, plan)
        except Exception as error:
            raise _refusal(error, line) from error
        return DataFrame(rows, self._spark)

    def judged(self, sql: str, line: int) -> Any:
        """The plan of a query that the guard lets through, whose tables are there. Raises as `query`."""
        known = {schema: [table.name for table in listed] for schema, listed in self._spec.tables.items()}
        try:
            guarded = guard.check(self._spark, sql, schema=_OWN, tables=known | {_OWN: self._own})
            self._tables.register((pair for pair in guarded.relations if pair[0] != _OWN), self._spec.decide)
        except Exception as error:
            raise _refusal(error, line) from error
        return guarded.plan


@contextmanager
def _of_statement(line: int) -> Iterator[None]:
    """What is refused has the line of its statement."""
    try:
        yield
    except PipelineRefused as refused:
        raise _refusal(refused, line) from refused


def _refusal(error: Exception, line: int) -> AnalyticsError:
    """Why a statement cannot be run; what says nothing of the statement stays what it is."""
    found = failures.translate(error)
    if isinstance(found, EngineLost | EngineUnavailable | LakeUnavailable | PipelineFailed):
        return found
    if isinstance(found, QueryFailed) and found.condition == failures.BUSY:
        return EngineBusy(found.user_message)
    return PipelineRefused(found.user_message, line or None)


def _take(watch: InsertWatch, query: StreamingQuery) -> None:
    java: Any = query._jsq
    latest = java.lastProgress()
    if latest is None or latest.batchId() <= watch.last:
        return
    for told in java.recentProgress():
        watch.take(str(told.json()))


def _last_told(query: StreamingQuery) -> str:
    """When what Spark told last of the query began: of a batch that has ended, or that there was none."""
    latest = query._jsq.lastProgress()
    return "" if latest is None else str(latest.timestamp())


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
    if isinstance(error, PipelineFailed | PipelineRefused | PipelineFenced | EngineLost):
        return error
    if (failure := failure_of(str(error), line or None)) is not None:
        return failure
    translated = failures.translate(error)
    if isinstance(translated, EngineLost):
        return translated
    if isinstance(translated, QueryFailed) and translated.condition == failures.BUSY:
        return EngineBusy(translated.user_message)
    kind = PipelineRefused if _is_for_good(error, translated) else PipelineFailed
    return kind(translated.user_message, line or None)


def _is_for_good(error: Exception, translated: AnalyticsError) -> bool:
    """Whether Spark refuses the statement, and would with every start: it says so before it touches a row."""
    from pyspark.errors import AnalysisException

    refused = isinstance(error, AnalysisException) or isinstance(getattr(error, "_cause", None), AnalysisException)
    # A reader of ours that fails while Spark plans is told in the same way.
    return refused and not str(getattr(translated, "condition", "")).startswith("PYTHON_")


@contextmanager
def translated() -> Iterator[None]:
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
def in_session(spark: SparkSession, tenant: str, tag: str) -> Iterator[None]:
    """In this thread, and in those of the queries that it starts: the tenant's share of the cores, and the session.

    Spark finds data sources written in Python by the session that is active.
    """
    active: Any = spark._jvm.org.apache.spark.sql.classic.SparkSession  # type: ignore[union-attr]
    context = spark.sparkContext
    spark_session.ensure_pool(context, tenant)
    context.setLocalProperty("spark.scheduler.pool", tenant)
    context.addJobTag(tag)
    active.setActiveSession(spark._jsparkSession)
    try:
        yield
    finally:
        active.clearActiveSession()
        context.removeJobTag(tag)
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
    with uses.one():
        _warm(f"oss://{_WARM_BUCKET}/{uuid.uuid4().hex}/")


def _warm(location: str) -> None:
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
