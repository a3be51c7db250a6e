"""What a client says of topics is read or refused with a sentence, and subscribers get what they can read."""

from __future__ import annotations

import hashlib
import json
from base64 import b64decode
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokercore.smq.wire.errors import Code, SmqError
from brokercore.smq.wire.notifications import (
    Notice,
    pause_before_next,
    push_headers,
    push_target,
    push_text_to_sign,
)
from brokercore.smq.wire.requests import Operation, read_call
from brokercore.smq.wire.subscriptions import (
    Format,
    PushResult,
    Strategy,
    Subscription,
    SubscriptionState,
    list_document,
    queue_of,
    read_change,
    read_subscription,
    require_endpoint,
    state_document,
)
from brokercore.smq.wire.topics import (
    Publication,
    read_account,
    read_attributes,
    read_publication,
    with_defaults,
)
from tests.brokercore.smq.test_wire import TEXTS, refusal

QUEUE = "acs:mns:mq-private:1234567890123456:queues/orders"


def texts(document: bytes) -> dict[str, str]:
    """The elements of an answer by their names."""
    root = ElementTree.fromstring(document)
    return {element.tag.rpartition("}")[2]: element.text or "" for element in root.iter() if not list(element)}


def notice(body: str = "hello", tag: str = "") -> Notice:
    return Notice("1234567890123456", "news", "ID-1", 1_800_000_000_123, Publication(body.encode(), tag))


# --- Requests


@pytest.mark.parametrize(
    ("line", "operation", "resource"),
    [
        ("PUT /topics/t", Operation.CREATE_TOPIC, "/topics/t"),
        ("PUT /topics/t?metaoverride=true", Operation.SET_TOPIC_ATTRIBUTES, "/topics/t"),
        ("GET /topics/t", Operation.GET_TOPIC_ATTRIBUTES, "/topics/t"),
        ("GET /topics", Operation.LIST_TOPIC, "/topics/"),
        ("DELETE /topics/t", Operation.DELETE_TOPIC, "/topics/t"),
        ("POST /topics/t/messages", Operation.PUBLISH_MESSAGE, "/topics/t/messages"),
        ("PUT /topics/t/subscriptions/s", Operation.SUBSCRIBE, "/topics/t/subscriptions/s"),
        (
            "PUT /topics/t/subscriptions/s?metaoverride=TRUE",
            Operation.SET_SUBSCRIPTION_ATTRIBUTES,
            "/topics/t/subscriptions/s",
        ),
        ("GET /topics/t/subscriptions/s", Operation.GET_SUBSCRIPTION_ATTRIBUTES, "/topics/t/subscriptions/s"),
        ("GET /topics/t/subscriptions", Operation.LIST_SUBSCRIPTION_BY_TOPIC, "/topics/t/subscriptions/"),
        ("DELETE /topics/t/subscriptions/s", Operation.UNSUBSCRIBE, "/topics/t/subscriptions/s"),
        ("GET /?accountmeta=true", Operation.GET_ACCOUNT_ATTRIBUTES, "/"),
        ("PUT /?AccountMeta=true", Operation.SET_ACCOUNT_ATTRIBUTES, "/"),
        ("POST /commonbuy/openservice", Operation.OPEN_SERVICE, "/"),
    ],
)
def test_each_operation_has_its_line_and_its_resource(line: str, operation: Operation, resource: str) -> None:
    call = read_call(*line.split(" "))
    assert (call.operation, call.resource) == (operation, resource)


@pytest.mark.parametrize(
    ("target", "code"),
    [
        (f"/topics/{'t' * 256}", Code.TOPIC_NAME_LENGTH_ERROR),
        ("/topics/-t", Code.TOPIC_NAME_INVALID),
        (f"/topics/t/subscriptions/{'s' * 256}", Code.SUBSCRIPTION_NAME_LENGTH_ERROR),
        ("/topics/t/subscriptions/a:b", Code.SUBSCRIPTION_NAME_INVALID),
        (f"/queues/{'q' * 121}", Code.QUEUE_NAME_LENGTH_ERROR),
        ("/", Code.INVALID_REQUEST_URL),
    ],
)
def test_a_name_that_cannot_be_is_refused_as_what_it_names(target: str, code: Code) -> None:
    assert refusal(read_call, "GET", target).code is code


def test_names_of_topics_may_be_longer_than_those_of_queues() -> None:
    assert read_call("GET", f"/topics/{'t' * 255}").name == "t" * 255


# --- Topics


def test_attributes_are_read_and_the_others_have_defaults() -> None:
    body = b"<Topic><MaximumMessageSize>2048</MaximumMessageSize><LoggingEnabled>True</LoggingEnabled></Topic>"
    assert with_defaults(read_attributes(body)) == {"MaximumMessageSize": 2048, "LoggingEnabled": 1}
    assert with_defaults(read_attributes(b"")) == {"MaximumMessageSize": 65536, "LoggingEnabled": 0}


@pytest.mark.parametrize(
    "body",
    [
        b"<Topic><MaximumMessageSize>1023</MaximumMessageSize></Topic>",
        b"<Topic><MaximumMessageSize>65537</MaximumMessageSize></Topic>",
        b"<Topic><LoggingEnabled>yes</LoggingEnabled></Topic>",
        b"<Queue/>",
    ],
)
def test_attributes_that_cannot_be_are_refused(body: bytes) -> None:
    assert refusal(read_attributes, body).code is Code.INVALID_ARGUMENT


def test_a_publication_has_a_body_a_tag_and_what_comes_back() -> None:
    publication = read_publication(
        b"<Message><MessageBody>hi</MessageBody><MessageTag>red</MessageTag><MessageGroupId>g</MessageGroupId>"
        b"<MessageAttributes><DirectSMS>{&quot;FreeSignName&quot;: &quot;s&quot;}</DirectSMS></MessageAttributes>"
        b"<UserProperties><PropertyValue><Name>n</Name><Value>1</Value><Type>NUMBER</Type></PropertyValue>"
        b"</UserProperties></Message>"
    )
    assert (publication.body, publication.tag) == (b"hi", "red")
    assert b"<Name>n</Name>" in publication.extra and b"<MessageGroupId>g</MessageGroupId>" in publication.extra


@pytest.mark.parametrize(
    ("inner", "sentence"),
    [
        ("", "MessageBody is missing or empty"),
        ("<MessageBody/>", "MessageBody is missing or empty"),
        (f"<MessageBody>x</MessageBody><MessageTag>{'t' * 17}</MessageTag>", "MessageTag has 17 characters"),
        ("<MessageBody>x</MessageBody><MessageTag>a\nx-evil: 1</MessageTag>", "can be printed"),
        (
            "<MessageBody>x</MessageBody><MessageAttributes><DirectMail>{</DirectMail></MessageAttributes>",
            "DirectMail of MessageAttributes is not valid JSON",
        ),
    ],
)
def test_a_publication_that_cannot_be_is_refused(inner: str, sentence: str) -> None:
    refused = refusal(read_publication, f"<Message>{inner}</Message>".encode())
    assert refused.code is Code.INVALID_ARGUMENT
    assert sentence in refused.message


def test_the_account_names_a_bucket_or_nothing() -> None:
    assert read_account(b"<Account><LoggingBucket>logs</LoggingBucket></Account>") == "logs"
    assert read_account(b"<Account/>") is None
    assert read_account(b"") is None
    body = f"<Account><LoggingBucket>{'b' * 256}</LoggingBucket></Account>".encode()
    assert refusal(read_account, body).code is Code.INVALID_ARGUMENT


# --- Subscriptions


def test_a_subscription_has_the_vendors_defaults() -> None:
    found = read_subscription(f"<Subscription><Endpoint>{QUEUE}</Endpoint></Subscription>".encode(), "1", 7)
    assert found == Subscription("1", QUEUE, Strategy.BACKOFF, Format.XML, "", 7, 7)
    assert found.queue == "orders"


def test_what_a_subscription_asks_for_is_kept() -> None:
    body = (
        b"<Subscription><Endpoint>http://example.com/in?x=1</Endpoint><FilterTag>red</FilterTag>"
        b"<NotifyStrategy>EXPONENTIAL_DECAY_RETRY</NotifyStrategy>"
        b"<NotifyContentFormat>SIMPLIFIED</NotifyContentFormat></Subscription>"
    )
    found = read_subscription(body, "1", 7)
    assert (found.strategy, found.format, found.tag, found.queue) == (Strategy.DECAY, Format.SIMPLIFIED, "red", "")
    assert Subscription.read(json.loads(json.dumps(found.kept()))) == found


def test_a_filter_lets_its_tag_through_and_no_filter_everything() -> None:
    every, red = Subscription("1", QUEUE), Subscription("2", QUEUE, tag="red")
    assert [every.takes(""), every.takes("red")] == [True, True]
    assert [red.takes(""), red.takes("red"), red.takes("blue")] == [False, True, False]


@pytest.mark.parametrize(
    ("inner", "code"),
    [
        ("", Code.INVALID_ARGUMENT),
        ("<Endpoint/>", Code.INVALID_ARGUMENT),
        (f"<Endpoint>{QUEUE}</Endpoint><NotifyContentFormat>STREAM</NotifyContentFormat>", Code.INVALID_ARGUMENT),
        (f"<Endpoint>{QUEUE}</Endpoint><NotifyStrategy>NEVER</NotifyStrategy>", Code.INVALID_ARGUMENT),
        (f"<Endpoint>{QUEUE}</Endpoint><FilterTag>{'t' * 17}</FilterTag>", Code.INVALID_ARGUMENT),
        ("<Endpoint>mail:directmail:a@example.com</Endpoint>", Code.ENDPOINT_INVALID),
    ],
)
def test_a_subscription_that_cannot_be_is_refused(inner: str, code: Code) -> None:
    assert refusal(read_subscription, f"<Subscription>{inner}</Subscription>".encode(), "1", 7).code is code


@pytest.mark.parametrize(
    "endpoint",
    [
        "sms:directsms:anonymous", "push:123", "ftp://example.com/", "orders", "http://", "http:///path",
        "http://example.com:0/", "http://example.com:65536/", "http://example.com:x/", "http://a@example.com/",
        "http://example.com/#part", "http://example.com/a b", "http://exämple.com/", "http://[::1/",
        f"http://example.com/{'x' * 1024}", "acs:mns:mq-private:123:topics/t", "acs:mns:mq-private:123:queues/-",
        f"acs:mns:mq-private:123:queues/{'q' * 121}", "acs:mns:mq-private::queues/q", "http://example.com/\r\nx: 1",
    ],
)  # fmt: skip
def test_an_endpoint_that_nothing_can_go_to_is_refused(endpoint: str) -> None:
    assert refusal(require_endpoint, endpoint).code is Code.ENDPOINT_INVALID


@pytest.mark.parametrize(
    "endpoint", ["http://example.com", "https://example.com:8443/in?a=b", "http://[::1]:80/", "http://127.0.0.1", QUEUE]
)
def test_an_endpoint_that_something_can_go_to_is_taken(endpoint: str) -> None:
    require_endpoint(endpoint)


@given(st.text(max_size=60))
def test_every_text_is_judged_as_an_endpoint(text: str) -> None:
    for endpoint in (text, f"http://{text}", f"acs:mns:x:1:queues/{text}"):
        try:
            require_endpoint(endpoint)
        except SmqError as error:
            assert error.code in (Code.ENDPOINT_INVALID, Code.INVALID_ARGUMENT)
        else:
            assert queue_of(endpoint) or push_target(endpoint).startswith("/")


def test_a_change_names_strategy_and_filter_and_nothing_else() -> None:
    assert read_change(b"<Subscription><NotifyStrategy>BACKOFF_RETRY</NotifyStrategy></Subscription>") == {
        "strategy": "BACKOFF_RETRY"
    }
    assert read_change(b"<Subscription><FilterTag></FilterTag></Subscription>") == {"tag": ""}
    assert read_change(b"") == {}
    for fixed in ("Endpoint", "NotifyContentFormat"):
        refused = refusal(read_change, f"<Subscription><{fixed}>XML</{fixed}></Subscription>".encode())
        assert refused.code is Code.INVALID_ARGUMENT


def test_a_subscription_is_told_with_what_became_of_its_pushes() -> None:
    one = Subscription("1", QUEUE, tag="red", created=3, modified=4)
    result = PushResult(9, 500, "The receiver answered 500.", 5, 6, 7, 8)
    told = texts(state_document(SubscriptionState("acc", "news", "s", one, result)))
    assert told == {
        "SubscriptionName": "s", "Subscriber": "acc", "TopicOwner": "acc", "TopicName": "news", "Endpoint": QUEUE,
        "NotifyStrategy": "BACKOFF_RETRY", "NotifyContentFormat": "XML", "FilterTag": "red", "CreateTime": "3",
        "LastModifyTime": "4", "DeliveredCount": "5", "FailureCount": "6", "DroppedCount": "7", "WaitingCount": "8",
        "LastPushTime": "9", "LastPushStatus": "500", "LastPushError": "The receiver answered 500.",
    }  # fmt: skip


def test_no_element_of_a_list_is_empty() -> None:
    state = SubscriptionState("acc", "news", "s", Subscription("1", QUEUE))
    told = texts(list_document({"http://h/topics/news/subscriptions/s": state}, "", with_meta=True))
    assert told["SubscriptionName"] == "s"
    assert all(told.values())


# --- Notifications


@given(TEXTS)
def test_every_body_comes_back_from_xml_json_and_simplified(body: str) -> None:
    found = notice(body)
    root = texts(found.content("s", Format.XML))
    assert root["Message"] == body
    assert json.loads(found.content("s", Format.JSON))["Message"] == body
    assert found.content("s", Format.SIMPLIFIED) == body.encode()


@pytest.mark.parametrize("tag", ["", "red"])
def test_xml_and_json_say_the_same(tag: str) -> None:
    expected = {
        "TopicOwner": "1234567890123456",
        "TopicName": "news",
        "Subscriber": "1234567890123456",
        "SubscriptionName": "s",
        "MessageId": "ID-1",
        "Message": "hello",
        "MessageMD5": hashlib.md5(b"hello").hexdigest().upper(),
        "PublishTime": "1800000000123",
    } | ({"MessageTag": tag} if tag else {})
    found = notice(tag=tag)
    assert texts(found.content("s", Format.XML)) == expected
    assert json.loads(found.content("s", Format.JSON)) == expected


def test_headers_of_a_push_say_its_digest_its_time_and_where_the_certificate_is() -> None:
    found = notice(tag="red")
    headers = push_headers(
        Format.SIMPLIFIED, b"hello", found.headers("s"), request_id="R", date="D", certificate_url="http://h/c.pem"
    )
    assert b64decode(headers["content-md5"]) == hashlib.md5(b"hello").hexdigest().encode()
    assert b64decode(headers["x-mns-signing-cert-url"]) == b"http://h/c.pem"
    assert headers["x-mns-message-tag"] == "red"
    assert push_text_to_sign("http://h/in?x=1", headers) == "\n".join(
        (
            "POST",
            headers["content-md5"],
            "text/plain;charset=utf-8",
            "D",
            "x-mns-message-id:ID-1",
            "x-mns-message-tag:red",
            "x-mns-publish-time:1800000000123",
            "x-mns-request-id:R",
            f"x-mns-signing-cert-url:{headers['x-mns-signing-cert-url']}",
            "x-mns-subscriber:1234567890123456",
            "x-mns-subscription-name:s",
            "x-mns-topic-name:news",
            "x-mns-topic-owner:1234567890123456",
            "x-mns-version:2015-06-06",
            "/in?x=1",
        )
    )


@pytest.mark.parametrize("tag", ["", "röt"])
def test_a_tag_that_no_header_can_hold_is_left_out(tag: str) -> None:
    assert "x-mns-message-tag" not in notice(tag=tag).headers("s")


@pytest.mark.parametrize(
    ("endpoint", "target"),
    [
        ("http://h", "/notifications"),
        ("http://h?x=1", "/notifications?x=1"),
        ("http://h/", "/"),
        ("https://h:1/a/b?c", "/a/b?c"),
    ],
)
def test_a_push_goes_to_the_path_of_its_endpoint(endpoint: str, target: str) -> None:
    assert push_target(endpoint) == target


def test_backoff_tries_three_times_more() -> None:
    pauses = [pause_before_next(Strategy.BACKOFF, tries) for tries in (1, 2, 3)]
    assert all(pause is not None and 10 <= pause <= 20 for pause in pauses)
    assert pause_before_next(Strategy.BACKOFF, 4) is None


def test_decay_doubles_its_pauses_and_ends_within_a_day() -> None:
    pauses = [pause_before_next(Strategy.DECAY, tries) for tries in range(1, 177)]
    assert pauses[:11] == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 512]
    assert len(pauses) == 176
    assert 80_000 < sum(pause or 0 for pause in pauses) < 86_400
    assert pause_before_next(Strategy.DECAY, 177) is None
