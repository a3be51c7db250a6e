"""The batches of a stream, one after the other, for a thread of this process: `foreachBatch` without a port."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

#: For how long the JVM is asked for a batch at a time, ms.
_PATIENCE_MS = 500


class BatchGate:
    """Between a stream and who writes its batches."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        jvm: Any = spark._jvm
        gateway: Any = spark.sparkContext._gateway
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(spark._jsparkSession.getClass().getClassLoader())
        compiler.cook(Path(__file__).with_name("BatchGate.java").read_text(encoding="utf-8"))
        made = compiler.getClassLoader().loadClass("BatchGate")
        no_types, no_values = gateway.new_array(jvm.Class, 0), gateway.new_array(jvm.Object, 0)
        self._java: Any = made.getDeclaredConstructor(no_types).newInstance(no_values)

    def put_into(self, writer: DataStreamWriter) -> None:
        """Have a stream hand its batches here."""
        writer._jwrite.foreachBatch(self._java)

    def take(self) -> DataFrame | None:
        """The batch that waits; None where none does for half a second."""
        from pyspark.sql import DataFrame

        batch = self._java.take(_PATIENCE_MS)
        return None if batch is None else DataFrame(batch, self._spark)

    def done(self, failure: str | None = None) -> None:
        """It has been written; or why it could not be, which ends the stream."""
        self._java.done(failure)
