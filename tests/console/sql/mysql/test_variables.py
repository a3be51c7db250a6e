"""SET statements and the variables that they change."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.sql.mysql.errors import EndpointError
from console.sql.mysql.variables import SessionVariables


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("set names utf8mb4", "character_set_client", "utf8mb4"),
        ("SET NAMES 'latin1' COLLATE 'latin1_german1_ci'", "collation_connection", "latin1_german1_ci"),
        ("set character set utf8mb3", "character_set_results", "utf8"),
        ("set character_set_results = NULL", "character_set_results", "utf8mb4"),
        ("SET autocommit=0", "autocommit", 0),
        ("SET @@session.autocommit = OFF, sql_mode='ANSI'", "autocommit", 0),
        ("SET @OLD=@@SQL_MODE, SQL_MODE='ANSI', sql_mode=@OLD", "sql_mode", ""),
        ("SET SESSION sql_mode = CONCAT(@@sql_mode,',STRICT_TRANS_TABLES')", "sql_mode", ",STRICT_TRANS_TABLES"),
        ("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ", "transaction_isolation", "REPEATABLE-READ"),
        ("set session transaction read only", "transaction_read_only", 1),
        ("SET SQL_SELECT_LIMIT=DEFAULT", "sql_select_limit", 2**64 - 1),
        ("set max_execution_time := 1500", "max_execution_time", 1500),
        ("SET SQL_SAFE_UPDATES=1, SQL_QUOTE_SHOW_CREATE = 1", "sql_safe_updates", 1),
    ],
)
def test_what_clients_set(text: str, name: str, value: object) -> None:
    variables = SessionVariables()
    variables.assign(text)
    assert variables.get(name) == value


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("set nothing = 1", 1193),
        ("set version = 'x'", 1238),
        ("set global sql_mode = 'x'", 1227),
        ("set names klingon", 1115),
        ("set names utf16", 1231),
        ("set net_write_timeout = long", 1231),
        ("set collation_connection = nothing", 1231),
        ("set sql_mode = (select 1)", 1064),
        ("set", 1064),
        ("set autocommit = 0, nonsense", 1064),
    ],
)
def test_what_cannot_be_set_changes_nothing(text: str, code: int) -> None:
    variables = SessionVariables()
    with pytest.raises(EndpointError) as error:
        variables.assign(text)
    assert error.value.code == code
    assert dict(variables.listed()) == dict(SessionVariables().listed())


def test_user_variables_are_kept_and_counted() -> None:
    variables = SessionVariables()
    variables.assign("set @a = 'it''s', @`B c` = 7")
    assert (variables.get_user("a"), variables.get_user("b C"), variables.get_user("none")) == ("it's", 7, None)
    with pytest.raises(EndpointError, match="at most 100"):
        variables.assign("set " + ", ".join(f"@x{n} = 1" for n in range(101)))


@given(st.text(alphabet="set @a=1,'\"\\x()-;`", max_size=60))
def test_no_text_breaks_the_reading(text: str) -> None:
    try:
        SessionVariables().assign("set " + text)
    except EndpointError as error:
        assert error.code in (1064, 1115, 1193, 1227, 1231, 1238)


def test_a_user_variable_holds_no_more_than_a_system_variable_may() -> None:
    """A short statement makes megabytes of other variables, and a connection has a hundred of its own."""
    variables = SessionVariables()
    variables.assign(f"set sql_mode = '{'x' * 4096}'")
    many = ", ".join(["@@sql_mode"] * 1000)
    for text in (f"set @a = concat({many})", f"set @a = '{'x' * 4097}'", f"set @{'a' * 4097} = 1"):
        with pytest.raises(EndpointError, match="longer than 4096"):
            variables.assign(text)
    assert variables.get_user("a") is None
    variables.assign("set @a = @@sql_mode")
    assert variables.get_user("a") == "x" * 4096
