"""The statements of the SQL figures; no imports, since a bare PySpark script runs them too."""

from __future__ import annotations

QUERIES = 20
ROUNDS = 3
#: What all statements use is compiled by the JVM after about eighty.
WARM_UP = 100
AGGREGATE = "select grp, count(*) as n, sum(value) as total, max(name) as last from big group by grp"
RESULT = "select * from big where id < 5000000"
#: Runs for minutes, in tasks of less than a second.
SCAN = "select sum(hash(b.name, r.id)) as h from big b cross join range(0, 4000, 1, 1000) r"
SHORT = "select carrier, count(*) as flights from flights where month = 1 group by carrier"


def small(number: int) -> str:
    """An aggregate over the flights of one month."""
    return f"select carrier, count(*) as flights from flights where month = {number % 12 + 1} group by carrier"
