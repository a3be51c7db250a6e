"""What the jobs of a statement read and wrote, from Spark's own status store."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

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
    from py4j.protocol import Py4JJavaError

    spark: Any = context._jsc.sc()
    spark.listenerBus().waitUntilEmpty(_DRAIN_MS)
    tracker, store = spark.statusTracker(), spark.statusStore()
    stages: set[int] = set()
    for job in tracker.getJobIdsForTag(tag):
        info = tracker.getJobInfo(job)
        if info.isDefined():
            stages.update(info.get().stageIds())
    input_rows = input_bytes = output_rows = 0
    for stage in stages:
        try:
            data = store.lastStageAttempt(stage)
        except Py4JJavaError:  # a stage that was planned and then skipped was never stored
            continue
        input_rows += data.inputRecords()
        input_bytes += data.inputBytes()
        output_rows += data.outputRecords()
    return Counters(input_rows, input_bytes, output_rows)
