"""What the user is told of an error that Spark wrapped in others."""

from __future__ import annotations

from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import convert_exception
from pyspark.sql import SparkSession

from analytics.errors import QueryFailed
from analytics.sql import failures

AWAITED = "Exception thrown in awaitResult: "


@pytest.fixture
def jvm(spark: SparkSession) -> Any:
    return spark._jvm


def wrapped(jvm: Any, cause: Any) -> Any:
    """As a broadcast or a write on another thread fails."""
    elsewhere = jvm.java.util.concurrent.ExecutionException(cause)
    return jvm.org.apache.spark.SparkException(AWAITED, elsewhere)


def raised(exception: Any) -> Py4JJavaError:
    return Py4JJavaError("An error occurred", exception)


def test_a_full_disk_is_told_as_such_however_deep_it_lies(jvm: Any) -> None:
    full = jvm.java.io.IOException("No space left on device")
    for error in (raised(wrapped(jvm, full)), convert_exception(wrapped(jvm, full))):
        failure = failures.translate(error)
        assert str(failure) == (
            "The disk of the SQL engine is full: nothing can be saved. Make room there, then try again."
        )


def test_a_statement_that_speaks_of_a_full_disk_is_not_one(jvm: Any) -> None:
    said = jvm.org.apache.spark.SparkException("[USER_RAISED_EXCEPTION] No space left on device SQLSTATE: P0001", None)
    assert str(failures.translate(raised(said))) == "No space left on device"


def test_what_was_thrown_is_told_and_not_that_something_was(jvm: Any) -> None:
    lost = jvm.java.io.FileNotFoundException("part-0.parquet was deleted")
    assert str(failures.translate(raised(wrapped(jvm, lost)))) == "part-0.parquet was deleted"


def test_an_exception_that_says_nothing_is_no_sentence_for_a_user(jvm: Any) -> None:
    alone = jvm.org.apache.spark.SparkException(AWAITED, None)
    assert str(failures.translate(raised(alone))) == "The SQL engine gives no reason; its log has what it said."


def test_of_a_stream_its_offsets_are_not_told(jvm: Any) -> None:
    text = "[DIVIDE_BY_ZERO] Division by zero.\n=== Streaming Query ===\nIdentifier: [id = 3d12]\nCurrent Offsets: {}"
    said = jvm.org.apache.spark.SparkException(text, None)
    assert str(failures.translate(raised(said))) == "Division by zero."


def test_a_machine_that_is_too_busy_for_a_start_is_told_as_that(jvm: Any) -> None:
    said = jvm.org.apache.spark.SparkException("Python worker failed to connect back.", None)
    failure = failures.translate(raised(said))
    assert isinstance(failure, QueryFailed)
    assert (failure.condition, "did not start within 10 s" in str(failure)) == ("ENGINE_BUSY", True)
