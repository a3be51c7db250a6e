"""The vendor's Java SDK of queues (aliyun-sdk-mns), with nothing changed but the endpoint: every operation on queues.

Each operation in its three forms: called, with a result that is waited for, and with a callback.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.compat.programs import build_programs, java_command
from tests.compat.queues.driven import Driven, SdkError
from tests.support.broker import eventually
from tests.support.queue_service import ACCOUNT, Keys, QueueServiceProcess
from tests.support.receivers import receiver

WAIT_S = 30
#: The SDK cuts account and region out of the name for endpoints of queues.
HOST = f"{ACCOUNT}.mns.mq-private.example.com"
FORMS = ("sync", "async", "callback")


@pytest.fixture(scope="session")
def sdk(service: QueueServiceProcess, owner: Keys, java_home: Path) -> Iterator[Driven]:
    """One JVM for all tests, connected as the owner of the queues, and by a name as well, which topics need."""
    build_programs()
    hosts = java_home / "hosts"
    hosts.write_text(f"127.0.0.1 {HOST}\n")
    options = java_command(java_home, "mns", f"-Djdk.net.hosts.file={hosts}")
    java = Driven("MnsClient", [*options, "gantry.compat.MnsClient"])
    try:
        java("connect", endpoint=service.address, id=owner.id, secret=owner.secret)
        java("connect", as_="named", endpoint=f"http://{HOST}:{service.port}", id=owner.id, secret=owner.secret)
        yield java
    finally:
        java.program.kill()


@pytest.fixture
def queue(sdk: Driven, name: str) -> Iterator[str]:
    sdk("createQueue", queue=name, meta={})
    yield name
    sdk("delete", queue=name)


@pytest.fixture(params=FORMS)
def how(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def refusal(call: Callable[[], Any]) -> SdkError:
    with pytest.raises(SdkError) as refused:
        call()
    return refused.value


def code_of(call: Callable[[], Any]) -> str:
    """The service's code of what was refused, with the request's ID that the SDK looked up."""
    found = refusal(call)
    assert found.kind == "ServiceException", found
    assert found.request_id
    return str(found.code)


def test_a_queue_is_made_with_its_attributes_changed_and_removed(sdk: Driven, name: str, how: str) -> None:
    meta = {"delay": 5, "size": 2048, "retention": 3600, "visibility": 45, "polling": 3, "logging": True}
    url = sdk("create", how=how, queue=name, meta=meta)
    assert url.endswith(f"/queues/{name}")
    made = sdk("getAttributes", how=how, queue=name)
    assert {key: made[key] for key in meta} == meta
    assert (made["name"], made["active"], made["inactive"], made["delayed"]) == (name, 0, 0, 0)
    assert abs(made["created"] / 1000 - time.time()) < 300
    assert sdk("create", how=how, queue=name, meta=meta) == url
    assert code_of(lambda: sdk("create", how=how, queue=name, meta={"visibility": 46})) == "QueueAlreadyExist"
    sdk("setAttributes", how=how, queue=name, meta={"visibility": 50})
    changed = sdk("getAttributes", how=how, queue=name)
    assert (changed["visibility"], changed["delay"]) == (50, 5)
    assert sdk("isQueueExist", queue=name) is True
    for _ in range(2):
        sdk("delete", how=how, queue=name)
    assert sdk("isQueueExist", queue=name) is False
    assert code_of(lambda: sdk("getAttributes", how=how, queue=name)) == "QueueNotExist"
    assert code_of(lambda: sdk("setAttributes", how=how, queue=name, meta={})) == "QueueNotExist"


def test_the_client_makes_queues_as_well(sdk: Driven, name: str) -> None:
    for do in ("createQueue", "createQueueAsync"):
        assert sdk(do, queue=name, meta={"visibility": 44}).endswith(f"/queues/{name}")
    assert sdk("getQueueURL", queue=name).endswith(f"/queues/{name}")
    sdk("delete", queue=name)
    assert sdk("createPlain", queue=name).endswith(f"/queues/{name}")
    sdk("delete", queue=name)
    assert sdk("isOpen") is True


def test_queues_are_listed_by_prefix_and_in_pages(sdk: Driven, name: str) -> None:
    names = [f"{name}-{number}" for number in range(5)]
    for one in names:
        sdk("createQueue", queue=one, meta={"visibility": 33})
    for do in ("listQueue", "asyncListQueue", "listQueueURL"):
        found: list[str] = []
        page: dict[str, Any] = {"marker": None}
        for _ in range(3):
            after = {} if page["marker"] is None else {"marker": page["marker"]}
            page = sdk(do, prefix=name, count=2, **after)
            found += [item if isinstance(item, str) else item["url"] for item in page["items"]]
        assert [url.rpartition("/")[2] for url in found] == names
        assert page["marker"] is None
    assert sdk("listQueue", prefix=name)["items"][0]["visibility"] == 33
    assert sdk("listQueue", prefix=f"{name}-none") is None
    assert code_of(lambda: sdk("listQueue", count=5000)) == "InvalidArgument"
    for one in names:
        sdk("delete", queue=one)


@pytest.mark.parametrize("body", ["hello", "häh <&> ]]> \t\n 漢"])
def test_a_message_is_sent_received_and_deleted(sdk: Driven, queue: str, how: str, body: str) -> None:
    sent = sdk("put", how=how, queue=queue, message={"body": body})
    found = sdk("pop", how=how, queue=queue)
    assert (found["body"], found["id"], found["md5"]) == (body, sent["id"], sent["md5"])
    assert (found["count"], found["priority"]) == (1, 8)
    assert found["enqueued"] <= found["first"] < found["next"]
    sdk("deleteMessage", how=how, queue=queue, handle=found["handle"])
    again = lambda: sdk("deleteMessage", how=how, queue=queue, handle=found["handle"])  # noqa: E731
    assert code_of(again) == "MessageNotExist"


def test_a_raw_body_is_kept_as_it_is(sdk: Driven, queue: str) -> None:
    sdk("put", queue=queue, message={"raw": "a<b&c> é"})
    assert sdk("pop", queue=queue, wait=0)["raw"] == "a<b&c> é"


def test_two_messages_of_one_second_are_two(sdk: Driven, queue: str) -> None:
    """Their requests have the same signature, which covers no body."""
    ids = {sdk("put", queue=queue, message={"body": str(number)})["id"] for number in range(10)}
    assert len(ids) == 10
    assert sdk("getAttributes", queue=queue)["active"] == 10


def test_an_empty_queue_is_told_as_the_sdk_tells_it(sdk: Driven, queue: str, how: str) -> None:
    """Null where the operation is called; the error, where a callback gets it."""
    calls: tuple[dict[str, Any], ...] = (
        {"do": "pop"}, {"do": "pop", "wait": 1}, {"do": "batchPop", "most": 16},
        {"do": "batchPop", "most": 16, "wait": 1}, {"do": "peek"}, {"do": "batchPeek", "most": 16},
    )  # fmt: skip
    for call in calls:
        if how == "sync":
            assert sdk(queue=queue, **call) is None, call
        else:
            assert code_of(partial(sdk, how=how, queue=queue, **call)) == "MessageNotExist", call


def test_batches_keep_their_order_in_the_answer(sdk: Driven, queue: str, how: str) -> None:
    texts = [f"m{number}" for number in range(16)]
    sent = sdk("batchPut", how=how, queue=queue, messages=[{"body": text} for text in texts])
    peeked = sdk("batchPeek", how=how, queue=queue, most=16)
    assert sorted(one["body"] for one in peeked) == sorted(texts)
    assert {(one["handle"], one["count"]) for one in peeked} == {(None, 0)}
    received = sdk("batchPop", how=how, queue=queue, most=16, wait=1)
    by_id = {one["id"]: one["body"] for one in received}
    assert [by_id[one["id"]] for one in sent] == texts
    sdk("batchDelete", how=how, queue=queue, handles=[one["handle"] for one in received])
    assert sdk("getAttributes", queue=queue)["inactive"] == 0
    many = [{"body": "x"}] * 17
    assert code_of(lambda: sdk("put", how=how, queue=queue, message={"body": "x", "priority": 17})) == "InvalidArgument"
    assert refusal(lambda: sdk("batchPut", how=how, queue=queue, messages=many)).code == "InvalidArgument"


def test_a_batch_that_fails_in_part_tells_of_each_message(sdk: Driven, name: str, how: str) -> None:
    sdk("createQueue", queue=name, meta={"size": 1024})
    messages = [{"body": "small"}, {"body": "x" * 2000}, {"body": "small too"}]
    partly = refusal(lambda: sdk("batchPut", how=how, queue=name, messages=messages))
    assert partly.kind == "BatchSendException"
    assert partly.details == {"0": "sent", "1": "InvalidArgument", "2": "sent"}
    assert sdk("getAttributes", queue=name)["active"] == 2
    handle = sdk("pop", queue=name)["handle"]
    partly = refusal(lambda: sdk("batchDelete", how=how, queue=name, handles=[handle, "nonsense"]))
    assert (partly.kind, partly.details) == ("BatchDeleteException", {"nonsense": "ReceiptHandleError"})
    sdk("delete", queue=name)


def test_a_message_is_hidden_for_longer_and_only_its_newest_handle_holds(sdk: Driven, queue: str, how: str) -> None:
    sdk("put", queue=queue, message={"body": "x"})
    received = sdk("pop", queue=queue)
    changed = sdk("change", how=how, queue=queue, handle=received["handle"], seconds=1000)
    assert changed["next"] > received["next"] + 900_000
    old = lambda: sdk("change", how=how, queue=queue, handle=received["handle"], seconds=5)  # noqa: E731
    assert code_of(old) == "MessageNotExist"
    newest = sdk("changeTimeout", how=how, queue=queue, handle=changed["handle"], seconds=500)
    zero = lambda: sdk("change", how=how, queue=queue, handle=newest, seconds=0)  # noqa: E731
    assert code_of(zero) == "InvalidArgument"
    sdk("deleteMessage", queue=queue, handle=newest)
    assert sdk("getAttributes", queue=queue)["inactive"] == 0


def test_a_delayed_message_can_be_shown_sooner_or_taken_back_by_the_handle_of_its_send(sdk: Driven, queue: str) -> None:
    first = sdk("put", queue=queue, message={"body": "first", "delay": 1000})
    second = sdk("put", queue=queue, message={"body": "second", "delay": 1000})
    assert sdk("getAttributes", queue=queue)["delayed"] == 2
    sdk("deleteMessage", queue=queue, handle=second["handle"])
    sdk("change", queue=queue, handle=first["handle"], seconds=1)
    assert sdk("pop", queue=queue, wait=WAIT_S)["body"] == "first"
    state = sdk("getAttributes", queue=queue)
    assert (state["active"], state["inactive"], state["delayed"]) == (0, 1, 0)


@pytest.mark.parametrize("commit", [True, False])
def test_messages_in_a_transaction_are_received_when_it_was_committed(sdk: Driven, name: str, commit: bool) -> None:
    """Made of a delayed message and a second queue, and of a delay that is longer than messages are kept."""
    wait = WAIT_S if commit else 2
    assert sdk("transact", queue=name, body="paid", commit=commit, wait=wait) == ("paid" if commit else None)
    assert sdk("isQueueExist", queue=name) is False
    assert sdk("isQueueExist", queue=f"{name}-operation-log-queue") is False


def test_a_poll_is_answered_by_a_later_send(sdk: Driven, queue: str, service: QueueServiceProcess, owner: Keys) -> None:
    polling = sdk.start("pop", queue=queue, wait=WAIT_S)
    body = b"<Message><MessageBody>d29rZW4=</MessageBody></Message>"
    assert service.call("POST", f"/queues/{queue}/messages", body, keys=owner).status == 201
    assert sdk.result(polling)["body"] == "woken"


def test_what_is_of_no_queue_is_refused(sdk: Driven, how: str) -> None:
    handle = "1-AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
    calls: tuple[dict[str, Any], ...] = (
        {"do": "put", "message": {"body": "x"}}, {"do": "batchPut", "messages": [{"body": "x"}]}, {"do": "pop"},
        {"do": "batchPop", "most": 2}, {"do": "peek"}, {"do": "deleteMessage", "handle": handle},
        {"do": "batchDelete", "handles": [handle]}, {"do": "change", "handle": handle, "seconds": 5},
    )  # fmt: skip
    for call in calls:
        assert refusal(partial(sdk, how=how, queue="no-such-queue", **call)).code == "QueueNotExist", call


def test_refusals_of_keys_are_the_services(
    sdk: Driven, queue: str, service: QueueServiceProcess, owner: Keys, *, sender: Keys, temporary: Keys
) -> None:
    def connect(as_: str, keys: Keys, **more: Any) -> None:
        token = {"token": keys.token} if keys.token else {}
        sdk("connect", as_=as_, endpoint=service.address, id=keys.id, secret=keys.secret, **token, **more)

    connect("wrong", Keys(owner.id, "wrong"))
    assert code_of(lambda: sdk("getAttributes", as_="wrong", queue=queue)) == "SignatureDoesNotMatch"
    connect("sender", sender)
    sdk("put", as_="sender", queue=queue, message={"body": "x"})
    assert code_of(lambda: sdk("pop", as_="sender", queue=queue)) == "AccessDenied"
    assert code_of(lambda: sdk("create", as_="sender", queue="another", meta={})) == "AccessDenied"
    connect("temporary", temporary, ids=True, impatient=True)
    sdk("put", as_="temporary", queue=queue, message={"body": "y"})
    connect("tokenless", temporary._replace(token=""))
    assert code_of(lambda: sdk("pop", as_="tokenless", queue=queue)) == "AccessDenied"
    assert sdk("getAttributes", queue=queue)["active"] == 2


# --- Topics


@pytest.fixture
def topic(sdk: Driven, name: str) -> Iterator[str]:
    sdk("createTopic", as_="named", topic=name)
    yield name
    sdk("delete", as_="named", topic=name)


def test_a_topic_is_made_changed_and_removed(sdk: Driven, name: str, how: str) -> None:
    def on(do: str, **fields: Any) -> Any:
        return sdk(do, as_="named", topic=name, how=how, **fields)

    url = on("create", size=2048)
    assert url.endswith(f"/topics/{name}")
    assert on("createTopic", size=2048)
    assert code_of(lambda: on("create", size=4096)) == "TopicAlreadyExist"
    made = on("getAttribute")
    assert (made["name"], made["size"], made["retention"]) == (name, 2048, 86_400)
    assert abs(made["created"] - time.time()) < 300
    if how == "sync":
        on("setAttribute", size=4096)
        assert on("getAttribute")["size"] == 4096
    else:  # a fault of the SDK: it sends this to a queue of the topic's name
        assert code_of(lambda: on("setAttribute", size=4096)) == "InvalidArgument"
    for _ in range(2):
        on("delete")
    assert code_of(lambda: on("getAttribute")) == "TopicNotExist"
    assert code_of(lambda: on("publish", body="x")) == "TopicNotExist"


def test_topics_are_listed_by_prefix_and_in_pages(sdk: Driven, name: str) -> None:
    names = [f"{name}-{number}" for number in range(3)]
    for one in names:
        sdk("createTopic", as_="named", topic=one)
    for do in ("listTopic", "listTopicURL"):
        first = sdk(do, prefix=name, count=2)
        last = sdk(do, prefix=name, count=2, marker=first["marker"])
        found = [item if isinstance(item, str) else item["url"] for item in first["items"] + last["items"]]
        assert [url.rpartition("/")[2] for url in found] == names
    for one in names:
        sdk("delete", as_="named", topic=one)


def test_what_is_published_goes_to_queues_and_receivers(sdk: Driven, topic: str, queue: str, how: str) -> None:
    def on(do: str, **fields: Any) -> Any:
        return sdk(do, as_="named", topic=topic, how=how, **fields)

    endpoint = f"acs:mns:mq-private:{ACCOUNT}:queues/{queue}"
    assert on("endpoints")[0] == endpoint.replace(queue, "q")
    wanted = {"endpoint": endpoint, "strategy": "EXPONENTIAL_DECAY_RETRY", "format": "SIMPLIFIED", "tag": "urgent"}
    assert on("subscribe", subscription="one", **wanted).endswith(f"/topics/{topic}/subscriptions/one")
    on("subscribe", subscription="one", **wanted)
    told = on("getSubscriptionAttr", subscription="one")
    assert {key: told[key] for key in wanted} == wanted
    assert (told["name"], told["topic"], told["owner"]) == ("one", topic, ACCOUNT)
    assert on("publish", body="häh <&>", base64=True, tag="urgent")
    on("publish", body="nobody's", base64=True, tag="other")
    assert sdk("pop", queue=queue, wait=WAIT_S)["body"] == "häh <&>"
    assert sdk("pop", queue=queue) is None

    on("setSubscriptionAttr", subscription="one", strategy="BACKOFF_RETRY", tag="other")
    changed = on("getSubscriptionAttr", subscription="one")
    assert (changed["strategy"], changed["tag"]) == ("BACKOFF_RETRY", "other")
    with receiver() as found:
        on("subscribe", subscription="two", endpoint=f"{found.url}/in", format="SIMPLIFIED")
        on("publish", body="pushed")
        on("publishWithAttributes", body="with mail")
        eventually(lambda: len(set(found.bodies)) > 1, WAIT_S)  # what is not answered in time comes again
        assert set(found.bodies) == {"pushed", "with mail"}
        assert [item["name"] for item in on("listSubscriptions", count=1)["items"]] == ["one"]
        urls = on("listSubscriptionUrls")["items"]
        assert [url.rpartition("/")[2] for url in urls] == ["one", "two"]
        for name in ("one", "two"):
            on("unsubscribe", subscription=name)
    assert code_of(lambda: on("getSubscriptionAttr", subscription="one")) == "SubscriptionNotExist"


def test_endpoints_that_cannot_be_served_are_refused(sdk: Driven, topic: str) -> None:
    for endpoint in sdk("endpoints", as_="named", topic=topic)[1:]:
        wanted = partial(sdk, "subscribe", as_="named", topic=topic, subscription="s", endpoint=endpoint)
        assert code_of(wanted) == "EndpointInvalid", endpoint


def test_a_pull_topic_makes_its_queues_and_takes_them_away(sdk: Driven, name: str) -> None:
    queues = [f"{name}-{number}" for number in range(2)]
    assert sdk("pullTopic", as_="named", topic=name, queues=queues, body="for all") == ["for all"] * 2
    for queue in queues:
        assert sdk("isQueueExist", queue=queue) is False
    assert code_of(lambda: sdk("getAttribute", as_="named", topic=name)) == "TopicNotExist"


def test_the_attributes_of_the_account_are_kept_and_the_service_is_open(sdk: Driven) -> None:
    sdk("setAccount", bucket="logs")
    assert sdk("getAccount") == "logs"
    sdk("setAccount", bucket="")
    assert sdk("openService")
