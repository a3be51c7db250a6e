"""The vendor's Python SDK of queues, unchanged: every operation on topics, on subscriptions and on the account."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from mns.account import Account, AccountMeta
from mns.message_property import MessagePropertyValue
from mns.mns_common import RequestInfo, TopicHelper
from mns.mns_exception import MNSServerException
from mns.mns_request import ListTopicRequest, ListTopicResponse
from mns.queue import Queue, QueueMeta
from mns.subscription import SubscriptionMeta, SubscriptionNotifyContentFormat, SubscriptionNotifyStrategy
from mns.topic import Base64TopicMessage, DirectMailInfo, DirectSMSInfo, Topic, TopicMessage, TopicMeta

from tests.support.broker import eventually
from tests.support.queue_service import ACCOUNT, Keys, QueueServiceProcess
from tests.support.receivers import receiver

WAIT_S = 30


@pytest.fixture
def account(service: QueueServiceProcess, owner: Keys) -> Account:
    return Account(service.address, owner.id, owner.secret)


@pytest.fixture
def topic(account: Account, name: str) -> Iterator[Topic]:
    found = account.get_topic(name)
    found.create(TopicMeta())
    yield found
    found.delete()


@pytest.fixture
def queue(account: Account, name: str) -> Iterator[Queue]:
    found = account.get_queue(name)
    found.create(QueueMeta())
    yield found
    found.delete()


@pytest.fixture
def endpoint(queue: Queue) -> str:
    return str(TopicHelper.generate_queue_endpoint("mq-private", ACCOUNT, queue.queue_name))


def code_of(call: Callable[[], Any]) -> str:
    with pytest.raises(MNSServerException) as refused:
        call()
    assert refused.value.request_id
    return str(refused.value.type)


def test_a_topic_is_made_with_its_attributes_changed_and_removed(account: Account, name: str) -> None:
    topic = account.get_topic(name)
    url = topic.create(TopicMeta(2048, True))
    assert url.endswith(f"/topics/{name}")
    assert topic.create(TopicMeta(2048, True)) == url
    assert code_of(lambda: topic.create(TopicMeta(4096))) == "TopicAlreadyExist"
    made = topic.get_attributes()
    assert (made.topic_name, made.maximum_message_size, made.logging_enabled) == (name, 2048, True)
    assert made.message_retention_period == 86_400
    assert abs(made.create_time - time.time()) < 300
    topic.set_attributes(TopicMeta(4096))
    assert topic.get_attributes().maximum_message_size == 4096
    assert code_of(lambda: topic.set_attributes(TopicMeta(1))) == "InvalidArgument"
    topic.delete()
    topic.delete()
    assert code_of(topic.get_attributes) == "TopicNotExist"
    assert code_of(lambda: topic.publish_message(TopicMessage("x"))) == "TopicNotExist"


def test_topics_are_listed_by_prefix_and_in_pages(account: Account, name: str) -> None:
    names = [f"{name}-{number}" for number in range(3)]
    for one in names:
        account.get_topic(one).create(TopicMeta())
    first, marker = account.list_topic(name, 2)
    last, end = account.list_topic(name, 2, marker)
    assert [url.rpartition("/")[2] for url in (*first, *last)] == names
    assert end == ""
    assert account.list_topic(f"{name}-none") == ([], "")
    request, response = ListTopicRequest(name, 3, "", True), ListTopicResponse()
    account.get_client().list_topic(request, response)
    assert [meta["TopicName"] for meta in response.topicmeta_list] == names
    for one in names:
        account.get_topic(one).delete()


def test_what_is_published_goes_to_the_queues_that_subscribe(topic: Topic, queue: Queue, endpoint: str) -> None:
    subscription = topic.get_subscription("all")
    wanted = SubscriptionMeta(
        endpoint, SubscriptionNotifyStrategy.EXPONENTIAL, SubscriptionNotifyContentFormat.SIMPLIFIED, "urgent"
    )
    url = subscription.subscribe(wanted)
    assert url.endswith(f"/topics/{topic.topic_name}/subscriptions/all")
    assert subscription.subscribe(wanted) == url
    published = topic.publish_message(Base64TopicMessage("häh <&>", "urgent"))
    topic.publish_message(Base64TopicMessage("nobody's", "other"))
    received = queue.receive_message_with_str_body(WAIT_S)
    assert received.message_body == "häh <&>"
    assert published.message_id
    assert published.message_body_md5
    assert code_of(queue.peek_message) == "MessageNotExist"


def test_a_queue_can_get_what_is_known_of_a_message(topic: Topic, queue: Queue, endpoint: str) -> None:
    queue.set_encoding(False)
    topic.get_subscription("json").subscribe(SubscriptionMeta(endpoint, "", SubscriptionNotifyContentFormat.JSON))
    published = topic.publish_message(TopicMessage("hi", "tag"), RequestInfo("mine"))
    found = json.loads(queue.receive_message(WAIT_S).message_body)
    assert (found["Message"], found["MessageTag"], found["MessageId"]) == ("hi", "tag", published.message_id)
    assert (found["TopicName"], found["TopicOwner"], found["SubscriptionName"]) == (topic.topic_name, ACCOUNT, "json")


def test_what_is_published_is_pushed_to_receivers(topic: Topic) -> None:
    with receiver() as found:
        topic.get_subscription("push").subscribe(SubscriptionMeta(f"{found.url}/in", "", "SIMPLIFIED"))
        topic.publish_message(TopicMessage("pushed <é>"))
        eventually(lambda: found.pushed, WAIT_S)
    assert set(found.bodies) == {"pushed <é>"}  # what is not answered in time comes again
    assert found.pushed[0].headers["x-mns-topic-name"] == topic.topic_name


def test_messages_with_mail_sms_and_properties_are_taken(topic: Topic, queue: Queue, endpoint: str) -> None:
    topic.get_subscription("all").subscribe(SubscriptionMeta(endpoint, "", "SIMPLIFIED"))
    sms = DirectSMSInfo("sign", "template", True)
    sms.add_receiver("1")
    sms.set_params({"k": "v"})
    message = TopicMessage("aGk=", "tag", DirectMailInfo("account", "subject", 0, 0, 0), sms)
    message.add_user_property("n", MessagePropertyValue.create_number(1))
    topic.publish_message(message)
    assert queue.receive_message(WAIT_S).message_body == b"hi"


def test_a_subscription_is_told_changed_listed_and_ended(topic: Topic, endpoint: str) -> None:
    subscription = topic.get_subscription("one")
    subscription.subscribe(SubscriptionMeta(endpoint, filter_tag="tag"))
    told = subscription.get_attributes()
    assert (told.topic_owner, told.topic_name, told.subscription_name) == (ACCOUNT, topic.topic_name, "one")
    assert (told.endpoint, told.filter_tag) == (endpoint, "tag")
    assert (told.notify_strategy, told.notify_content_format) == ("BACKOFF_RETRY", "XML")
    assert abs(told.create_time - time.time()) < 300
    subscription.set_attributes(SubscriptionMeta(notify_strategy=SubscriptionNotifyStrategy.EXPONENTIAL))
    changed = subscription.get_attributes()
    assert (changed.notify_strategy, changed.filter_tag) == ("EXPONENTIAL_DECAY_RETRY", "tag")
    other = SubscriptionMeta(endpoint, notify_content_format="JSON")
    assert code_of(lambda: subscription.subscribe(other)) == "SubscriptionAlreadyExist"

    topic.get_subscription("two").subscribe(SubscriptionMeta(endpoint))
    first, marker = topic.list_subscription(ret_number=1)
    last, end = topic.list_subscription(ret_number=1, marker=marker)
    assert [url.rpartition("/")[2] for url in (*first, *last)] == ["one", "two"]
    assert end == ""
    subscription.unsubscribe()
    subscription.unsubscribe()
    assert code_of(subscription.get_attributes) == "SubscriptionNotExist"


@pytest.mark.parametrize(
    "wrong",
    [
        TopicHelper.generate_mail_endpoint("a@b"),
        TopicHelper.generate_sms_endpoint("1"),
        TopicHelper.generate_queue_endpoint("mq-private", "1111111111111111", "q"),
        "http://10.0.0.1/in",
        "nonsense",
    ],
)
def test_endpoints_that_cannot_be_served_are_refused(topic: Topic, wrong: str) -> None:
    assert code_of(lambda: topic.get_subscription("s").subscribe(SubscriptionMeta(wrong))) == "EndpointInvalid"


def test_users_need_the_right_to_publish_and_to_subscribe(
    service: QueueServiceProcess, topic: Topic, endpoint: str
) -> None:
    keys = service.keys("publisher", "mns:PublishMessage")
    theirs = Account(service.address, keys.id, keys.secret).get_topic(topic.topic_name)
    theirs.publish_message(TopicMessage("x"))
    assert code_of(theirs.get_attributes) == "AccessDenied"
    assert code_of(theirs.delete) == "AccessDenied"
    wanted = SubscriptionMeta(endpoint)
    assert code_of(lambda: theirs.get_subscription("s").subscribe(wanted)) == "AccessDenied"


def test_the_attributes_of_the_account_are_kept_and_the_service_is_open(account: Account) -> None:
    account.set_attributes(AccountMeta("logs"))
    assert account.get_attributes().logging_bucket == "logs"
    account.set_attributes(AccountMeta(""))
    assert account.open_service() is not None
