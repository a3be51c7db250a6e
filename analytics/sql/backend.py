"""What the engine needs of a Spark, whichever it is.

`classic` (local and spark://) talks to a JVM of this process, `connect` (sc://) to a server elsewhere.
"""

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

from analytics import settings
from analytics.specs import Progress, QuerySpec
from analytics.sql.metrics import Counters

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame


class Backend(Protocol):
    """One Spark. Methods raise what Spark raises; `failures.translate` makes sentences of it."""

    def prepare(self, spec: QuerySpec) -> "DataFrame":
        """Guard the statement, make its tables known, analyse it; no job is run. Raises QueryRefused, QueryFailed."""

    def statement(self, tenant: str, tag: str) -> AbstractContextManager[None]:
        """Run the block's jobs in the tenant's share of Spark, under a tag by which they can be cancelled."""

    def tagged(self, tag: str) -> AbstractContextManager[None]:
        """Mark the block's jobs with one more tag, so that their counters can be told from those of another attempt."""

    def cancel(self, tag: str) -> None:
        """Stop the jobs with the tag that run now; may be called from any thread, and again."""

    def kill(self) -> None:
        """End a Spark that no longer lets itself be cancelled."""

    def counters(self, tag: str) -> Counters:
        """What the jobs with the tag read and wrote."""

    def progress(self, tag: str) -> Progress | None:
        """How far the jobs with the tag are; None before the first one."""

    def most_rows(self, frame: "DataFrame") -> int | None:
        """An upper bound of the rows that is known without looking at data, such as by a LIMIT."""

    def input_bytes(self, frame: "DataFrame") -> int:
        """Sizes of the tables behind the statement, as Spark's catalog knows them."""

    def explained(self, frame: "DataFrame", mode: str) -> str:
        """The plans as text; modes as in `DataFrame.explain`."""

    def interrupted(self, frame: "DataFrame") -> "SparkColumn":
        """A column that is "true" once the task that computes it was told to stop."""

    def counted(self, frame: "DataFrame") -> "DataFrame":
        """The frame that is to be written, such that `counters` know its rows afterwards."""


def unless(interrupted: "SparkColumn", cell: "SparkColumn") -> "SparkColumn":
    """The cell, in tasks that end when they were told to: Spark's writers never ask. `interrupted` is the backend's."""
    from pyspark.sql import functions

    return functions.when(interrupted == "true", functions.raise_error(functions.lit("cancelled"))).otherwise(cell)


def get() -> Backend:
    """The Spark of SPARK_URL for one statement, started when it is not. Raises EngineUnavailable."""
    if settings.load().uses_connect:
        from analytics.sql.connect import Connect

        return Connect()
    from analytics.sql.classic import Classic

    return Classic()
