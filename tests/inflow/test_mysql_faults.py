"""What is wrong with a server is told, each with the statement that mends it."""

from __future__ import annotations

import contextlib
import datetime
import socket
import threading
import time
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from analytics.inflow.changes import CaptureFailed
from analytics.inflow.mysql import check, open_capture
from analytics.inflow.mysql_server import Address
from tests.inflow.mysql_reading import brief, capture, new_database, read
from tests.support.mariadb import PASSWORD, MariaDbServer, mariadb_server

pytestmark = pytest.mark.process


def _only(found: list[CaptureFailed]) -> CaptureFailed:
    assert len(found) == 1, [failed.sentence for failed in found]
    return found[0]


@pytest.fixture(scope="module")
def database(mariadb: MariaDbServer) -> str:
    return new_database(mariadb, "CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE u (id INT PRIMARY KEY)")


def test_nothing_is_wrong(mariadb: MariaDbServer, database: str) -> None:
    assert check(mariadb.address(), [f"{database}.*"]) == []


def test_no_log() -> None:
    with mariadb_server(log_bin="", log_slave_updates="") as server:
        failed = _only(check(server.address(), ["mysql.db"]))
        assert (failed.code, failed.mend) == ("LOG_OFF", "[mysqld] log_bin = ON")
        with pytest.raises(CaptureFailed, match="writes no binary log"):
            open_capture(server.address(), ["mysql.db"], None, snapshot=False)


@pytest.mark.parametrize(
    ("name", "wrong", "mend"),
    [
        ("binlog_format", "MIXED", "SET GLOBAL binlog_format = ROW"),
        ("binlog_row_image", "MINIMAL", "SET GLOBAL binlog_row_image = FULL"),
        ("binlog_row_image", "NOBLOB", "SET GLOBAL binlog_row_image = FULL"),
    ],
)
def test_a_log_without_whole_rows(mariadb: MariaDbServer, database: str, name: str, wrong: str, mend: str) -> None:
    mariadb.run(f"SET GLOBAL {name} = '{wrong}'")
    try:
        failed = _only(check(mariadb.address(), [f"{database}.*"]))
        assert (failed.code, failed.mend) == ("LOG_FORMAT", mend)
        assert f"{name} = {wrong}" in failed.sentence
        mariadb.run(failed.mend)
        assert check(mariadb.address(), [f"{database}.*"]) == []
    finally:
        mariadb.run("SET GLOBAL binlog_format = ROW", "SET GLOBAL binlog_row_image = FULL")


def test_each_right_that_is_missing(mariadb: MariaDbServer, database: str) -> None:
    mariadb.run("CREATE OR REPLACE USER poor@'127.0.0.1' IDENTIFIED BY 'p'")
    address = mariadb.address("poor", "p")
    wanted = {
        "GRANT REPLICATION CLIENT ON *.* TO 'poor'@'127.0.0.1'",
        f"GRANT SELECT ON `{database}`.`t` TO 'poor'@'127.0.0.1'",
        "GRANT REPLICATION SLAVE ON *.* TO 'poor'@'127.0.0.1'",
    }
    mended = set()
    while found := check(address, [f"{database}.t"]):
        assert {failed.code for failed in found} == {"RIGHT_MISSING"}
        with pytest.raises(CaptureFailed) as raised:
            open_capture(address, [f"{database}.t"], None, snapshot=False)
        assert raised.value.mend in {failed.mend for failed in found}
        assert found[0].mend not in mended
        mended.add(found[0].mend)
        mariadb.run(found[0].mend)
    assert mended == wanted
    reader = open_capture(address, [f"{database}.t"], None, snapshot=True)
    mariadb.run("INSERT INTO t VALUES (1)", "DELETE FROM t", database=database)
    assert len(read(reader, 2)) == 2
    reader.close()


def test_a_table_that_is_not_there(mariadb: MariaDbServer, database: str) -> None:
    for pattern in (f"{database}.none", f"{database}.none*", "nowhere.*"):
        failed = _only(check(mariadb.address(), [f"{database}.t", pattern]))
        assert failed.code == "NO_TABLE" and pattern in failed.sentence
    assert _only(check(mariadb.address(), ["t"])).code == "NO_TABLE"


def test_a_wrong_password_and_nobody_there(mariadb: MariaDbServer, database: str) -> None:
    failed = _only(check(mariadb.address(password="wrong"), [f"{database}.t"]))
    assert (failed.code, failed.mend) == ("PASSWORD_WRONG", "ALTER USER 'root'@'%' IDENTIFIED BY '…'")
    assert "wrong" not in failed.sentence
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        failed = _only(check(Address("127.0.0.1", taken.getsockname()[1], "root", "p"), ["a.b"]))
    assert (failed.code, failed.mend) == ("UNREACHABLE", "")
    assert PASSWORD not in repr(mariadb.address())


@pytest.mark.parametrize("by_gtid", [True, False])
def test_a_position_that_has_been_purged(mariadb: MariaDbServer, database: str, by_gtid: bool) -> None:
    reader = capture(mariadb, database)
    mariadb.run(f"INSERT INTO {database}.t VALUES (100)", f"DELETE FROM {database}.t")
    position = read(reader, 1)[0].position
    reader.close()
    mariadb.run("FLUSH BINARY LOGS", f"INSERT INTO {database}.t VALUES (100)", f"DELETE FROM {database}.t")
    mariadb.run("FLUSH BINARY LOGS", "FLUSH BINARY LOGS")
    deadline = time.monotonic() + 10
    while len(mariadb.run("SHOW BINARY LOGS")) > 1:  # what a reader or the server itself still needs stays a while
        last = mariadb.run("SHOW MASTER STATUS")[0][0]
        mariadb.run(f"PURGE BINARY LOGS TO '{last}'")
        assert time.monotonic() < deadline, mariadb.run("SHOW PROCESSLIST")
    position = position if by_gtid else position.partition(" ")[0]
    failed = _only(check(mariadb.address(), [f"{database}.*"], position))
    assert (failed.code, failed.mend) == ("LOG_PURGED", "SET GLOBAL binlog_expire_logs_seconds = 604800")
    with pytest.raises(CaptureFailed) as raised:
        capture(mariadb, database, position)
    assert raised.value.code == "LOG_PURGED"


def test_a_log_that_was_begun_anew_does_not_have_the_position() -> None:
    with mariadb_server() as server:
        database = new_database(server, "CREATE TABLE t (id INT)")
        reader = capture(server, database)
        server.run(*(f"INSERT INTO {database}.t VALUES ({number})" for number in range(9)))
        position = read(reader, 9)[-1].position
        reader.close()
        server.run("RESET MASTER", f"INSERT INTO {database}.t VALUES (REPEAT(1, 9))")
        with pytest.raises(CaptureFailed) as failed:
            capture(server, database, position).changes(1)
        assert failed.value.code == "LOG_PURGED"


def test_a_position_that_is_none(mariadb: MariaDbServer, database: str) -> None:
    assert _only(check(mariadb.address(), [f"{database}.*"], "yesterday")).code == "LOG_UNREADABLE"


def test_a_server_that_falls_silent_is_told(
    mariadb: MariaDbServer, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind a forwarder that stops to forward, as a network does that drops packets."""
    monkeypatch.setattr("analytics.inflow.mysql_stream.SILENCE_SECONDS", 1.0)
    halted = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as door:
        threading.Thread(target=_forward, args=(door, mariadb.port, halted), daemon=True).start()
        address = Address("127.0.0.1", door.getsockname()[1], "root", PASSWORD)
        reader = open_capture(address, [f"{database}.*"], None, snapshot=False)
        halted.set()
        with pytest.raises(CaptureFailed) as failed:
            for _ in range(50):
                reader.changes(0.1)
        assert failed.value.code == "UNREACHABLE" and "sent nothing" in failed.value.sentence
        reader.close()


def _forward(door: socket.socket, port: int, halted: threading.Event) -> None:
    def copy(source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if not halted.is_set():
                    target.sendall(data)
        target.close()

    while True:
        try:
            client, _ = door.accept()
        except OSError:
            return
        server = socket.create_connection(("127.0.0.1", port))
        for pair in ((client, server), (server, client)):
            threading.Thread(target=copy, args=pair, daemon=True).start()


def _certificate(folder: Path) -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    paths = folder / "key.pem", folder / "certificate.pem"
    paths[0].write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    paths[1].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    for path in paths:
        path.chmod(0o644)
    for parent in (folder, *folder.parents):
        if parent != parent.parent and parent.stat().st_uid == 0 and str(parent).startswith("/tmp/"):
            parent.chmod(0o755)
    return paths


def test_tls(tmp_path: Path) -> None:
    key, certificate = _certificate(tmp_path)
    with mariadb_server(ssl_key=str(key), ssl_cert=str(certificate), bind_address="127.0.0.1") as server:
        database = new_database(server, "CREATE TABLE t (id INT, v MEDIUMTEXT)")
        server.run("CREATE USER safe@'%' IDENTIFIED BY 's' REQUIRE SSL", "GRANT ALL ON *.* TO safe@'%'")
        ca, tables = certificate.read_text(), [f"{database}.*"]
        verified = Address("localhost", server.port, "safe", "s", tls="verified", ca=ca)
        for address in (server.address("safe", "s", tls="required"), verified):
            assert check(address, tables) == []
            reader = open_capture(address, tables, None, snapshot=True)
            assert reader.changes(0.1) == []
            server.run(f"INSERT INTO {database}.t VALUES (1, REPEAT('x', 3000000))")
            (change,) = read(reader, 1)
            assert len(change.event["data"]["after"]["v"]) == 3_000_000
            reader.close()
            server.run(f"TRUNCATE TABLE {database}.t")
        # The name in the certificate is another; no authority is known; no encryption is asked for.
        assert _only(check(server.address("safe", "s", tls="verified", ca=ca), tables)).code == "TLS_FAILED"
        assert _only(check(Address("localhost", server.port, "safe", "s", tls="verified"), tables)).code == "TLS_FAILED"
        assert check(server.address("safe", "s"), tables) != []


def test_a_row_of_many_packets(mariadb: MariaDbServer, database: str) -> None:
    name = new_database(mariadb, "CREATE TABLE t (id INT, v LONGTEXT)")
    reader = capture(mariadb, name)
    mariadb.run("INSERT INTO t VALUES (1, REPEAT('x', 40000000)), (2, 'y')", database=name)
    found = read(reader, 2)
    reader.close()
    assert [len(after["v"]) for _, _, after in brief(found)] == [40_000_000, 1]
