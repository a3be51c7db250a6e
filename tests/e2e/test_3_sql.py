"""Async SQL from MySQL clients to the completion message that a Java consumer receives."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shlex
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pymysql
import pytest
from pymysql.cursors import DictCursor

from tests.compat.programs import Keys, Toolbox
from tests.support.needs import need_tool
from tests.support.product import Product, eventually

README = Path(__file__).parents[2] / "README.md"
COLUMNS = [
    "id", "mpp_query_id", "status", "task_name", "table_schema", "command", "creator_id", "create_time", "update_time",
    "connection_id", "message", "row_count", "elapse_time", "scanned_row_count", "scanned_data_bytes",
    "result_file_oss_file", "cancellable_task", "mq_product", "mq_model", "mq_topic", "mq_queue", "mq_producer_id",
    "mq_endpoint", "mq_status", "mq_error_msg", "mq_message_id", "mq_total_time",
]  # fmt: skip
BY_CARRIER = "select carrier, count(*) as flights from flights group by carrier order by carrier"
Row = dict[str, Any]


class Database:
    """A connection of PyMySQL to the MySQL endpoint."""

    def __init__(self, product: Product) -> None:
        sql = product.demo["sql"]
        self.connection = pymysql.connect(
            host=sql["host"], port=sql["port"], user=sql["user"], password=sql["password"], database=sql["database"],
            cursorclass=DictCursor,
        )  # fmt: skip

    def run(self, statement: str) -> list[Row]:
        with self.connection.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall())

    def submit(self, statement: str) -> str:
        rows = self.run(statement)
        assert [list(row) for row in rows] == [["ASYNC_TASK_ID"]]
        return str(rows[0]["ASYNC_TASK_ID"])

    def task(self, task_id: str) -> Row:
        rows = self.run(f"show query_task where id = '{task_id}'")
        assert len(rows) == 1
        return rows[0]

    def ended(self, task_id: str, *, notified: bool = False, seconds: float = 90) -> Row:
        """The row once the statement, and if wanted its notification, has ended."""

        def end() -> Row | None:
            row = self.task(task_id)
            return row if row["status"] != "RUNNING" and (row["mq_status"] or not notified) else None

        row = eventually(end, seconds=seconds, what=f"the end of {task_id}")
        assert row is not None
        return row


@pytest.fixture(scope="module")
def database(product: Product) -> Iterator[Database]:
    found = Database(product)
    yield found
    found.connection.close()


def hint(product: Product, **more: str) -> str:
    demo = product.demo
    options = {
        "run_async": "true",
        "mq-notify-by": "ons",
        "mq-topic": "query-done",
        "mq-producer-id": "GID_query",
        "mq-endpoint": f"http://{demo['instance_id']}.localhost:{demo['namesrv'].rpartition(':')[2]}",
    } | more
    return "/*+ " + ", ".join(f"{name}={value}" for name, value in options.items()) + " */ "


def test_a_query_is_notified_to_a_java_consumer(
    product: Product, database: Database, java: Toolbox, keys: Keys
) -> None:
    consumer = java.start("OnsConsumer", keys, topic="query-done", group="GID_query").wait_ready()
    try:
        command = hint(product) + BY_CARRIER
        task_id = database.submit(command)
        row = database.ended(task_id, notified=True)
        assert list(row) == COLUMNS
        assert (row["status"], row["message"], row["command"]) == ("SUCCESS", "", command)
        assert (row["row_count"], row["scanned_row_count"]) == (16, 336_776)
        assert row["scanned_data_bytes"] > 0
        assert row["elapse_time"] > 0
        assert (row["mq_product"], row["mq_model"], row["mq_topic"]) == ("ons", "topic", "query-done")
        assert (row["mq_status"], row["mq_error_msg"]) == ("SUCCESS", None)
        assert row["mq_total_time"] > 0
        consumer.wait_until(lambda: any(task_id in body for body in consumer.bodies()), "the completion message")
        received = next(e for e in consumer.named("received") if task_id in e["body"])
        told = json.loads(received["body"])
        assert (told["id"], told["status"], told["row_count"]) == (task_id, "SUCCESS", 16)
        assert task_id in json.dumps(received["keys"] if "keys" in received else received["key"])
        assert row["mq_message_id"] in json.dumps(received)
    finally:
        consumer.stop()
        java.running.remove(consumer)


def test_the_result_file_is_in_the_lake_and_can_be_downloaded(product: Product, database: Database) -> None:
    row = database.ended(database.submit("/*+ run_async=true */ " + BY_CARRIER))
    assert row["mq_status"] is None
    bucket_and_key = row["result_file_oss_file"].removeprefix("oss://")
    text = (product.home / "lake" / bucket_and_key).read_text()
    rows = list(csv.reader(io.StringIO(text)))
    assert rows[0] == ["carrier", "flights"]
    assert ["UA", "58665"] in rows
    assert _download(product, row["id"]) == text


def test_a_failing_query_ends_with_sparks_reason_and_is_notified(product: Product, database: Database) -> None:
    statement = hint(product) + "select no_such_column from flights"
    row = database.ended(database.submit(statement), notified=True)
    assert row["status"] == "FAILURE"
    assert "no_such_column" in row["message"]
    assert "\n\tat " not in row["message"]
    assert row["mq_status"] == "SUCCESS"


def test_what_is_not_the_tenants_is_refused(database: Database) -> None:
    for statement in (
        "select * from csv.`/etc/passwd`",
        "select reflect('java.lang.System', 'getenv', 'HOME')",
        "select * from other_tenant.orders",
        "drop table other_tenant.orders",
    ):
        row = database.ended(database.submit("/*+ run_async=true */ " + statement))
        assert row["status"] == "FAILURE", statement
        assert row["message"]


def test_the_mysql_command_line_submits_and_reads(product: Product) -> None:
    mysql = need_tool("mysql")
    sql = product.demo["sql"]

    def run(statement: str) -> str:
        done = subprocess.run(
            [str(mysql), "--comments", "-h", sql["host"], "-P", str(sql["port"]), "-u", sql["user"],
             f"-p{sql['password']}", "-D", sql["database"], "--batch", "--skip-column-names", "-e", statement],
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    task_id = run(hint(product) + BY_CARRIER)
    assert task_id.startswith("q2")
    state = eventually(
        lambda: "SUCCESS" in (line := run(f"show query_task where id='{task_id}'")) and line, seconds=60, what=task_id
    )
    assert len(str(state).split("\t")) == len(COLUMNS)
    assert run("select name from airlines where carrier = 'UA'") == "United Air Lines Inc."


def test_the_command_of_the_tour_submits(product: Product) -> None:
    """As the README has it, with the instance, the port and the password of this copy."""
    mysql = need_tool("mysql")
    sql = product.demo["sql"]
    command = re.search(r'mysql (--comments .*? -e ".*?")$', README.read_text(), re.DOTALL | re.MULTILINE)
    assert command is not None
    endpoint = f"http://{product.demo['instance_id']}.localhost:{product.demo['namesrv'].rpartition(':')[2]}"
    said = command[1].replace(" -P 10000 ", f" -P {sql['port']} ").replace(" -p ", f" -p{sql['password']} ")
    said = re.sub(r"http://MQ_INST_….localhost:9876", endpoint, said)
    done = subprocess.run(
        [str(mysql), *shlex.split(said), "--batch", "--skip-column-names"],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("q2")


def test_a_wrong_password_is_refused(product: Product) -> None:
    sql = product.demo["sql"]
    with pytest.raises(pymysql.err.OperationalError, match="Access denied"):
        pymysql.connect(host=sql["host"], port=sql["port"], user=sql["user"], password="wrong")


def test_the_access_key_pair_signs_in_too(product: Product) -> None:
    sql = product.demo["sql"]
    connection = pymysql.connect(
        host=sql["host"], port=sql["port"], user=product.demo["access_key_id"],
        password=product.demo["access_key_secret"], database=sql["database"],
    )  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute("select count(*) from planes")
        assert cursor.fetchone() == (3322,)
    connection.close()


def test_a_killed_spark_worker_leaves_no_task_running_for_ever(product: Product, database: Database) -> None:
    slow = "select count(*) from flights a join flights b on a.carrier = b.carrier where a.dep_delay > b.arr_delay"
    task_id = database.submit(hint(product) + slow)
    worker = product.pid_of("-Q spark")
    eventually(lambda: database.task(task_id)["mpp_query_id"] or _is_claimed(database, task_id), seconds=60)
    os.kill(worker, signal.SIGKILL)
    eventually(lambda: _other_worker(product, worker), seconds=90, what="a new Spark worker")
    database.run(f"cancel query_task where id = '{task_id}'")
    row = database.ended(task_id, notified=True, seconds=120)
    assert row["status"] in ("CANCELLED", "FAILURE")
    quick = database.ended(database.submit("/*+ run_async=true */ select 1 as one"), seconds=120)
    assert quick["status"] == "SUCCESS"


def _is_claimed(database: Database, task_id: str) -> bool:
    return bool(database.task(task_id)["update_time"] >= database.task(task_id)["create_time"])


def _other_worker(product: Product, worker: int) -> bool:
    return any("-Q spark" in line and pid != worker for pid, line in product.processes().items())


def _download(product: Product, task_id: str) -> str:
    """Sign in as a browser does and fetch the result."""
    demo = product.demo
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar := CookieJar()))
    login = demo["console"] + "/account/login/"
    opener.open(login)
    token = next(c.value for c in jar if c.name.startswith("gantry_csrf"))
    form = {"csrfmiddlewaretoken": token, "login": demo["username"], "password": demo["password"]}
    data = urlencode(form).encode()
    opener.open(urllib.request.Request(login, data, {"Referer": login}))
    with opener.open(f"{demo['console']}/sql/tasks/{task_id}/result.csv") as response:
        assert "attachment" in response.headers["Content-Disposition"]
        return str(response.read().decode())
