"""The only builder of the SparkSession: one for the life of the process, warmed once, shared by all threads.

Tenants never get it directly: `sql.sessions` derives one with a catalog of its own for each of them.
"""

import contextlib
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analytics import lake
from analytics import settings as settings_module
from analytics.errors import EngineUnavailable
from analytics.java import JavaNotFound, find_java
from analytics.scratch import Scratch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Functions that call any Java method or tell where files lie; dropped, so that a gap in the guard does not reach them.
DROPPED_FUNCTIONS = (
    "reflect",
    "java_method",
    "try_reflect",
    "input_file_name",
    "input_file_block_start",
    "input_file_block_length",
)

#: How long the JVM may take to end before it is killed, s.
_STOP_S = 8
_lock = threading.Lock()
_session: "SparkSession | None" = None
_scratch: Scratch | None = None


def get() -> "SparkSession":
    """The session, started at the first call (6 to 12 s). Raises EngineUnavailable with what to do."""
    global _session, _scratch  # noqa: PLW0603  the one session of the process
    with _lock:
        if _session is None:
            settings = settings_module.load()
            try:
                _scratch = _scratch or Scratch(settings.home)
            except OSError as error:
                raise EngineUnavailable(f"Spark cannot start: {_first_line(error)}") from error
            _session = _start(settings, _scratch.path)
        return _session


def stop() -> None:
    """End Spark and its JVM; the next `get` starts a new one. Does nothing when none runs."""
    global _session, _scratch
    with _lock:
        session, _session = _session, None
        scratch, _scratch = _scratch, None
        if session is not None:
            _end(session)
        if scratch is not None:
            scratch.remove()


def _end(session: "SparkSession") -> None:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    gateway = session.sparkContext._gateway
    with contextlib.suppress(Exception):  # the JVM may be gone already
        session.stop()
    with contextlib.suppress(Exception):
        gateway.shutdown()  # type: ignore[union-attr]
    process = gateway.proc  # type: ignore[union-attr]
    # PySpark forgets a context only when its JVM could be asked to stop it.
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = None
    process.stdin.close()
    try:
        process.wait(timeout=_STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def kill() -> None:
    """End the JVM at once. Whatever waits for it gets EngineLost."""
    session = _session
    if session is not None:
        session.sparkContext._gateway.proc.kill()  # type: ignore[union-attr]


def is_alive() -> bool:
    """Whether the JVM runs. False before the first `get`."""
    session = _session
    return session is not None and session.sparkContext._gateway.proc.poll() is None  # type: ignore[union-attr]


def is_lost() -> bool:
    """Whether the JVM was started and has died. False after an orderly `stop`."""
    session = _session
    return session is not None and session.sparkContext._gateway.proc.poll() is not None  # type: ignore[union-attr]


def _start(settings: settings_module.Settings, scratch: Path) -> "SparkSession":
    try:
        java_home = find_java(settings.home)
    except JavaNotFound as error:
        raise EngineUnavailable(f"Spark cannot start: {error}") from error
    logging.getLogger("SQLQueryContextLogger").setLevel(
        logging.CRITICAL + 1
    )  # it prints every user error as a page of JSON

    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("gantry").master(settings.spark_url)
    for name, value in _configuration(settings, scratch).items():
        builder = builder.config(name, value)
    try:
        with _environment_of_the_jvm(java_home):
            session = builder.getOrCreate()
    except (PySparkException, Py4JError, OSError) as error:
        raise EngineUnavailable(
            f"Spark cannot start with SPARK_URL={settings.spark_url}: {_first_line(error)}"
        ) from error
    hadoop: Any = session.sparkContext._jsc.hadoopConfiguration()
    for name, value in lake.hadoop_secrets().items():  # now: what a session is started with is in the list of processes
        hadoop.set(name, value)
    drop_functions(session)
    return session


def _configuration(settings: settings_module.Settings, scratch: Path) -> dict[str, str]:
    logging_file = Path(__file__).with_name("log4j2.properties").as_uri()
    options = f"-Dlog4j2.configurationFile={logging_file} -XX:+ExitOnOutOfMemoryError -Xss4m"
    if settings.spark_url.startswith("local"):
        options += " -XX:+UseSerialGC"  # a small heap beside everything else: a third less CPU at the start
    configuration = {
        # One process: its memory, its folders, no page of its own
        "spark.driver.memory": settings.driver_memory,
        # Out of memory, a JVM may live on half dead and never answer: it ends at once, and its worker starts another.
        "spark.driver.extraJavaOptions": options,
        "spark.driver.maxResultSize": "256m",  # what a statement may gather in the driver; more goes through files
        "spark.local.dir": str(scratch / "local"),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.ui.retainedTasks": "10000",
        "spark.sql.ui.retainedExecutions": "1",
        # Fair between tenants: a pool each, and tasks short enough that nobody waits long for a core
        "spark.scheduler.mode": "FAIR",
        "spark.sql.files.maxPartitionBytes": "16m",
        # Many small shuffle tasks are fair to others; adaptive execution joins them again when there is little data
        "spark.sql.shuffle.partitions": "16",
        "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
        # True numbers: with vectored reads Spark undercounts the bytes of Parquet up to 2,000 times
        "spark.hadoop.parquet.hadoop.vectored.io.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        # Safe for many tenants: no file as a table, no ${env:…} in a statement
        "spark.sql.runSQLOnFiles": "false",
        "spark.sql.variable.substitute": "false",
        # A Python worker that waits for a broker is ended with its statement, and not two seconds later
        "spark.python.task.killTimeout": "500ms",
        "spark.sql.catalogImplementation": "in-memory",
        # The partitions of a table are its folders, not what a catalog was told of them
        "spark.sql.hive.manageFilesourcePartitions": "false",
    }
    if settings.spark_url.startswith("local"):
        configuration |= {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
    return configuration | lake.spark_configuration()


@contextlib.contextmanager
def _environment_of_the_jvm(java_home: Path) -> Iterator[None]:
    """The Java found, our Python, the installed PySpark's own Spark, and none of our settings and secrets.

    PySpark hands the process's environment on, so it is changed for that moment.
    """
    import pyspark

    kept = dict(os.environ)
    changes = {
        "JAVA_HOME": str(java_home),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_USER": "gantry",  # what a statement is told of the user that runs the engine
        # Python workers read messages with our own code (analytics/sources).
        "PYTHONPATH": os.pathsep.join(filter(None, [str(Path(__file__).parents[1]), kept.get("PYTHONPATH")])),
    }
    for name in kept.keys() - settings_module.without_secrets(kept).keys():
        del os.environ[name]
    os.environ.update(changes)
    try:
        yield
    finally:
        os.environ.update(kept)
        os.environ["PYSPARK_PYTHON"] = sys.executable  # read again whenever Python workers are started


def drop_functions(session: "SparkSession") -> None:
    """Remove the dangerous functions from the registry of a session."""
    jvm: Any = session._jvm
    registry = session._jsparkSession.sessionState().functionRegistry()
    some = jvm.scala.Some
    for name in DROPPED_FUNCTIONS:
        registry.dropFunction(
            jvm.org.apache.spark.sql.catalyst.FunctionIdentifier(name, some("builtin"), some("system"))
        )


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
