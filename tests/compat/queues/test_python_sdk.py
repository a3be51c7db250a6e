"""The vendor's Python SDK of queues (aliyun-mns-sdk), with nothing changed but the endpoint: every operation on queues.

It demands every element of an answer that it knows of, and raises where one is missing or empty.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from mns.account import Account
from mns.auth import Credentials
from mns.message_property import MessagePropertyValue, MessageSystemPropertyValue
from mns.mns_client import ListQueueRequest, MNSClient
from mns.mns_common import RequestInfo
from mns.mns_exception import MNSServerException
from mns.mns_request import ListQueueResponse
from mns.queue import Message, Queue, QueueMeta

from tests.support.queue_service import Keys, QueueServiceProcess

pytestmark = pytest.mark.filterwarnings("ignore:Call to deprecated function")
WAIT_S = 30


@pytest.fixture
def connect(service: QueueServiceProcess) -> Callable[[Keys], Account]:
    return lambda keys: Account(service.address, keys.id, keys.secret, keys.token)


@pytest.fixture
def account(connect: Callable[[Keys], Account], owner: Keys) -> Account:
    return connect(owner)


@pytest.fixture
def queue(account: Account, name: str) -> Iterator[Queue]:
    found = account.get_queue(name)
    found.create(QueueMeta())
    yield found
    found.delete()


def code_of(call: Callable[[], Any]) -> str:
    with pytest.raises(MNSServerException) as refused:
        call()
    assert refused.value.request_id
    return str(refused.value.type)


def bodies(messages: list[Message]) -> list[bytes]:
    return [message.message_body for message in messages]


# --- Queues


def test_a_queue_is_made_with_its_attributes_changed_and_removed(account: Account, name: str) -> None:
    queue = account.get_queue(name)
    url = queue.create(QueueMeta(45, 2048, 3600, 5, 3, True))
    assert url.endswith(f"/queues/{name}")
    made = queue.get_attributes()
    assert (
        made.visibility_timeout, made.maximum_message_size, made.message_retention_period, made.delay_seconds,
        made.polling_wait_seconds, made.logging_enabled, made.queue_name,
    ) == (45, 2048, 3600, 5, 3, True, name)  # fmt: skip
    assert (made.active_messages, made.inactive_messages, made.delay_messages) == (0, 0, 0)
    assert abs(made.create_time - time.time()) < 300
    assert queue.create(QueueMeta(45, 2048, 3600, 5, 3, True)) == url
    assert code_of(lambda: queue.create(QueueMeta(46))) == "QueueAlreadyExist"

    queue.set_attributes(QueueMeta(vis_timeout=50, logging_enabled=False))
    queue.set_attributes(QueueMeta())
    changed = queue.get_attributes()
    assert (changed.visibility_timeout, changed.delay_seconds, changed.logging_enabled) == (50, 5, False)
    assert changed.last_modify_time >= made.last_modify_time
    queue.delete()
    queue.delete()
    assert code_of(queue.get_attributes) == "QueueNotExist"
    assert code_of(lambda: queue.set_attributes(QueueMeta(30))) == "QueueNotExist"


@pytest.mark.parametrize(
    "meta", [QueueMeta(43_201), QueueMeta(max_msg_size=1023), QueueMeta(msg_ttl=59), QueueMeta(polling_wait_sec=31)]
)
def test_attributes_out_of_their_range_are_refused(account: Account, name: str, meta: QueueMeta) -> None:
    assert code_of(lambda: account.get_queue(name).create(meta)) == "InvalidArgument"


def test_queues_are_listed_by_prefix_and_in_pages(account: Account, name: str) -> None:
    names = [f"{name}-{number}" for number in range(5)]
    for one in names:
        account.get_queue(one).create(QueueMeta())
    assert account.list_queue(f"{name}-none") == ([], "")
    found, marker, pages = [], "", 0
    while True:
        urls, marker = account.list_queue(prefix=name, ret_number=2, marker=marker)
        found += [url.rpartition("/")[2] for url in urls]
        pages += 1
        if not marker:
            break
    assert (found, pages) == (names, 3)
    request, response = ListQueueRequest(name, 3, "", True), ListQueueResponse()
    client = account.get_client()
    assert isinstance(client, MNSClient)
    client.list_queue(request, response)
    assert [meta["QueueName"] for meta in response.queuemeta_list] == names[:3]
    assert code_of(lambda: account.list_queue(ret_number=5000)) == "InvalidArgument"


@pytest.mark.parametrize(("wrong", "code"), [("-first", "InvalidQueueName"), ("x" * 121, "QueueNameLengthError")])
def test_names_are_held_to_their_rules(account: Account, wrong: str, code: str) -> None:
    assert code_of(lambda: account.get_queue(wrong).create(QueueMeta())) == code


# --- Messages


@pytest.mark.parametrize("body", ["hello", "häh <&> ]]> \t\n 漢", "x" * 40_000])
def test_a_message_is_sent_received_and_deleted(queue: Queue, body: str) -> None:
    sent = queue.send_message(Message(body))
    received = queue.receive_message_with_str_body()
    assert (received.message_body, received.message_id) == (body, sent.message_id)
    assert received.message_body_md5 == sent.message_body_md5
    assert (received.dequeue_count, received.priority) == (1, 8)
    assert received.enqueue_time <= received.first_dequeue_time < received.next_visible_time
    queue.delete_message(received.receipt_handle)
    assert code_of(lambda: queue.delete_message(received.receipt_handle)) == "MessageNotExist"
    assert queue.get_attributes().inactive_messages == 0


@pytest.mark.parametrize("body", ["raw <é> & ]]>", "two\nlines\n", " blanks "])
def test_a_raw_body_comes_back_as_it_was(queue: Queue, body: str) -> None:
    queue.set_encoding(False)
    queue.send_message(Message(body))
    assert queue.receive_message().message_body == body


def test_properties_and_group_come_back(queue: Queue) -> None:
    message = Message("x", None, 3, "group")
    message.add_user_property("n", MessagePropertyValue.create_number(1.5))
    message.add_user_property("b", MessagePropertyValue.create_binary(b"\0\1"))
    message.add_user_property("s", MessagePropertyValue.create_string("x & <y>"))
    message.add_user_property("t", MessagePropertyValue.create_boolean(True))
    message.add_system_property("traceparent", MessageSystemPropertyValue.create_string("00-x"))
    given = {key: value.get_string_value_by_type() for key, value in message.get_user_properties().items()}
    queue.send_message(message)
    queue.batch_send_message([message, Message("plain")])
    for look in (queue.peek_message, queue.receive_message):
        found = look()
        properties = found.get_user_properties()
        assert {key: value.get_string_value_by_type() for key, value in properties.items()} == given
        assert found.get_system_properties()["traceparent"].get_string_value_by_type() == "00-x"
        assert found.priority == 3
    assert sorted(len(one.get_user_properties() or {}) for one in queue.batch_receive_message(16)) == [0, 4]


def test_batches_of_sixteen_keep_their_order_in_the_answer(queue: Queue) -> None:
    texts = [f"m{number}" for number in range(16)]
    sent = queue.batch_send_message([Message(text) for text in texts])
    assert len({one.message_id for one in sent}) == 16
    peeked = queue.batch_peek_message_with_str_body(16)
    assert sorted(one.message_body for one in peeked) == sorted(texts)
    by_id = {one.message_id: one.message_body for one in queue.batch_receive_message_with_str_body(16)}
    assert [by_id[one.message_id] for one in sent] == texts
    assert code_of(lambda: queue.batch_send_message([Message("x")] * 17)) == "InvalidArgument"
    assert code_of(lambda: queue.batch_receive_message(17)) == "InvalidArgument"


def test_a_batch_that_fails_in_part_tells_of_each_message(account: Account, name: str) -> None:
    queue = account.get_queue(name)
    queue.create(QueueMeta(max_msg_size=1024))
    with pytest.raises(MNSServerException) as partly:
        queue.batch_send_message([Message("small"), Message("x" * 2000), Message("small too")])
    assert partly.value.type == "InvalidArgument"
    kinds = [("ErrorCode" in entry, "MessageId" in entry) for entry in partly.value.sub_errors]
    assert kinds == [(False, True), (True, False), (False, True)]
    assert queue.get_attributes().active_messages == 2


def test_messages_are_deleted_in_batches_and_what_could_not_be_is_told(queue: Queue) -> None:
    queue.batch_send_message([Message(str(number)) for number in range(4)])
    received = queue.batch_receive_message(16, 5)
    handles = [one.receipt_handle for one in received]
    queue.batch_delete_message(handles[:2])
    with pytest.raises(MNSServerException) as partly:
        queue.batch_delete_message([handles[0], handles[2], "nonsense"])
    assert {entry["ReceiptHandle"]: entry["ErrorCode"] for entry in partly.value.sub_errors} == {
        handles[0]: "MessageNotExist",
        "nonsense": "ReceiptHandleError",
    }
    attributes = queue.get_attributes()
    assert (attributes.active_messages, attributes.inactive_messages) == (0, 1)


def test_an_empty_queue_answers_that_there_is_no_message(queue: Queue) -> None:
    for look in (
        queue.receive_message,
        queue.peek_message,
        lambda: queue.batch_receive_message(16),
        lambda: queue.batch_peek_message(16),
        lambda: queue.receive_message(1),
        lambda: queue.batch_receive_message_with_str_body(2, 1),
    ):
        assert code_of(look) == "MessageNotExist"


def test_a_peek_changes_nothing(queue: Queue) -> None:
    queue.send_message(Message("x"))
    for _ in range(2):
        peeked = queue.peek_message_with_str_body()
        assert (peeked.message_body, peeked.dequeue_count) == ("x", 0)
        assert peeked.first_dequeue_time == peeked.enqueue_time
    assert bodies(queue.batch_peek_message(16)) == [b"x"]
    assert queue.receive_message().dequeue_count == 1


def test_a_message_is_hidden_for_longer_and_only_its_newest_handle_holds(queue: Queue) -> None:
    queue.send_message(Message("x"))
    received = queue.receive_message()
    changed = queue.change_message_visibility(received.receipt_handle, 1000)
    assert int(changed.next_visible_time) > received.next_visible_time + 900_000
    assert code_of(lambda: queue.delete_message(received.receipt_handle)) == "MessageNotExist"
    assert code_of(lambda: queue.change_message_visibility("nonsense", 10)) == "ReceiptHandleError"
    assert code_of(lambda: queue.change_message_visibility(changed.receipt_handle, 0)) == "InvalidArgument"
    shown = queue.change_message_visibility(changed.receipt_handle, 1)
    again = queue.receive_message(WAIT_S)
    assert (again.message_body, again.dequeue_count) == (b"x", 2)
    assert again.receipt_handle != shown.receipt_handle
    queue.delete_message(again.receipt_handle)


def test_a_delayed_message_waits_and_counters_follow(queue: Queue) -> None:
    queue.send_message(Message("later", delay_seconds=5))
    attributes = queue.get_attributes()
    assert (attributes.active_messages, attributes.delay_messages) == (0, 1)
    received = queue.receive_message(WAIT_S)
    assert received.message_body == b"later"
    assert received.first_dequeue_time >= received.enqueue_time + 5000
    attributes = queue.get_attributes()
    assert (attributes.active_messages, attributes.inactive_messages, attributes.delay_messages) == (0, 1, 0)


def test_the_most_urgent_message_comes_first(queue: Queue) -> None:
    for priority in (9, 1, 16, 8):
        queue.send_message(Message(str(priority), priority=priority))
    assert [queue.receive_message().message_body for _ in range(4)] == [b"1", b"8", b"9", b"16"]
    assert code_of(lambda: queue.send_message(Message("x", priority=17))) == "InvalidArgument"


def test_a_poll_is_answered_by_a_later_send(queue: Queue, connect: Callable[[Keys], Account], owner: Keys) -> None:
    found: list[bytes] = []
    polling = threading.Thread(target=lambda: found.append(queue.receive_message(WAIT_S).message_body))
    polling.start()
    connect(owner).get_queue(queue.queue_name).send_message(Message("woken"))
    polling.join(2 * WAIT_S)
    assert found == [b"woken"]


def test_what_is_too_large_or_of_no_queue_is_refused(queue: Queue, account: Account) -> None:
    queue.set_encoding(False)
    queue.send_message(Message("x" * 65_536))
    assert code_of(lambda: queue.send_message(Message("x" * 65_537))) == "InvalidArgument"
    nowhere = account.get_queue("no-such-queue")
    for call in (
        lambda: nowhere.send_message(Message("x")),
        lambda: nowhere.batch_send_message([Message("x")]),
        lambda: nowhere.receive_message(1),
        nowhere.peek_message,
        lambda: nowhere.delete_message("1-AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="),
        lambda: nowhere.batch_delete_message(["1-AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="]),
        lambda: nowhere.change_message_visibility("1-AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", 10),
    ):
        assert code_of(call) == "QueueNotExist"


# --- Who calls


def test_requests_carry_the_callers_own_id(queue: Queue) -> None:
    queue.send_message(Message("x"), RequestInfo("mine"))
    assert queue.receive_message(0, RequestInfo("mine")).message_body == b"x"
    queue.get_attributes(RequestInfo("mine"))


def test_a_wrong_secret_and_an_unknown_key_look_the_same(
    queue: Queue, connect: Callable[[Keys], Account], owner: Keys
) -> None:
    for keys in (Keys(owner.id, "wrong"), Keys("LTAInobody", owner.secret)):
        assert code_of(connect(keys).get_queue(queue.queue_name).get_attributes) == "SignatureDoesNotMatch"


def test_a_user_may_do_what_its_policy_says_and_nothing_else(
    queue: Queue, connect: Callable[[Keys], Account], sender: Keys
) -> None:
    theirs = connect(sender).get_queue(queue.queue_name)
    theirs.send_message(Message("x"))
    theirs.batch_send_message([Message("y")])
    for call in (theirs.receive_message, theirs.peek_message, theirs.get_attributes, theirs.delete):
        assert code_of(call) == "AccessDenied"
    assert code_of(connect(sender).list_queue) == "AccessDenied"
    assert queue.get_attributes().active_messages == 2


def test_temporary_keys_work_with_their_token_only(
    queue: Queue, connect: Callable[[Keys], Account], temporary: Keys
) -> None:
    connect(temporary).get_queue(queue.queue_name).send_message(Message("x"))
    assert queue.receive_message().message_body == b"x"
    for token in ("", "another"):
        other = connect(temporary._replace(token=token)).get_queue(queue.queue_name)
        assert code_of(other.get_attributes) == "AccessDenied"


def test_the_sdk_can_tell_what_it_does(service: QueueServiceProcess, owner: Keys, name: str) -> None:
    """Its log and its debug output read the request's ID from a header of exactly this spelling, and fail without."""
    lines: list[str] = []
    logger = logging.Logger(name)
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logger.addHandler(handler)
    account = Account(service.address, owner.id, owner.secret, debug=True, logger=logger)
    account.set_log_level(logging.DEBUG)
    queue = account.get_queue(name)
    queue.set_debug(True)
    queue.create(QueueMeta())
    queue.send_message(Message("x"))
    assert queue.receive_message().message_body == b"x"
    queue.delete()
    account.close_log()
    told = [line for line in lines if "RequestId" in line]
    assert told
    assert not [line for line in told if "RequestId:None" in line]


def test_a_provider_of_credentials_is_asked(service: QueueServiceProcess, temporary: Keys, queue: Queue) -> None:
    class Provider:
        def get_credentials(self) -> Credentials:
            return Credentials(temporary.id, temporary.secret, temporary.token)

    provided = Account(service.address, credentials_provider=Provider())
    provided.get_queue(queue.queue_name).send_message(Message("x"))
    assert queue.receive_message().message_body == b"x"


def test_its_command_line_works_as_it_is(service: QueueServiceProcess, owner: Keys, name: str, tmp_path: Path) -> None:
    def run(*words: str) -> str:
        environment = os.environ | {"HOME": str(tmp_path)}
        command = [sys.executable, str(Path(sys.executable).with_name("mnscmd")), *words]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
        return done.stdout + done.stderr

    run("config", f"--mnsendpoint={service.address}", f"--accesskeyid={owner.id}", f"--accesskeysecret={owner.secret}")
    assert name in run("createqueue", f"--queuename={name}")
    assert "MessageID" in run("sendmessage", f"--queuename={name}", "--body=hello")
    assert "hello" in run("receivemessage", f"--queuename={name}")
    assert name in run("listqueue")
    run("deletequeue", f"--queuename={name}")
    assert "QueueNotExist" in run("getqueueattr", f"--queuename={name}")
