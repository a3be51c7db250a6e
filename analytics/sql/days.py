"""Lets conditions on the store time choose the day folders of archives, by a rule inside the JVM (ArchiveDays.java)."""

import threading
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_lock = threading.Lock()
_rules: "weakref.WeakKeyDictionary[Any, Any]" = weakref.WeakKeyDictionary()


def choose_by_time(spark: "SparkSession") -> None:
    """Give the session the rule."""
    java: Any = getattr(spark, "_jsparkSession", None)
    if java is None:
        return
    jvm: Any = spark._jvm
    rules = jvm.scala.jdk.javaapi.CollectionConverters.asScala(jvm.java.util.ArrayList([_rule(spark)])).toSeq()
    getattr(java.experimental(), "extraOptimizations_$eq")(rules)


def _rule(spark: "SparkSession") -> Any:
    gateway: Any = spark.sparkContext._gateway
    with _lock:
        rule = _rules.get(gateway)
        if rule is None:
            jvm: Any = spark._jvm
            compiler = jvm.org.codehaus.janino.SimpleCompiler()
            compiler.setParentClassLoader(spark._jsparkSession.getClass().getClassLoader())
            compiler.cook(Path(__file__).with_name("ArchiveDays.java").read_text())
            compiled = compiler.getClassLoader().loadClass("ArchiveDays")
            no_types, no_values = gateway.new_array(jvm.Class, 0), gateway.new_array(jvm.Object, 0)
            rule = _rules[gateway] = compiled.getDeclaredConstructor(no_types).newInstance(no_values)
        return rule
