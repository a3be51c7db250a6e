"""The client of Gantry's own code against a real service process, and against a server that misbehaves."""

from __future__ import annotations

import secrets
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from brokercore.smq.client import MAX_ANSWER, QueueClient, QueueServiceUnavailable
from brokercore.smq.wire.errors import Code, SmqError
from brokercore.smq.wire.messages import Draft, Sent
from tests.support.queue_service import QueueServiceProcess, queue_service
from tests.support.redis_server import RedisServer


def client_of(service: QueueServiceProcess, account: str = "") -> QueueClient:
    account = account or secrets.token_hex(8)
    return QueueClient(service.address, service.access_key_id, service.access_key_secret, account=account)


@pytest.fixture(scope="module")
def service(redis: RedisServer) -> Iterator[QueueServiceProcess]:
    with queue_service(redis) as process:
        yield process


@pytest.fixture
def client(service: QueueServiceProcess) -> Iterator[QueueClient]:
    client = client_of(service)
    yield client
    client.close()


def test_a_queue_is_made_changed_told_and_removed(client: QueueClient) -> None:
    assert client.create_queue("orders", {"DelaySeconds": 5, "LoggingEnabled": 1})
    assert not client.create_queue("orders", {"DelaySeconds": 5, "LoggingEnabled": 1})
    with pytest.raises(SmqError) as refused:
        client.create_queue("orders")
    assert refused.value.code is Code.QUEUE_ALREADY_EXIST
    client.set_attributes("orders", {"VisibilityTimeout": 99})
    state = client.queue("orders")
    assert (state.name, state.is_logged) == ("orders", True)
    assert (state.attributes["DelaySeconds"], state.attributes["VisibilityTimeout"]) == (5, 99)
    client.delete_queue("orders")
    client.delete_queue("orders")
    with pytest.raises(SmqError) as missing:
        client.queue("orders")
    assert missing.value.code is Code.QUEUE_NOT_EXIST


def test_queues_are_listed_in_pages_and_of_one_account_only(client: QueueClient, service: QueueServiceProcess) -> None:
    for name in ("b2", "a1", "b1"):
        client.create_queue(name)
    client.send("a1", b"one")
    states, marker = client.queues()
    assert ([state.name for state in states], marker) == (["a1", "b1", "b2"], "")
    assert [state.active for state in states] == [1, 0, 0]
    first, marker = client.queues("b", most=1)
    second, end = client.queues("b", marker, most=1)
    assert ([*first, *second][0].name, second[0].name, end) == ("b1", "b2", "")
    assert client.queue_names("b", most=1) == (["b1"], "b1")
    assert client.queue_names("b", "b1") == (["b2"], "")
    assert client_of(service).queues() == ([], "")


def test_a_message_is_peeked_at_received_hidden_and_deleted(client: QueueClient) -> None:
    client.create_queue("q")
    sent = client.send("q", b"a < b & \xc3\xa4 \r\n", priority=3)
    (peeked,) = client.peek("q")
    assert (peeked.id, peeked.body, peeked.handle, peeked.count) == (sent.id, b"a < b & \xc3\xa4 \r\n", "", 0)
    (received,) = client.receive("q", most=16)
    assert (received.body, received.priority, received.count) == (peeked.body, 3, 1)
    assert client.receive("q") == []
    told = client.queue("q")
    assert (told.sent, told.received, told.inactive, told.oldest_ms) == (1, 1, 1, received.enqueued_ms)
    handle, until = client.hide("q", received.handle, 600)
    assert until > received.next_visible_ms
    refused = client.delete("q", [received.handle, handle])
    assert [(one, why.code) for one, why in refused] == [(received.handle, Code.MESSAGE_NOT_EXIST)]
    state = client.queue("q")
    assert (state.active, state.inactive, state.delayed, state.oldest_ms, state.sent) == (0, 0, 0, 0, 1)


def test_a_delayed_message_has_a_handle_by_which_it_can_be_taken_back(client: QueueClient) -> None:
    client.create_queue("q")
    sent = client.send("q", b"later", delay_s=600)
    assert client.queue("q").delayed == 1
    assert client.delete("q", [sent.handle]) == []
    assert client.queue("q").delayed == 0


def test_a_batch_tells_of_each_message_what_it_became(client: QueueClient) -> None:
    client.create_queue("q", {"MaximumMessageSize": 1024})
    first, second, third = client.send_batch("q", [Draft(b"1"), Draft(b"x" * 1025), Draft(b"3")])
    assert isinstance(first, Sent)
    assert isinstance(second, SmqError) and second.code is Code.INVALID_ARGUMENT
    assert isinstance(third, Sent)
    assert sorted(one.body for one in client.receive("q", most=16)) == [b"1", b"3"]


def test_a_receive_waits_for_a_message(client: QueueClient) -> None:
    client.create_queue("q")
    got: list[bytes] = []
    waiting = threading.Thread(target=lambda: got.extend(one.body for one in client.receive("q", wait_s=30)))
    waiting.start()
    client.send("q", b"at last")
    waiting.join(60)
    assert got == [b"at last"]


def test_the_largest_batch_comes_back_whole(client: QueueClient) -> None:
    client.create_queue("q")
    bodies = [b"&" * 65_536] * 16
    for body in bodies:
        client.send("q", body)
    assert [one.body for one in client.receive("q", most=16)] == bodies


def test_what_cannot_be_sent_is_refused_in_a_sentence(client: QueueClient) -> None:
    client.create_queue("q")
    for work, code in (
        (lambda: client.send("q", b"\xff"), Code.INVALID_ARGUMENT),
        (lambda: client.send("q", b"\x00"), Code.MALFORMED_XML),
        (lambda: client.queue(""), Code.INVALID_QUEUE_NAME),
        (lambda: client.queue("a/b"), Code.INVALID_QUEUE_NAME),
        (lambda: client.queue("a b"), Code.INVALID_QUEUE_NAME),
        (lambda: client.queues("\N{SNOWMAN}"), Code.INVALID_ARGUMENT),
        (lambda: client.queues("a\r\nx-mns-account: 1"), Code.INVALID_ARGUMENT),
        (lambda: client.hide("q", "no&handle=1", 5), Code.RECEIPT_HANDLE_ERROR),
        (lambda: client.receive("q", most=17), Code.INVALID_ARGUMENT),
    ):
        with pytest.raises(SmqError) as refused:
            work()
        assert refused.value.code is code


def test_a_wrong_secret_is_refused(service: QueueServiceProcess) -> None:
    client = QueueClient(service.address, service.access_key_id, "wrong", account="1")
    with pytest.raises(SmqError) as refused:
        client.queues()
    assert refused.value.code is Code.SIGNATURE_DOES_NOT_MATCH


def test_a_restart_of_the_service_is_not_noticed_between_two_requests(redis: RedisServer) -> None:
    with queue_service(redis) as service:
        client = client_of(service)
        client.create_queue("q")
        service.kill()
        with pytest.raises(QueueServiceUnavailable, match="does not answer"):
            client.send("q", b"lost")
        service.start()
        client.send("q", b"one")
        service.kill()
        service.start()
        client.send("q", b"two")
        assert [one.body for one in client.receive("q", most=16)] == [b"one", b"two"]
        client.close()


@contextmanager
def _server(*answers: Callable[[socket.socket], None]) -> Iterator[tuple[str, list[bytes]]]:
    """Handles one request by each of `answers`, in one connection until an answer closes it."""
    requests: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def run() -> None:
            connection: socket.socket | None = None
            for answer in answers:
                if connection is None or connection.fileno() < 0:
                    connection, _ = listening.accept()
                    connection.settimeout(30)
                requests.append(connection.recv(65_536))
                answer(connection)
            if connection is not None:
                connection.close()

        thread = threading.Thread(target=run)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", requests
        thread.join(60)
        assert not thread.is_alive()


def _answer(text: bytes, status: str = "200 OK") -> Callable[[socket.socket], None]:
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(text)}\r\n\r\n".encode()
    return lambda connection: connection.sendall(head + text)


_EMPTY = _answer(b"<Queues xmlns='http://mns.aliyuncs.com/doc/v1/'></Queues>")


def test_a_read_that_the_service_cut_off_is_done_again_and_a_send_is_not() -> None:
    with _server(_EMPTY, socket.socket.close, _EMPTY, socket.socket.close) as (address, requests):
        client = QueueClient(address, "id", "secret", account="1")
        assert client.queues() == ([], "")
        assert client.queues() == ([], "")
        with pytest.raises(QueueServiceUnavailable):
            client.send("q", b"one")
        client.close()
    assert [request.split()[0] for request in requests] == [b"GET", b"GET", b"GET", b"POST"]


def test_an_answer_that_is_too_large_or_no_xml_is_an_outage() -> None:
    def too_large(connection: socket.socket) -> None:
        _answer(b"x" * (MAX_ANSWER + 1))(connection)
        connection.close()

    with _server(_answer(b"<html>"), _answer(b"<Account/>"), _answer(b"gone", "502 Bad Gateway"), too_large) as (
        address,
        _,
    ):
        client = QueueClient(address, "id", "secret", account="1")
        for reason in ("is not a queue service", "it sent Account", "502", "more than"):
            with pytest.raises(QueueServiceUnavailable, match=reason):
                client.queues()
        client.close()


@pytest.mark.parametrize("code", [Code.INVALID_ACCESS_KEY_ID, Code.INVALID_QUERY_STRING], ids=lambda code: code.text)
def test_an_error_that_the_vendors_service_alone_answers_is_no_outage(code: Code) -> None:
    error = f"<Error><Code>{code.text}</Code><Message>It is wrong.</Message></Error>".encode()
    with _server(_answer(error, f"{code.status} No")) as (address, _):
        client = QueueClient(address, "id", "secret", account="1")
        with pytest.raises(SmqError, match=r"It is wrong\.") as refused:
            client.queue("orders")
        client.close()
    assert refused.value.code is code


def test_a_service_that_is_not_there_is_an_outage() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    with pytest.raises(QueueServiceUnavailable, match="does not answer"):
        QueueClient(f"http://127.0.0.1:{port}", "id", "secret", account="1").queues()


def test_an_endpoint_is_scheme_host_and_port() -> None:
    for endpoint in ("127.0.0.1:8071", "ftp://host", "http://host/path", ""):
        with pytest.raises(ValueError, match="is not such as"):
            QueueClient(endpoint, "id", "secret")
