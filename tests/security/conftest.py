"""The standing cast on a running broker; that of async SQL (`sql_cast`), and the one Spark, with tables."""

from tests.analytics.conftest import demo_tables, secret_table, spark
from tests.console.sql.conftest import cast as sql_cast
from tests.console.sql.conftest import no_acl
from tests.support.cast import cast, console

__all__ = ["cast", "console", "demo_tables", "no_acl", "secret_table", "spark", "sql_cast"]
