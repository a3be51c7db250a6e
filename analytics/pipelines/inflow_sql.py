"""The transform `sql` of an inflow task: a query over each batch of a stream, whose events are its table `events`.

    numbered    each event with its number in the batch, and its text where the pattern lets it pass: kept in memory
    events      the table of the query: attributes, and parts of the data as VARIANT
    rows        what the query makes, each row with the number of its event, which is carried through it (`_carried`)
    delivered   events and rows in one write to the sink, which tells again what belongs together (`inflow_sink`)

A query sees one event at a time, as every transform does: its rows must not depend on other events of the batch, which
the next start may cut otherwise. So a row is known to be made of one event, and an event at which a query fails, such
as by a cast, is found by halves.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from analytics.errors import PipelineRefused
from analytics.inflow.sql_rows import ATTRIBUTES
from analytics.pipelines.connector_errors import said
from analytics.sql import failures

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

Judged = Callable[[], Any]
"""The query as Spark's parsed plan, let through by the guard. Raises PipelineRefused and LakeError."""

EVENTS = "events"
NUMBER = "__gantry_number"
EVENT, ROW_OF_DATA, ROW_OF_EVENT, FAILED = range(4)
"""What a row is to the sink: an event as it was; what a query made, as columns or as an event; why it made nothing."""
_NUMBERED = "number bigint not null, event binary, text string"
_TEXTS = ("id", "source", "type", "subject")
_PARTS = ("operation", "databaseName", "schemaName", "tableName")
_VARIANTS = ("primaryKey", "before", "after")
COLUMNS = (*_TEXTS, "time", *_PARTS, *_VARIANTS, "data", "event")
"""Of the table `events`."""
MOST_TRIED = 1000
"""Rows of a query that is tried."""
#: Operators between the table `events` and the rows of a query: each row of theirs comes of one row of the table.
_OF_ONE_EVENT = ("Project", "Filter", "Join", "SubqueryAlias", "Generate", "Union", "Sort", "LateralJoin")
#: Classes of SQLSTATE that are about values, not about the engine: cardinality, data, integrity, raised by the query.
_OF_VALUES = re.compile(r"SQLSTATE: (?:21|22|23|P0)\w{3}")
_ONE_AT_A_TIME = (
    "An event's rows may not depend on other events: the outermost SELECT reads events once, without GROUP BY,"
    " DISTINCT, LIMIT, aggregates and window functions, and no subquery reads it."
)


@dataclass(frozen=True)
class BatchSql:
    """Writes the batches of one task."""

    spark: SparkSession
    #: Of the sink, as Spark knows it.
    provider: str
    #: The task's pattern, as JSON.
    pattern: str = field(repr=False)

    def require(self, judged: Judged) -> None:
        """Refuse a query that no batch can be given. Raises PipelineRefused."""
        self._show(self.spark.createDataFrame([], _NUMBERED))
        self._required(judged)

    def tried(self, events: Sequence[bytes], judged: Judged) -> list[tuple[int, int, bytes, str | None]]:
        """What a query makes of events, whatever the pattern says: number, kind, JSON and topic of each row.

        Raises PipelineRefused, for what `require` refuses too, and what Spark raises.
        """
        rows = [(number, event, event.decode()) for number, event in enumerate(events)]
        self._show(self.spark.createDataFrame(rows, _NUMBERED))
        made = self._required(judged).limit(MOST_TRIED).collect()
        return [(row[0], row[1], bytes(row[2] or b"null"), row[3]) for row in made]

    def write(self, batch: DataFrame, judged: Judged) -> None:
        """Write one batch. Raises what Spark raises."""
        batch = self._of(batch._jdf.queryExecution().logical())  # a stream has a session of its own, without our names
        numbered = batch.coalesce(1).mapInArrow(_numbering(self.pattern), _NUMBERED).persist()
        try:
            try:
                self._deliver(numbered, numbered, judged, {})
            except Exception as error:
                if not _is_of_values(error):
                    raise
                failed = self._failing(numbered, judged, error)
                rest = numbered.where(~numbered["number"].isin(list(failed)))
                self._deliver(numbered, rest, judged, failed)
        finally:
            numbered.unpersist()

    def _show(self, numbered: DataFrame) -> None:
        """Make the table `events` of these."""
        passing = numbered.where("text is not null").selectExpr(f"number as {NUMBER}", "parse_json(text) as event")
        columns = [NUMBER]
        columns += [f"try_variant_get(event, '$.{name}', 'string') as {name}" for name in _TEXTS]
        columns += ["try_variant_get(event, '$.time', 'timestamp') as time"]
        columns += [f"try_variant_get(event, '$.data.{name}', 'string') as {name}" for name in _PARTS]
        columns += [f"{_present(f'$.data.{name}')} as {name}" for name in _VARIANTS]
        passing.selectExpr(*columns, f"{_present('$.data')} as data", "event").createOrReplaceTempView(EVENTS)

    def _required(self, judged: Judged) -> DataFrame:
        """What the query makes, if it is one that batches can be given. Raises PipelineRefused."""
        rows = self._rows(judged)
        analyzed: Any = rows._jdf.queryExecution().analyzed()
        if not _reads_one(analyzed) or rows.schema.fields[-1].nullable:
            raise PipelineRefused(_ONE_AT_A_TIME)
        return _made(rows)

    def _rows(self, judged: Judged) -> DataFrame:
        plan = judged()
        carried = _carried(self.spark._jvm, plan)
        try:
            return self._of(carried)
        except Exception as error:
            self._of(plan)  # raises what is wrong with the query itself
            raise PipelineRefused(_ONE_AT_A_TIME) from error

    def _of(self, plan: Any) -> DataFrame:
        from pyspark.sql import DataFrame

        jvm: Any = self.spark._jvm
        return DataFrame(jvm.org.apache.spark.sql.classic.Dataset.ofRows(self.spark._jsparkSession, plan), self.spark)

    def _deliver(self, numbered: DataFrame, shown: DataFrame, judged: Judged, failed: dict[int, str]) -> None:
        from pyspark.sql import functions as F  # noqa: N812

        self._show(shown)
        nothing = F.lit(None).cast("string").alias("topic")
        events = numbered.select("number", F.lit(EVENT).alias("kind"), F.col("event").alias("content"), nothing)
        written = events.union(_made(self._rows(judged)))
        if failed:
            reasons = [(number, FAILED, reason.encode(), None) for number, reason in failed.items()]
            written = written.union(self.spark.createDataFrame(reasons, written.schema))
        written.coalesce(1).write.format(self.provider).mode("append").save()

    def _failing(self, numbered: DataFrame, judged: Judged, error: Exception) -> dict[int, str]:
        """The events at which the query fails, and why: halves are tried until each is alone."""
        found: dict[int, str] = {}
        numbers = [row[0] for row in numbered.where("text is not null").select("number").collect()]
        left = [(sorted(numbers), error)]
        while left:
            some, error = left.pop()
            if len(some) <= 1:
                found |= {number: f"The query fails: {failures.translate(error).user_message}" for number in some}
                continue
            for half in (some[: len(some) // 2], some[len(some) // 2 :]):
                self._show(numbered.where(numbered["number"].between(half[0], half[-1])))
                try:
                    _made(self._rows(judged)).write.format("noop").mode("overwrite").save()
                except Exception as raised:
                    if not _is_of_values(raised):
                        raise
                    left.append((half, raised))
        return found


def _present(path: str) -> str:
    """A part of the event; null for one that is null in JSON, too, so that `IS NULL` says what it should."""
    part = f"variant_get(event, '{path}')"
    return f"if(is_variant_null({part}), null, {part})"


def _numbering(pattern: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def numbered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from analytics.inflow.delivery import text_of
        from analytics.inflow.pattern import Pattern

        compiled = Pattern.compile(pattern)
        number = 0
        for batch in batches:
            events = [event or b"" for event in batch.column(0).to_pylist()]
            texts: list[str | None] = []
            for event in events:
                try:
                    found = json.loads(event)
                    passes = isinstance(found, dict) and compiled.matches(found)
                    texts.append(text_of(found).decode() if passes else None)
                except (ValueError, RecursionError):
                    texts.append(None)  # the sink tells what is wrong with it
            numbers = pa.array(range(number, number + len(events)), pa.int64())
            number += len(events)
            columns = [numbers, pa.array(events, pa.binary()), pa.array(texts, pa.string())]
            yield pa.RecordBatch.from_arrays(columns, ["number", "event", "text"])

    return numbered


def _carried(jvm: Any, plan: Any) -> Any:
    """The plan with the number of its event in each row, behind all columns. Raises PipelineRefused."""
    logical = jvm.org.apache.spark.sql.catalyst.plans.logical
    match plan.getClass().getSimpleName():
        case "Project":
            unresolved = getattr(jvm.org.apache.spark.sql.catalyst.analysis, "UnresolvedAttribute$")
            number = getattr(unresolved, "MODULE$").quoted(NUMBER)
            return logical.Project(plan.projectList().appended(number), plan.child())
        case "Sort" | "UnresolvedWith":
            (child,) = _parts(plan.children())
            return plan.withNewChildren(_sequence(jvm, [_carried(jvm, child)]))
        case "Union":
            return plan.withNewChildren(_sequence(jvm, [_carried(jvm, child) for child in _parts(plan.children())]))
    raise PipelineRefused(_ONE_AT_A_TIME)


def _sequence(jvm: Any, parts: list[Any]) -> Any:
    found = jvm.java.util.ArrayList()
    for part in parts:
        found.add(part)
    return jvm.scala.jdk.javaapi.CollectionConverters.asScala(found).toSeq()


def _parts(sequence: Any) -> list[Any]:
    return [sequence.apply(place) for place in range(sequence.size())]


def _reads_one(plan: Any, *, is_direct: bool = True) -> bool:
    """Whether the table `events` is nowhere but below operators that keep its rows apart."""
    kind = plan.getClass().getSimpleName()
    if kind == "View" and plan.desc().identifier().unquotedString() == EVENTS:
        return is_direct
    children = _parts(plan.children())
    goes_on = is_direct and (kind in _OF_ONE_EVENT or kind == "WithCTE")
    return all(
        _reads_one(child, is_direct=goes_on and not (kind == "WithCTE" and child is not children[-1]))
        for child in children
    ) and all(_reads_one(one, is_direct=False) for one in _parts(plan.subqueries()))


def _made(rows: DataFrame) -> DataFrame:
    """What a query made, as the sink takes it: number, kind, JSON, topic. Raises PipelineRefused."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import DecimalType, StringType

    fields = rows.schema.fields
    places = [place for place, one in enumerate(fields) if one.name != NUMBER]
    named = {fields[place].name.lower(): place for place in places}
    if len(named) < len(places):
        raise PipelineRefused("Two columns of the query's result have the same name; give each its own by AS.")
    if not places:
        raise PipelineRefused("The query's result has no columns.")
    rows = rows.toDF(*(f"c{place}" for place in range(len(fields))))
    number = F.col(f"c{len(fields) - 1}").alias("number")
    options = {"ignoreNullFields": "false"}
    if "event" in named:
        others = [name for name in named if name not in {one.lower() for one in COLUMNS} and name != ATTRIBUTES[-1]]
        if others:
            raise PipelineRefused(
                f"The query's result has the event and {', '.join(others[:5])}; the event alone is delivered, so name"
                " columns without event, or make an event of them all."
            )
        place = named["event"]
        column = F.col(f"c{place}")
        is_text = isinstance(fields[place].dataType, StringType)
        content = column if is_text else F.to_json(column, options)
        kind = ROW_OF_EVENT
        topic = F.col(f"c{named[ATTRIBUTES[-1]]}").cast("string") if ATTRIBUTES[-1] in named else F.lit(None)
    else:

        def value(place: int) -> Column:  # decimals are texts in events, with all their digits
            found = F.col(f"c{place}")
            is_decimal = isinstance(fields[place].dataType, DecimalType)
            return (found.cast("string") if is_decimal else found).alias(fields[place].name)

        content, kind, topic = F.to_json(F.struct(*map(value, places)), options), ROW_OF_DATA, F.lit(None)
    content = content.cast("binary").alias("content")
    return rows.select(number, F.lit(kind).alias("kind"), content, topic.cast("string").alias("topic"))


def _is_of_values(error: Exception) -> bool:
    """Whether the query failed by what is in an event; not where the sink, a table or the engine did."""
    text = failures.text_of(error)
    return said(text) is None and _OF_VALUES.search(text) is not None
