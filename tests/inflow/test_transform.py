"""Transforms make of a batch what they are told to, and nothing they are told makes them cost more than is allowed."""

from __future__ import annotations

import json
import os
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_network
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from analytics.inflow import expressions, http_function, transform
from analytics.inflow.expressions import Expression
from analytics.inflow.http_function import HttpFunction
from analytics.inflow.http_line import sign
from analytics.inflow.transform import TOPIC_FIELD, Event, Transformed, TransformFailed, route
from brokercore.certificates import server_context

KEY = b"a key of the function's owner"
LOOPBACK = (ip_network("127.0.0.0/8"),)
PUBLIC, PRIVATE = "93.184.216.34", "127.0.0.1"


def change(number: int, operation: str = "INSERT", **more: Any) -> Event:
    """An event of a row change."""
    return {
        "specversion": "1.0",
        "id": f"e{number}",
        "source": "mysql://shop",
        "type": "dts:Change",
        "subject": "shop.orders",
        "data": {"operation": operation, "tableName": "orders", "after": {"id": number, "lines": [1, 2]}, **more},
    }


BATCH = [change(1), change(2, "DELETE"), change(3)]


@contextmanager
def expression(text: str, batch_s: int = 5) -> Iterator[Expression]:
    opened = Expression(text, batch_s=batch_s)
    try:
        yield opened
    finally:
        opened.close()


def applied(text: str, events: list[Event]) -> Transformed:
    with expression(text) as opened:
        return opened.apply(events)


# Expressions


@pytest.mark.process
@pytest.mark.parametrize(
    ("text", "made", "origins"),
    [
        ("{id: id, row: data.after.id}", [{"id": f"e{n}", "row": n} for n in (1, 2, 3)], [0, 1, 2]),
        ("[{id: id, line: `1`}, {id: id, line: `2`}]", [{"id": f"e{n}", "line": m} for n in (1, 2, 3) for m in (1, 2)],
         [0, 0, 1, 1, 2, 2]),
        ("merge(@, {via: 'gantry'})", [{**one, "via": "gantry"} for one in BATCH], [0, 1, 2]),
        ("[@] | [?data.operation != 'DELETE']", [BATCH[0], BATCH[2]], [0, 2]),
        ("data.nothing", [], []),
        ("`[]`", [], []),
        ("@", BATCH, [0, 1, 2]),
    ],
    ids=["mapping", "splitting", "enrichment", "dropping", "null", "empty array", "all as it is"],
)  # fmt: skip
def test_an_expression_makes_events_of_each_event(text: str, made: list[Event], origins: list[int]) -> None:
    found = applied(text, BATCH)
    assert (found.events, found.origins, found.failed) == (made, origins, {})


@pytest.mark.process
def test_an_expression_may_name_a_topic_for_each_event() -> None:
    found = applied(f"merge(@, {{{TOPIC_FIELD}: join('-', ['orders', data.operation])}})", BATCH)
    assert [route(one) for one in found.events] == [(f"orders-{one['data']['operation']}", one) for one in BATCH]


@pytest.mark.process
def test_values_pass_as_they_are() -> None:
    event = {"a": [2**70, -0.0, 1e300, 0.1, True, None], "é\ud800": "\u0000\U0001f6d2", "": {}}
    assert applied("@", [event]).events == [event]
    assert applied("@", []).events == []


@pytest.mark.process
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("id", "made a string: an object, an array of objects or null is allowed"),
        ("data.after.id", "made a number"),
        ("data.after.lines", "made an array with a number"),
        ("[@, data.nothing]", "made an array with null"),
        ("`false`", "made a boolean"),
        ("nobody(@)", r"Unknown function: nobody\(\)"),
        ("length(`1`)", "invalid type"),
        ("{a: to_number('nan')}", "not JSON compliant"),
        ("{a: to_number('1e999')}", "not JSON compliant"),
        ("&id", "no JSON value"),
        ("[&id]", "no JSON value"),
        ("sum(data)", "invalid type"),
    ],
)
def test_an_event_of_which_nothing_allowed_is_made_fails_alone(text: str, reason: str) -> None:
    with expression(text) as opened:
        found = opened.apply(BATCH)
        assert (found.events, sorted(found.failed)) == ([], [0, 1, 2])
        with pytest.raises(AssertionError, match=reason):
            raise AssertionError(found.failed[0])


@pytest.mark.process
def test_one_event_that_fails_keeps_up_no_other() -> None:
    found = applied("{n: length(data.name)}", [change(1, name="abc"), change(2), change(3, name="x")])
    assert (found.events, found.origins) == ([{"n": 3}, {"n": 1}], [0, 2])
    assert list(found.failed) == [1]
    assert found.failed[1].startswith("The expression cannot be evaluated: In function length()")


@pytest.mark.process
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a.", "character 3: something is missing"),
        ("a ] b", "character 3: ']' is not expected"),
        ("a[", "character 3"),
        ("'abc", "character 1"),
        ("(" * 3000 + "a" + ")" * 3000, "nested too deeply"),
    ],
)
def test_a_text_that_is_no_expression_is_told_with_its_place(text: str, reason: str) -> None:
    with expression(text) as opened:
        for attempt in (opened.check, lambda: opened.apply(BATCH)):
            with pytest.raises(TransformFailed, match=reason) as failed:
                attempt()
            assert not failed.value.retryable


def test_the_text_of_an_expression_has_a_length() -> None:
    for text in ("", "  ", "a" * (expressions.LONGEST + 1)):
        with pytest.raises(TransformFailed, match="1 to 8,192 characters"):
            Expression(text)


@pytest.mark.process
@pytest.mark.slow
def test_an_expression_that_burns_time_is_ended_and_the_next_batch_finds_another_process() -> None:
    ones = f"`{json.dumps([1] * 50)}`"
    burn = "`1`"
    for _ in range(8):
        burn = f"length(map(&{burn}, {ones}))"
    text = f"data.burn && {{n: {burn}}} || {{id: id}}"
    with expression(text, batch_s=1) as opened:
        opened.check()
        assert opened.apply(BATCH).events == [{"id": one["id"]} for one in BATCH]
        began = time.monotonic()
        with pytest.raises(TransformFailed, match=r"takes longer than 1 s of a processor .* event 2 of 3") as failed:
            opened.apply([change(1), change(2, burn=True), change(3)])
        assert time.monotonic() - began < 20
        assert (failed.value.index, failed.value.retryable) == (1, False)
        assert opened.apply(BATCH).events == [{"id": one["id"]} for one in BATCH]


@pytest.mark.process
def test_an_expression_that_takes_memory_fails_and_the_next_batch_finds_another_process() -> None:
    text = " | ".join(["data.burn", *["join('', [@, @])"] * 30]) + " || {id: id}"
    with expression(text) as opened:
        opened.check()
        former = _pid(opened)
        found = opened.apply([change(1, burn="x" * 100), change(2, burn="")])
        assert found.failed == {0: "The expression cannot be evaluated: it takes too much memory."}
        assert opened.apply([change(3, burn="")]).failed == {}
        assert _pid(opened) != former


def _pid(opened: Expression) -> int:
    assert opened._process is not None
    return opened._process._process.pid


@pytest.mark.process
def test_a_result_has_a_size() -> None:
    text = " | ".join(["data.big", *["join('', [@, @])"] * 4]) + " | {big: @}"
    found = applied(text, [change(1, big="x" * (1 << 20)), change(2, big="x")])
    assert found.failed == {0: "The expression cannot be evaluated: its result has more than 8 MiB of JSON."}
    assert (found.events, found.origins) == ([{"big": "x" * 16}], [1])


@pytest.mark.process
def test_the_results_of_a_batch_have_a_size_together(monkeypatch: pytest.MonkeyPatch) -> None:
    with expression("[@, @]") as opened:
        for name, most, reason in (
            ("MOST_BYTES", 1 << 10, "more than 0 MiB of JSON"),
            ("MOST_PARTS", 10, "or 10 objects and arrays"),
            ("MOST_EVENTS", 5, "more than 5 events"),
        ):
            with monkeypatch.context() as limited, pytest.raises(TransformFailed, match=reason) as failed:
                limited.setattr(transform, name, most)
                opened.apply(BATCH)
            assert failed.value.index is None
            assert len(opened.apply(BATCH).events) == 6


@pytest.mark.process
def test_a_process_that_was_ended_by_somebody_is_started_again() -> None:
    with expression("@") as opened:
        assert opened.apply(BATCH).events == BATCH
        pid = _pid(opened)
        os.kill(pid, 9)
        opened._process._process.wait()  # type: ignore[union-attr]
        assert opened.apply(BATCH).events == BATCH
        assert _pid(opened) != pid
        pid = _pid(opened)
        opened.close()
        assert not Path(f"/proc/{pid}").exists()
        assert opened.apply(BATCH).events == BATCH


@pytest.mark.process
def test_a_large_batch_passes_in_pieces() -> None:
    events = [change(number, text="x" * 3000) for number in range(2000)]
    began = time.perf_counter()
    with expression("{id: id, data: data}", batch_s=20) as opened:
        found = opened.apply(events)
    assert [one["id"] for one in found.events] == [one["id"] for one in events]
    assert found.origins == list(range(2000))
    print(f"{2000 / (time.perf_counter() - began):,.0f} events/s")


# Routing


def test_the_topic_of_an_event_is_taken_out_of_it() -> None:
    assert route({"id": "1"}) == (None, {"id": "1"})
    assert route({"id": "1", TOPIC_FIELD: None}) == (None, {"id": "1"})
    assert route({"id": "1", TOPIC_FIELD: "orders_new-1"}) == ("orders_new-1", {"id": "1"})
    for wrong in ("", "a b", "MQ_INST_1%orders", "x" * 128, 7, ["a"], {"a": 1}):
        with pytest.raises(TransformFailed, match="letters, digits"):
            route({"id": "1", TOPIC_FIELD: wrong})


# Functions over HTTP


class Asked(NamedTuple):
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def events(self) -> list[Event]:
        return list(json.loads(self.body))


Reply = Callable[[Asked], "tuple[int, dict[str, str], bytes]"]


def same(asked: Asked) -> tuple[int, dict[str, str], bytes]:
    return 200, {}, asked.body


@dataclass
class Server:
    port: int
    reply: Reply = same
    asked: list[Asked] = field(default_factory=list)
    connections: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/in?a=b"


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as found:
        yield found


@contextmanager
def serving(context: ssl.SSLContext | None = None) -> Iterator[Server]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            found.connections += 1
            super().setup()

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            asked = Asked(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
            found.asked.append(asked)
            status, headers, content = found.reply(asked)
            self.send_response(status)
            for name, value in {"content-length": str(len(content)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Nothing is written."""

    class Threads(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            """Who asks may have gone."""

    with Threads(("127.0.0.1", 0), Handler) as listening:
        if context is not None:
            listening.socket = context.wrap_socket(listening.socket, server_side=True)
        found = Server(listening.server_port)
        thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield found
        finally:
            listening.shutdown()
            thread.join()


def function(url: str, **options: Any) -> HttpFunction:
    return HttpFunction(url, KEY, **{"networks": LOOPBACK, "pauses_s": (), "answer_s": 10, **options})


def failure(url: str, events: list[Event] = BATCH, **options: Any) -> TransformFailed:
    opened = function(url, **options)
    with pytest.raises(TransformFailed) as failed:
        opened.apply(events)
    opened.close()
    return failed.value


def test_a_function_gets_the_batch_and_its_answer_is_what_becomes_of_it(server: Server) -> None:
    def reply(asked: Asked) -> tuple[int, dict[str, str], bytes]:
        made = [{"id": one["id"], TOPIC_FIELD: "x"} for one in asked.events if one["id"] != "e2"]
        return 200, {}, json.dumps([*made, {"more": "ü"}]).encode()

    server.reply = reply
    opened = function(server.url)
    found = opened.apply(BATCH)
    opened.close()
    assert found.events == [{"id": "e1", TOPIC_FIELD: "x"}, {"id": "e3", TOPIC_FIELD: "x"}, {"more": "ü"}]
    assert (found.origins, found.failed) == ([None] * 3, {})
    (asked,) = server.asked
    assert (asked.path, asked.events) == ("/in?a=b", BATCH)
    assert asked.headers["content-type"] == "application/json"
    assert asked.headers["host"] == f"127.0.0.1:{server.port}"


def test_a_request_is_signed_over_its_body(server: Server) -> None:
    # As `printf '[{}]' | openssl dgst -sha256 -hmac key` has it.
    assert sign(b"key", b"[{}]") == "sha256=2116d190f4e81ea65a02ab8e8169fdbfea04e825ecb94b0181a023a66c464026"
    opened = function(server.url)
    opened.apply(BATCH)
    opened.close()
    (asked,) = server.asked
    assert asked.headers["x-gantry-signature"] == sign(KEY, asked.body)
    assert asked.headers["x-gantry-signature"] != sign(KEY, asked.body + b" ")


def test_a_connection_is_used_again_and_opened_anew_when_it_was_closed(server: Server) -> None:
    opened = function(server.url)
    for _ in range(3):
        opened.apply(BATCH)
    assert server.connections == 1
    server.reply = lambda asked: (200, {"connection": "close"}, asked.body)
    for _ in range(2):
        opened.apply(BATCH)
    assert server.connections == 2
    opened.apply(BATCH)
    opened.close()
    opened.close()
    opened.apply(BATCH)
    opened.close()
    assert server.connections == 4
    assert len(server.asked) == 7


def test_a_batch_that_is_larger_than_a_request_makes_several(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_function, "MOST_REQUEST", 450)
    opened = function(server.url)
    events = [*BATCH, change(4, text="x" * 500), change(5)]
    found = opened.apply(events)
    opened.close()
    assert [len(asked.events) for asked in server.asked] == [2, 1, 1]
    assert found.events == [*BATCH, change(5)]
    assert list(found.failed) == [3]


@pytest.mark.parametrize(
    ("status", "retryable"),
    [
        (201, None),
        *((status, False) for status in (204, 301, 307, 400, 401, 404)),
        *((status, True) for status in (408, 425, 429, 500, 503, 599)),
    ],
)
def test_what_a_status_means(server: Server, status: int, retryable: bool | None) -> None:
    server.reply = lambda asked: (status, {"location": "http://127.0.0.1/"}, asked.body if status != 204 else b"")
    if retryable is None:
        opened = function(server.url)
        assert opened.apply(BATCH).events == BATCH
        opened.close()
        return
    failed = failure(server.url)
    assert failed.retryable == retryable
    assert "redirects to another address" in str(failed) if status in (301, 307) else "127.0.0.1" in str(failed)
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "is no JSON"),
        (b"<html>", "is no JSON"),
        (b"[" * 100_000, "is no JSON"),
        (b"\xff\xfe", "is no JSON"),
        (b"[" + b"9" * 5000 + b"]", "is no JSON"),
        (b"{}", "made an object: an array of objects is allowed"),
        (b"null", "made null"),
        (b'"x"', "made a string"),
        (b"[1]", "made an array with a number"),
        (b"[{}, null]", "made an array with null"),
        (b"[[{}]]", "made an array with an array"),
    ],
)
def test_an_answer_that_is_no_array_of_events_is_told(server: Server, content: bytes, reason: str) -> None:
    server.reply = lambda _: (200, {}, content)
    failed = failure(server.url)
    assert reason in str(failed)
    assert not failed.retryable


def test_an_answer_has_a_size(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_function, "MOST_ANSWER", 1 << 20)
    server.reply = lambda _: (200, {}, b"[" + b" " * (1 << 20) + b"]")
    failed = failure(server.url)
    assert "answers with more than 1 MiB" in str(failed)
    server.reply = lambda _: (200, {"content-encoding": "gzip"}, b"x")
    assert "packs its answer as gzip" in str(failure(server.url))
    monkeypatch.setattr(transform, "MOST_PARTS", 1000)
    server.reply = lambda _: (200, {}, b"[" + b"{}," * 1000 + b"{}]")
    assert "1,000 objects and arrays" in str(failure(server.url))


@contextmanager
def talker(*pieces: bytes, pause_s: float = 0.0) -> Iterator[str]:
    """A server that answers anything with these bytes, so slowly, and closes; its URL."""
    stop = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection:
                    try:
                        connection.recv(65_536)
                        for piece in pieces:
                            connection.sendall(piece)
                            if pause_s and stop.wait(pause_s):
                                return
                    except OSError:
                        continue

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
        stop.set()
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()


HEAD = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    ("pieces", "pause_s", "reason"),
    [
        ((b"",), 30, "did not answer within 0.5 s"),
        ((HEAD, *[b"x: y\r\n"] * 1000), 0.1, "did not answer within 0.5 s"),
        ((HEAD + b"content-length: 1000\r\n\r\n", *[b" "] * 1000), 0.1, "did not answer within 0.5 s"),
        ((HEAD + b"\r\n[", *[b" "] * 1000), 0.1, "did not answer within 0.5 s"),
        ((HEAD + b"content-length: 9\r\n\r\n[]",), 0, "broke before the whole answer"),
        ((HEAD + b"transfer-encoding: chunked\r\n\r\n2\r\n[]\r\n",), 0, "broke before the whole answer"),
        ((b"",), 0, "broke before the whole answer"),
        ((b"SSH-2.0-x\r\n",), 0, "is no HTTP"),
        ((HEAD + b"a: " + b"x" * 70_000 + b"\r\n\r\n",), 0, "is no HTTP"),
    ],
    ids=["silent", "slow head", "slow body", "slow body without a length", "cut off", "chunks cut off", "closed",
         "no HTTP", "a long header"],
)  # fmt: skip
def test_an_answer_that_does_not_come_is_told_and_may_come_later(
    pieces: tuple[bytes, ...], pause_s: float, reason: str
) -> None:
    with talker(*pieces, pause_s=pause_s) as url:
        began = time.monotonic()
        failed = failure(url, answer_s=0.5 if pause_s else 10)
        assert reason in str(failed)
        assert failed.retryable
        assert time.monotonic() - began < 5


def test_it_is_asked_again_after_pauses_and_by_the_same_id(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    given_up = threading.Event()
    monkeypatch.setattr(given_up, "wait", pauses.append)
    statuses = iter([500, 429, 200, 503, 503, 503, 503])
    server.reply = lambda asked: (next(statuses), {"retry-after": "7"} if len(server.asked) == 2 else {}, asked.body)
    opened = function(server.url, pauses_s=(1, 2, 4), given_up=given_up)
    assert opened.apply(BATCH).events == BATCH
    assert len(pauses) == 2
    assert 1 <= pauses[0] <= 1.5
    assert pauses[1] == 7
    assert len({asked.headers["x-gantry-request-id"] for asked in server.asked}) == 1
    with pytest.raises(TransformFailed, match="status 503") as failed:
        opened.apply(BATCH)
    opened.close()
    assert failed.value.retryable
    assert [int(pause / low) for pause, low in zip(pauses[2:], (1, 2, 4), strict=True)] == [1, 1, 1]
    assert len({asked.headers["x-gantry-request-id"] for asked in server.asked}) == 2


def test_who_gives_up_does_not_wait_for_the_next_try(server: Server) -> None:
    given_up = threading.Event()
    given_up.set()
    server.reply = lambda _: (500, {}, b"")
    assert failure(server.url, pauses_s=(60, 60), given_up=given_up).retryable
    assert len(server.asked) == 1


# Where a request may go


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0x7f000001", "2130706433", "[::1]", "[::ffff:127.0.0.1]"])
def test_a_private_address_is_refused_however_it_is_written(server: Server, host: str) -> None:
    failed = failure(f"http://{host}:{server.port}/", networks=())
    assert "no public address" in str(failed)
    assert not failed.retryable
    assert server.connections == 0


def test_a_name_that_stands_for_another_address_the_second_time_reaches_nothing(server: Server) -> None:
    answers = iter([[PUBLIC], [PRIVATE]])
    opened = function(f"http://rebound.example:{server.port}/", networks=(), resolver=lambda _: next(answers))
    opened.require_reachable()
    with pytest.raises(TransformFailed, match=r"The function at rebound\.example has no public address"):
        opened.apply(BATCH)
    assert server.connections == 0


def test_of_several_addresses_only_those_that_may_be_reached_are(server: Server) -> None:
    opened = function(
        f"http://mixed.example:{server.port}/",
        networks=(ip_network("127.0.0.1/32"),),
        resolver=lambda _: ["10.1.2.3", "127.0.0.2", PRIVATE],
    )
    assert opened.apply(BATCH).events == BATCH
    opened.close()
    assert server.asked[0].headers["host"] == f"mixed.example:{server.port}"


def test_a_name_without_an_address_and_a_name_server_that_is_slow_are_told() -> None:
    def nobody(_: str) -> list[str]:
        raise socket.gaierror(socket.EAI_NONAME, "no such name")

    never = threading.Event()
    assert str(failure("http://x.example/", resolver=nobody)) == "The name x.example has no address."
    failed = failure("http://x.example/", resolver=lambda _: [str(never.wait(60))], answer_s=0.3)
    never.set()
    assert "did not answer within 0.3 s" in str(failed)


def test_a_port_where_nobody_listens_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    failed = failure(f"http://127.0.0.1:{port}/")
    assert "could not be connected to: Connection refused" in str(failed)
    assert failed.retryable


def test_a_certificate_has_to_be_of_an_authority_that_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(server_context(tmp_path, "function", ["localhost"])) as server:
        url = f"https://localhost:{server.port}/"
        assert "no certificate that can be trusted: self" in str(failure(url, resolver=lambda _: [PRIVATE]))
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "function.crt"))
        opened = function(url, resolver=lambda _: [PRIVATE])
        for _ in range(2):
            assert opened.apply(BATCH).events == BATCH
        opened.close()
        assert len(server.asked) == 2
        assert "trusted" in str(failure(f"https://other.example:{server.port}/", resolver=lambda _: [PRIVATE]))


@pytest.mark.parametrize(
    "url",
    ["", "ftp://a/", "http://", "http:///x", "http://a:b@c/", "http://a b/", "http://a:99999/", "http://a:0/",
     "http://a/\r\nx", "http://ä/", "http://[::1/", "file:///etc/passwd", "http://a/" + "x" * 2048],
)  # fmt: skip
def test_what_is_no_url_of_a_function_is_refused(url: str) -> None:
    with pytest.raises(TransformFailed, match="begins with http:// or https://"):
        HttpFunction(url, KEY)
