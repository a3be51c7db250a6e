"""Events to HTTP endpoints: real receivers, friendly and hostile ones, and pauses of a clock of the test."""

from __future__ import annotations

import contextlib
import json
import pickle
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from email.utils import formatdate
from typing import Any

import pytest

from analytics.inflow import endpoints, http_line
from analytics.inflow.cloud_events import BINARY, BODY, EVENTS, STRUCTURED, Requests
from analytics.inflow.delivery import Delivery, Flow, Misset, Outgoing, RetryPolicy, Stopped, Undelivered
from analytics.inflow.endpoints import Endpoint
from analytics.inflow.fields import EventRejected, Fields
from analytics.inflow.http_line import sign
from analytics.inflow.task_sinks import HttpSink
from tests.inflow.test_delivery import Clock
from tests.support.receivers import Pushed, Receiver, receiver

WHOLE = Fields.compile({"body": {"method": "complete_data"}})
NUMBER = Fields.compile({"body": {"method": "data_extraction", "path": "$.data.n"}})
LOCAL = "127.0.0.0/8"


@pytest.fixture(autouse=True)
def no_line_left() -> Iterator[None]:
    yield
    while endpoints._lines:
        for one in endpoints._lines.popitem()[1]:
            one.close()


def endpoint(url: str, **more: Any) -> Endpoint:
    return Endpoint(url, b"key", networks=LOCAL, **more)


def event(number: int, **more: Any) -> dict[str, Any]:
    found = {"specversion": "1.0", "id": f"e{number}", "source": "dts1", "type": "dts:Change", "subject": "shop.orders"}
    return found | {"data": {"n": number, "primaryKey": {"id": number % 3}}} | more


def outgoing(*numbers: int, mode: str = BODY, fields: Fields = NUMBER, order: bool = False) -> list[Outgoing]:
    requests = Requests(fields, mode)
    return [Outgoing(requests.build(event(one)), None, f"k{one % 3}" if order else "") for one in numbers]


def failed(target: Endpoint, messages: Sequence[Outgoing]) -> Undelivered:
    with pytest.raises(Undelivered) as found:
        target.send(messages)
    return found.value


# Requests


def test_a_structured_request_is_the_event() -> None:
    message = Requests(WHOLE, STRUCTURED).build(event(1, time="2026-01-15T08:30:00Z", partition=7, empty=None))
    assert message.properties == {"content-type": "application/cloudevents+json"}
    expected = event(1, time="2026-01-15T08:30:00Z", partition=7) | {"datacontenttype": "application/json"}
    assert json.loads(message.body) == expected


def test_a_binary_request_has_attributes_in_headers_and_the_data_as_its_body() -> None:
    message = Requests(WHOLE, BINARY).build(event(1, subject='a "ä" 100%', last=True))
    assert message.properties == {
        "ce-specversion": "1.0", "ce-id": "e1", "ce-source": "dts1", "ce-type": "dts:Change", "ce-last": "true",
        "ce-subject": "a%20%22%C3%A4%22%20100%25", "content-type": "application/json",
    }  # fmt: skip
    assert json.loads(message.body) == event(1)["data"]


def test_data_of_bytes_and_none_are_sent_as_such() -> None:
    bytes_ = {**event(1), "data_base64": "AAEC"}
    found = Requests(WHOLE, BINARY).build(bytes_)
    assert (found.body, found.properties["content-type"]) == (b"\0\1\2", "application/octet-stream")
    assert json.loads(Requests(WHOLE, STRUCTURED).build(bytes_).body)["data_base64"] == "AAEC"
    nothing = {name: value for name, value in event(1).items() if name != "data"}
    assert Requests(WHOLE, BINARY).build(nothing).body == b""
    assert "content-type" not in Requests(WHOLE, BINARY).build(nothing).properties
    text = Requests(WHOLE, BINARY).build(nothing | {"data": "ä", "datacontenttype": "text/plain"})
    assert text.body == "ä".encode()


def test_what_the_fields_build_is_the_data_or_the_whole_body() -> None:
    text = Fields.compile({"body": {"method": "fixed_value", "value": "hello"}})
    assert json.loads(Requests(NUMBER, STRUCTURED).build(event(7)).body)["data"] == 7
    told = json.loads(Requests(text, STRUCTURED).build(event(7)).body)
    assert (told["data"], told["datacontenttype"]) == ("hello", "text/plain; charset=utf-8")
    bare = Requests(text, BODY, "text/csv").build(event(7))
    assert (bare.body, bare.properties) == (b"hello", {"content-type": "text/csv"})


def test_the_id_of_a_request_is_that_of_event_and_body() -> None:
    requests = Requests(NUMBER, BODY)
    assert requests.build(event(1)).unique_id == requests.build(event(1)).unique_id
    made = {requests.build(one).unique_id for one in (event(1), event(1, data={"n": 2}), event(1, source="x"))}
    assert len(made) == 3


@pytest.mark.parametrize(
    ("mode", "found", "sentence"),
    [
        (STRUCTURED, {"id": "1", "source": "s"}, "A CloudEvent has id, source, type, and this event has no type."),
        (BINARY, {**event(1), "id": ""}, "this event has no id."),
        (STRUCTURED, {**event(1), "Bad_name": 1}, 'has a name of small letters and digits, not "Bad_name".'),
        (STRUCTURED, {**event(1), "more": {}}, "is a text, a whole number, true or false; more is not."),
        (BINARY, {**event(1), "subject": "x" * 5000}, "The event's subject has more than 4,096 bytes"),
        (BINARY, {**event(1), "datacontenttype": "a\r\nx: y"}, "The event's datacontenttype is no media type."),
        (BINARY, {**event(1), "data_base64": "?"}, "The event's data_base64 is no Base64."),
    ],
)
def test_what_is_no_cloud_event_is_rejected(mode: str, found: dict[str, Any], sentence: str) -> None:
    with pytest.raises(EventRejected) as rejected:
        Requests(WHOLE, mode).build(found)
    assert sentence in rejected.value.user_message


def test_a_batch_takes_bodies_that_are_json() -> None:
    text = Fields.compile({"body": {"method": "template", "parameters": {}, "template": "x,y"}})
    with pytest.raises(EventRejected, match="a batch is a JSON array, and this body is no JSON"):
        Requests(text, BODY, in_batches=True).build(event(1))


# Delivered


def test_each_event_is_a_signed_request_with_the_headers_of_the_task() -> None:
    with receiver() as found:
        headers = (("authorization", "Bearer hunter22"), ("x-tenant", "7"))
        endpoint(f"{found.url}/in?a=1", headers=headers).send(outgoing(*range(20), mode=BINARY, fields=WHOLE))
    assert sorted(int(one.headers["ce-id"][1:]) for one in found.pushed) == list(range(20))
    one = found.pushed[0]
    assert one.path == "/in?a=1"
    assert one.headers["x-gantry-signature"] == sign(b"key", one.body)
    assert (one.headers["authorization"], one.headers["x-tenant"]) == ("Bearer hunter22", "7")
    assert len({one.headers["x-gantry-request-id"] for one in found.pushed}) == 20


def test_a_batch_is_an_array_of_events() -> None:
    with receiver() as found:
        target = endpoint(found.url, batch=3, batch_type=EVENTS)
        target.send(outgoing(*range(20), mode=STRUCTURED, fields=WHOLE))
    batches = [json.loads(body) for body in found.bodies]
    assert sorted(one["data"]["n"] for batch in batches for one in batch) == list(range(20))
    assert max(map(len, batches)) == 3
    assert {one.headers["content-type"] for one in found.pushed} == {EVENTS}


def test_events_of_one_key_are_sent_one_after_the_other() -> None:
    under_way: list[int] = []

    def reply(pushed: Pushed) -> int:
        key = int(pushed.body) % 3
        assert key not in under_way
        under_way.append(key)
        time.sleep(0.002)
        under_way.remove(key)
        return 200

    with receiver(reply) as found:
        endpoint(found.url).send(outgoing(*range(60), order=True))
    numbers = [int(body) for body in found.bodies]
    assert len(numbers) == 60
    assert all([one for one in numbers if one % 3 == key] == list(range(key, 60, 3)) for key in range(3))


def test_of_a_key_nothing_is_sent_behind_one_that_may_pass_later() -> None:
    with receiver(lambda pushed: 503 if pushed.body == b"3" else 200) as found:
        error = failed(endpoint(found.url), outgoing(0, 3, 6, order=True))
    assert found.bodies == ["0", "3"]
    assert error.may_pass and error.done == {0} and not error.refused


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
def test_statuses_that_may_pass_are_tried_again(status: int) -> None:
    with receiver(lambda _: status) as found:
        error = failed(endpoint(found.url), outgoing(1))
    assert error.may_pass and not error.refused
    assert error.user_message == f"The endpoint at 127.0.0.1 answers with status {status}."


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 409, 410, 413, 415, 422])
def test_other_statuses_refuse_the_event_at_once_and_no_other(status: int) -> None:
    with receiver(lambda pushed: status if pushed.body == b"3" else 201) as found:
        error = failed(endpoint(found.url), outgoing(*range(10)))
    assert error.refused == {3: f"The endpoint at 127.0.0.1 answers with status {status}."}
    assert error.done == set(range(10)) - {3} and not error.may_pass
    assert len(found.pushed) == 10


def test_of_a_batch_that_is_refused_the_event_to_blame_is_found() -> None:
    def reply(pushed: Pushed) -> int:
        return 422 if 5 in json.loads(pushed.body) else 200

    with receiver(reply) as found:
        error = failed(endpoint(found.url, batch=16, batch_type="application/json"), outgoing(*range(64)))
    assert set(error.refused) == {5} and error.done == set(range(64)) - {5}
    taken = [one for body in found.bodies if 5 not in (one := json.loads(body))]
    assert sorted(number for batch in taken for number in batch) == [one for one in range(64) if one != 5]


def test_a_redirect_is_not_followed() -> None:
    with receiver() as inside, receiver(lambda _: (302, {"location": inside.url})) as found:
        error = failed(endpoint(found.url), outgoing(1))
    assert "redirects to another address (status 302), which is not followed." in error.refused[0]
    assert inside.pushed == []


def test_addresses_within_the_platform_are_misset() -> None:
    with receiver() as found:
        target = Endpoint(found.url)
        for act in (target.require, lambda: target.send(outgoing(1))):
            with pytest.raises(Misset, match=r"The endpoint at 127.0.0.1 has no public address, nor one that"):
                act()
    assert found.pushed == []


def test_nobody_there_is_tried_again() -> None:
    with receiver() as found:
        pass
    endpoint(found.url).require()
    error = failed(endpoint(found.url), outgoing(1))
    assert error.may_pass and "could not be connected to" in error.user_message


def test_a_header_with_what_no_header_has_is_misset() -> None:
    with pytest.raises(Misset, match=r"The value of the header x-a has other characters than a header may have."):
        endpoint("http://127.0.0.1:1", headers=(("x-a", "a\r\nx: y"),)).require()


def test_secrets_are_in_no_sentence_and_no_text() -> None:
    content = b"no: hunter22 is \x1b[31mwrong\nsecond line"
    with answering(b"HTTP/1.1 400 No\r\ncontent-length: %d\r\n\r\n%s" % (len(content), content)) as url:
        target = endpoint(url, headers=(("authorization", "Bearer hunter22"),), hidden=("hunter22",))
        assert failed(target, outgoing(1)).refused == {
            0: "The endpoint at 127.0.0.1 answers with status 400: no: … is  [31mwrong."
        }
    assert "hunter22" not in repr(target) and "b'key'" not in repr(target)
    assert pickle.loads(pickle.dumps(target)) == target


# Hostile


@contextmanager
def answering(*parts: bytes, pause_s: float = 0.0, endless: bytes = b"") -> Iterator[str]:
    """A server that reads a request and answers with these, and then this without an end."""
    done = threading.Event()
    server = socket.create_server(("127.0.0.1", 0))

    def serve(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            connection.recv(1 << 16)
            for part in parts:
                connection.sendall(part)
                done.wait(pause_s)
            while endless and not done.is_set():
                connection.sendall(endless)
                done.wait(pause_s)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
    finally:
        done.set()
        server.close()


def test_one_that_never_answers_has_its_time() -> None:
    with answering(pause_s=60, endless=b"HTTP/1.1 200 OK\r\n"[:1]) as url:
        error = failed(endpoint(url, timeout_s=0.3), outgoing(1))
    assert error.may_pass and error.user_message == "The endpoint at 127.0.0.1 did not answer within 0.3 s."


def test_one_that_drips_its_head_has_its_time() -> None:
    with answering(b"HTTP/1.1 200 OK\r\n", pause_s=0.02, endless=b"x: y\r\n") as url:
        error = failed(endpoint(url, timeout_s=0.4), outgoing(1))
    assert error.may_pass


def test_garbage_is_no_answer() -> None:
    with answering(b"\x00\xff SSH-2.0 hello\r\n\r\n") as url:
        error = failed(endpoint(url), outgoing(1))
    assert error.may_pass and error.user_message.startswith("What 127.0.0.1 answered is no HTTP")


def test_of_an_endless_answer_the_beginning_is_read() -> None:
    with answering(b"HTTP/1.1 200 OK\r\n\r\n", endless=b"x" * 65_536) as url:
        endpoint(url).send(outgoing(1))
    with answering(b"HTTP/1.1 400 No\r\n\r\n", endless=b"x" * 65_536) as url:
        assert failed(endpoint(url), outgoing(1)).refused[0].endswith(f"status 400: {'x' * 120}.")


def test_one_that_took_the_event_need_not_end_its_answer() -> None:
    with answering(b"HTTP/1.1 202 OK\r\ncontent-length: 100\r\n\r\n", pause_s=60) as url:
        endpoint(url).send(outgoing(1))


# Retries, with the clock of the test


def delivered(target: Endpoint, numbers: Sequence[int], clock: Clock, **more: Any) -> Delivery:
    flow = Flow("t", Requests(NUMBER, BODY), **more)
    with Delivery(flow, target, clock) as delivery:  # type: ignore[arg-type]
        delivery.deliver([json.dumps(event(one)).encode() for one in numbers])
    return delivery


def refusing(found: Receiver, answers: Sequence[int | tuple[int, dict[str, str]]]) -> Callable[[Pushed], Any]:
    left = iter(answers)
    return lambda _: next(left, 200)


def test_a_receiver_that_comes_back_gets_all_and_is_waited_for_as_it_asks() -> None:
    clock = Clock()
    with receiver() as found:
        found.reply = refusing(
            found,
            [503, (429, {"retry-after": "90"}), (503, {"retry-after": formatdate(time.time() + 86_400, usegmt=True)})],
        )
        delivery = delivered(endpoint(found.url), [1], clock, retry=RetryPolicy.EXPONENTIAL)
    assert clock.taken == [1.0, 90.0, 512.0]
    assert delivery.counts["messagesDelivered"] == 1 and delivery.counts["deliveriesRetried"] == 3
    assert len({one.headers["x-gantry-request-id"] for one in found.pushed}) == 1


def test_the_last_try_fails_the_event_and_the_policy_says_which_it_is() -> None:
    clock = Clock()
    with receiver(lambda _: 503) as found:
        delivery = delivered(endpoint(found.url), [1], clock)
    assert len(clock.taken) == 3 and all(10 <= pause <= 20 for pause in clock.taken)
    assert delivery.counts["eventsFailed"] == delivery.counts["eventsDiscarded"] == 1
    assert len(found.pushed) == 4


def test_a_refused_event_is_one_that_failed_and_the_others_go_on_without_a_pause() -> None:
    clock = Clock()
    with receiver(lambda pushed: 400 if pushed.body == b"4" else 200) as found:
        delivery = delivered(endpoint(found.url), range(9), clock, is_ordered=True)
    assert clock.taken == []
    assert delivery.counts["messagesDelivered"] == 8 and delivery.counts["eventsFailed"] == 1
    assert found.bodies.count("4") == 1


def test_a_task_that_allows_no_faults_stops_at_a_refused_event() -> None:
    with receiver(lambda _: 400) as found, pytest.raises(Stopped, match="answers with status 400"):
        delivered(endpoint(found.url), [1], Clock(), allows_faults=False)


def test_the_sink_of_a_document_builds_its_requests() -> None:
    sink = HttpSink.read({"kind": "http", "url": "https://a.example/in", "batch": 10})
    assert sink.builder.content_type == EVENTS
    assert replace(sink, mode=BODY).builder.content_type == "application/json"


def test_an_address_in_brackets_needs_no_port() -> None:
    assert http_line.port_of(http_line.checked("https://[2001:db8::1]/x", "an endpoint")) == 443
    line = http_line._Connection(http_line.checked("http://[2001:db8::1]/x", "an endpoint"), (), lambda _: [])
    deadline = http_line._Deadline(5)
    connection = line._new(deadline)
    deadline.end()
    assert (connection.host, connection.port) == ("2001:db8::1", 80)
