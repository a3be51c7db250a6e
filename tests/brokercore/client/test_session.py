"""The session: signing, error codes, reconnecting, name servers in turn, forks."""

from __future__ import annotations

import os
import socket

import pytest

from brokercore.client.errors import BrokerUnreachable, ClientClosed, NoPermission, TopicNotExist
from brokercore.client.session import Call, Credentials, Session, parse_name_servers
from brokercore.protocol.command import Command
from brokercore.protocol.signature import verify
from tests.brokercore.client.peer import Peer, echo, until

CREDENTIALS = Credentials("ak", "secret", "token")


def closed_address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        return f"127.0.0.1:{unused.getsockname()[1]}"


def test_every_request_is_signed_and_the_callers_fields_are_left_alone() -> None:
    with Peer() as peer:
        session = Session(peer.address, CREDENTIALS)
        ext = {"topic": "t"}
        session.call(Call(peer.address, 105, ext, b"body"))
        (command,) = peer.received
        assert verify(105, command.ext, command.body, "secret")
        assert (command.ext["AccessKey"], command.ext["SecurityToken"]) == ("ak", "token")
        assert ext == {"topic": "t"}
        session.close()


def test_the_secret_is_not_printed() -> None:
    assert "secret" not in repr(CREDENTIALS)
    assert "token'" not in repr(CREDENTIALS)


def test_an_error_code_is_an_exception_of_its_class() -> None:
    def refuse(_peer: Peer, connection: socket.socket, command: Command) -> None:
        connection.sendall(command.response(command.code, "the reason\nFor more information, visit …").encode())

    with Peer(refuse) as peer:
        session = Session(peer.address, None)
        with pytest.raises(NoPermission) as refused:
            session.call(Call(peer.address, 16, {}))
        assert (refused.value.text, refused.value.address) == ("the reason", peer.address)
        results = session.call_all([Call(peer.address, 17, {}), Call(peer.address, 0, {})])
        assert isinstance(results[0], TopicNotExist)
        assert isinstance(results[1], Command)
        session.close()


def test_a_connection_that_broke_is_opened_anew() -> None:
    with Peer() as peer:
        session = Session(peer.address, None)
        session.call(Call(peer.address, 1, {}))
        peer.drop_connections()
        assert session.call(Call(peer.address, 1, {"n": "2"})).ext == {"n": "2"}
        session.close()


def test_a_request_that_broke_an_open_connection_is_tried_once_more_and_only_once() -> None:
    def drop_at_code_2(peer: Peer, connection: socket.socket, command: Command) -> None:
        if command.code == 2:
            # This one alone: the client is quick to open the next, which is to get as far as its request.
            connection.shutdown(socket.SHUT_RDWR)
        else:
            echo(peer, connection, command)

    with Peer(drop_at_code_2) as peer:
        session = Session(peer.address, None)
        session.call(Call(peer.address, 1, {}))
        with pytest.raises(BrokerUnreachable):
            session.call(Call(peer.address, 2, {}))
        with pytest.raises(BrokerUnreachable):
            session.call(Call(peer.address, 2, {}))
        assert [command.code for command in peer.received] == [1, 2, 2, 2]
        session.close()


def test_name_servers_are_asked_in_turn_until_one_answers() -> None:
    with Peer() as peer:
        session = Session(f"{closed_address()};{peer.address}", None, timeout_ms=500)
        assert session.call_name_server(105, {"topic": "t"}).ext == {"topic": "t"}
        session.close()
    session = Session(closed_address(), None, timeout_ms=500)
    with pytest.raises(BrokerUnreachable):
        session.call_name_server(105, {})


def test_name_servers_may_be_given_as_the_vendor_writes_them() -> None:
    assert parse_name_servers("http://MQ_INST_1_a.host:80; b:9876;") == ["MQ_INST_1_a.host:80", "b:9876"]


def test_a_handler_that_fails_is_answered_with_its_reason_and_an_unknown_code_with_3() -> None:
    def ask_back(_peer: Peer, connection: socket.socket, command: Command) -> None:
        if command.is_response:
            return
        connection.sendall(Command(307, 1).encode() + Command(999, 2).encode())
        echo(_peer, connection, command)

    def fail(_address: str, _command: Command) -> Command | None:
        raise ValueError("no such thing")

    with Peer(ask_back) as peer:
        session = Session(peer.address, None)
        session.handle(307, fail)
        session.call(Call(peer.address, 1, {}))
        until(lambda: len(peer.received) == 3)
        answers = {command.opaque: command for command in peer.received if command.is_response}
        assert (answers[1].code, answers[1].remark) == (1, "ValueError: no such thing")
        assert answers[2].code == 3
        session.close()


def test_a_forked_child_has_a_connection_of_its_own_and_the_parent_keeps_its() -> None:
    with Peer() as peer:
        session = Session(peer.address, None)
        session.call(Call(peer.address, 1, {"from": "parent"}))
        child = os.fork()
        if child == 0:
            answered = session.call(Call(peer.address, 1, {"from": "child"})).ext == {"from": "child"}
            os._exit(0 if answered else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert session.call(Call(peer.address, 1, {"from": "parent"})).ext == {"from": "parent"}
        assert len(peer.connections) == 2
        session.close()


def test_a_closed_session_says_so() -> None:
    with Peer() as peer:
        session = Session(peer.address, None)
        session.close()
        with pytest.raises(ClientClosed):
            session.call(Call(peer.address, 1, {}))
