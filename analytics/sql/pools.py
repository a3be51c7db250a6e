"""A scheduler pool for each tenant, which divides its share of the cores evenly among the tenant's own statements.

A pool that Spark makes by itself is first come, first served inside: a tenant's short statement would wait for all
tasks of its own long one. Naming pools beforehand needs a file; here one is added to the running scheduler.
"""

import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark import SparkContext

_lock = threading.Lock()


def ensure(context: "SparkContext", name: str) -> None:
    """Add the pool unless the scheduler has it (2 ms, else 1): minimum share 0, weight 1, like Spark's own.

    In `local[…]` it is one of SharedCores.java, which cannot take all cores.
    """
    jvm: Any = context._jvm
    scheduler = context._jsc.sc().taskScheduler()
    if is_shared(context):
        scheduler.ensurePool(name)
        return
    root = scheduler.rootPool()
    if root.getSchedulableByName(name) is not None:
        return
    with _lock:
        if root.getSchedulableByName(name) is None:
            classes = jvm.org.apache.spark.scheduler
            root.addSchedulable(classes.Pool(name, classes.SchedulingMode.FAIR(), 0, 1))


def is_shared(context: "SparkContext") -> bool:
    """Whether tasks run in this JVM, by SharedCores.java."""
    return (context.master or "").startswith("local[shared:")
