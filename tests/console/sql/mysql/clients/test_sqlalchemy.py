"""SQLAlchemy, as BI tools in Python use it: what it asks at the first connection, and its inspection of a schema."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import pytest
import sqlalchemy
from sqlalchemy import Engine, create_engine, inspect, text
from sqlalchemy.exc import OperationalError, ProgrammingError

from console.sql.models import QueryTask
from tests.console.sql.mysql.clients.conftest import HOSTILE, VALUES, Login
from tests.console.sql.mysql.conftest import Engine as Answers

pytestmark = pytest.mark.django_db(transaction=True)
DIALECTS = {"mysql+pymysql": {"ssl_disabled": True}, "mysql+mysqlconnector": {}}


@pytest.fixture(params=list(DIALECTS))
def tool(request: pytest.FixtureRequest, account: Login) -> Iterator[Engine]:
    where = f"{account.user}:{quote(account.password)}@127.0.0.1:{account.port}/demo"
    engine = create_engine(f"{request.param}://{where}", connect_args=DIALECTS[request.param])
    yield engine
    engine.dispose()


def test_it_connects_and_inspects(tool: Engine, handed_over: list[str]) -> None:
    found = inspect(tool)
    assert "demo" in found.get_schema_names()
    assert found.get_table_names() == ["airlines", "flights"]
    assert found.get_view_names() == []
    assert [column["name"] for column in found.get_columns("flights")] == ["carrier", "hour"]
    assert found.has_table("flights")
    assert not found.has_table("nothing")
    assert found.get_pk_constraint("flights")["constrained_columns"] == []
    assert found.get_foreign_keys("flights") == []
    assert found.get_indexes("flights") == []
    assert handed_over == []


def test_it_submits_and_reads(tool: Engine, typed: Answers) -> None:
    with tool.connect() as connection:
        task_id = connection.execute(text("/*+ run_async=true */ select * from flights")).scalar()
        assert QueryTask.objects.filter(pk=task_id).exists()
        assert tuple(connection.execute(text("select * from flights")).first() or ()) == VALUES
        assert connection.execute(text("select :a, :b"), {"a": HOSTILE[0], "b": HOSTILE[1]}).one() == HOSTILE[:2]
        connection.rollback()


def test_its_errors_are_of_the_right_kind(tool: Engine) -> None:
    with tool.connect() as connection, pytest.raises(ProgrammingError, match="1146"):
        connection.execute(text("describe nothing"))
    wrong = create_engine(tool.url.set(password="wrong"), connect_args=DIALECTS[tool.url.drivername])
    with pytest.raises((OperationalError, ProgrammingError), match="1045"):
        wrong.connect()
    assert sqlalchemy.__version__
