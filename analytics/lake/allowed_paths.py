"""What a Spark session can reach of the lake: a list, held by the file system that Spark is given.

The file system is LakeFileSystem.java.

The guard decides what a statement may name; this holds whatever Spark opens, also by a path that nobody has decided on:
another account's folder, and a file outside of the lake, stay shut. A session is known by a number that nobody guesses.
It stands in the session's configuration, from where Spark hands it to every file system that the session makes; the
lists themselves are in the JVM and no statement can change them.

Where the driver is a JVM of this process and the lake a folder. Elsewhere `install` only refuses `file:` and all other
file systems but the object storage's own, whose rights are those of its AccessKey.
"""

import contextlib
import os
import secrets
import threading
import weakref
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analytics import settings
from analytics.lake import store
from analytics.lake.folder import FolderStore
from analytics.lake.hadoop import spark_url
from analytics.lake.locations import Place, parse_location

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SESSION = "gantry.lake.session"
_CLASS = "LakeFileSystem"
#: The folder, a part of the JVM's class path from its start, in which the compiled classes are put.
CLASSES = "classes"

_lock = threading.Lock()
#: By session: its number and the folders on its list, with how often each was asked for.
_lists: "weakref.WeakKeyDictionary[SparkSession, tuple[str, Counter[str]]]" = weakref.WeakKeyDictionary()
#: Numbers of sessions that are gone.
_gone: list[str] = []


def install(spark: "SparkSession", scratch: Path) -> None:
    """Give all sessions of the JVM our file system, and the first one, which runs our own jobs, a list too."""
    jvm: Any = spark._jvm
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(spark._jsparkSession.getClass().getClassLoader())
    compiler.cook(Path(__file__).with_name(f"{_CLASS}.java").read_text())
    for compiled in compiler.getClassFiles():
        (scratch / CLASSES / f"{compiled.getThisClassName()}.class").write_bytes(bytes(compiled.toByteArray()))
    hadoop: Any = spark.sparkContext._jsc.hadoopConfiguration()
    storage = settings.load().storage
    if storage is not None:
        name = f"fs.{storage.hadoop}.impl"
        hadoop.set("gantry.lake.storage.setting", name)
        hadoop.set("gantry.lake.storage", hadoop.get(name, ""))
    _made(spark, "Install").apply(hadoop)
    _made(spark, "Lists").apply("", f"{os.path.realpath(scratch / 'warehouse')}/")
    start(spark)


def start(spark: "SparkSession") -> None:
    """Give a session a number and an empty list; nothing on a cluster, where the file system is not installed."""
    if not settings.load().is_local:
        return
    with _lock:
        lists = _made(spark, "Lists")
        while _gone:
            lists.apply(_gone.pop(), None)
        number = secrets.token_hex(16)
        _lists[spark] = number, Counter()
        weakref.finalize(spark, _gone.append, number)
    spark.conf.set(_SESSION, number)


def add(spark: "SparkSession", location: str | Place) -> str:
    """Put a folder on the session's list for as long as the session lives; returns the address that Spark is given."""
    _put(spark, location, 1)
    return spark_url(location)


@contextlib.contextmanager
def reaching(spark: "SparkSession", location: str | Place) -> Iterator[str]:
    """A folder is on the session's list while the block runs; gives the address."""
    _put(spark, location, 1)
    try:
        yield spark_url(location)
    finally:
        with contextlib.suppress(Exception):  # the JVM may have died, which the block's own error tells
            _put(spark, location, -1)


def _put(spark: "SparkSession", location: str | Place, times: int) -> None:
    found = store.get()
    if isinstance(found, FolderStore) and settings.load().is_local:
        _change(spark, f"{found.path(parse_location(location))}/", times)


def _change(spark: "SparkSession", folder: str, times: int) -> None:
    with _lock:
        number, folders = _lists[spark]
        before = set(folders)
        folders[folder] += times
        if folders[folder] <= 0:
            del folders[folder]
        if before != set(folders):
            _made(spark, "Lists").apply(number, "\n".join(folders) or None)


def _made(spark: "SparkSession", name: str) -> Any:
    """One of the classes inside ours."""
    gateway: Any = spark.sparkContext._gateway
    found = spark._jsparkSession.getClass().getClassLoader().loadClass(f"{_CLASS}${name}")
    no_types, no_values = gateway.new_array(gateway.jvm.Class, 0), gateway.new_array(gateway.jvm.Object, 0)
    return found.getDeclaredConstructor(no_types).newInstance(no_values)
