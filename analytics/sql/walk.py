"""The nodes of a parsed plan, listed inside the JVM by PlanWalk.java in one call."""

import threading
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analytics.errors import QueryRefused

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: The names of what is no node, but an argument of one.
TYPE_ARGUMENT, OPTIONS_ARGUMENT = "TypeArgument", "OptionsArgument"
_NODE, _FIELD, _TOO_COMPLEX = "\2", "\1", "TOO COMPLEX"
_lock = threading.Lock()
_walkers: "weakref.WeakKeyDictionary[Any, Any]" = weakref.WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class Node:
    """A plan or expression node: its Java class, and for the few kinds that are judged by more, their `fields`.

    UnresolvedRelation: "options" or "", "streaming" or "", then the parts of the name · functions, columns: the
    parts of the name · UnresolvedWith: the names it defines · TypeArgument: the function, "text" and the text, or
    "function" and the parts of its name, or "other" · OptionsArgument: the function, "map" with names and values in
    turn, or "other".
    """

    name: str
    fields: tuple[str, ...]

    @property
    def kind(self) -> str:
        """The class without its package."""
        return self.name.rpartition(".")[2]


def nodes(session: "SparkSession", plan: Any) -> list[Node]:
    """All nodes, those of subqueries and common table expressions included. Raises QueryRefused for too many."""
    listing = _walker(session).apply(plan)
    if listing == _TOO_COMPLEX:
        raise QueryRefused("The statement has too many parts; divide it.")
    return [Node(name, tuple(fields)) for name, *fields in (line.split(_FIELD) for line in listing.split(_NODE))]


def _walker(session: "SparkSession") -> Any:
    gateway: Any = session.sparkContext._gateway
    with _lock:
        walker = _walkers.get(gateway)
        if walker is None:
            walker = _walkers[gateway] = _compile(session, gateway)
        return walker


def _compile(session: "SparkSession", gateway: Any) -> Any:
    jvm: Any = session._jvm
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(session._jsparkSession.getClass().getClassLoader())
    compiler.cook(Path(__file__).with_name("PlanWalk.java").read_text())
    compiled = compiler.getClassLoader().loadClass("PlanWalk")
    no_types, no_values = gateway.new_array(jvm.Class, 0), gateway.new_array(jvm.Object, 0)
    return compiled.getDeclaredConstructor(no_types).newInstance(no_values)
