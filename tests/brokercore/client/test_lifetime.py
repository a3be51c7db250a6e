"""Clients end: with close() no thread is left, without it the interpreter still exits, and no broker can hold it up."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from brokercore.client import (
    Admin,
    ConsumeResult,
    Credentials,
    LitePullConsumer,
    Message,
    MessageView,
    Producer,
    PushConsumer,
    TransactionState,
)
from tests.brokercore.client.conftest import ClusterUnderTest, MakeTopic
from tests.brokercore.client.peer import until
from tests.support.broker import BrokerProcess, broker_process

pytestmark = pytest.mark.broker

ROOT = Path(__file__).parents[3]
KINDS = ["admin", "producer", "transactions", "push", "ordered", "broadcasting", "lite pull"]
Close = Callable[[], None]


def succeed(_message: MessageView) -> ConsumeResult:
    return ConsumeResult.SUCCESS


def at_work(kind: str, namesrv: str, credentials: Credentials | None, topic: str, folder: Path) -> Close:
    """A client of this kind that has done something; how to close it."""
    if kind == "admin":
        admin = Admin(namesrv, credentials)
        admin.topics.stats(topic)
        return admin.close
    if kind in {"producer", "transactions"}:
        check = (lambda _message: TransactionState.COMMIT) if kind == "transactions" else None
        producer = Producer(namesrv, credentials, "GID_p", transaction_check=check)
        if kind == "transactions":
            producer.send_transaction(Message(topic, b"b"), lambda *_: TransactionState.COMMIT)
        else:
            producer.send_async(Message(topic, b"b"), lambda *_: None)
        return producer.close
    if kind == "lite pull":
        lite = LitePullConsumer(namesrv, credentials, "GID_c").subscribe(topic).start()
        lite.poll(0.1)
        return lite.close
    broadcasting = {"model": "BROADCASTING", "offset_file": folder / "offsets.json"} if kind == "broadcasting" else {}
    consumer = PushConsumer(namesrv, credentials, "GID_c", ordered=kind == "ordered", **broadcasting)  # type: ignore[arg-type]
    consumer.on_message(succeed)
    consumer.subscribe(topic).start()
    return consumer.shutdown


@pytest.fixture(scope="module")
def topic(admin: Admin) -> str:
    admin.groups.create("GID_c")
    admin.topics.create("lifetime", queues=2, message_type="MIXED")
    return "lifetime"


@pytest.mark.parametrize("kind", KINDS)
def test_closing_leaves_no_thread(cluster: ClusterUnderTest, topic: str, tmp_path: Path, kind: str) -> None:
    before = set(threading.enumerate())
    close = at_work(kind, cluster.namesrv, cluster.credentials, topic, tmp_path)
    assert set(threading.enumerate()) - before
    close()
    assert set(threading.enumerate()) - before == set()
    close()


@pytest.fixture
def broker() -> Iterator[BrokerProcess]:
    """A broker of this test's own: it is killed or frozen."""
    with broker_process() as broker:
        yield broker


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_broker_that_is_gone_does_not_hold_up_closing(broker: BrokerProcess, tmp_path: Path, how: int) -> None:
    credentials = Credentials(broker.access_key_id, broker.access_key_secret)
    with Admin(broker.namesrv, credentials) as admin:
        admin.topics.create("lifetime", queues=2, message_type="MIXED")
        admin.groups.create("GID_c")
    before = set(threading.enumerate())
    closes = [at_work(kind, broker.namesrv, credentials, "lifetime", tmp_path) for kind in KINDS]
    broker.signal(how)
    # The one assertion of time in this file: it is about not waiting for ever.
    closing = [threading.Thread(target=close) for close in closes]
    for thread in closing:
        thread.start()
    for thread in closing:
        thread.join(40)
    assert [thread.is_alive() for thread in closing] == [False] * len(closing)
    until(lambda: set(threading.enumerate()) <= before)


FORGETFUL = """
import sys, threading
from brokercore.client import *
namesrv, key_id, secret, topic = sys.argv[1:]
credentials = Credentials(key_id, secret)
entered = threading.Event()
consumer = PushConsumer(namesrv, credentials, "GID_c", consume_from="CONSUME_FROM_FIRST_OFFSET")
@consumer.on_message
def handle(message):
    entered.set()
    threading.Event().wait()
consumer.subscribe(topic).start()
lite = LitePullConsumer(namesrv, credentials, "GID_l").subscribe(topic).start()
producer = Producer(namesrv, credentials, "GID_p", transaction_check=lambda message: TransactionState.COMMIT)
producer.send_async(Message(topic, b"b"), lambda *_: threading.Event().wait())
producer.send_transaction(Message(topic, b"b"), lambda *_: TransactionState.COMMIT)
assert entered.wait(20)
print("the end")
"""


def test_an_interpreter_exits_though_nothing_was_closed(cluster: ClusterUnderTest, admin: Admin, topic: str) -> None:
    if cluster.credentials is None:
        pytest.skip("this cluster checks no signatures")
    admin.groups.create("GID_l")
    keys = [cluster.credentials.access_key_id, cluster.credentials.access_key_secret]
    done = subprocess.run(
        [sys.executable, "-c", FORGETFUL, cluster.namesrv, *keys, topic],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "the end\n"), done.stderr


def test_a_forked_child_leaves_its_parent_s_consumers_alone(
    admin: Admin, cluster: ClusterUnderTest, make_topic: MakeTopic, make_group: Callable[[], str]
) -> None:
    topic, group, lite_group = make_topic(), make_group(), make_group()
    received: list[bytes] = []
    consumer = PushConsumer(cluster.namesrv, cluster.credentials, group)

    @consumer.on_message
    def handle(message: MessageView) -> ConsumeResult:
        received.append(message.body)
        return ConsumeResult.SUCCESS

    lite = LitePullConsumer(cluster.namesrv, cluster.credentials, lite_group)
    with (
        consumer.subscribe(topic).start(),
        lite.subscribe(topic).start(),
        Producer(cluster.namesrv, cluster.credentials, "GID_p") as producer,
    ):
        members = {name: _members(admin, name) for name in (group, lite_group)}
        producer.send(Message(topic, b"before"))
        child = os.fork()
        if child == 0:
            code = 1
            try:
                consumer.shutdown()
                lite.close()
                producer.send(Message(topic, b"of the child"))
                producer.close()
                code = 0
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
        producer.send(Message(topic, b"after"))
        until(lambda: set(received) == {b"before", b"of the child", b"after"})
        polled: list[bytes] = []

        def all_polled() -> bool:
            polled.extend(message.body for message in lite.poll(0.2))
            return len(polled) == 3

        until(all_polled)
        assert {name: _members(admin, name) for name in members} == members
    assert len(received) == 3


def _members(admin: Admin, group: str) -> list[str]:
    return [connection.client_id for connection in admin.clients.consumers(group).connections]
