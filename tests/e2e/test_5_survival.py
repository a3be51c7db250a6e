"""Whatever is killed, no task and no notification is lost, and nobody pays for another's statement. Real processes."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pymysql
import pytest

from brokercore.client import Admin, Credentials
from launcher import config
from tests.support.product import Product, eventually
from tests.support.sql_client import Row, SqlClient

#: Runs for some seconds.
SLOW = "select count(*) as n from range(0, 2000000, 1, 8) a cross join range(120) b where hash(a.id, b.id) % 7 = 1"
#: Needs a heap of some ten gigabytes; the guard cannot know that.
KILLER = "select size(collect_list(id)) as n from range(300000000)"
PATIENCE = 240.0
#: Each starts a JVM or two anew.
pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def client(product: Product) -> Iterator[SqlClient]:
    with SqlClient(product.demo) as client:
        yield client


def running(client: SqlClient, task_id: str) -> bool:
    """Whether a worker has claimed the task: then it has an id of the engine."""
    return bool(client.task(task_id)["mpp_query_id"])


def children(pid: int) -> list[int]:
    listed = [task.read_text().split() for task in Path(f"/proc/{pid}/task").glob("*/children")]
    return [int(child) for found in listed for child in found]


def jvm_of(product: Product) -> int:
    """The JVM of the Spark worker."""
    java = [pid for pid in children(spark_worker(product)) if b"java" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    assert java
    return java[0]


def spark_worker(product: Product) -> int:
    return product.pid_of("-Q spark")


def redis_of(product: Product) -> int:
    """The copy's Redis: it writes its title over its environment, by which the others are found."""
    socket = f"unixsocket:{config.read(product.environ).redis_socket}".encode()
    lines = {folder: folder / "cmdline" for folder in Path("/proc").glob("[0-9]*")}
    for folder, file in lines.items():
        with contextlib.suppress(OSError):
            if socket in file.read_bytes():
                return int(folder.name)
    raise AssertionError("no Redis of this copy")


def another_worker(product: Product, worker: int) -> bool:
    """Whether a Spark worker runs that is not `worker`; between two there is none for a moment."""
    return any("-Q spark" in line and pid != worker for pid, line in product.processes().items())


def messages(product: Product, key: str) -> list[Row]:
    """What was sent to the demo account's topic under a key."""
    demo = product.demo
    credentials = Credentials(demo["access_key_id"], demo["access_key_secret"])
    with Admin(demo["namesrv"], credentials) as admin:
        found = admin.messages.query(f"{demo['instance_id']}%query-done", key)
    return [json.loads(message.body) for message in found]


def again(product: Product) -> SqlClient:
    """A client of a door that may have been killed."""

    def connect() -> SqlClient | None:
        with contextlib.suppress(pymysql.err.OperationalError):
            return SqlClient(product.demo)
        return None

    found = eventually(connect, seconds=PATIENCE, what="the MySQL endpoint")
    assert found is not None
    return found


def test_a_jvm_that_dies_costs_nobody_a_statement(product: Product, client: SqlClient) -> None:
    tasks = [client.submit(SLOW) for _ in range(2)]
    eventually(lambda: all(running(client, task) for task in tasks), seconds=60)
    os.kill(jvm_of(product), signal.SIGKILL)
    quick = client.submit("select 1 as one")
    assert client.ended(quick, seconds=PATIENCE)["status"] == "SUCCESS"
    for task in tasks:
        row = client.ended(task, seconds=PATIENCE)
        assert (row["status"], row["row_count"], row["message"]) == ("SUCCESS", 1, "")


def test_a_statement_that_exhausts_the_jvm_is_tried_once_more_and_alone(product: Product, client: SqlClient) -> None:
    near, killer = client.submit(SLOW), client.submit(KILLER, notify=True)
    worker = spark_worker(product)
    eventually(lambda: another_worker(product, worker), seconds=PATIENCE, what="the first death")
    while_it_runs_again = client.submit("select 1 as one")
    assert client.ended(while_it_runs_again, seconds=PATIENCE)["status"] == "SUCCESS"
    worker = spark_worker(product)
    row = client.ended(killer, notified=True, seconds=PATIENCE)
    assert row["status"] == "FAILURE"
    assert "most likely out of memory" in row["message"]
    assert "The statement was tried twice and is not tried again." in row["message"]
    assert row["mq_status"] == "SUCCESS"
    assert client.ended(near, seconds=PATIENCE)["status"] == "SUCCESS"
    assert spark_worker(product) == worker, "its second death was its own process's only"


def test_a_notification_is_sent_though_all_senders_are_killed_between_commit_and_send(
    product: Product, client: SqlClient
) -> None:
    sender = product.pid_of("-Q default")
    os.kill(sender, signal.SIGSTOP)
    task = client.submit("select 7 as seven", notify=True)
    assert client.ended(task, seconds=PATIENCE)["status"] == "SUCCESS"
    assert client.task(task)["mq_status"] is None
    for pid in (sender, spark_worker(product)):
        os.kill(pid, signal.SIGKILL)
    row = client.ended(task, notified=True, seconds=PATIENCE)
    assert row["mq_status"] == "SUCCESS"
    (told,) = messages(product, task)
    assert (told["id"], told["status"], told["row_count"]) == (task, "SUCCESS", 1)


def test_a_worker_that_was_frozen_ends_nothing_twice(product: Product, client: SqlClient) -> None:
    task = client.submit(SLOW, notify=True)
    eventually(lambda: running(client, task), seconds=60)
    worker = spark_worker(product)
    os.kill(worker, signal.SIGSTOP)
    try:
        eventually(lambda: not running(client, task), seconds=60, what="the task is given to another worker")
    finally:
        os.kill(worker, signal.SIGCONT)
    row = client.ended(task, notified=True, seconds=PATIENCE)
    assert (row["status"], row["row_count"], row["mq_status"]) == ("SUCCESS", 1, "SUCCESS")
    assert len({json.dumps(told, sort_keys=True) for told in messages(product, task)}) == 1


def test_no_task_and_no_notification_is_lost_when_everything_is_killed(product: Product, client: SqlClient) -> None:
    tasks = [client.submit(statement, notify=True) for statement in (SLOW, SLOW, *["select 1 as one"] * 6)]
    eventually(lambda: any(running(client, task) for task in tasks), seconds=60)
    killed = [
        redis_of(product),
        *(product.pid_of(words) for words in ("-Q spark", "-Q default", "granian", "mysql_endpoint")),
    ]
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    with again(product) as client_again:
        for task in tasks:
            row = client_again.ended(task, notified=True, seconds=PATIENCE)
            assert (row["status"], row["mq_status"]) == ("SUCCESS", "SUCCESS"), row
            assert {told["id"] for told in messages(product, task)} == {task}
