"""Topics of a real service: everything over HTTP, pushes to real receivers, and processes that are killed meanwhile."""

from __future__ import annotations

import http.client
import secrets
import signal
import threading
from base64 import b64decode
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing
from urllib.parse import urlsplit
from xml.etree import ElementTree

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from brokercore.smq.wire.signature import text_to_sign
from tests.support.broker import eventually
from tests.support.queue_service import ACCOUNT, PATIENCE_SECONDS, Keys, QueueServiceProcess, Reply, queue_service
from tests.support.receivers import Pushed, Receiver, receiver
from tests.support.redis_server import RedisServer, redis_server

DECAY = "EXPONENTIAL_DECAY_RETRY"


@pytest.fixture(scope="module")
def own_redis() -> Iterator[RedisServer]:
    with redis_server() as server:
        yield server


@pytest.fixture(scope="module")
def service(own_redis: RedisServer) -> Iterator[QueueServiceProcess]:
    with queue_service(own_redis) as process:
        yield process


@pytest.fixture(scope="module")
def keys(service: QueueServiceProcess) -> Keys:
    return service.keys()


class Topic:
    """A topic of its own for one test."""

    def __init__(self, service: QueueServiceProcess, keys: Keys) -> None:
        self.service, self.keys = service, keys
        self.name = f"t{secrets.token_hex(4)}"
        assert self.put("<Topic/>").status == 201

    def call(self, method: str, path: str = "", body: str = "", **headers: str) -> Reply:
        return self.service.call(
            method, f"/topics/{self.name}{path}", body.encode(), keys=self.keys, headers=headers or None
        )

    def put(self, body: str) -> Reply:
        return self.call("PUT", "", body)

    def subscribe(self, name: str, endpoint: str, strategy: str = "", form: str = "SIMPLIFIED", tag: str = "") -> Reply:
        leaves = {"NotifyStrategy": strategy, "Endpoint": endpoint, "FilterTag": tag, "NotifyContentFormat": form}
        inner = "".join(f"<{leaf}>{value}</{leaf}>" for leaf, value in leaves.items() if value)
        return self.call("PUT", f"/subscriptions/{name}", f"<Subscription>{inner}</Subscription>")

    def publish(self, body: str = "hello", tag: str = "") -> Reply:
        tagged = f"<MessageTag>{tag}</MessageTag>" if tag else ""
        return self.call("POST", "/messages", f"<Message><MessageBody>{body}</MessageBody>{tagged}</Message>")

    def told(self, name: str, element: str) -> str:
        return self.call("GET", f"/subscriptions/{name}").text(element)


@pytest.fixture
def topic(service: QueueServiceProcess, keys: Keys) -> Iterator[Topic]:
    found = Topic(service, keys)
    yield found
    found.call("DELETE")


def make_queue(service: QueueServiceProcess, keys: Keys, attributes: str = "") -> str:
    """A new queue; its name."""
    name = f"q{secrets.token_hex(4)}"
    assert service.call("PUT", f"/queues/{name}", f"<Queue>{attributes}</Queue>".encode(), keys=keys).status == 201
    return name


def endpoint(queue: str, account: str = ACCOUNT) -> str:
    return f"acs:mns:mq-private:{account}:queues/{queue}"


def received(service: QueueServiceProcess, keys: Keys, queue: str, wait_s: int = 5) -> list[str]:
    """The bodies of up to 16 messages of a queue, which are deleted."""
    target = f"/queues/{queue}/messages"
    reply = service.call("GET", f"{target}?numOfMessages=16&waitseconds={wait_s}", keys=keys)
    if reply.status == 404:
        return []
    handles = "".join(f"<ReceiptHandle>{one}</ReceiptHandle>" for one in reply.texts("ReceiptHandle"))
    body = f"<ReceiptHandles>{handles}</ReceiptHandles>".encode()
    assert service.call("DELETE", target, body, keys=keys).status == 204
    return reply.texts("MessageBody")


def wait_for_bodies(taker: Receiver, *expected: str) -> None:
    wanted = Counter(expected)
    eventually(lambda: Counter(taker.bodies) >= wanted, PATIENCE_SECONDS)


# --- Operations


def test_a_topics_life(service: QueueServiceProcess, keys: Keys, topic: Topic) -> None:
    where = f"{service.address}/topics/{topic.name}"
    again = topic.put("<Topic/>")
    assert (again.status, again.headers["Location"]) == (204, where)
    assert topic.put("<Topic><MaximumMessageSize>2048</MaximumMessageSize></Topic>").code == "TopicAlreadyExist"
    assert topic.call("PUT", "?metaoverride=true", "<Topic><LoggingEnabled>True</LoggingEnabled></Topic>").status == 204
    state = topic.call("GET")
    assert [state.text(name) for name in ("TopicName", "MaximumMessageSize", "LoggingEnabled", "MessageCount")] == [
        topic.name, "65536", "True", "0",
    ]  # fmt: skip
    assert state.text("MessageRetentionPeriod") == "86400"
    listed = service.call("GET", "/topics", keys=keys, headers={"x-mns-prefix": topic.name})
    assert (listed.texts("TopicURL"), listed.texts("TopicName"), listed.texts("NextMarker")) == ([where], [], [])
    with_meta = {"x-mns-prefix": topic.name, "x-mns-with-meta": "true"}
    assert service.call("GET", "/topics", keys=keys, headers=with_meta).texts("TopicName") == [topic.name]
    assert topic.call("DELETE").status == 204
    assert topic.call("DELETE").status == 204
    assert topic.call("GET").code == "TopicNotExist"
    assert topic.publish().code == "TopicNotExist"


def test_topics_are_listed_in_pages(service: QueueServiceProcess, keys: Keys) -> None:
    prefix = f"p{secrets.token_hex(4)}"
    for number in range(3):
        assert service.call("PUT", f"/topics/{prefix}{number}", b"<Topic/>", keys=keys).status == 201
    headers = {"x-mns-prefix": prefix, "x-mns-ret-number": "2"}
    first = service.call("GET", "/topics", keys=keys, headers=headers)
    assert first.texts("NextMarker") == [f"{prefix}1"]
    second = service.call("GET", "/topics", keys=keys, headers=headers | {"x-mns-marker": f"{prefix}1"})
    assert [url.rpartition("/")[2] for url in first.texts("TopicURL") + second.texts("TopicURL")] == [
        f"{prefix}{number}" for number in range(3)
    ]
    assert second.texts("NextMarker") == []


def test_a_subscriptions_life(service: QueueServiceProcess, keys: Keys, topic: Topic) -> None:
    queue = make_queue(service, keys)
    made = topic.subscribe("s", endpoint(queue))
    where = f"{service.address}/topics/{topic.name}/subscriptions/s"
    assert (made.status, made.headers["Location"]) == (201, where)
    assert topic.subscribe("s", endpoint(queue)).status == 204
    assert topic.subscribe("s", endpoint(queue), tag="red").code == "SubscriptionAlreadyExist"
    change = f"<Subscription><NotifyStrategy>{DECAY}</NotifyStrategy><FilterTag>red</FilterTag></Subscription>"
    assert topic.call("PUT", "/subscriptions/s?metaoverride=true", change).status == 204
    state = topic.call("GET", "/subscriptions/s")
    told = {name: state.text(name) for name in ("TopicOwner", "TopicName", "Endpoint", "NotifyStrategy", "FilterTag")}
    assert told == {
        "TopicOwner": ACCOUNT, "TopicName": topic.name, "Endpoint": endpoint(queue), "NotifyStrategy": DECAY,
        "FilterTag": "red",
    }  # fmt: skip
    urls = topic.call("GET", "/subscriptions")
    assert (urls.texts("SubscriptionURL"), urls.texts("Endpoint")) == ([where], [])
    listed = topic.call("GET", "/subscriptions", **{"x-mns-with-meta": "true"})
    assert listed.texts("SubscriptionName") == ["s"]
    assert topic.call("DELETE", "/subscriptions/s").status == 204
    assert topic.call("DELETE", "/subscriptions/s").status == 204
    assert topic.call("GET", "/subscriptions/s").code == "SubscriptionNotExist"
    assert topic.call("GET", "/subscriptions").texts("SubscriptionURL") == []


def test_a_publish_is_in_the_queues_when_it_is_acknowledged(
    service: QueueServiceProcess, keys: Keys, topic: Topic
) -> None:
    every, red = make_queue(service, keys), make_queue(service, keys)
    topic.subscribe("every", endpoint(every))
    topic.subscribe("red", endpoint(red), tag="red", form="XML")
    plain, tagged = topic.publish("plain"), topic.publish("tagged", tag="red")
    assert (plain.status, tagged.status) == (201, 201)
    assert sorted(received(service, keys, every, wait_s=0)) == ["plain", "tagged"]
    (notification,) = received(service, keys, red, wait_s=0)
    root = {one.tag.rpartition("}")[2]: one.text for one in ElementTree.fromstring(notification)}
    assert (root["Message"], root["MessageTag"], root["MessageId"]) == ("tagged", "red", tagged.text("MessageId"))
    assert root["MessageMD5"] == tagged.text("MessageBodyMD5")


def test_a_publish_wakes_who_waits_at_a_queue(service: QueueServiceProcess, keys: Keys, topic: Topic) -> None:
    queue = make_queue(service, keys)
    topic.subscribe("s", endpoint(queue))
    found: list[str] = []
    waiting = threading.Thread(target=lambda: found.extend(received(service, keys, queue, wait_s=25)))
    waiting.start()
    topic.publish("wake")
    waiting.join(PATIENCE_SECONDS)
    assert found == ["wake"]


def test_account_and_order_are_the_accounts_own(service: QueueServiceProcess) -> None:
    account = f"{secrets.randbelow(10**16):016}"
    keys = service.keys("own", account=account)
    assert service.call("GET", "/?accountmeta=true", keys=keys).texts("LoggingBucket") == [""]
    body = b"<Account><LoggingBucket>logs</LoggingBucket></Account>"
    assert service.call("PUT", "/?accountmeta=true", body, keys=keys).status == 204
    assert service.call("GET", "/?accountmeta=true", keys=keys).text("LoggingBucket") == "logs"
    orders = {service.call("POST", "/commonbuy/openservice", keys=keys).text("OrderId") for _ in range(2)}
    assert len(orders) == 1 and orders != {""}


# --- Rights


def test_a_topic_gives_nobody_a_right_on_a_queue(service: QueueServiceProcess, keys: Keys, topic: Topic) -> None:
    queue = make_queue(service, keys)
    place = f"acs:mns:*:{ACCOUNT}:/topics/{topic.name}"
    narrow = service.keys("narrow", "mns:*", resources=(f"{place}/*",))
    wide = service.keys("wide", "mns:*", resources=(f"{place}/*", f"acs:mns:*:{ACCOUNT}:/queues/{queue}/messages"))
    body = f"<Subscription><Endpoint>{endpoint(queue)}</Endpoint></Subscription>".encode()
    target = f"/topics/{topic.name}/subscriptions/s"
    refused = service.call("PUT", target, body, keys=narrow)
    assert (refused.status, refused.code) == (403, "AccessDenied")
    assert "mns:SendMessage" in refused.text("Message")
    assert service.call("PUT", target, body, keys=wide).status == 201


def test_publishing_needs_its_right(service: QueueServiceProcess, topic: Topic) -> None:
    reader = service.keys("reader", "mns:GetTopicAttributes")
    assert service.call("GET", f"/topics/{topic.name}", keys=reader).status == 200
    body = b"<Message><MessageBody>x</MessageBody></Message>"
    assert service.call("POST", f"/topics/{topic.name}/messages", body, keys=reader).code == "AccessDenied"


def test_queues_of_another_account_are_no_endpoint(topic: Topic) -> None:
    refused = topic.subscribe("s", endpoint("q", account="6543210987654321"))
    assert (refused.status, refused.code) == (400, "EndpointInvalid")


# --- Pushes


def verify(service: QueueServiceProcess, pushed: Pushed) -> None:
    """Check a push as the vendor's page tells receivers to. Raises InvalidSignature."""
    url = urlsplit(b64decode(pushed.headers["x-mns-signing-cert-url"]).decode())
    assert f"{url.scheme}://{url.netloc}" == service.address
    with closing(http.client.HTTPConnection(url.netloc, timeout=PATIENCE_SECONDS)) as connection:
        connection.request("GET", url.path)
        answer = connection.getresponse()
        pem = answer.read()
    assert (answer.status, answer.headers["Content-Type"]) == (200, "application/x-pem-file")
    key = x509.load_pem_x509_certificate(pem).public_key()
    assert isinstance(key, rsa.RSAPublicKey) and key.key_size == 2048
    text = text_to_sign("POST", pushed.path, pushed.headers)
    signature = b64decode(pushed.headers["authorization"])
    key.verify(signature, text.encode(), padding.PKCS1v15(), hashes.SHA1())


@pytest.mark.parametrize("form", ["XML", "JSON", "SIMPLIFIED"])
def test_a_push_is_signed_with_the_key_of_its_certificate(
    service: QueueServiceProcess, topic: Topic, form: str
) -> None:
    with receiver() as taker:
        assert topic.subscribe("s", f"{taker.url}/in?x=1", form=form).status == 201
        published = topic.publish("hello", tag="red")
        (pushed,) = eventually(lambda: list(taker.pushed), PATIENCE_SECONDS)
        eventually(lambda: topic.told("s", "DeliveredCount") == "1", PATIENCE_SECONDS)
    assert pushed.path == "/in?x=1"
    verify(service, pushed)
    changed = Pushed(pushed.path, {**pushed.headers, "content-md5": "x"}, pushed.body)
    with pytest.raises(InvalidSignature):
        verify(service, changed)
    own = "x-mns-message-id" in pushed.headers
    assert own is (form == "SIMPLIFIED")
    assert published.text("MessageId") in (pushed.headers["x-mns-message-id"] if own else pushed.body.decode())
    assert topic.told("s", "LastPushStatus") == "204"
    assert topic.call("GET").text("MessageCount") == "0"


def test_there_is_no_certificate_of_another_name(service: QueueServiceProcess) -> None:
    with closing(http.client.HTTPConnection("127.0.0.1", service.port, timeout=PATIENCE_SECONDS)) as connection:
        connection.request("GET", "/certificates/none.pem")
        answer = connection.getresponse()
        assert answer.status == 404
        assert b"<Code>CertificateNotExist</Code>" in answer.read()


def test_a_push_that_failed_is_tried_again(topic: Topic) -> None:
    answers = [500, 503, 200]
    with receiver(lambda _: answers.pop(0)) as taker:
        topic.subscribe("s", taker.url, DECAY)
        topic.publish("again")
        wait_for_bodies(taker, "again", "again", "again")
        eventually(lambda: topic.told("s", "DeliveredCount") == "1", PATIENCE_SECONDS)
    assert (topic.told("s", "FailureCount"), topic.told("s", "WaitingCount")) == ("2", "0")
    assert {one.path for one in taker.pushed} == {"/notifications"}
    assert len({one.headers["x-mns-request-id"] for one in taker.pushed}) == 3


def test_a_redirect_is_not_followed(topic: Topic) -> None:
    with receiver() as other, receiver(lambda _: (302, {"location": f"{other.url}/in"})) as taker:
        topic.subscribe("s", taker.url)
        topic.publish()
        wait_for_bodies(taker, "hello")
        eventually(lambda: topic.told("s", "FailureCount") != "0", PATIENCE_SECONDS)
        assert topic.told("s", "LastPushStatus") == "302"
        assert "redirects are not followed" in topic.told("s", "LastPushError")
        assert topic.told("s", "WaitingCount") == "1"
    assert other.pushed == []


def test_a_receiver_that_is_not_there_is_told_of(topic: Topic) -> None:
    with receiver() as gone:
        address = gone.url
    topic.subscribe("s", address)
    topic.publish()
    eventually(lambda: topic.told("s", "FailureCount") != "0", PATIENCE_SECONDS)
    assert topic.told("s", "LastPushStatus") == "0"
    assert "could not be connected to" in topic.told("s", "LastPushError")


def test_receivers_that_take_their_time_hold_up_nobody(topic: Topic) -> None:
    release = threading.Event()

    def slow(_pushed: Pushed) -> int:
        release.wait(PATIENCE_SECONDS)
        return 200

    with ExitStack() as stack:
        stuck = [stack.enter_context(receiver(slow)) for _ in range(3)]
        quick = stack.enter_context(receiver())
        try:
            for number, one in enumerate(stuck):
                topic.subscribe(f"stuck{number}", one.url, DECAY)
            topic.subscribe("quick", quick.url)
            bodies = [str(number) for number in range(30)]
            for body in bodies:
                topic.publish(body)
            wait_for_bodies(quick, *bodies)
            assert topic.told("stuck0", "WaitingCount") == "30"
        finally:
            release.set()


def test_an_answer_that_has_no_end_is_not_read_to_it(topic: Topic) -> None:
    with receiver(lambda _: (200, {"content-length": str(1 << 40)})) as taker:
        topic.subscribe("s", taker.url)
        topic.publish()
        eventually(lambda: topic.told("s", "DeliveredCount") == "1", PATIENCE_SECONDS)


# --- Where pushes may go


@pytest.mark.parametrize("host", ["10.1.2.3", "169.254.169.254", "[fd00::1]", "0x0a010203", "192.168.1.1:8080"])
def test_private_addresses_are_refused(topic: Topic, host: str) -> None:
    refused = topic.subscribe("s", f"http://{host}/in")
    assert (refused.status, refused.code) == (400, "EndpointInvalid")
    assert "no public address" in refused.text("Message")


def test_without_a_list_the_loopback_is_private_too() -> None:
    with receiver() as taker, queue_service(gantry_smq_push_allow="") as strict:
        assert Topic(strict, strict.keys()).subscribe("s", taker.url).code == "EndpointInvalid"


def test_what_is_stored_is_judged_again_when_it_is_pushed() -> None:
    with redis_server() as store, receiver() as taker:
        with queue_service(store) as before:
            keys = before.keys()
            topic = Topic(before, keys)
            assert topic.subscribe("s", taker.url, DECAY).status == 201
        with queue_service(store, gantry_smq_push_allow="10.0.0.0/8") as after:
            topic.service = after
            eventually(lambda: topic.call("GET").status == 200, PATIENCE_SECONDS)
            topic.publish()
            eventually(lambda: topic.told("s", "FailureCount") not in ("", "0"), PATIENCE_SECONDS)
            assert "no public address" in topic.told("s", "LastPushError")
        assert taker.pushed == []


# --- Crashes


@pytest.mark.slow  # leases end
def test_a_publish_in_the_middle_of_which_service_or_redis_dies_is_done_everywhere_or_nowhere() -> None:
    """Every publish that was acknowledged is in both queues and at the receiver; no other is in one queue only."""
    # With `everysec` the death of Redis may cost what it acknowledged while a sync ran.
    with redis_server("--appendfsync", "always") as store, receiver() as taker, queue_service(store) as service:
        keys = service.keys()
        topic = Topic(service, keys)
        first, second = make_queue(service, keys), make_queue(service, keys)
        topic.subscribe("first", endpoint(first))
        topic.subscribe("second", endpoint(second))
        topic.subscribe("push", taker.url, DECAY)
        acknowledged: list[str] = []
        over = threading.Event()

        def publish(writer: int) -> None:
            number = 0
            while not over.is_set():
                body, number = f"{writer}-{number}", number + 1
                try:
                    if topic.publish(body).status == 201:
                        acknowledged.append(body)
                except (OSError, http.client.HTTPException):
                    over.wait(0.05)  # the service is away

        writers = [threading.Thread(target=publish, args=(writer,)) for writer in range(3)]
        for one in writers:
            one.start()
        try:
            for victim in (service, store, service):
                until = len(acknowledged) + 40
                eventually(lambda: len(acknowledged) >= until, PATIENCE_SECONDS)  # noqa: B023
                victim.kill()
                victim.start()
        finally:
            over.set()
            for one in writers:
                one.join(PATIENCE_SECONDS)
        eventually(lambda: topic.call("GET").status == 200, PATIENCE_SECONDS)
        found = {queue: drain(service, keys, queue) for queue in (first, second)}
        assert found[first] == found[second]
        assert set(acknowledged) <= set(found[first])
        assert len(acknowledged) >= 120
        # What a killed process had under way comes when its lease has ended.
        eventually(lambda: set(taker.bodies) >= set(found[first]), 3 * PATIENCE_SECONDS)
        assert set(taker.bodies) == set(found[first])


def drain(service: QueueServiceProcess, keys: Keys, queue: str) -> list[str]:
    """All bodies of a queue, in order."""
    found: list[str] = []
    while some := received(service, keys, queue, wait_s=0):
        found += some
    return sorted(found)


@pytest.mark.slow  # a lease ends
def test_a_push_in_the_middle_of_which_its_process_dies_is_made_by_another_one() -> None:
    taken, release = threading.Event(), threading.Event()

    def hold(_pushed: Pushed) -> int:
        if not taken.is_set():
            taken.set()
            release.wait(PATIENCE_SECONDS)
        return 200

    with redis_server() as store, receiver(hold) as taker, queue_service(store) as first:
        keys = first.keys()
        topic = Topic(first, keys)
        topic.subscribe("s", taker.url)
        topic.publish("once more")
        assert taken.wait(PATIENCE_SECONDS)
        first.kill()
        release.set()
        with queue_service(store) as second:
            topic.service = second
            wait_for_bodies(taker, "once more", "once more")
            eventually(lambda: topic.told("s", "DeliveredCount") == "1", PATIENCE_SECONDS)
        # The certificate is that of the same key, at the address of each.
        names = {b64decode(one.headers["x-mns-signing-cert-url"]).rpartition(b"/")[2] for one in taker.pushed}
        assert len(names) == 1


def test_several_processes_share_the_pushes_and_make_each_once() -> None:
    with redis_server() as store, receiver() as taker, queue_service(store) as one, queue_service(store) as two:
        keys = one.keys()
        topic = Topic(one, keys)
        topic.subscribe("s", taker.url)
        bodies = [str(number) for number in range(60)]
        for number, body in enumerate(bodies):
            topic.service = (one, two)[number % 2]
            eventually(lambda: topic.publish(body).status == 201, PATIENCE_SECONDS)  # noqa: B023
        wait_for_bodies(taker, *bodies)
        eventually(lambda: topic.told("s", "WaitingCount") == "0", PATIENCE_SECONDS)
        assert set(taker.bodies) == set(bodies)
        assert len(taker.bodies) - len(bodies) <= int(topic.told("s", "FailureCount"))


def test_a_stop_in_order_lets_a_push_end() -> None:
    release = threading.Event()

    def hold(_pushed: Pushed) -> int:
        release.wait(PATIENCE_SECONDS)
        return 200

    with redis_server() as store, receiver(hold) as taker, queue_service(store) as service:
        keys = service.keys()
        topic = Topic(service, keys)
        topic.subscribe("s", taker.url)
        topic.publish()
        eventually(lambda: taker.pushed, PATIENCE_SECONDS)
        service.signal(signal.SIGTERM)
        release.set()
        assert service.stop(PATIENCE_SECONDS) == 0
        service.start()
        eventually(lambda: topic.call("GET").status == 200, PATIENCE_SECONDS)
        assert (topic.told("s", "DeliveredCount"), topic.told("s", "WaitingCount")) == ("1", "0")
