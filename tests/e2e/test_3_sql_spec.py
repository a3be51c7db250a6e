"""The documented walk, word for word: the statement in the MySQL command line, the receipt in a Java consumer."""

from __future__ import annotations

import json
import re
import subprocess

from tests.compat.programs import Keys, Toolbox
from tests.e2e.test_3_sql import COLUMNS
from tests.support.needs import need_tool
from tests.support.product import Product, eventually

#: As users write it: over several lines, with blanks around `=` and behind `,`, ended by a semicolon.
STATEMENT = """/*+ run_async=true,
     mq-notify-by = ons, mq-topic =query-done,
     mq-producer-id= GID_query, mq-endpoint=http://{instance}.localhost:{port} */
select flight, tailnum, origin, dest from flights where flight in (1545, 1714, 1141, 725) limit 4;
"""
SHOW = "show query_task where id = '{task}'\\G"


def mysql(product: Product, statement: str) -> str:
    """What the command line prints for statements that come over its standard input."""
    sql = product.demo["sql"]
    done = subprocess.run(
        [str(need_tool("mysql")), "--comments", "-h", sql["host"], "-P", str(sql["port"]), "-u", sql["user"],
         f"-p{sql['password']}", sql["database"]],
        input=statement, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def rows_of(vertical: str) -> dict[str, str]:
    """Names and values of one row that was asked for with \\G."""
    return dict(re.findall(r"^ *(\w+): ?(.*)$", vertical, re.MULTILINE))


def test_the_documented_statement_is_run_and_notified(product: Product, java: Toolbox, keys: Keys) -> None:
    demo = product.demo
    statement = STATEMENT.format(instance=demo["instance_id"], port=demo["namesrv"].rpartition(":")[2])
    consumer = java.start("OnsConsumer", keys, topic="query-done", group="GID_query").wait_ready()
    try:
        header, task_id = mysql(product, statement).split()
        assert header == "ASYNC_TASK_ID"
        assert re.fullmatch(r"q\d{12}[a-z]{2}[0-9a-f]{15}", task_id)

        def ended() -> dict[str, str] | None:
            row = rows_of(mysql(product, SHOW.format(task=task_id)))
            return row if row["mq_status"] != "NULL" else None

        row = eventually(ended, seconds=90, what=f"the receipt of {task_id}")
        assert row is not None
        assert set(COLUMNS) <= set(row)
        assert (row["status"], row["task_name"], row["table_schema"]) == ("SUCCESS", "SELECT", "demo")
        assert (row["row_count"], row["cancellable_task"], row["mq_status"]) == ("4", "0", "SUCCESS")
        assert (row["mq_product"], row["mq_model"], row["mq_topic"]) == ("ons", "topic", "query-done")
        assert row["result_file_oss_file"].endswith(f"/{task_id}/result.csv")
        consumer.wait_until(lambda: any(task_id in body for body in consumer.bodies()), "the receipt")
        received = next(event for event in consumer.named("received") if task_id in event["body"])
        assert json.loads(received["body"])["command"].strip() == statement.strip().rstrip(";").strip()
        assert row["mq_message_id"] == received["id"]
    finally:
        consumer.stop()
        java.running.remove(consumer)
