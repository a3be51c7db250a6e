"""The queue service under hostile clients: what they send costs the others nothing, and is told in one clear error."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from brokercore.smq.server.limits import CHANGES_AT_ONCE, QueueLimits
from brokercore.smq.server.room import MOST_OF_ACCOUNT, SHARE, Held, Room
from brokercore.smq.wire.errors import Code, SmqError
from tests.support.broker import eventually
from tests.support.queue_service import PATIENCE_SECONDS, Keys, QueueServiceProcess, Reply, queue_service, signed

pytestmark = pytest.mark.process
OTHER = "6543210987654321"
MESSAGES = "/queues/orders/messages"
BODY_BYTES = 7 << 20


@pytest.fixture(scope="module")
def service() -> Iterator[QueueServiceProcess]:
    with queue_service() as running:
        yield running


@pytest.fixture(scope="module")
def account(service: QueueServiceProcess) -> Keys:
    keys = service.keys("account")
    assert service.call("PUT", "/queues/orders", b"<Queue/>", keys=keys).status == 201
    assert service.call("PUT", "/topics/news", b"<Topic/>", keys=keys).status == 201
    return keys


@pytest.fixture(scope="module")
def other(service: QueueServiceProcess) -> Keys:
    return service.keys("other", account=OTHER)


def message(more: str = "", body: str = "x", first_line: str = "") -> bytes:
    return f"{first_line}<Message><MessageBody>{body}</MessageBody>{more}</Message>".encode()


def prop(value: str, kind: str, element: str = "PropertyValue", properties: str = "UserProperties") -> str:
    inner = f"<Name>a</Name><Value>{value}</Value><Type>{kind}</Type>"
    return f"<{properties}><{element}>{inner}</{element}></{properties}>"


# Messages that other consumers would stumble over


@pytest.mark.parametrize(
    "hostile",
    [
        prop("1", "STRING", "a:"),
        prop("1", "STRING", "a:1x"),
        prop("1", "STRING", "a:-x"),
        prop("1", "STRING", "Value"),
        prop("1", "STRING", "PropertyValue", "SystemProperties"),
        prop("1", "NUMBER", "SystemPropertyValue", "SystemProperties"),
        prop("many", "NUMBER"),
        prop("", "NUMBER"),
        prop("perhaps", "BOOLEAN"),
        prop("Base64?", "BINARY"),
        prop("v" * 70_000, "STRING"),
        f"<MessageGroupId>{'v' * 70_000}</MessageGroupId>",
        prop("1", "STRING") * 2,
        "<UserProperties/>" * 100,
    ],
)
def test_no_message_is_taken_that_breaks_the_answer_of_a_receive(
    service: QueueServiceProcess, account: Keys, hostile: str
) -> None:
    for target in (MESSAGES, "/topics/news/messages"):
        refused = service.call("POST", target, message(hostile), keys=account)
        assert (refused.status, refused.code) == (400, "InvalidArgument")


@pytest.mark.parametrize("encoding", ["utf-7", "bogus", "zlib", "idna", "utf-32", "shift_jis", "undefined"])
def test_encodings_that_no_xml_has_are_the_clients_mistake(
    service: QueueServiceProcess, account: Keys, encoding: str
) -> None:
    body = message(first_line=f'<?xml version="1.0" encoding="{encoding}"?>')
    refused = service.call("POST", MESSAGES, body, keys=account)
    assert (refused.status, refused.code) == (400, "MalformedXML")


@pytest.mark.parametrize(
    "text", ["\x01", "&#0;", "&#xD800;", "&#xFFFF;", "\N{NULL}", "<!--", "]]>", "&lol;", "<![CDATA[x", "</Message>"]
)
def test_texts_that_no_xml_can_hold_are_not_stored(service: QueueServiceProcess, account: Keys, text: str) -> None:
    assert service.call("POST", MESSAGES, message(body=text), keys=account).code == "MalformedXML"


# What one request may cost


def test_a_tag_of_many_attributes_is_given_up_soon(service: QueueServiceProcess, account: Keys) -> None:
    body = b"<Message " + b" ".join(b"a%d=''" % number for number in range(500_000)) + b"/>"
    refused = service.call("POST", MESSAGES, body, keys=account)
    assert (refused.status, refused.code) == (400, "MalformedXML")
    assert "tag" in refused.text("Message")


def test_only_messages_come_in_large_bodies(service: QueueServiceProcess, account: Keys) -> None:
    body = b"<Queue>" + b" " * 300_000 + b"</Queue>"
    for method, target in (("GET", "/queues"), ("PUT", "/queues/large"), ("DELETE", MESSAGES), ("GET", MESSAGES)):
        assert service.call(method, target, body, keys=account).code == "InvalidArgument"
    largest = message(body="&amp;" * 65_536)
    assert service.call("POST", MESSAGES, largest, keys=account).status == 201


def test_json_as_deep_as_the_stack_is_no_failure_of_the_service(service: QueueServiceProcess, account: Keys) -> None:
    deep = f"<MessageAttributes><DirectMail>{'[' * 100_000}</DirectMail></MessageAttributes>"
    assert service.call("POST", "/topics/news/messages", message(deep), keys=account).code == "InvalidArgument"


@pytest.mark.parametrize("host", ["a..b", "...", "a" * 64 + ".example"])
def test_a_host_that_no_name_server_can_be_asked_for_is_no_failure_of_the_service(
    service: QueueServiceProcess, account: Keys, host: str
) -> None:
    body = f"<Subscription><Endpoint>http://{host}/</Endpoint></Subscription>".encode()
    answer = service.call("PUT", "/topics/news/subscriptions/odd", body, keys=account)
    assert answer.status != 500
    assert service.call("DELETE", "/topics/news/subscriptions/odd", keys=account).status == 204


@pytest.mark.parametrize("name", ["date", "x-mns-date"])
def test_a_date_beyond_all_numbers_is_no_date(service: QueueServiceProcess, account: Keys, name: str) -> None:
    headers = {name: f"Mon, 23 Nov 2026 15:00:00 +{'9' * 20}"}
    assert service.call("GET", "/queues", keys=account, headers=headers).code == "InvalidDateHeader"


def test_the_right_is_asked_for_what_is_done_however_the_query_is_spelled(
    service: QueueServiceProcess, account: Keys
) -> None:
    maker = service.keys("maker", "mns:CreateQueue", "mns:ReceiveMessage")
    change = b"<Queue><VisibilityTimeout>1</VisibilityTimeout></Queue>"
    for query in ("metaoverride=false&MetaOverride=true", "%6Detaoverride=TRUE", "metaoverride=tru%65"):
        assert service.call("PUT", f"/queues/orders?{query}", change, keys=maker).code == "AccessDenied"
    for query in ("peekonly=false&PeekOnly=true", "%70eekonly=true&numOfMessages=2"):
        assert service.call("GET", f"{MESSAGES}?{query}", keys=maker).code == "AccessDenied"
    assert service.call("GET", "/queues/orders", keys=account).text("VisibilityTimeout") == "30"


# What a client may make the process hold


class Unfinished:
    """A send whose body comes in part, and then no more until the test wants it."""

    def __init__(self, service: QueueServiceProcess, keys: Keys, size: int = BODY_BYTES) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=PATIENCE_SECONDS)
        self._connection.putrequest("POST", MESSAGES, skip_accept_encoding=True)
        for name, value in signed("POST", MESSAGES, keys, {"content-type": "text/xml"}).items():
            self._connection.putheader(name, value)
        self._connection.putheader("content-length", str(size + 1))
        self._connection.endheaders(b" " * size)

    def finish(self) -> Reply:
        self._connection.send(b" ")
        answer = self._connection.getresponse()
        return Reply(answer.status, dict(answer.getheaders()), answer.read())

    def close(self) -> None:
        self._connection.close()


def test_an_account_holds_a_bounded_part_of_the_memory_with_bodies_that_do_not_end(
    service: QueueServiceProcess, account: Keys, other: Keys
) -> None:
    with ExitStack() as stack:
        most = MOST_OF_ACCOUNT // BODY_BYTES
        held = [stack.enter_context(closing(Unfinished(service, account))) for _ in range(most + 1)]
        codes = [one.finish().code for one in held]
        assert codes.count("QpsLimitExceeded") == 1
        assert codes.count("MalformedXML") == most  # nothing but blanks
    with closing(Unfinished(service, other)) as one:
        assert one.finish().code == "MalformedXML"
    for _ in range(2):  # what was held is free
        with ExitStack() as stack:
            for one in [stack.enter_context(closing(Unfinished(service, account))) for _ in range(most)]:
                assert one.finish().code == "MalformedXML"


def test_bodies_of_clients_that_leave_are_free_again(service: QueueServiceProcess, account: Keys) -> None:
    most = MOST_OF_ACCOUNT // BODY_BYTES
    with ExitStack() as stack:
        for _ in range(most):
            stack.enter_context(closing(Unfinished(service, account)))

    def fits() -> bool:
        with closing(Unfinished(service, account, MOST_OF_ACCOUNT // 10)) as one:
            return one.finish().code == "MalformedXML"

    assert eventually(fits, PATIENCE_SECONDS)


def peak(pid: int) -> int:
    """The most bytes of memory that a process ever had."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) << 10


def test_a_body_in_tiny_chunks_takes_no_more_memory_than_its_bytes() -> None:
    part, parts, size = b"2\r\n  \r\n" * 10_000, 200, 4_000_000
    with queue_service() as fresh:
        keys = fresh.keys("chunks")
        headers = signed("POST", MESSAGES, keys, {"content-type": "text/xml", "transfer-encoding": "chunked"})
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        before = peak(fresh.pid)
        with socket.create_connection(("127.0.0.1", fresh.port), timeout=PATIENCE_SECONDS) as client:
            client.sendall(f"POST {MESSAGES} HTTP/1.1\r\nHost: queues\r\n{lines}\r\n".encode())
            for _ in range(parts):
                client.sendall(part)
            client.sendall(b"0\r\n\r\n")
            assert b"MalformedXML" in client.recv(4096)
        assert peak(fresh.pid) - before < 10 * size


def test_answers_that_are_not_read_are_bounded(service: QueueServiceProcess, account: Keys, other: Keys) -> None:
    target = "/queues/large/messages?peekonly=true&numOfMessages=16"
    assert service.call("PUT", "/queues/large", b"<Queue/>", keys=account).status == 201
    for _ in range(16):
        sent = service.call("POST", "/queues/large/messages", message(body="&amp;" * 65_536), keys=account)
        assert sent.status == 201
    lines = "".join(f"{name}: {value}\r\n" for name, value in signed("GET", target, account).items())

    def is_refused() -> bool:
        return service.call("GET", "/queues", keys=account).code == "QpsLimitExceeded"

    with ExitStack() as stack:
        for _ in range(20):
            client = stack.enter_context(socket.socket())
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect(("127.0.0.1", service.port))
            client.sendall(f"GET {target} HTTP/1.1\r\nHost: queues\r\n{lines}\r\n".encode())
        assert eventually(is_refused, PATIENCE_SECONDS)
        assert service.call("GET", "/queues", keys=other).status == 200
    assert eventually(lambda: not is_refused(), PATIENCE_SECONDS)


class Guest:
    """A connection that notes its end."""

    def __init__(self) -> None:
        self.is_open = True

    def abort(self) -> None:
        self.is_open = False

    def finish(self) -> None:
        self.is_open = False


def test_connections_that_sign_nothing_make_room_and_never_take_the_place_of_others() -> None:
    room = Room(8)
    clients = [Guest() for _ in range(7)]
    for client in clients:
        assert room.enter(client)
        room.known(client)
    strangers = [Guest() for _ in range(100)]
    assert all(room.enter(stranger) for stranger in strangers)
    assert [stranger.is_open for stranger in strangers] == [False] * 99 + [True]
    assert all(client.is_open for client in clients)
    room.known(strangers[-1])
    assert not room.enter(Guest())
    room.leave(clients[0])
    assert room.enter(Guest())


def test_strangers_are_a_part_of_all_connections() -> None:
    room, strangers = Room(40), [Guest() for _ in range(30)]
    assert all(room.enter(stranger) for stranger in strangers)
    assert sum(stranger.is_open for stranger in strangers) == 10


def test_an_account_has_its_share_of_the_bodies_whatever_others_hold() -> None:
    room = Held()
    for number in range(4):
        room.hold(f"greedy{number}", MOST_OF_ACCOUNT)
    room.hold("modest", SHARE)
    with pytest.raises(SmqError) as refused:
        room.hold("modest", 1)
    assert refused.value.code is Code.QPS_LIMIT_EXCEEDED
    room.free("greedy0", MOST_OF_ACCOUNT)
    room.hold("modest", 1)


def test_one_account_cannot_flood_the_trails_of_all_with_changes() -> None:
    limits = QueueLimits()
    for _ in range(CHANGES_AT_ONCE):
        limits.admit_change("1")
    with pytest.raises(SmqError) as refused:
        for _ in range(CHANGES_AT_ONCE):
            limits.admit_change("1")
    assert refused.value.code is Code.QPS_LIMIT_EXCEEDED
    limits.admit_change("2")


def test_nothing_of_this_is_a_failure_in_the_log(service: QueueServiceProcess, account: Keys) -> None:
    assert service.call("GET", "/queues", keys=account).status == 200
    assert "Traceback" not in service.log
