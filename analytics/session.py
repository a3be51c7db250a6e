"""The only builder of the SparkSession: one for the life of the process, warmed once, shared by all threads.

Tenants never get it directly: `sql.sessions` derives one with a catalog of its own for each of them. Each tenant has a
scheduler pool, which divides its share of the cores evenly among its own statements.
"""

import contextlib
import fcntl
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import uuid
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analytics import jvm, lake, reach
from analytics import settings as settings_module
from analytics.errors import EngineOutdated, EngineUnavailable
from analytics.java import JavaNotFound, find_java
from analytics.lake import allowed_paths

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_TOP, _LOCK = "spark", "lock"
_PREFIX = "process-"

#: Functions that call any Java method or tell where files lie; dropped, so that a gap in the guard does not reach them.
DROPPED_FUNCTIONS = (
    "reflect",
    "java_method",
    "try_reflect",
    "input_file_name",
    "input_file_block_start",
    "input_file_block_length",
)

#: Where the JVM keeps what it keeps for itself, below the scratch folder.
_FOLDERS_OF_THE_JVM = {"java.io.tmpdir": "tmp", "user.home": "."}

_STANDALONE = "spark://"
#: How long a master may take to answer, s.
_MASTER_S = 10.0
#: How long the JVM may take to end before it is killed, s.
_STOP_S = 8
#: How long a task may go on after its statement has ended, s: what matches a pattern without end never looks whether it
#: is to end. Meanwhile it holds its tenant's share of the cores and no other's.
TASK_PATIENCE_S = 30.0

_OUTDATED = (
    "The engine started before these brokers were known, and may not connect to them; it starts again as soon as"
    " nothing else runs in it."
)
#: By these somebody ends a process that has done nothing. Java ends in order on most of them, with 128 and the number.
_FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

_lock = threading.Lock()
_culprit: str | None = None
_was_killed = False
_session: "SparkSession | None" = None
_scratch: "Scratch | None" = None
_pools_lock = threading.Lock()
#: What is to be done before the JVM ends, as long as somebody has the object that does it.
_before_end: "list[weakref.WeakMethod[Callable[[], object]]]" = []


class Scratch:
    """A folder that is this process's until `remove`; several processes may share a home.

    The process holds a lock on a file of its folder, which goes with the process, however that ends.
    """

    def __init__(self, home: Path) -> None:
        """Make it, and sweep those of processes that are gone. Raises OSError when nothing can be written there."""
        top = home / _TOP
        top.mkdir(parents=True, exist_ok=True)
        _sweep(top)
        name = f"{_PREFIX}{os.getpid()}-{uuid.uuid4().hex[:8]}"
        draft = top / f".{name}"  # nobody sweeps it before it is locked
        draft.mkdir()
        self._lock = os.open(draft / _LOCK, os.O_CREAT | os.O_RDWR)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self.path = draft.rename(top / name)

    def remove(self) -> None:
        """Remove the folder with all in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def _sweep(top: Path) -> None:
    for folder in top.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):  # another process sweeps it too, or lives in it
            lock = os.open(folder / _LOCK, os.O_RDWR)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)


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


def before_end(work: "Callable[[], object]") -> None:
    """Let `stop` call a method first, unless its object is gone by then."""
    _before_end[:] = [kept for kept in _before_end if kept() is not None] + [weakref.WeakMethod(work)]


def stop() -> None:
    """End Spark and its JVM; the next `get` starts a new one. Does nothing when none runs."""
    global _session, _scratch, _culprit, _was_killed
    while _before_end:
        work = _before_end.pop()()
        if work is not None:
            with contextlib.suppress(Exception):  # the JVM may be gone already
                work()
    with _lock:
        _culprit, _was_killed = None, False
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
    gateway.held_ports.close()  # type: ignore[union-attr]
    if gateway.stream_door is not None:  # type: ignore[union-attr]
        gateway.stream_door.close()  # type: ignore[union-attr]


def kill(culprit: str | None = None) -> None:
    """End the JVM at once. Whatever waits for it gets EngineLost, which names the task that is the `culprit`."""
    global _culprit, _was_killed
    session = _session
    _culprit, _was_killed = _culprit or culprit, True
    if session is not None:
        session.sparkContext._gateway.proc.kill()  # type: ignore[union-attr]


def culprit() -> str | None:
    """The task for which the JVM was ended, when that is known."""
    return _culprit


def is_alive() -> bool:
    """Whether the JVM runs. False before the first `get`."""
    session = _session
    return session is not None and session.sparkContext._gateway.proc.poll() is None  # type: ignore[union-attr]


def running() -> "SparkSession | None":
    """The session, whether its JVM lives or not; None before the first `get` and after `stop`. Starts nothing."""
    return _session


def beyond(addresses: "Iterable[str]") -> bool:
    """Whether there are some of these `host:port` to which the JVM may not connect, and one that starts now may.

    False while none runs. Name servers and the database are asked for what there is now only where that counts.
    """
    session = _session
    opened = None if session is None else session.sparkContext._gateway.reach  # type: ignore[union-attr]
    missing = [] if opened is None else [address for address in addresses if not opened.has(address)]
    return bool(missing) and any(map(reach.of_a_start(settings_module.load()).has, missing))


def outdated(addresses: "Iterable[str]") -> EngineOutdated | None:
    """What `beyond` tells, as an error for who needs these `host:port`."""
    wanted = tuple(addresses)
    return EngineOutdated(_OUTDATED, addresses=wanted) if beyond(wanted) else None


def is_lost() -> bool:
    """Whether the JVM was started and has died. False after an orderly `stop`."""
    session = _session
    return session is not None and session.sparkContext._gateway.proc.poll() is not None  # type: ignore[union-attr]


def was_ended_from_outside() -> bool:
    """Whether the JVM has died of a signal that was not `kill`'s: of somebody's, or of a kernel that needs the memory.

    What ran in it is then not to blame: a JVM that has no memory left ends by itself, and one that crashes by SIGABRT.
    """
    session = _session
    if session is None or _was_killed:
        return False
    status = session.sparkContext._gateway.proc.poll()  # type: ignore[union-attr]
    return any(status in (-number, 128 + number) for number in _FROM_OUTSIDE)


def _start(settings: settings_module.Settings, scratch: Path) -> "SparkSession":
    if settings.spark_url.startswith("sc://"):
        raise EngineUnavailable(
            "Spark cannot start: SPARK_URL is a Spark Connect server, which gives no plan to judge before it runs; "
            "allowed are local[…], spark://…, yarn and k8s://…."
        )
    if settings.spark_url.startswith(_STANDALONE):
        _require_master(settings.spark_url)
    try:
        java_home = find_java(settings.home)
    except JavaNotFound as error:
        raise EngineUnavailable(f"Spark cannot start: {error}") from error
    logging.getLogger("SQLQueryContextLogger").setLevel(
        logging.CRITICAL + 1
    )  # it prints every user error as a page of JSON

    from py4j.protocol import Py4JError
    from pyspark import SparkContext
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    (scratch / allowed_paths.CLASSES).mkdir(exist_ok=True)
    configuration = {
        "spark.app.name": "gantry",
        "spark.master": jvm.master_of(settings.spark_url),
        **_configuration(settings, scratch),
    }
    os.environ["PYSPARK_PYTHON"] = sys.executable  # read whenever Python workers are started
    try:
        gateway = jvm.start(settings, scratch, java_home, configuration)
        SparkContext._ensure_initialized(gateway=gateway)
        if settings.is_local:
            jvm.provide(gateway.jvm, settings.home)
        session = SparkSession.builder.getOrCreate()
    except (PySparkException, Py4JError, OSError) as error:
        raise EngineUnavailable(
            f"Spark cannot start with SPARK_URL={settings.spark_url}: {_first_line(error)}"
        ) from error
    _close_accumulators(session.sparkContext)
    _close_types()
    hadoop: Any = session.sparkContext._jsc.hadoopConfiguration()
    for name, value in lake.hadoop_secrets().items():  # now: what a session is started with is in the list of processes
        hadoop.set(name, value)
    drop_functions(session)
    if settings.is_local:
        allowed_paths.install(session, scratch)
    return session


def _require_master(spark_url: str) -> None:
    """Raise EngineUnavailable when no master answers: Spark would ask for a minute, and then not say what for."""
    for address in spark_url.removeprefix(_STANDALONE).split(","):
        host, _, port = address.rpartition(":")
        with contextlib.suppress(OSError, ValueError):
            socket.create_connection((host.strip("[]"), int(port)), _MASTER_S).close()
            return
    raise EngineUnavailable(f"Spark cannot start: no master of the cluster answers at SPARK_URL={spark_url}.")


def _close_accumulators(context: Any) -> None:
    """Let Python workers have no accumulators: nobody asks for them, and PySpark unpickles what they send.

    The JVM runs statements of tenants, so it must not choose what the process that holds the secrets unpickles.
    """
    context._accumulatorServer.shutdown()
    context._accumulatorServer.server_close()
    context._accumulatorServer = None
    context._javaAccumulator = None  # what functions of Python are told to add to


def _close_types() -> None:
    """Let no type that the JVM tells be one of Python's own: it names a module, which PySpark would import.

    That would be in the process that holds the secrets, and the error for what is no type shows what it is.
    """
    from pyspark.sql.types import UserDefinedType

    def refuse(_json: object) -> "UserDefinedType":
        raise TypeError("types of Java and Python are not known here")

    UserDefinedType.fromJson = staticmethod(refuse)  # type: ignore[method-assign,assignment]


def _configuration(settings: settings_module.Settings, scratch: Path) -> dict[str, str]:
    logging_file = Path(__file__).with_name("log4j2.properties").as_uri()
    options = f"-Dlog4j2.configurationFile={logging_file} -XX:+ExitOnOutOfMemoryError -Xss4m -XX:-UsePerfData"
    # Names of files in any language, whatever the environment says; and no folder but our own.
    options += " -Dfile.encoding=UTF-8 -Dsun.jnu.encoding=UTF-8 -Duser.name=gantry"
    options += "".join(f' "-D{name}={scratch / place}"' for name, place in _FOLDERS_OF_THE_JVM.items())
    if settings.is_local:
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
    configuration |= lake.spark_configuration()
    if settings.is_local:
        # Further jars too: the file system that sessions are given finds the storage's class beside its own.
        jars = filter(None, configuration.pop("spark.jars", "").split(","))
        classes = (str(jvm.cores_folder(settings.home)), str(scratch / allowed_paths.CLASSES), *jars)
        configuration |= {
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.extraClassPath": os.pathsep.join(classes),
            "spark.sql.extensions": "InterruptibleJoins",
        }
    else:
        # An executor whose task does not end when it is told to ends itself; the master starts another.
        configuration |= {
            "spark.task.reaper.enabled": "true",
            "spark.task.reaper.killTimeout": f"{TASK_PATIENCE_S:.0f}s",
        }
        if settings.cores:
            configuration["spark.cores.max"] = str(settings.cores)
        if settings.executor_memory:
            configuration["spark.executor.memory"] = settings.executor_memory
    return configuration


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


def ensure_pool(context: "SparkContext", name: str) -> None:
    """Add the pool unless the scheduler has it (2 ms, else 1): minimum share 0, weight 1, like Spark's own.

    A pool that Spark makes by itself is first come, first served inside: a tenant's short statement would wait for all
    tasks of its own long one. Naming pools beforehand needs a file; here one is added to the running scheduler. In
    `local[…]` it is one of SharedCores.java, which cannot take all cores.
    """
    jvm: Any = context._jvm
    scheduler = context._jsc.sc().taskScheduler()
    if shares_cores(context):
        scheduler.ensurePool(name)
        return
    root = scheduler.rootPool()
    if root.getSchedulableByName(name) is not None:
        return
    with _pools_lock:
        if root.getSchedulableByName(name) is None:
            classes = jvm.org.apache.spark.scheduler
            root.addSchedulable(classes.Pool(name, classes.SchedulingMode.FAIR(), 0, 1))


def note_waiting(context: "SparkContext", work: str, tasks: int) -> None:
    """Tell the scheduler how many tasks of a job group, or of a job tag, wait for something outside.

    Until told otherwise it counts them as none, and starts no further ones of that work. On a cluster each keeps its
    core.
    """
    if shares_cores(context):
        context._jsc.sc().taskScheduler().waits(work, tasks)


def shares_cores(context: "SparkContext") -> bool:
    """Whether tasks run in this JVM, by SharedCores.java."""
    return (context.master or "").startswith("local[shared:")
