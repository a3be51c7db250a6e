"""TLS without I/O: two sides that hand each other their bytes."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from brokercore.certificates import server_context
from brokercore.protocol.tls import FIRST_BYTE, TlsError, TlsStream


@pytest.fixture
def server(tmp_path: Path) -> ssl.SSLContext:
    return server_context(tmp_path, "broker", ["localhost"])


def trusting(folder: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(folder / "broker.crt"))


def exchange(client: TlsStream, server: TlsStream, piece: int = 1 << 20) -> tuple[bytes, bytes]:
    """Carry bytes to and fro, in pieces, until both are silent; what the client and the server have read."""
    read = {client: b"", server: b""}
    while True:
        moved = False
        for source, target in ((client, server), (server, client)):
            data = source.outgoing()
            for start in range(0, len(data), piece):
                read[target] += target.receive(data[start : start + piece])
                moved = True
        if not moved:
            return read[client], read[server]


def pair(server: ssl.SSLContext, folder: Path, piece: int = 1 << 20) -> tuple[TlsStream, TlsStream]:
    """Both sides after their handshake."""
    ours = TlsStream(server, server_side=True)
    theirs = TlsStream(trusting(folder), server_side=False, hostname="localhost")
    exchange(theirs, ours, piece)
    assert ours.established
    assert theirs.established
    return theirs, ours


@pytest.mark.parametrize("piece", [1, 7, 1 << 20])
def test_bytes_arrive_however_they_are_cut(server: ssl.SSLContext, tmp_path: Path, piece: int) -> None:
    client, ours = pair(server, tmp_path, piece)
    question, answer = b"q" * 5_000, bytes(range(256)) * 300
    client.send(question)
    ours.send(answer)
    assert exchange(client, ours, piece) == (answer, question)


def test_what_is_sent_before_the_handshake_waits_for_it(server: ssl.SSLContext, tmp_path: Path) -> None:
    client = TlsStream(trusting(tmp_path), server_side=False, hostname="localhost")
    ours = TlsStream(server, server_side=True)
    client.send(b"early")
    assert exchange(client, ours)[1] == b"early"


def test_the_first_byte_tells_tls(server: ssl.SSLContext, tmp_path: Path) -> None:
    assert TlsStream(trusting(tmp_path), server_side=False, hostname="localhost").outgoing()[0] == FIRST_BYTE


def test_a_goodbye_is_noticed(server: ssl.SSLContext, tmp_path: Path) -> None:
    client, ours = pair(server, tmp_path)
    client.end()
    exchange(client, ours)
    assert ours.ended


def test_a_certificate_for_another_name_is_refused(server: ssl.SSLContext, tmp_path: Path) -> None:
    client = TlsStream(trusting(tmp_path), server_side=False, hostname="elsewhere.example")
    with pytest.raises(TlsError, match="not trusted"):
        exchange(client, TlsStream(server, server_side=True))


def test_a_certificate_of_nobody_known_is_refused(server: ssl.SSLContext) -> None:
    client = TlsStream(ssl.create_default_context(), server_side=False, hostname="localhost")
    with pytest.raises(TlsError, match="not trusted"):
        exchange(client, TlsStream(server, server_side=True))


def test_bytes_that_are_no_tls_are_an_error(server: ssl.SSLContext, tmp_path: Path) -> None:
    with pytest.raises(TlsError, match="TLS failed"):
        TlsStream(server, server_side=True).receive(b"\x16\x03\x01\x00\x05hello")
    _, ours = pair(server, tmp_path)
    with pytest.raises(TlsError, match="TLS failed"):
        ours.receive(b"\x17\x03\x03\x00\x20" + bytes(32))
