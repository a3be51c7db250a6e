"""Pushes leave for public addresses and listed networks only, whatever a name stands for and whoever answers."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager, suppress
from ipaddress import ip_network
from pathlib import Path

import pytest

from brokercore.certificates import server_context
from brokercore.server.errors import SettingsError
from brokercore.smq.server.outgoing import PushError, Receivers, read_allowed
from tests.brokercore.smq.test_topics_service import Topic
from tests.support.broker import eventually
from tests.support.queue_service import PATIENCE_SECONDS, queue_service
from tests.support.receivers import receiver

OWNER = "1234567890123456"
PUBLIC, PRIVATE = "93.184.216.34", "127.0.0.1"
LOOPBACK = (ip_network("127.0.0.0/8"),)


class Names:
    """A resolver that answers each question with the next of its answers, and the last one for ever."""

    def __init__(self, *answers: list[str]) -> None:
        self._answers = list(answers)

    def __call__(self, _name: str) -> list[str]:
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


@pytest.fixture
async def receivers() -> AsyncIterator[Receivers]:
    found = Receivers(LOOPBACK)
    yield found
    await found.close()


@contextmanager
def talker(answer: bytes) -> Iterator[str]:
    """A server that answers anything with these bytes; its URL."""
    with socket.create_server((PRIVATE, 0)) as listening:

        def serve() -> None:
            connection, _ = listening.accept()
            with closing(connection):
                connection.recv(65536)
                with suppress(ConnectionError):
                    connection.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://{PRIVATE}:{listening.getsockname()[1]}/"
        thread.join(PATIENCE_SECONDS)


async def test_a_name_that_becomes_private_after_it_was_looked_at_reaches_nothing() -> None:
    with receiver() as taker:
        rebound = Receivers((), Names([PUBLIC], [PRIVATE]))
        url = f"http://rebound.example:{taker.port}/"
        await rebound.require_reachable(OWNER, url)
        with pytest.raises(PushError, match="no public address"):
            await rebound.post(OWNER, url, {}, b"x")
        await rebound.close()
    assert taker.pushed == []


async def test_of_several_addresses_only_those_that_may_be_reached_are() -> None:
    with receiver() as taker:
        mixed = Receivers((ip_network("127.0.0.1/32"),), Names(["10.1.2.3", "127.0.0.2", PRIVATE]))
        assert await mixed.post(OWNER, f"http://mixed.example:{taker.port}/in", {}, b"x") == 204
        await mixed.close()
    assert taker.pushed[0].headers["host"] == f"mixed.example:{taker.port}"


@pytest.mark.parametrize("addresses", [["10.0.0.1"], ["fe80::1%eth0"], ["::ffff:127.0.0.1"], ["64:ff9b::7f00:1"]])
async def test_private_addresses_are_refused_in_every_writing(addresses: list[str]) -> None:
    strict = Receivers((), Names(addresses))
    with pytest.raises(PushError, match="no public address") as refused:
        await strict.require_reachable(OWNER, "http://inside.example/")
    assert addresses[0] not in str(refused.value)  # what a name stands for inside is nobody's business
    await strict.close()


async def test_a_name_without_an_address_may_get_one_later(receivers: Receivers) -> None:
    def unknown(_name: str) -> list[str]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    lost = Receivers((), unknown)
    await lost.require_reachable(OWNER, "http://unknown.example/")
    with pytest.raises(PushError, match=r"The name unknown.example has no address\."):
        await lost.post(OWNER, "http://unknown.example/", {}, b"x")
    await lost.close()


async def test_slow_name_servers_of_one_account_keep_no_other_from_its_receivers() -> None:
    release = threading.Event()

    def slow(name: str) -> list[str]:
        if name.startswith("slow"):
            release.wait(PATIENCE_SECONDS)
        return [PRIVATE]

    with receiver() as taker:
        shared = Receivers(LOOPBACK, slow)
        try:
            stuck = [
                asyncio.create_task(shared.require_reachable("slow one", f"http://slow{number}.example/"))
                for number in range(40)
            ]
            refused = [one for one in await asyncio.gather(*stuck, return_exceptions=True) if one is not None]
            assert len(refused) == 24
            assert all("the account's other names take too long" in str(one) for one in refused)
            assert await shared.post("another", f"http://quick.example:{taker.port}/", {}, b"x") == 204
        finally:
            release.set()
            await shared.close()


@pytest.mark.parametrize("endless", [b"HTTP/1.1 100 \r\n\r\n", b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 10])
async def test_a_receiver_that_never_comes_to_its_answer_is_given_up_after_some_bytes(
    receivers: Receivers, endless: bytes
) -> None:
    with talker(endless * 100_000) as url, pytest.raises(PushError, match=r"not valid HTTP|broke before its answer"):
        await receivers.post(OWNER, url, {}, b"x")


async def test_of_an_answer_in_endless_pieces_the_status_counts(receivers: Receivers) -> None:
    head = b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n"
    with talker(head + b"1\r\na\r\n" * 1_000_000) as url:
        assert await receivers.post(OWNER, url, {}, b"x") == 201


@pytest.mark.parametrize("answer", [b"", b"hello\r\n\r\n", b"HTTP/1.1 200"])
async def test_what_is_no_answer_is_told_as_that(receivers: Receivers, answer: bytes) -> None:
    with talker(answer) as url, pytest.raises(PushError, match=r"not valid HTTP|broke before its answer"):
        await receivers.post(OWNER, url, {}, b"x")


async def test_a_head_without_an_end_is_not_read_to_it(receivers: Receivers) -> None:
    endless = b"HTTP/1.1 200 OK\r\n" + b"x: " + b"y" * (1 << 20)
    with talker(endless) as url, pytest.raises(PushError, match="not valid HTTP"):
        await receivers.post(OWNER, url, {}, b"x")


async def test_the_status_counts_also_where_the_body_breaks(receivers: Receivers) -> None:
    with talker(b"HTTP/1.1 201 Created\r\ncontent-length: 100\r\n\r\nshort") as url:
        assert await receivers.post(OWNER, url, {}, b"x") == 201


def test_the_loopback_is_allowed_where_nobody_else_reaches_the_service() -> None:
    assert [str(one) for one in read_allowed({}, "127.0.0.1")] == ["127.0.0.0/8", "::1/128"]
    assert read_allowed({}, "0.0.0.0") == read_allowed({}, "10.0.0.5") == ()
    assert read_allowed({"GANTRY_SMQ_PUSH_ALLOW": ""}, "127.0.0.1") == ()
    assert [str(one) for one in read_allowed({"GANTRY_SMQ_PUSH_ALLOW": "10.0.0.0/8, ::1"}, "0.0.0.0")] == [
        "10.0.0.0/8",
        "::1/128",
    ]
    with pytest.raises(SettingsError, match="GANTRY_SMQ_PUSH_ALLOW is no list of networks"):
        read_allowed({"GANTRY_SMQ_PUSH_ALLOW": "example.com"}, "127.0.0.1")


@pytest.mark.parametrize("is_trusted", [True, False])
def test_a_receiver_of_https_proves_who_it_is(tmp_path: Path, is_trusted: bool) -> None:
    context = server_context(tmp_path, "receiver", [PRIVATE])
    trusted = str(tmp_path / "receiver.crt") if is_trusted else ""
    with receiver(context=context) as taker, queue_service(ssl_cert_file=trusted) as service:
        topic = Topic(service, service.keys())
        assert topic.subscribe("s", f"https://{PRIVATE}:{taker.port}/in").status == 201
        topic.publish("sealed")
        if is_trusted:
            eventually(lambda: topic.told("s", "DeliveredCount") == "1", PATIENCE_SECONDS)
            assert set(taker.bodies) == {"sealed"}
        else:
            eventually(lambda: topic.told("s", "FailureCount") != "0", PATIENCE_SECONDS)
            assert taker.bodies == []
            assert "certificate verify failed" in topic.told("s", "LastPushError")
