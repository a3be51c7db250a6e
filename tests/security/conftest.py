"""The standing cast on a running broker; that of async SQL (`sql_cast`), and the one Spark, with tables."""

from tests.analytics.conftest import demo_tables, secret_table, spark
from tests.support.cast import cast, console, queues, running_queues
from tests.support.sql_cast import cast as sql_cast
from tests.support.sql_cast import no_acl

__all__ = ["cast", "console", "demo_tables", "no_acl", "queues", "running_queues", "secret_table", "spark", "sql_cast"]
