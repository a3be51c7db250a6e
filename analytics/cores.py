"""Puts SharedCores.java into Spark's JVM: the scheduler of `local[…]`, in which no tenant can take another's cores.

It is compiled by Janino, which Spark brings for its generated code, once for a home and text; Spark finds it on its
class path as it finds the schedulers of clusters.
"""

import hashlib
import os
import re
from pathlib import Path
from typing import Any

#: Tenants, each of which has a place besides the cores. A worker runs eight statements at a time.
PLACES = 32
_LOCAL = re.compile(r"local(?:\[(\d+|\*)\])?")
_SOURCE = Path(__file__).with_name("SharedCores.java")
_SERVICE = "META-INF/services/org.apache.spark.scheduler.ExternalClusterManager"


def master_of(spark_url: str) -> str:
    """The master for a SPARK_URL: ours for `local`, `local[2]` and `local[*]`, any other as it is."""
    found = _LOCAL.fullmatch(spark_url)
    return f"local[shared:{found[1] or '1'}:{PLACES}]" if found else spark_url


def folder(home: Path) -> Path:
    """Where the classes lie, made if need be: on the class path of a JVM only a folder that is there counts."""
    found = home / "java" / f"cores-{hashlib.sha256(_SOURCE.read_bytes()).hexdigest()[:16]}"
    found.mkdir(parents=True, exist_ok=True)
    return found


def provide(jvm: Any, home: Path) -> None:
    """Let a JVM, without Spark in it yet, compile the classes unless it has them. Raises what Py4J and files raise."""
    classes = folder(home)
    if (classes / _SERVICE).exists():
        return
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.cook(_SOURCE.read_text())
    for name, code in dict(compiler.getBytecodes()).items():
        _write(classes / f"{name}.class", code)
    _write(classes / _SERVICE, b"SharedCores\n")  # last: it tells that all are there


def _write(file: Path, content: bytes) -> None:
    """Whole or not at all: another process of the same home may do the same."""
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f"{file.name}.{os.getpid()}")
    draft.write_bytes(content)
    draft.replace(file)
