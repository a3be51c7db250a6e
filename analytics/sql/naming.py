"""Names that Spark's CREATE refuses and its catalog can hold: topics and schemas may have `%` and `-` in theirs.

Spark checks names when something is made by a statement, not when it is found. So a table is made under a name of
letters and digits, and renamed below that check: columns that are qualified with the true name resolve as always, and
so do error messages.
"""

import hashlib
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: What Spark's session catalog accepts in CREATE.
_PLAIN = re.compile(r"\w+", re.ASCII)


def is_plain(name: str) -> bool:
    """Whether Spark accepts the name in a CREATE."""
    return _PLAIN.fullmatch(name) is not None


def safe(name: str) -> str:
    """The name itself when it is plain, otherwise one made from it that no other name has."""
    return name if is_plain(name) else "t_" + hashlib.sha256(name.encode()).hexdigest()[:24]


def create_database(spark: "SparkSession", name: str) -> None:
    """Make a database of any name in the session's catalog; nothing when it is there."""
    if is_plain(name):
        spark.sql(f"create database if not exists `{name}`")
        return
    catalog = _catalog(spark)
    if catalog.databaseExists(name):
        return
    default = catalog.getDatabase("default")
    database = spark._jvm.org.apache.spark.sql.catalyst.catalog.CatalogDatabase  # type: ignore[union-attr]
    catalog.createDatabase(database(name, "", default.locationUri(), default.properties()), True)


def rename(spark: "SparkSession", schema: str, name: str) -> None:
    """Give the table or view that was made as `safe(name)` its own name."""
    if not is_plain(name):
        _catalog(spark).renameTable(schema, safe(name), name)


def _catalog(spark: "SparkSession") -> Any:
    return spark._jsparkSession.sharedState().externalCatalog()
