"""The vendor's Node SDK of queues (@alicloud/mns), with nothing changed but the endpoint: every operation on queues.

It sends and gives bodies as they are, leaves all values texts, and takes every answer whose root is not `Error` for a
success.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.compat.queues.driven import Driven, SdkError
from tests.support.needs import need_tool
from tests.support.node import node_modules
from tests.support.queue_service import ACCOUNT, Keys, QueueServiceProcess

PROGRAM = Path(__file__).parent / "node" / "program.js"
WAIT_S = 30


class Sdk:
    """Its methods by their names, with their arguments in order; what is left out is passed as nothing."""

    def __init__(self, program: Driven) -> None:
        self.driven = program

    def __call__(self, method: str, *arguments: Any, as_: str = "owner") -> Any:
        return self.driven(method, arguments=list(arguments), as_=as_)

    def body(self, method: str, *arguments: Any, as_: str = "owner") -> Any:
        """The body of the answer."""
        return self(method, *arguments, as_=as_)["body"]


@pytest.fixture(scope="session")
def sdk(service: QueueServiceProcess, owner: Keys) -> Iterator[Sdk]:
    modules = node_modules(PROGRAM.parent)
    command = ["env", f"NODE_PATH={modules}", str(need_tool("node")), str(PROGRAM)]
    node = Driven("Node", command)
    try:
        node("connect", endpoint=service.address, id=owner.id, secret=owner.secret)
        yield Sdk(node)
    finally:
        node.program.kill()


@pytest.fixture
def queue(sdk: Sdk, name: str) -> Iterator[str]:
    assert sdk("createQueue", name)["code"] == 201
    yield name
    assert sdk("deleteQueue", name)["code"] == 204


def code_of(call: Callable[[], Any]) -> str:
    with pytest.raises(SdkError) as refused:
        call()
    assert refused.value.request_id, refused.value
    return str(refused.value.code)


def test_the_package_is_the_vendors_own(sdk: Sdk) -> None:
    home = node_modules(PROGRAM.parent)
    told = subprocess.run(
        [need_tool("node"), "-p", f"require('{home}/@alicloud/mns/package.json').version"],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert told.stdout.strip() == "1.2.0"


def test_a_queue_is_made_with_its_attributes_changed_and_removed(sdk: Sdk, name: str) -> None:
    meta = {"VisibilityTimeout": 45, "DelaySeconds": 5, "LoggingEnabled": True}
    made = sdk("createQueue", name, meta)
    assert made["code"] == 201
    assert made["headers"]["location"].endswith(f"/queues/{name}")
    assert sdk("createQueue", name, meta)["code"] == 204
    assert code_of(lambda: sdk("createQueue", name)) == "QueueAlreadyExist"
    state = sdk.body("getQueueAttributes", name)
    assert (state["VisibilityTimeout"], state["DelaySeconds"], state["LoggingEnabled"]) == ("45", "5", "True")
    assert (state["ActiveMessages"], state["InactiveMessages"], state["DelayMessages"]) == ("0", "0", "0")
    assert abs(int(state["CreateTime"]) - time.time()) < 300
    assert sdk("setQueueAttributes", name, {"VisibilityTimeout": 50})["code"] == 204
    assert sdk.body("getQueueAttributes", name)["VisibilityTimeout"] == "50"
    assert code_of(lambda: sdk("setQueueAttributes", name, {"VisibilityTimeout": 0})) == "InvalidArgument"
    for _ in range(2):
        assert sdk("deleteQueue", name)["code"] == 204
    assert code_of(lambda: sdk("getQueueAttributes", name)) == "QueueNotExist"


def test_queues_are_listed(sdk: Sdk, name: str) -> None:
    names = [f"{name}-{number}" for number in range(3)]
    for one in names:
        sdk("createQueue", one)
    listed = sdk.body("listQueue", "a", 2, name)
    assert [entry["QueueURL"].rpartition("/")[2] for entry in listed] == names[:2]
    after = sdk.body("listQueue", names[1], 2, name)
    assert [entry["QueueURL"].rpartition("/")[2] for entry in after] == names[2:]
    assert len(sdk.body("listQueue")) >= 3
    assert sdk("listQueue", "a", 2, f"{name}-none")["code"] == 200
    for one in names:
        sdk("deleteQueue", one)


def test_a_message_is_sent_received_and_deleted(sdk: Sdk, queue: str) -> None:
    sent = sdk("sendMessage", queue, {"MessageBody": "hé 漢", "Priority": 3})
    assert sent["code"] == 201
    found = sdk.body("receiveMessage", queue)
    assert (found["MessageBody"], found["MessageId"]) == ("hé 漢", sent["body"]["MessageId"])
    assert found["MessageBodyMD5"] == sent["body"]["MessageBodyMD5"]
    assert (found["DequeueCount"], found["Priority"]) == ("1", "3")
    assert sdk("deleteMessage", queue, found["ReceiptHandle"])["code"] == 204
    assert code_of(lambda: sdk("deleteMessage", queue, found["ReceiptHandle"])) == "MessageNotExist"
    assert code_of(lambda: sdk("deleteMessage", queue, "nonsense")) == "ReceiptHandleError"


def test_a_body_that_breaks_the_xml_is_refused_and_one_that_the_caller_escapes_is_kept(sdk: Sdk, queue: str) -> None:
    """The SDK puts bodies into its XML as they are."""
    assert code_of(lambda: sdk("sendMessage", queue, {"MessageBody": "a<b&c"})) == "MalformedXML"
    sdk("sendMessage", queue, {"MessageBody": "a&lt;b&amp;c"})
    assert sdk.body("receiveMessage", queue)["MessageBody"] == "a<b&c"


def test_properties_come_back(sdk: Sdk, queue: str) -> None:
    given = {"PropertyValue": {"Name": "a", "Value": "1", "Type": "STRING"}}
    sdk("sendMessage", queue, {"MessageBody": "x", "UserProperties": given})
    assert "UserProperties" in sdk.body("receiveMessage", queue)
    wrong = {"PropertyValue": {"Name": "a", "Value": "1", "Type": "string"}}
    assert (
        code_of(lambda: sdk("sendMessage", queue, {"MessageBody": "x", "UserProperties": wrong})) == "InvalidArgument"
    )


def test_batches_keep_their_order_in_the_answer(sdk: Sdk, queue: str) -> None:
    texts = [f"m{number}" for number in range(16)]
    sent = sdk.body("batchSendMessage", queue, [{"MessageBody": text} for text in texts])
    peeked = sdk.body("batchPeekMessage", queue, 16)
    assert sorted(one["MessageBody"] for one in peeked) == sorted(texts)
    received = sdk.body("batchReceiveMessage", queue, 16, 3)
    by_id = {one["MessageId"]: one["MessageBody"] for one in received}
    assert [by_id[one["MessageId"]] for one in sent] == texts
    assert sdk("batchDeleteMessage", queue, [one["ReceiptHandle"] for one in received])["code"] == 204
    assert code_of(lambda: sdk("batchSendMessage", queue, [{"MessageBody": "x"}] * 17)) == "InvalidArgument"
    assert code_of(lambda: sdk("batchReceiveMessage", queue, 17)) == "InvalidArgument"


def test_batches_of_one_are_batches(sdk: Sdk, queue: str) -> None:
    sdk("batchSendMessage", queue, [{"MessageBody": "x"}])
    (received,) = sdk.body("batchReceiveMessage", queue, 16)
    assert sdk("batchDeleteMessage", queue, [received["ReceiptHandle"]])["code"] == 204


def test_batches_that_fail_in_part_are_told_by_their_status(sdk: Sdk, name: str) -> None:
    """The SDK raises nothing then."""
    sdk("createQueue", name, {"MaximumMessageSize": 1024})
    partly = sdk("batchSendMessage", name, [{"MessageBody": "small"}, {"MessageBody": "x" * 2000}])
    assert partly["code"] == 500
    assert [sorted(entry) for entry in partly["body"]] == [
        ["MessageBodyMD5", "MessageId"],
        ["ErrorCode", "ErrorMessage"],
    ]
    handle = sdk.body("receiveMessage", name)["ReceiptHandle"]
    partly = sdk("batchDeleteMessage", name, [handle, "nonsense"])
    assert partly["code"] == 404
    (error,) = partly["body"]
    assert (error["ErrorCode"], error["ReceiptHandle"]) == ("ReceiptHandleError", "nonsense")
    sdk("deleteQueue", name)


def test_an_empty_queue_answers_that_there_is_no_message(sdk: Sdk, queue: str) -> None:
    for method, *arguments in (
        ("receiveMessage",), ("receiveMessage", 1), ("peekMessage",),
        ("batchReceiveMessage", 16, 1), ("batchPeekMessage", 16),
    ):  # fmt: skip
        assert code_of(partial(sdk, str(method), queue, *arguments)) == "MessageNotExist"


def test_a_peek_changes_nothing(sdk: Sdk, queue: str) -> None:
    sdk("sendMessage", queue, {"MessageBody": "x"})
    for _ in range(2):
        peeked = sdk.body("peekMessage", queue)
        assert (peeked["MessageBody"], peeked["DequeueCount"]) == ("x", "0")
        assert "ReceiptHandle" not in peeked


def test_a_message_is_hidden_for_longer_and_only_its_newest_handle_holds(sdk: Sdk, queue: str) -> None:
    sdk("sendMessage", queue, {"MessageBody": "x"})
    received = sdk.body("receiveMessage", queue)
    changed = sdk.body("changeMessageVisibility", queue, received["ReceiptHandle"], 1000)
    assert int(changed["NextVisibleTime"]) > int(received["NextVisibleTime"]) + 900_000
    old = received["ReceiptHandle"]
    assert code_of(lambda: sdk("changeMessageVisibility", queue, old, 5)) == "MessageNotExist"
    assert code_of(lambda: sdk("changeMessageVisibility", queue, changed["ReceiptHandle"], 0)) == "InvalidArgument"
    assert sdk("deleteMessage", queue, changed["ReceiptHandle"])["code"] == 204


def test_a_delayed_message_waits_and_a_poll_gets_it(sdk: Sdk, queue: str) -> None:
    sent = sdk.body("sendMessage", queue, {"MessageBody": "later", "DelaySeconds": 5})
    assert sent["ReceiptHandle"]
    assert sdk.body("getQueueAttributes", queue)["DelayMessages"] == "1"
    assert sdk.body("receiveMessage", queue, WAIT_S)["MessageBody"] == "later"


def test_many_polls_and_sends_at_once_share_its_connections(sdk: Sdk, queue: str) -> None:
    polls = [sdk.driven.start("receiveMessage", arguments=[queue, WAIT_S]) for _ in range(20)]
    sends = [sdk.driven.start("sendMessage", arguments=[queue, {"MessageBody": str(n)}]) for n in range(20)]
    assert {sdk.driven.result(send)["code"] for send in sends} == {201}
    found = [sdk.driven.result(poll)["body"]["MessageBody"] for poll in polls]
    assert sorted(found, key=int) == [str(number) for number in range(20)]


def test_refusals_of_keys_are_the_services(
    sdk: Sdk, queue: str, service: QueueServiceProcess, owner: Keys, *, sender: Keys, temporary: Keys
) -> None:
    def connect(as_: str, keys: Keys, **more: Any) -> None:
        token = {"token": keys.token} if keys.token else {}
        sdk.driven("connect", as_=as_, endpoint=service.address, id=keys.id, secret=keys.secret, **token, **more)

    connect("wrong", Keys(owner.id, "wrong"))
    assert code_of(lambda: sdk("getQueueAttributes", queue, as_="wrong")) == "SignatureDoesNotMatch"
    connect("sender", sender)
    assert sdk("sendMessage", queue, {"MessageBody": "x"}, as_="sender")["code"] == 201
    assert code_of(lambda: sdk("receiveMessage", queue, as_="sender")) == "AccessDenied"
    connect("temporary", temporary)
    assert sdk("sendMessage", queue, {"MessageBody": "y"}, as_="temporary")["code"] == 201
    connect("tokenless", temporary._replace(token=""))
    assert code_of(lambda: sdk("receiveMessage", queue, as_="tokenless")) == "AccessDenied"
    fresh = {"accessKeyId": temporary.id, "accessKeySecret": temporary.secret, "securityToken": temporary.token}
    connect("refreshed", Keys("LTAIold", "old", "ended"), refreshed=fresh)
    assert sdk("getQueueAttributes", queue, as_="refreshed")["code"] == 200


def test_topics_are_made_changed_listed_and_published_to(
    sdk: Sdk, queue: str, service: QueueServiceProcess, owner: Keys
) -> None:
    """Who subscribes, and who removes the topic, is another client: this one cannot."""
    assert sdk("createTopic", queue, {"MaximumMessageSize": 2048})["code"] == 201
    assert sdk("createTopic", queue, {"MaximumMessageSize": 2048})["code"] == 204
    assert code_of(lambda: sdk("createTopic", queue)) == "TopicAlreadyExist"
    assert sdk("setTopicAttributes", queue, {"MaximumMessageSize": 4096})["code"] == 204
    state = sdk.body("getTopicAttributes", queue)
    assert (state["TopicName"], state["MaximumMessageSize"]) == (queue, "4096")
    assert [one["TopicURL"].rpartition("/")[2] for one in sdk.body("listTopic", "a", 2, queue)] == [queue]

    endpoint = f"acs:mns:mq-private:{ACCOUNT}:queues/{queue}"
    wanted = f"<Subscription><Endpoint>{endpoint}</Endpoint><NotifyContentFormat>SIMPLIFIED</NotifyContentFormat>"
    body = f"{wanted}</Subscription>".encode()
    assert service.call("PUT", f"/topics/{queue}/subscriptions/s", body, keys=owner).status == 201
    published = sdk("publishMessage", queue, {"MessageBody": "hi", "MessageTag": "tag"})
    assert (published["code"], bool(published["body"]["MessageId"])) == (201, True)
    assert sdk.body("receiveMessage", queue, WAIT_S)["MessageBody"] == "hi"
    assert service.call("DELETE", f"/topics/{queue}", keys=owner).status == 204
    assert code_of(lambda: sdk("publishMessage", queue, {"MessageBody": "hi"})) == "TopicNotExist"


def test_what_the_sdk_does_not_offer_sends_nothing(sdk: Sdk) -> None:
    for method in (
        "deleteTopic", "subscribe", "unsubscribe", "listSubscriptionByTopic", "getSubscriptionAttributes",
        "setSubscriptionAttributes", "httpEndpoint",
    ):  # fmt: skip
        assert sdk(method, "t", "s") is None
