"""What tools ask about their own connection."""

from __future__ import annotations

import pymysql
import pytest

from tests.console.sql.mysql.conftest import connect, rows
from tests.support.sql_cast import Cast, allow

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_hints_warnings_are_told(endpoint: int, handed_over: list[str]) -> None:
    with connect(endpoint) as connection, connection.cursor() as cursor:
        cursor.execute("/*+ run_async=true, mq-colour=red */ select 1")
        assert cursor.warning_count == 1
        ((level, code, message),) = rows(connection, "show warnings")
        assert (level, code) == ("Warning", 1105)
        assert "mq-colour" in str(message)
        assert rows(connection, "show count(*) warnings") == [(1,)]
        assert rows(connection, "select @@warning_count") == [(1,)]
        assert rows(connection, "show warnings") == []


def test_the_last_error_is_told(endpoint: int) -> None:
    with connect(endpoint) as connection:
        with pytest.raises(pymysql.err.MySQLError):
            rows(connection, "describe nothing")
        for text in ("show errors", "show warnings limit 5"):
            assert [row[:2] for row in rows(connection, text)] == [("Error", 1146)]


def test_status_is_of_the_connection(endpoint: int) -> None:
    with connect(endpoint, ssl_disabled=False, ssl={"check_hostname": False}) as connection:
        assert str(rows(connection, "show session status like 'Ssl_c%'")[0][1]).startswith("TLS_")
        assert rows(connection, "show status where variable_name = 'Threads_running'") == [("Threads_running", "1")]
        assert connection.ping() is None


def test_processes_are_the_own_ones(endpoint: int, cast: Cast) -> None:
    from console.accounts import services as accounts

    accounts.set_database_password(user=allow(cast.bob.person).person, name="bob", password="sql Pass 77")
    with connect(endpoint) as connection, connect(endpoint, "bob", database=None) as other:
        number = rows(connection, "select connection_id()")[0][0]
        listed = rows(connection, "show full processlist")
        assert [(row[0], row[1], row[3], row[7]) for row in listed] == [
            (number, "demo", "demo", "show full processlist")
        ]
        assert [row[1] for row in rows(other, "show processlist")] == ["bob"]


def test_grants_are_the_schemas_that_may_be_read(endpoint: int) -> None:
    with connect(endpoint) as connection:
        grants = [str(row[0]) for row in rows(connection, "show grants for current_user()")]
        assert grants[0] == "GRANT USAGE ON *.* TO `demo`@`%`"
        assert "GRANT SELECT ON `demo`.* TO `demo`@`%`" in grants
        assert rows(connection, "show open tables from demo") == []
        assert len(rows(connection, "show privileges")) == 2


def test_one_statement_at_a_time(endpoint: int, handed_over: list[str]) -> None:
    with connect(endpoint) as connection:
        for text in ("select 1; select 2", "/*+ run_async=true */ select 1; drop table flights"):
            with pytest.raises(pymysql.err.MySQLError, match="One statement at a time"):
                rows(connection, text)
        assert rows(connection, "select 1; -- that is all") == [(1,)]
    assert handed_over == []


def test_short_lists_are_answered(endpoint: int, handed_over: list[str]) -> None:
    with connect(endpoint) as connection:
        for text in (
            "show engines", "show collation", "show character set", "show charset", "show plugins",
            "show table status", "show table status from demo like 'fl%'", "show triggers", "show events",
            "show procedure status", "show function status where db = 'demo'", "show index from flights",
            "show keys from flights", "show create table flights", "show schemas like 'd%'",
        ):  # fmt: skip
            rows(connection, text)
        assert rows(connection, "/* ping */ select 1") == [(1,)]
        assert rows(connection, "select last_insert_id(), row_count(), found_rows(), @none") == [(0, -1, 1, None)]
    assert handed_over == []
