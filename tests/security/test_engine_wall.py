"""Behind the guard: what runs inside the engine, whatever let it in, reaches the lake and a few ports.

The first part runs attacks in a program behind the wall, as a Python worker is; the second runs them in Spark itself,
in the session that no guard stands before.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from analytics import errors, jvm, lake, settings, wall
from analytics import session as spark_session
from analytics.lake import allowed_paths
from brokercore import addresses

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.skipif(
        bool(wall.shortcoming()) and not os.environ.get("CI"), reason=f"the wall is not whole: {wall.shortcoming()}"
    ),
    pytest.mark.spark,
    pytest.mark.process,
]

#: What attacks find when the wall lets them through: on the disk, in a process's environment, behind a port.
TREASURE = "the-master-key"


class Attack:
    """One expression of Python, run behind the wall: what came out, or the name of the error."""

    def __init__(self, folder: Path, **changes: object) -> None:
        self._rules: dict[str, Any] = {
            "programs": [sys.prefix, sys.base_prefix],
            "writes": [str(folder)],
            **changes,
        }

    def __call__(self, expression: str) -> str:
        script = f"import ctypes, os, pathlib, signal, socket, resource\ntry: print({expression})\n"
        script += "except Exception as error: print(type(error).__name__)\n"
        environment = {"PATH": "/usr/bin:/bin", "TREASURE_OF_THE_PARENT": TREASURE}
        command = wall.command(wall.Rules(**self._rules), [sys.executable, "-c", script])
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=False)
        assert not done.returncode, done.stderr
        return done.stdout.strip()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What the program behind the wall may write."""
    (tmp_path / "open").mkdir()
    return tmp_path / "open"


@pytest.fixture
def attack(folder: Path) -> Attack:
    return Attack(folder)


@pytest.fixture
def treasure(tmp_path: Path) -> Path:
    """A file beside the folder."""
    path = tmp_path / "master_key"
    path.write_text(TREASURE)
    return path


@pytest.fixture
def server() -> Iterator[int]:
    """A server on this machine that greets whoever connects; its port."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def greet() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                connection.sendall(TREASURE.encode())
                connection.close()

        threading.Thread(target=greet, daemon=True).start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)


def test_what_is_open_can_be_read_and_written_and_moved(attack: Attack, folder: Path) -> None:
    assert attack(f"pathlib.Path('{folder}/a').mkdir() or pathlib.Path('{folder}/a/f').write_text('x')") == "1"
    assert attack(f"pathlib.Path('{folder}/a/f').rename('{folder}/f').read_text()") == "x"
    assert attack(f"pathlib.Path('{folder}/f').unlink()") == "None"
    assert attack("socket.getaddrinfo('localhost', 80)[0][4][1]") == "80"
    assert attack("os.popen('echo started').read().strip()") == "started"


@pytest.mark.parametrize("version", [2, 3, 4, 5, 6, 7])
def test_no_version_of_landlock_opens_a_file_outside(folder: Path, treasure: Path, version: int) -> None:
    attack = Attack(folder, abi=version)
    assert attack(f"open('{treasure}').read()") == "PermissionError"
    assert attack("open('/etc/passwd').read()") == "PermissionError"
    assert attack(f"pathlib.Path('{treasure}').unlink()") == "PermissionError"
    assert attack(f"os.truncate('{treasure}', 0)") == "PermissionError"
    assert attack(f"pathlib.Path('{folder}/f').write_text('x')") == "1"
    assert treasure.read_text() == TREASURE


def test_links_lead_nowhere(attack: Attack, folder: Path, treasure: Path) -> None:
    (folder / "link").symlink_to(treasure)
    assert attack(f"open('{folder}/link').read()") == "PermissionError"
    assert attack(f"open('{folder}/../{treasure.name}').read()") == "PermissionError"
    assert attack(f"open('/proc/self/root{treasure}').read()") == "PermissionError"
    assert attack(f"os.symlink('{treasure}', '{folder}/mine')") == "PermissionError"
    assert attack(f"os.link('{treasure}', '{folder}/mine')") in {"OSError", "PermissionError"}
    assert attack(f"os.rename('{treasure}', '{folder}/mine')") in {"OSError", "PermissionError"}
    assert attack(f"os.mkfifo('{folder}/pipe')") == "PermissionError"
    assert sorted(path.name for path in folder.iterdir()) == ["link"]


@pytest.mark.parametrize("name", ["environ", "mem", "maps", "auxv", "io", "cwd/pyproject.toml", f"root{__file__}"])
def test_no_other_process_shows_what_is_its_own(attack: Attack, name: str) -> None:
    with Path(f"/proc/{os.getpid()}/maps").open() as file:
        assert file.read(1)
    assert attack(f"open('/proc/{os.getpid()}/{name}', 'rb').read(64)") in {"PermissionError", "FileNotFoundError"}


def test_no_other_process_can_be_signalled_or_limited(attack: Attack) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as victim:
        assert attack(f"os.kill({victim.pid}, signal.SIGKILL)") == "PermissionError"
        assert attack(f"resource.prlimit({victim.pid}, resource.RLIMIT_CPU, (1, 1))") == "PermissionError"
        assert victim.poll() is None
        victim.communicate(b"\n")


def test_owner_and_mode_of_a_file_stay_what_they_are(attack: Attack, treasure: Path) -> None:
    treasure.chmod(0o600)
    for change in (
        f"os.chmod('{treasure}', 0o644)",
        f"os.chown('{treasure}', os.getuid(), os.getgid())",
        f"os.setxattr('{treasure}', 'user.a', b'x')",
    ):
        attack(change)
    assert treasure.stat().st_mode & 0o777 == 0o600
    assert os.listxattr(treasure) == []


def test_only_the_ports_of_the_list_can_be_connected_to(folder: Path, server: int) -> None:
    ask = f"socket.create_connection(('127.0.0.1', {server})).recv(64).decode()"
    assert Attack(folder, ports=[server])(ask) == TREASURE
    assert Attack(folder, ports=[server + 1])(ask) == "PermissionError"
    assert Attack(folder, ports=[server + 1], names=True)(ask) == "PermissionError"


def test_nothing_listens_on_a_port_that_is_anothers(attack: Attack) -> None:
    assert attack("socket.create_server(('127.0.0.1', 0)).getsockname()[0]") == "127.0.0.1"
    assert attack("socket.create_server(('127.0.0.1', 8000))") == "PermissionError"


@pytest.mark.parametrize(
    "opened",
    [
        "socket.socket(socket.AF_UNIX)",
        "socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)",
        "socket.socket(socket.AF_INET, socket.SOCK_DGRAM)",
        "socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)",
        "socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)",  # MPTCP
        "socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP)",
        "socket.socket(socket.AF_INET, socket.SOCK_RAW, 6)",
        "socket.socket(socket.AF_PACKET, socket.SOCK_RAW)",
        "socket.socket(socket.AF_VSOCK)",
        "socket.socket(43)",  # SMC
    ],
)
def test_no_socket_goes_round_the_list_of_ports(folder: Path, opened: str) -> None:
    assert Attack(folder)(opened) in {"OSError", "PermissionError"}
    if "SOCK_DGRAM)" not in opened or "UNIX" in opened:
        assert Attack(folder, names=True)(opened) in {"OSError", "PermissionError"}


def test_the_first_packet_of_a_connection_takes_no_data_along(attack: Attack, server: int) -> None:
    assert attack(f"socket.socket().sendto(b'x', 0x20000000, ('127.0.0.1', {server}))") == "PermissionError"
    assert attack(f"socket.socket().sendmsg([b'x'], [], 0x20000000, ('127.0.0.1', {server}))") == "PermissionError"


def test_a_request_to_an_endpoint_that_the_wall_keeps_is_told_with_the_setting_that_opens_it(
    folder: Path, server: int
) -> None:
    packages = [Path(wall.__file__).parent, Path(addresses.__file__).parent]
    for package in packages:
        (folder / package.name).symlink_to(package)
    programs = [sys.prefix, sys.base_prefix, *map(str, packages)]
    rules = wall.Rules(programs=programs, writes=[str(folder)])
    script = (
        f"import sys\nsys.path.insert(0, {str(folder)!r})\nfrom ipaddress import ip_network\n"
        "from analytics.inflow.http_line import Line, Unanswered\n"
        "for url in sys.argv[1:]:\n"
        "    try: Line(url, networks=[ip_network('127.0.0.0/8')]).ask(b'', {}, 20)\n"
        "    except Unanswered as error: print(error.is_forbidden, error.user_message)\n"
    )
    urls = (f"http://127.0.0.1:{server}/", "http://nobody.example.com/")
    command = wall.command(rules, [sys.executable, "-c", script, *urls])
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert not done.returncode, done.stderr
    port, name = done.stdout.splitlines()
    assert port == (
        f"True The endpoint at 127.0.0.1 cannot be reached: the engine may not connect to its port {server}, which the"
        " platform's administrator opens by GANTRY_ENGINE_PORTS."
    )
    assert name == (
        "True The name nobody.example.com cannot be looked up: the engine asks name servers only where the platform's"
        " administrator has opened ports by GANTRY_ENGINE_PORTS."
    )


def test_a_unix_socket_such_as_redis_has_cannot_be_reached(attack: Attack, folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(folder / "redis.sock"))
        listening.listen()
        assert attack(f"socket.socket(socket.AF_UNIX).connect('{folder}/redis.sock')") == "OSError"


@pytest.mark.parametrize("number", [425, 101 if os.uname().machine == "x86_64" else 117, 438])
def test_calls_that_go_round_the_wall_are_refused(attack: Attack, number: int) -> None:
    call = f"(ctypes.CDLL(None, use_errno=True).syscall({number}, 0, 0, 0), ctypes.get_errno())"
    assert attack(call) == "(-1, 1)"


def test_nobody_gets_rights_back(attack: Attack) -> None:
    status = "[line.split()[1] for line in open('/proc/self/status') if line.split(':')[0] in %r]"
    assert attack(status % ["NoNewPrivs", "Seccomp"]) == "['1', '2']"
    assert attack(status % ["CapPrm", "CapEff", "CapBnd"]) == str(["0" * 16] * 3)
    assert attack("resource.getrlimit(resource.RLIMIT_CORE)") == "(0, 0)"
    assert attack("oct(os.umask(0))") == "0o77"


def test_a_wall_that_is_required_and_not_there_keeps_spark_from_starting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wall, "abi", lambda: 0)
    assert "Linux 5.19" in wall.shortcoming()
    assert not wall.is_wanted()
    monkeypatch.setenv("GANTRY_ENGINE_WALL", "require")
    with pytest.raises(wall.NoWall, match="requires the whole wall"):
        wall.is_wanted()
    monkeypatch.setattr(wall, "abi", lambda: 3)
    with pytest.raises(wall.NoWall, match="not TCP ports"):
        wall.is_wanted()
    monkeypatch.setenv("GANTRY_ENGINE_WALL", "of")
    with pytest.raises(wall.NoWall, match="allowed are auto, require, off"):
        wall.is_wanted()
    monkeypatch.setattr(spark_session, "_session", None)
    with pytest.raises(errors.EngineUnavailable, match="GANTRY_ENGINE_WALL is 'of'"):
        jvm.start(settings.load(), Path(), Path(), {})


# The second part: in Spark.


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    """The process's own session, as no statement of a tenant ever gets it: no guard, and all files on its list."""
    session = spark_session.get()
    allowed_paths._change(session, "/", 1)  # the second wall is open: what holds is the first
    yield session
    spark_session.stop()


@pytest.fixture(scope="module")
def home() -> Path:
    """The home of this run, with what the real one holds."""
    found = settings.load().home
    (found / "secrets").mkdir(mode=0o700, exist_ok=True)
    for name in ("secrets/master_key", "console.sqlite3", "demo.json"):
        (found / name).write_text(TREASURE)
    return found


def refused(act: Callable[[], object]) -> str:
    with pytest.raises(Exception) as caught:
        act()
    text = str(caught.value)
    assert TREASURE not in text
    return text


def test_spark_reads_nothing_but_the_lake(spark: SparkSession, home: Path) -> None:
    own = lake.lake_path("oss://wall-lake/x.txt")
    Path(own).parent.mkdir(parents=True, exist_ok=True)
    Path(own).write_text("in the lake")
    assert spark.read.text(own).first() == ("in the lake",)
    for path in ("secrets/master_key", "console.sqlite3", "demo.json"):
        assert "master_key" not in path or (home / path).read_text() == TREASURE
        refused(lambda path=path: spark.read.text(str(home / path)).collect())  # type: ignore[misc]
    for path in ("/etc/passwd", str(home / "secrets/*"), f"{home}/{{secrets,x}}/*"):
        refused(lambda path=path: spark.read.text(path).collect())  # type: ignore[misc]
    refused(lambda: spark.read.format("binaryFile").load("/etc/passwd").collect())
    # Spark passes files of /proc over, since they say that they are empty; the JVM itself does not.
    java: Any = spark._jvm
    files = java.java.nio.file.Files
    assert files.readString(java.java.io.File(own).toPath()) == "in the lake"
    refused(lambda: files.readString(java.java.io.File(f"/proc/{os.getpid()}/environ").toPath()))


def test_spark_writes_nothing_but_the_lake(spark: SparkSession, home: Path) -> None:
    place = lake.lake_path("oss://wall-lake/written")
    spark.range(3).write.mode("overwrite").csv(place)
    assert spark.read.csv(place).count() == 3
    refused(lambda: spark.range(3).write.mode("overwrite").csv(str(home / "secrets")))
    refused(lambda: spark.range(3).write.csv(f"/tmp/written-by-the-engine-{os.getpid()}"))
    assert (home / "secrets" / "master_key").read_text() == TREASURE
    assert not Path(f"/tmp/written-by-the-engine-{os.getpid()}").exists()


def test_the_jvm_has_no_secret_and_no_setting_of_ours(spark: SparkSession) -> None:
    jvm_environment = dict(spark._jvm.System.getenv())  # type: ignore[union-attr]
    assert os.environ["GANTRY_MASTER_KEY"] not in str(jvm_environment)
    known = {*jvm.INHERITED, "HOME", "TMPDIR", "LC_ALL", "JAVA_HOME", "PWD", "OLDPWD", "SHLVL", "_"}
    sparks_own = ("SPARK_", "PYSPARK_", "_PYSPARK", "PYTHON")
    assert {name for name in jvm_environment if not name.startswith(sparks_own)} <= known


def test_the_jvm_connects_to_no_other_port(spark: SparkSession, server: int) -> None:
    java: Any = spark._jvm
    assert "denied" in refused(lambda: java.java.net.Socket("127.0.0.1", server))
    channel = java.java.nio.channels.SocketChannel
    families = java.java.net.StandardProtocolFamily
    refused(lambda: channel.open(families.UNIX))


def probe(attacks: list[str]) -> list[str]:
    """What came out of each expression, in a Python worker."""
    found = []
    for expression in attacks:
        try:
            found.append(str(eval(expression)))
        except Exception as error:  # noqa: BLE001
            found.append(type(error).__name__)
    return found


def test_a_python_worker_of_a_source_stands_behind_the_same_wall(spark: SparkSession, home: Path, server: int) -> None:
    from pyspark.sql.datasource import DataSource, DataSourceReader

    attacks = [
        "open('/etc/passwd').read()",
        f"open('{home}/secrets/master_key').read()",
        f"open('{home}/console.sqlite3').read()",
        f"open('/proc/{os.getpid()}/environ').read()",
        f"__import__('socket').create_connection(('127.0.0.1', {server})).recv(64)",
        f"open('{home}/left-behind', 'w').write('x')",
        "__import__('os').environ.get('GANTRY_MASTER_KEY')",
        "__import__('analytics.sources.mq').__name__",
    ]
    script = probe

    class Reader(DataSourceReader):
        def read(self, partition: Any) -> Iterator[tuple[str]]:
            yield from ((answer,) for answer in script(attacks))

    class Source(DataSource):
        @classmethod
        def name(cls) -> str:
            return "probing"

        def schema(self) -> str:
            return "answer string"

        def reader(self, schema: Any) -> DataSourceReader:
            return Reader()

    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
    try:
        spark.dataSource.register(Source)
        answers = [row.answer for row in spark.read.format("probing").load().collect()]
    finally:
        cloudpickle.unregister_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
    assert answers == [*["PermissionError"] * 6, "None", "analytics"], json.dumps(answers)
