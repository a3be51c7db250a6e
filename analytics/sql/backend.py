"""What the engine asks of Spark, whose driver is a JVM of this process: `local[…]`, `spark://…`, `yarn`, `k8s://…`."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from analytics import session as spark_session
from analytics.errors import EngineOutdated, LakeError, QueryFailed, QueryRefused
from analytics.specs import Progress, QuerySpec
from analytics.sql import guard, sessions, tables

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

#: The counters come over Spark's event queue; how long to wait for it to be drained, ms.
_DRAIN_MS = 2000


@dataclass(frozen=True, slots=True)
class Counters:
    """Rows and bytes over all stages of the jobs with one tag."""

    input_rows: int = 0
    input_bytes: int = 0
    output_rows: int = 0


def read(context: "SparkContext", tag: str) -> Counters:
    """Sum up the stages of the jobs that carry `tag`; a stage shared by two jobs counts once."""
    spark: Any = context._jsc.sc()
    spark.listenerBus().waitUntilEmpty(_DRAIN_MS)
    input_rows = input_bytes = output_rows = 0
    for data in _stages(spark, tag):
        input_rows += data.inputRecords()
        input_bytes += data.inputBytes()
        output_rows += data.outputRecords()
    return Counters(input_rows, input_bytes, output_rows)


def progress(context: "SparkContext", tag: str) -> Progress | None:
    """How far the jobs are that carry `tag`, as far as Spark knows by now; None before the first stage."""
    stages = [data for data in _stages(context._jsc.sc(), tag) if str(data.status()) != "SKIPPED"]
    if not stages:
        return None
    return Progress(
        stages=len(stages),
        stages_done=sum(str(data.status()) == "COMPLETE" for data in stages),
        tasks=sum(data.numTasks() for data in stages),
        tasks_done=sum(data.numCompleteTasks() for data in stages),
        scanned_row_count=sum(data.inputRecords() for data in stages),
        scanned_data_bytes=sum(data.inputBytes() for data in stages),
    )


def _stages(spark: Any, tag: str) -> Iterator[Any]:
    """The latest attempt of every stage of the jobs with the tag."""
    from py4j.protocol import Py4JJavaError

    tracker, store = spark.statusTracker(), spark.statusStore()
    stages: set[int] = set()
    for job in tracker.getJobIdsForTag(tag):
        info = tracker.getJobInfo(job)
        if info.isDefined():
            stages.update(info.get().stageIds())
    for stage in sorted(stages):
        try:
            yield store.lastStageAttempt(stage)
        except Py4JJavaError:  # a stage that was planned and then skipped was never stored
            continue


class Backend:
    """The process's one session, and the sessions derived from it; started when it is not. Raises EngineUnavailable.

    Methods raise what Spark raises; `failures.translate` makes sentences of it.
    """

    def __init__(self) -> None:
        self._context: Any = spark_session.get().sparkContext

    def prepare(self, spec: QuerySpec) -> "DataFrame":
        """The statement as the plan that the guard has judged, in a session that knows its tables only."""
        from pyspark.sql import DataFrame

        tenant = sessions.of(spec)
        guarded = guard.check(
            tenant.spark,
            spec.sql,
            schema=spec.schema,
            tables={schema: [table.name for table in listed] for schema, listed in spec.tables.items()},
            parameters=spec.parameters,
            lookup=spec.lookup,
        )
        if guarded.looked_up or spec.decide is not None:
            # Where something is denied, nothing may be known that others have registered: what this statement did not
            # ask for is then not there, however Spark comes to its name.
            tenant = sessions.private(spec, guarded.looked_up)
        tenant.register(guarded.relations, spec.decide)
        for relation in guarded.hidden - guarded.relations:
            # Where it cannot be read, Spark knows the WITH query alone.
            with contextlib.suppress(QueryFailed, QueryRefused, LakeError, EngineOutdated):
                tenant.register([relation], spec.decide)
        jvm: Any = tenant.spark._jvm
        rows = jvm.org.apache.spark.sql.classic.Dataset.ofRows(tenant.spark._jsparkSession, guarded.plan)
        return DataFrame(rows, tenant.spark)

    @contextlib.contextmanager
    def statement(self, pool: str, tag: str) -> Iterator[None]:
        """The scheduler pool and the tag, both of this thread."""
        context = self._context
        try:
            spark_session.ensure_pool(context, pool)
            context.setLocalProperty("spark.scheduler.pool", pool)
            context.setInterruptOnCancel(True)
            context.addJobTag(tag)
            with tables.removed_afterwards():
                yield
        finally:
            # The thread is used again for another tenant: nothing of this statement may stay with it. A dead JVM has
            # no thread to clear, and the statement's own error tells of it.
            with contextlib.suppress(Exception):
                context.removeJobTag(tag)
                context.setLocalProperty("spark.scheduler.pool", None)

    @contextlib.contextmanager
    def tagged(self, tag: str) -> Iterator[None]:
        """A further tag on the jobs of the block."""
        self._context.addJobTag(tag)
        try:
            yield
        finally:
            self._context.removeJobTag(tag)

    def cancel(self, tag: str) -> None:
        """Jobs that are active now; a dead JVM is noticed by the statement's own thread."""
        with contextlib.suppress(Exception):
            self._context.cancelJobsWithTag(tag)

    def holds_cores(self, tag: str) -> bool:
        """Whether tasks with the tag run, those of ended jobs included, by the scheduler of this JVM.

        On a cluster the executor ends itself (`spark.task.reaper`), and this is False.
        """
        return spark_session.shares_cores(self._context) and self._context._jsc.sc().taskScheduler().running(tag) > 0

    def kill(self, task_id: str) -> None:
        """End the JVM, for the statement of a task that does not let itself be stopped."""
        spark_session.kill(task_id)

    def counters(self, tag: str) -> Counters:
        """From Spark's status store."""
        return read(self._context, tag)

    def progress(self, tag: str) -> Progress | None:
        """From Spark's status store."""
        return progress(self._context, tag)

    def most_rows(self, frame: "DataFrame") -> int | None:
        """By the analysed plan."""
        known = frame._jdf.queryExecution().analyzed().maxRows()
        return int(known.get()) if known.isDefined() else None

    def input_bytes(self, frame: "DataFrame") -> int:
        """The leaves of the analysed plan."""
        leaves = frame._jdf.queryExecution().analyzed().collectLeaves()
        return sum(int(str(leaves.apply(number).stats().sizeInBytes())) for number in range(leaves.size()))

    def explained(self, frame: "DataFrame", mode: str) -> str:
        """As `DataFrame.explain` prints it."""
        jvm: Any = frame.sparkSession._jvm
        modes = jvm.org.apache.spark.sql.execution.ExplainMode
        return str(frame._jdf.queryExecution().explainString(modes.fromString(mode)))

    def interrupted(self, frame: "DataFrame") -> "SparkColumn":
        """Asked of the task's thread for each row.

        Spark's writer never asks: a cross join would go on writing for minutes after it was cancelled, and hold its
        cores.
        """
        from pyspark.sql.classic.column import Column as ClassicColumn

        jvm: Any = frame.sparkSession._jvm
        expressions: Any = jvm.org.apache.spark.sql.catalyst.expressions
        literal = getattr(getattr(expressions, "Literal$"), "MODULE$")
        call = [literal.apply("java.lang.Thread"), literal.apply("interrupted")]
        arguments = jvm.scala.jdk.javaapi.CollectionConverters.asScala(jvm.java.util.ArrayList(call)).toSeq()
        asked = expressions.CallMethodViaReflection(arguments, True)
        return ClassicColumn(jvm.org.apache.spark.sql.classic.ExpressionUtils.column(asked))


def unless(interrupted: "SparkColumn", cell: "SparkColumn") -> "SparkColumn":
    """The cell, in tasks that end when they were told to: Spark's writers never ask. `interrupted` is the backend's."""
    from pyspark.sql import functions

    return functions.when(interrupted == "true", functions.raise_error(functions.lit("cancelled"))).otherwise(cell)
