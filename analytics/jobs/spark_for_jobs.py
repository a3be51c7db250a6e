"""The Spark session of our own jobs, in a pool of their own beside those of the tenants."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from analytics import session as spark_session
from analytics import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_POOL = "gantry"


@contextmanager
def session() -> Iterator["SparkSession"]:
    """The process's session, or one of the Spark Connect server for as long as the block runs.

    Raises EngineUnavailable.
    """
    if not settings.load().uses_connect:
        spark = spark_session.get()
        spark.sparkContext.setLocalProperty("spark.scheduler.pool", _POOL)
        yield spark
        return
    from analytics.sql.connect import channel, outage

    remote = channel.open_session()
    try:
        remote.conf.set("spark.sql.session.timeZone", "UTC")
        remote.conf.set("spark.scheduler.pool", _POOL)
        yield remote  # type: ignore[misc]
    except Exception as error:
        raise (outage.of(error) or error) from error
    finally:
        remote.stop()
