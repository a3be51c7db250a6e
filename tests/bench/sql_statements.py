"""The statements of the SQL figures; no imports, since a bare PySpark script runs them too."""

from __future__ import annotations

QUERIES = 20
ROUNDS = 3
#: What all statements use is compiled by the JVM after about eighty.
WARM_UP = 100
AGGREGATE = "select grp, count(*) as n, sum(value) as total, max(name) as last from big group by grp"
RESULT = "select * from big where id < 5000000"
SHORT = "select carrier, count(*) as flights from flights where month = 1 group by carrier"


def scan(table: str = "big", column: str = "name") -> str:
    """Reads a table again and again, for a minute or more, in tasks of less than a second each."""
    once = f"select hash({column}) as h from {table}"
    return "select sum(h) as h from (" + " union all ".join([once] * 60) + ")"


def small(number: int) -> str:
    """An aggregate over the flights of one month."""
    return f"select carrier, count(*) as flights from flights where month = {number % 12 + 1} group by carrier"
