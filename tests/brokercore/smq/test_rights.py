"""Who may do what at a real queue service, what is told of those who may not, and how much an account may take."""

from __future__ import annotations

import hashlib
import http.client
import threading
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from contextlib import closing
from queue import SimpleQueue

import pytest
from redis import Redis

from brokercore.policy.table import (
    CHANGED,
    CHANGED_FIELD,
    DEFAULTS,
    LIMITS,
    REFUSED,
    REFUSED_FIELD,
    VERSION,
    Changed,
    Refused,
)
from tests.support.broker import SYSTEM_KEY, SYSTEM_SECRET, eventually
from tests.support.product import free_ports
from tests.support.queue_service import ACCOUNT, PATIENCE_SECONDS, Keys, QueueServiceProcess, queue_service

pytestmark = pytest.mark.process
OTHER = "6543210987654321"
SYSTEM = Keys(SYSTEM_KEY, SYSTEM_SECRET)
MESSAGE = b'<Message xmlns="http://mns.aliyuncs.com/doc/v1/"><MessageBody>hello</MessageBody></Message>'
QUEUE = b"<Queue/>"


@pytest.fixture(scope="module")
def service() -> Iterator[QueueServiceProcess]:
    with queue_service() as running:
        yield running


@pytest.fixture
def account_of_figures() -> Iterator[tuple[QueueServiceProcess, str]]:
    """A service of its own, and where it tells its figures."""
    (port,) = free_ports(1)
    with queue_service(GANTRY_SMQ_METRICS_PORT=str(port)) as running:
        yield running, f"http://127.0.0.1:{port}"


@pytest.fixture
def account(service: QueueServiceProcess) -> Keys:
    return service.keys("account")


def test_a_user_does_what_a_policy_allows_on_the_queues_that_it_names(
    service: QueueServiceProcess, account: Keys
) -> None:
    for name in ("orders", "bills"):
        assert service.call("PUT", f"/queues/{name}", QUEUE, keys=account).status in (201, 204)
    resource = f"acs:mns:*:{ACCOUNT}:/queues/orders/messages"
    sender = service.keys("sender", "mns:SendMessage", resources=(resource,))
    assert service.call("POST", "/queues/orders/messages", MESSAGE, keys=sender).status == 201
    for method, target, body in (
        ("POST", "/queues/bills/messages", MESSAGE),
        ("GET", "/queues/orders/messages", b""),
        ("GET", "/queues/orders/messages?peekonly=true", b""),
        ("GET", "/queues/orders", b""),
        ("PUT", "/queues/orders?metaoverride=true", QUEUE),
        ("DELETE", "/queues/orders", b""),
        ("GET", "/queues", b""),
    ):
        refused = service.call(method, target, body, keys=sender)
        assert (refused.status, refused.code) == (403, "AccessDenied"), target


def test_a_pattern_without_the_account_reaches_no_other_account(service: QueueServiceProcess, account: Keys) -> None:
    assert service.call("PUT", "/queues/mine", QUEUE, keys=account).status in (201, 204)
    stranger = service.keys("stranger", "mns:*", account=OTHER)
    assert service.call("GET", "/queues/mine", keys=stranger).code == "QueueNotExist"
    assert service.call("GET", "/queues", keys=stranger).texts("QueueURL") == []


def test_a_refusal_is_told_to_the_account_whose_key_it_was(service: QueueServiceProcess) -> None:
    key = service.keys("watched", "mns:GetQueueAttributes")
    assert service.call("POST", "/queues/secret/messages", MESSAGE, keys=key).code == "AccessDenied"
    assert service.call("GET", "/queues", keys=key._replace(secret="wrong")).code == "SignatureDoesNotMatch"

    def told() -> set[tuple[str, str, str]]:
        with Redis.from_url(service.redis_url, decode_responses=True) as redis:
            rows = [Refused.decode(fields[REFUSED_FIELD]) for _, fields in redis.xrange(REFUSED)]
        return {(row.kind, row.action, row.resource) for row in rows if row.key == key.id}

    wanted = {
        ("permission", "mns:SendMessage", f"acs:mns:*:{ACCOUNT}:/queues/secret/messages"),
        ("wrong_signature", "", ""),
    }
    assert eventually(lambda: told() >= wanted, PATIENCE_SECONDS)


def test_gantrys_own_key_acts_for_the_account_that_it_names(service: QueueServiceProcess, account: Keys) -> None:
    assert service.call("PUT", "/queues/named", QUEUE, keys=account).status in (201, 204)
    assert service.call("GET", "/queues/named", keys=SYSTEM, headers={"x-mns-account": ACCOUNT}).status == 200
    assert service.call("GET", "/queues/named", keys=SYSTEM, headers={"x-mns-account": OTHER}).code == "QueueNotExist"
    assert service.call("GET", "/queues/named", keys=SYSTEM).code == "InvalidArgument"
    assert service.call("GET", "/queues/named", keys=account, headers={"x-mns-account": OTHER}).status == 200


class Limited:
    """An account with limits of its own, which the service knows."""

    def __init__(self, service: QueueServiceProcess, uid: str, **limits: int) -> None:
        service.limit(uid, **limits)
        self.service, self.keys = service, service.keys("limited", account=uid)

    def call(self, method: str, target: str, body: bytes = b"") -> tuple[int, str]:
        reply = self.service.call(method, target, body, keys=self.keys)
        return reply.status, reply.code


def test_an_account_has_so_many_queues(service: QueueServiceProcess) -> None:
    limited = Limited(service, "1001", smq_queues=2)
    assert [limited.call("PUT", f"/queues/q{number}", QUEUE)[0] for number in range(2)] == [201, 201]
    assert limited.call("PUT", "/queues/q2", QUEUE) == (403, "AccessDenied")
    assert limited.call("PUT", "/queues/q1", QUEUE)[0] == 204
    assert limited.call("DELETE", "/queues/q0")[0] == 204
    assert limited.call("PUT", "/queues/q2", QUEUE)[0] == 201


@pytest.mark.parametrize("limits", [{"smq_messages": 3}, {"smq_bytes": 130}])
def test_an_accounts_queues_hold_so_much(service: QueueServiceProcess, limits: dict[str, int]) -> None:
    limited = Limited(service, f"100{2 if 'smq_bytes' in limits else 3}", **limits)
    limited.call("PUT", "/queues/a", QUEUE)
    limited.call("PUT", "/queues/b", QUEUE)
    sent = [limited.call("POST", f"/queues/{name}/messages", MESSAGE)[0] for name in "abababab"]
    stored = sent.count(201)
    assert sent == [201] * stored + [403] * (8 - stored)
    assert 2 <= stored <= 4
    received = service.call("GET", "/queues/a/messages", keys=limited.keys)
    assert limited.call("DELETE", f"/queues/a/messages?ReceiptHandle={received.text('ReceiptHandle')}")[0] == 204
    assert limited.call("POST", "/queues/b/messages", MESSAGE)[0] == 201


def test_an_account_makes_so_many_calls_a_second(service: QueueServiceProcess) -> None:
    limited = Limited(service, "1004", smq_calls_per_second=2)
    codes = [limited.call("GET", "/queues") for _ in range(20)]
    assert (400, "QpsLimitExceeded") in codes
    assert eventually(lambda: limited.call("GET", "/queues")[0] == 200, PATIENCE_SECONDS)


def test_so_many_receives_of_an_account_wait(service: QueueServiceProcess) -> None:
    limited = Limited(service, "1005", smq_waiting=1)
    limited.call("PUT", "/queues/quiet", QUEUE)
    answers: SimpleQueue[tuple[int, str]] = SimpleQueue()
    target = "/queues/quiet/messages?waitseconds=30"
    both = [threading.Thread(target=lambda: answers.put(limited.call("GET", target))) for _ in range(2)]
    for receive in both:
        receive.start()
    assert answers.get(timeout=PATIENCE_SECONDS) == (400, "QpsLimitExceeded")
    limited.call("POST", "/queues/quiet/messages", MESSAGE)
    assert answers.get(timeout=PATIENCE_SECONDS) == (200, "")
    for receive in both:
        receive.join(PATIENCE_SECONDS)
    assert limited.call("GET", "/queues/quiet/messages")[0] == 404


def test_limits_of_those_without_their_own_are_the_defaults(service: QueueServiceProcess) -> None:
    limited = Limited(service, "1006", smq_queues=5)
    service.limit(DEFAULTS, smq_queues=1)
    try:
        plain = service.keys("plain", account="1007")

        def codes(keys: Keys) -> list[int]:
            return [service.call("PUT", f"/queues/d{number}", QUEUE, keys=keys).status for number in range(2)]

        assert eventually(lambda: 403 in codes(plain), PATIENCE_SECONDS)
        assert codes(limited.keys) == [201, 201]
    finally:
        with Redis.from_url(service.redis_url) as redis:
            redis.hdel(LIMITS, DEFAULTS)
            redis.incr(VERSION)


def test_health_needs_no_signature_and_nothing_else_does_without(service: QueueServiceProcess) -> None:
    with closing(http.client.HTTPConnection("127.0.0.1", service.port, timeout=PATIENCE_SECONDS)) as connection:
        answers = []
        for target in ("/healthz", "/healthz/", "/queues", "/queues/healthz"):
            connection.request("GET", target, headers={"x-mns-version": "2015-06-06"})
            answer = connection.getresponse()
            answers.append((answer.status, answer.read()))
    assert answers[0][0] == 200
    assert b"<Health" in answers[0][1]
    assert all(status == 400 and b"MissingAuthorizationHeader" in body for status, body in answers[1:])


def test_a_request_says_the_version_of_the_protocol(service: QueueServiceProcess, account: Keys) -> None:
    """It is asked for before the key: a client of another protocol is told what is wrong, whoever it is."""
    for version, code in (("", "MissingVersionHeader"), ("2015-06-07", "InvalidVersionHeader")):
        for keys in (account, Keys("nobody", "nothing")):
            reply = service.call("GET", "/queues", keys=keys, headers={"x-mns-version": version})
            assert (reply.status, reply.code) == (400, code)
    assert service.call("GET", "/queues", keys=account).status == 200


def test_who_hides_or_deletes_says_which_message_and_for_how_long(service: QueueServiceProcess, account: Keys) -> None:
    service.call("PUT", "/queues/handled", QUEUE, keys=account)
    target = "/queues/handled/messages"
    for method, query, code in (
        ("DELETE", "", "MissingReceiptHandle"),
        ("DELETE", "?ReceiptHandle=", "MissingReceiptHandle"),
        ("PUT", "?visibilityTimeout=30", "MissingReceiptHandle"),
        ("PUT", "?receiptHandle=x", "MissingVisibilityTimeout"),
        ("PUT", "?receiptHandle=x&visibilityTimeout=", "MissingVisibilityTimeout"),
        ("PUT", "?receiptHandle=x&visibilityTimeout=0", "InvalidArgument"),
        ("PUT", "?receiptHandle=x&visibilityTimeout=30", "ReceiptHandleError"),
    ):
        reply = service.call(method, target + query, keys=account)
        assert (reply.status, reply.code) == (400, code), (method, query)


def test_figures_count_what_was_answered(account_of_figures: tuple[QueueServiceProcess, str]) -> None:
    service, figures = account_of_figures
    keys = service.keys("figures")
    assert service.call("PUT", "/queues/counted", QUEUE, keys=keys).status == 201
    assert service.call("GET", "/queues/nothing", keys=keys).code == "QueueNotExist"
    assert service.call("GET", "/queues", keys=Keys("nobody", "nothing")).code == "SignatureDoesNotMatch"
    with urllib.request.urlopen(f"{figures}/metrics", timeout=PATIENCE_SECONDS) as answer:
        lines = answer.read().decode().splitlines()
    for line in (
        'gantry_smq_requests_total{operation="CreateQueue",result="ok"} 1.0',
        'gantry_smq_requests_total{operation="GetQueueAttributes",result="QueueNotExist"} 1.0',
        "gantry_smq_ready 1.0",
        "gantry_smq_held_bytes_limit 1.073741824e+09",
    ):
        assert line in lines
    assert any(line.startswith("gantry_smq_held_bytes ") for line in lines)
    assert any(line.startswith('gantry_smq_refused_strangers_total{reason="unknown_key"}') for line in lines)
    with urllib.request.urlopen(f"{figures}/healthz", timeout=PATIENCE_SECONDS) as answer:
        assert answer.status == 200


def test_changes_are_told_to_the_trail_and_what_changes_nothing_is_not(
    service: QueueServiceProcess, account: Keys
) -> None:
    topic, subscription = "/topics/told", "/topics/told/subscriptions/one"
    endpoint = f"<Endpoint>acs:mns:x:{ACCOUNT}:queues/told</Endpoint>"
    subscribed = f'<Subscription xmlns="http://mns.aliyuncs.com/doc/v1/">{endpoint}</Subscription>'.encode()
    for method, target, body in (
        ("PUT", "/queues/told", b"<Queue><DelaySeconds>1</DelaySeconds></Queue>"),
        ("PUT", "/queues/told", b"<Queue><DelaySeconds>1</DelaySeconds></Queue>"),
        ("PUT", "/queues/told", QUEUE),
        ("PUT", "/queues/told?metaoverride=true", b"<Queue><DelaySeconds>2</DelaySeconds></Queue>"),
        ("PUT", topic, b"<Topic/>"),
        ("PUT", f"{topic}?metaoverride=true", b"<Topic><MaximumMessageSize>2048</MaximumMessageSize></Topic>"),
        ("PUT", subscription, subscribed),
        ("PUT", f"{subscription}?metaoverride=true", b"<Subscription><FilterTag>a</FilterTag></Subscription>"),
        ("DELETE", subscription, b""),
        ("DELETE", topic, b""),
        ("DELETE", topic, b""),
        ("DELETE", "/queues/told", b""),
        ("DELETE", "/queues/told", b""),
    ):
        assert service.call(method, target, body, keys=account).status in (201, 204, 409), target
    assert service.call("PUT", "/queues/unsaid", QUEUE, keys=SYSTEM, headers={"x-mns-account": ACCOUNT}).status == 201
    with Redis.from_url(service.redis_url, decode_responses=True) as redis:
        rows = [Changed.decode(fields[CHANGED_FIELD]) for _, fields in redis.xrange(CHANGED)]
    told = [(row.action, row.resource.partition("/")[2]) for row in rows if row.key == account.id]
    assert told == [
        ("queues.queue.create", "queues/told"), ("queues.queue.update", "queues/told"),
        ("queues.topic.create", "topics/told"), ("queues.topic.update", "topics/told"),
        ("queues.subscription.create", "topics/told/subscriptions/one"),
        ("queues.subscription.update", "topics/told/subscriptions/one"),
        ("queues.subscription.delete", "topics/told/subscriptions/one"),
        ("queues.topic.delete", "topics/told"), ("queues.queue.delete", "queues/told"),
    ]  # fmt: skip
    assert {(row.tenant, row.address) for row in rows if row.key == account.id} == {(ACCOUNT, "127.0.0.1")}
    assert not any("unsaid" in row.resource for row in rows)


@pytest.mark.parametrize("size", [10, 60_000, 300_000])
def test_a_body_is_the_one_that_its_digest_is_of(service: QueueServiceProcess, size: int) -> None:
    keys = service.keys("digest")
    service.call("PUT", "/queues/digested", QUEUE, keys=keys)
    body = f"<Message><MessageBody>{'x' * size}</MessageBody></Message>".encode()
    digest = hashlib.md5(body, usedforsecurity=False)
    for right in (digest.digest(), digest.hexdigest().encode()):
        given = {"content-md5": b64encode(right).decode()}
        answer = service.call("POST", "/queues/digested/messages", body, keys=keys, headers=given)
        assert (answer.code, answer.status) in (("", 201), ("InvalidArgument", 400)), "only its size is wrong"
        assert (answer.status == 201) == (size <= 65_536)
    for wrong in (b64encode(bytes(16)).decode(), "no Base64"):
        refused = service.call("POST", "/queues/digested/messages", body, keys=keys, headers={"content-md5": wrong})
        assert (refused.status, refused.code) == (400, "InvalidDigest")
