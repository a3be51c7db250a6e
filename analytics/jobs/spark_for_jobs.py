"""The Spark session of our own jobs, in a pool of their own beside those of the tenants."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from analytics import session as spark_session
from analytics.sql import pools

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_POOL = "gantry"


@contextmanager
def session() -> Iterator["SparkSession"]:
    """The process's session, for as long as the block runs. Raises EngineUnavailable."""
    spark = spark_session.get()
    pools.ensure(spark.sparkContext, _POOL)
    spark.sparkContext.setLocalProperty("spark.scheduler.pool", _POOL)
    yield spark
