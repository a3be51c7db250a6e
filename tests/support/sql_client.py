"""A MySQL client that submits statements to a running copy and follows their tasks."""

from __future__ import annotations

import time
from typing import Any

import pymysql
from pymysql.cursors import DictCursor

from tests.support.patience import Patience
from tests.support.product import SLOWNESS

Row = dict[str, Any]


class SqlClient:
    """One connection to the MySQL endpoint, as demo.json or `user` and `password` sign in; `with` closes it.

    With `timeout` (seconds) an answer that does not come is an error of pymysql's.
    """

    def __init__(
        self,
        demo: dict[str, Any],
        *,
        user: str = "",
        password: str = "",
        database: str = "",
        timeout: float | None = None,
    ) -> None:
        sql = demo["sql"]
        self.demo = demo
        self.connection = pymysql.connect(
            host=sql["host"], port=sql["port"], user=user or sql["user"], password=password or sql["password"],
            database=database or sql["database"], cursorclass=DictCursor, autocommit=True,
            connect_timeout=timeout or 10, read_timeout=timeout, write_timeout=timeout,
        )  # fmt: skip

    def __enter__(self) -> SqlClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def run(self, statement: str) -> list[Row]:
        """The rows of a statement that the client waits for."""
        with self.connection.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall())

    def submit(self, statement: str, *, notify: bool = False) -> str:
        """Submit a statement asynchronously; returns the task id."""
        options = {"run_async": "true"} | (self.receipt if notify else {})
        hint = "/*+ " + ", ".join(f"{name}={value}" for name, value in options.items()) + " */ "
        return str(self.run(hint + statement)[0]["ASYNC_TASK_ID"])

    @property
    def receipt(self) -> dict[str, str]:
        """The options of a notification to the demo account's topic for it."""
        port = self.demo["namesrv"].rpartition(":")[2]
        return {
            "mq-notify-by": "ons",
            "mq-topic": "query-done",
            "mq-producer-id": "GID_query",
            "mq-endpoint": f"http://{self.demo['instance_id']}.localhost:{port}",
        }

    def task(self, task_id: str) -> Row:
        """The 27 columns of a task."""
        (row,) = self.run(f"show query_task where id = '{task_id}'")
        return row

    def ended(self, task_id: str, *, notified: bool = False, seconds: float = 120, every: float = 0.05) -> Row:
        """The task once it, and if wanted its notification, has ended."""
        patience = Patience(seconds * SLOWNESS, every)
        while True:
            row = self.task(task_id)
            if row["status"] != "RUNNING" and (row["mq_status"] or not notified):
                return row
            if patience.is_over():
                raise AssertionError(f"not ended within {seconds} s: {row}")
            time.sleep(every)

    def cancel(self, task_id: str) -> None:
        """Ask for the end of a task."""
        self.run(f"cancel query_task where id = '{task_id}'")
