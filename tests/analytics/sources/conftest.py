"""A real broker whose topics are tables of alice's statements."""

from __future__ import annotations

import csv
import io
import itertools
import os
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from analytics import engine
from analytics.specs import Column, QuerySpec, TableSpec
from brokercore.client import Admin, Credentials, Message, MessageView, Producer, TransactionState
from brokercore.client.session import Call
from brokercore.protocol.codes import RequestCode
from brokercore.protocol.message import BatchMessage, encode_batch
from brokercore.protocol.properties import encode_properties
from tests.analytics.conftest import result_text, specification
from tests.support.broker import BrokerProcess, eventually

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = (
    ("broker", "string"), ("queue", "int"), ("offset", "bigint"), ("message_id", "string"),
    ("offset_message_id", "string"), ("keys", "array<string>"), ("tag", "string"),
    ("properties", "map<string,string>"), ("body", "string"), ("body_binary", "binary"), ("born_time", "timestamp"),
    ("store_time", "timestamp"), ("born_host", "string"), ("reconsume_times", "int"),
)  # fmt: skip
NAMESPACE = "MQ_INST_1000001_abcd-efg"
Rows = list[dict[str, str]]
_numbers = itertools.count()


@pytest.fixture(scope="package")
def credentials(broker: BrokerProcess) -> Credentials:
    return Credentials(broker.access_key_id, broker.access_key_secret)


@pytest.fixture(scope="package")
def admin(broker: BrokerProcess, credentials: Credentials) -> Iterator[Admin]:
    with Admin(broker.namesrv, credentials) as client:
        yield client


@pytest.fixture(scope="package")
def producer(broker: BrokerProcess, credentials: Credentials) -> Iterator[Producer]:
    with Producer(broker.namesrv, credentials, "GID_sql_tests", transaction_check=_commit) as client:
        yield client


def _commit(_: MessageView) -> TransactionState:
    return TransactionState.COMMIT


@pytest.fixture
def topic(admin: Admin) -> str:
    """A namespaced topic of two queues: a name that Spark's CREATE TABLE refuses."""
    return new_topic(admin)


def new_topic(admin: Admin, queues: int = 2, message_type: str = "NORMAL") -> str:
    name = f"{NAMESPACE}%orders-{os.getpid()}-{next(_numbers)}"
    admin.topics.create(name, queues=queues, message_type=message_type)
    eventually(lambda: name in admin.topics.names())
    return name


def table_of(broker: BrokerProcess, topic: str, name: str = "", **options: str) -> TableSpec:
    """The topic as a table, named as the topic unless told otherwise."""
    reader = {
        "namesrv": broker.namesrv,
        "topic": topic,
        "accessKeyId": broker.access_key_id,
        "accessKeySecret": broker.access_key_secret,
    } | options
    columns = tuple(Column(column, kind) for column, kind in COLUMNS)
    return TableSpec(name or topic, "", "mq", columns, options=tuple(reader.items()))


@pytest.fixture
def ask(spark: SparkSession, broker: BrokerProcess, demo_tables: list[TableSpec]) -> Callable[..., Rows]:
    """Run a statement in which `mq.<topic>` is the topic; the rows of its result as texts."""

    def run_it(sql: str, **changes: object) -> Rows:
        spec = asked(broker, sql, demo_tables, **changes)
        engine.run_query(spec)
        return list(csv.DictReader(io.StringIO(result_text(spec))))

    return run_it


def asked(broker: BrokerProcess, sql: str, tables: list[TableSpec], **changes: object) -> QuerySpec:
    def lookup(schema: str, name: str) -> TableSpec | None:
        return table_of(broker, name) if schema == "mq" and not name.startswith("unknown") else None

    return specification(sql, {"demo": tables}, **{"lookup": lookup, "time_limit_s": 240.0, **changes})


def send(producer: Producer, topic: str, *bodies: bytes | str, **fields: object) -> list[str]:
    """Send a message for each body; returns their ids."""
    messages = [
        Message(topic, body.encode() if isinstance(body, str) else body, **fields)  # type: ignore[arg-type]
        for body in bodies
    ]
    return [producer.send(message).message_id for message in messages]


def send_batches(admin: Admin, topic: str, queue: int, bodies: list[bytes]) -> None:
    """Store many messages fast, as batches of 500."""
    broker_name, address = next(iter(admin.brokers.cluster().brokers.items()))
    for start in range(0, len(bodies), 500):
        batch = (BatchMessage(0, body, encode_properties({"WAIT": "true"})) for body in bodies[start : start + 500])
        ext = {
            "a": "GID_sql_tests", "b": topic, "c": "TBW102", "d": "4", "e": str(queue), "f": "0",
            "g": str(int(time.time() * 1000)), "h": "0", "i": "", "j": "0", "k": "false", "m": "true", "n": broker_name,
        }  # fmt: skip
        admin.session.call(Call(address, RequestCode.SEND_BATCH_MESSAGE, ext, encode_batch(batch)))
