"""What the engine asks of Spark, whose driver is a JVM of this process: `local[…]`, `spark://…`, `yarn`, `k8s://…`."""

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from analytics import session as spark_session
from analytics.errors import LakeError, QueryFailed, QueryRefused
from analytics.specs import Progress, QuerySpec
from analytics.sql import guard, metrics, pools, sessions, snapshots

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame


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
            tables={schema: [table.name for table in tables] for schema, tables in spec.tables.items()},
            parameters=spec.parameters,
            lookup=spec.lookup,
        )
        if guarded.looked_up or spec.decide is not None:
            # Where something is denied, nothing may be known that others have registered: what this statement did not
            # ask for is then not there, however Spark comes to its name.
            tenant = sessions.private(spec, guarded.looked_up)
        tenant.register(guarded.relations, spec.decide)
        for relation in guarded.hidden - guarded.relations:
            with contextlib.suppress(QueryFailed, QueryRefused, LakeError):  # then Spark knows the WITH query alone
                tenant.register([relation], spec.decide)
        jvm: Any = tenant.spark._jvm
        rows = jvm.org.apache.spark.sql.classic.Dataset.ofRows(tenant.spark._jsparkSession, guarded.plan)
        return DataFrame(rows, tenant.spark)

    @contextlib.contextmanager
    def statement(self, pool: str, tag: str) -> Iterator[None]:
        """The scheduler pool and the tag, both of this thread."""
        context = self._context
        try:
            pools.ensure(context, pool)
            context.setLocalProperty("spark.scheduler.pool", pool)
            context.setInterruptOnCancel(True)
            context.addJobTag(tag)
            with snapshots.removed_afterwards():
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
        return pools.is_shared(self._context) and self._context._jsc.sc().taskScheduler().running(tag) > 0

    def kill(self, task_id: str) -> None:
        """End the JVM, for the statement of a task that does not let itself be stopped."""
        spark_session.kill(task_id)

    def counters(self, tag: str) -> metrics.Counters:
        """From Spark's status store."""
        return metrics.read(self._context, tag)

    def progress(self, tag: str) -> Progress | None:
        """From Spark's status store."""
        return metrics.progress(self._context, tag)

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
