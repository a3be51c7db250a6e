"""Connector/J 8 and 9, as Java programs and BI tools use it; the program is tests/compat/java/jdbc."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

import pytest

from console.sql.models import QueryTask
from tests.compat.programs import JAVA, TARGET
from tests.console.sql.mysql.clients.conftest import Login
from tests.console.sql.mysql.conftest import Engine
from tests.support.java import QUICK_START, compile_java, maven_jars
from tests.support.needs import need_tool

pytestmark = pytest.mark.django_db(transaction=True)
DRIVERS = ("jdbc8", "jdbc9")
BOUND = ['it\'s "a" \\ back\nslash', "nul \0 and 😀", -9007199254740993, None]


@pytest.fixture(scope="module", autouse=True)
def program() -> None:
    """Fetch both drivers and compile the program; skips without Java and Maven."""
    need_tool("java")
    maven_jars(JAVA / "pom.xml", TARGET / "jars.stamp")
    sources = sorted([*(JAVA / "common").rglob("*.java"), *(JAVA / "jdbc").rglob("*.java")])
    compile_java(sources, "", TARGET / "classes" / "jdbc")


def run(driver: str, login: Login, *steps: str, **options: str) -> dict[str, Any]:
    """Run steps of the program; returns its events by name."""
    settings = {
        "sslMode": "REQUIRED" if login.tls else "DISABLED",
        "allowPublicKeyRetrieval": "true",
        "connectTimeout": "20000",
        "socketTimeout": "60000",
    } | options
    url = f"jdbc:mysql://127.0.0.1:{login.port}/demo?" + "&".join(f"{k}={v}" for k, v in settings.items())
    class_path = f"{TARGET / 'classes' / 'jdbc'}:{TARGET / driver}/*"
    done = subprocess.run(
        ["java", *QUICK_START, "-cp", class_path, "gantry.compat.Jdbc", "--url", url, "--steps", ",".join(steps)],
        env=os.environ | {"ACCESS_KEY": login.user, "SECRET_KEY": login.password},
        capture_output=True, text=True, encoding="utf-8", timeout=120, check=False,
    )  # fmt: skip
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"event"')]
    assert lines and lines[-1]["event"] in ("done", "refused"), done.stderr
    return {line["event"]: line for line in lines}


@pytest.mark.parametrize("driver", DRIVERS)
def test_it_signs_in_and_looks_around(driver: str, logins: list[Login]) -> None:
    for login in logins:
        events = run(driver, login, "describe")
        told = events["describe"]
        assert told["databases"][0] == "demo"
        assert told["tables"] == ["airlines", "flights"]
        assert (bool(told["cipher"]), told["valid"], told["catalog"]) == (login.tls, True, "demo")
        assert f"mysql-connector-j-{driver[-1]}." in events["done"]["driver"]


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("by_server", ["true", "false"])
def test_statements_values_and_types(driver: str, account: Login, typed: Engine, by_server: str) -> None:
    events = run(driver, account, "submit", "types", "unknown", useServerPrepStmts=by_server)
    task = QueryTask.objects.filter(synchronous=False).get()
    assert (events["submit"]["label"], events["submit"]["id"]) == ("ASYNC_TASK_ID", task.pk)
    assert task.parameters == (BOUND if by_server == "true" else [])
    assert events["types"]["values"] == [
        "BigDecimal 12345678901234567890.1234567890", *(events["types"]["values"][1:2]), "Date 1999-12-31", None,
        events["types"]["values"][4], "00ff22612c", 'String {"a":[1,2],"b":"x\\"y"}', "Double 1.5", "Integer 7",
        "Long -9007199254740993", 'String it\'s "😀" \\ \n.', "String ",
    ]  # fmt: skip
    assert events["types"]["values"][1].endswith(" 2024-02-29 12:34:56.789000")
    assert events["types"]["values"][4].startswith("Boolean")
    assert events["types"]["kinds"][0] == "DECIMAL(38,10)"


@pytest.mark.parametrize("driver", DRIVERS)
def test_errors_and_timeouts_are_javas_own(driver: str, account: Login, spark: Engine) -> None:
    from analytics import errors

    spark.error = errors.QueryFailed("No table nothing.", "TABLE_OR_VIEW_NOT_FOUND")
    unknown = run(driver, account, "unknown")["unknown"]
    assert (unknown["error"], unknown["code"], unknown["state"]) == ("SQLSyntaxErrorException", 1146, "42S02")
    spark.error = None
    spark.gate.clear()
    events = run(driver, account, "timeout")
    assert events["timeout"]["error"] == "MySQLTimeoutException"
    assert events["afterwards"]["answer"] == [1]
    refused = run(driver, account._replace(password="wrong"), "describe")["refused"]
    assert (refused["code"], refused["state"]) == (1045, "28000")


@pytest.mark.parametrize("driver", DRIVERS)
def test_rows_are_fetched_streamed_and_limited(driver: str, account: Login, counted: Engine) -> None:
    events = run(driver, account, "fetch", "stream", "limit", useCursorFetch="true")
    assert [events[step].get("rows") for step in ("fetch", "stream", "limit")] == [50, 50, 3]


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("by_schema", ["true", "false"])
def test_tables_and_columns_are_described(driver: str, account: Login, by_schema: str) -> None:
    told = run(driver, account, "metadata", useInformationSchema=by_schema)["metadata"]
    assert told.get("tables") == ["airlines", "flights"], told
    assert [column.split()[0] for column in told["columns"]] == ["carrier", "hour"]
