"""What the jobs of a statement read and wrote, from Spark's own status store."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from analytics.specs import Progress

if TYPE_CHECKING:
    from pyspark import SparkContext

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
