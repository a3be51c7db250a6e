"""The broker's questions about forgotten transactions, asked by a peer."""

from __future__ import annotations

import socket
from collections.abc import Callable

import pytest

from brokercore.client.messages import MessageView, TransactionState
from brokercore.client.producer import Transactions
from brokercore.client.session import Call, Session
from brokercore.protocol.codes import RequestCode
from brokercore.protocol.command import ONEWAY_FLAG, Command
from brokercore.protocol.message import StoredMessage
from tests.brokercore.client.peer import Peer, echo, until

HALF = StoredMessage("t", b"half", {"UNIQ_KEY": "id-1", "__transactionId__": "id-1"}).encode()


def answers_to(check: Callable[[MessageView], TransactionState]) -> list[Command]:
    """What a producer tells the broker that asks about a transaction."""
    ext = {"tranStateTableOffset": "3"}
    asked = Command(RequestCode.CHECK_TRANSACTION_STATE, 9, ONEWAY_FLAG, ext=ext, body=HALF)

    def ask(peer: Peer, connection: socket.socket, command: Command) -> None:
        if command.code == 1:
            connection.sendall(asked.encode())
            echo(peer, connection, command)

    with Peer(ask) as peer:
        session = Session(peer.address, None)
        Transactions(session, "g", "", check)
        session.call(Call(peer.address, 1, {}))
        until(lambda: [one for one in peer.received if one.code == RequestCode.END_TRANSACTION])
        session.close()
        return [one for one in peer.received if one.code == RequestCode.END_TRANSACTION]


@pytest.mark.parametrize("state", list(TransactionState))
def test_the_check_decides_how_the_transaction_ends(state: TransactionState) -> None:
    (told,) = answers_to(lambda _: state)
    assert told.ext["commitOrRollback"] == str(state.value)
    assert (told.ext["fromTransactionCheck"], told.ext["tranStateTableOffset"]) == ("true", "3")


def test_a_check_that_fails_neither_commits_nor_rolls_back() -> None:
    """The database it asks may be away for a moment: the broker asks again."""

    def fail(_view: MessageView) -> TransactionState:
        raise ConnectionError("the database is away")

    (told,) = answers_to(fail)
    assert told.ext["commitOrRollback"] == str(TransactionState.UNKNOWN.value) == "0"
