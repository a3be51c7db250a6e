"""Starts Spark's JVM: with an environment that holds no secret, behind the wall, and with the ports that it needs.

PySpark's own way hands the whole environment on and lets every port be chosen by chance. Here the JVM is started by us
and PySpark is told how to reach it, which it calls a gateway that already exists.
"""

import compileall
import contextlib
import ctypes
import glob
import hashlib
import logging
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analytics import reach, stream_door, wall
from analytics import settings as settings_module
from analytics.errors import EngineUnavailable

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway

log = logging.getLogger(__name__)

#: Tenants, each of which has a place besides the cores. A worker runs eight statements at a time.
PLACES = 32
_LOCAL = re.compile(r"local(?:\[(\d+|\*)\])?")
#: What Spark gets beside its own: our scheduler, and what lets joins end.
_SOURCES = tuple(Path(__file__).with_name(name) for name in ("SharedCores.java", "InterruptibleJoins.java"))
_SERVICE = "META-INF/services/org.apache.spark.scheduler.ExternalClusterManager"

#: What the JVM and its Python workers inherit. No setting and no secret of ours; those of Spark and Java that an
#: operator may need.
INHERITED = (
    *("PATH", "TZ", "LD_LIBRARY_PATH", "MALLOC_ARENA_MAX", "SSL_CERT_FILE", "SSL_CERT_DIR"),
    *("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS"),
    *("SPARK_CONF_DIR", "SPARK_DIST_CLASSPATH", "SPARK_LOCAL_HOSTNAME", "SPARK_LOCAL_IP", "SPARK_PUBLIC_DNS"),
    *("HADOOP_CONF_DIR", "YARN_CONF_DIR", "KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"),
    "LAUNCHER_RUN",  # by which the launcher finds what is left of a copy
)
#: The storage's SDK finds its key in these, when none is set for the lake.
_OF_THE_SDK = "AWS_"
#: What of PySpark its Python processes import and this one does not.
_OF_WORKERS = (
    *("daemon.py", "worker*.py", "logger/*.py", "messages/**/*.py"),
    *("sql/conversion.py", "sql/datasource*.py", "sql/streaming/*.py", "sql/worker/*.py"),
)
#: Ports kept for the JVM, which asks itself for large results, and for the Python daemons that it starts: one for each
#: kind of work and each set of options.
_DAEMONS = 32
#: Ports of Spark itself: the driver's, and that of its blocks.
_OF_SPARK = 2
#: A JVM that has not told its port after this long is stuck, s.
_START_S = 120
_LOOK_S = 0.02
_LIBRARY = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1


def master_of(spark_url: str) -> str:
    """The master for a SPARK_URL: ours for `local`, `local[2]` and `local[*]`, any other as it is."""
    found = _LOCAL.fullmatch(spark_url)
    return f"local[shared:{found[1] or '1'}:{PLACES}]" if found else spark_url


def cores_folder(home: Path) -> Path:
    """Where the classes lie, made if need be: on the class path of a JVM only a folder that is there counts."""
    texts = b"".join(source.read_bytes() for source in _SOURCES)
    found = home / "java" / f"cores-{hashlib.sha256(texts).hexdigest()[:16]}"
    found.mkdir(parents=True, exist_ok=True)
    return found


def provide(jvm: Any, home: Path) -> None:
    """Let a JVM, without Spark in it yet, compile the classes unless it has them. Raises what Py4J and files raise.

    They are those of SharedCores.java, by which no tenant can take another's cores, and of InterruptibleJoins.java, by
    which a task ends soon after its statement. Janino, which Spark brings for its generated code, compiles them once
    for a home and a text.
    """
    classes = cores_folder(home)
    if (classes / _SERVICE).exists():
        return
    for source in _SOURCES:
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.cook(source.read_text())
        for name, code in dict(compiler.getBytecodes()).items():
            _write(classes / f"{name}.class", code)
    _write(classes / _SERVICE, b"SharedCores\n")  # last: it tells that all are there


def _write(file: Path, content: bytes) -> None:
    """Whole or not at all: another process of the same home may do the same."""
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f"{file.name}.{os.getpid()}")
    draft.write_bytes(content)
    draft.replace(file)


class HeldPorts:
    """TCP ports of this machine that are nobody else's for as long as this is open.

    They are bound and not listened on: the system gives them to nobody, while a program that asks for one of them, and
    says that it may be in use, gets it. So the wall can name ports before the programs behind it choose them.
    """

    def __init__(self, count: int) -> None:
        self._sockets: list[socket.socket] = []
        for _ in range(count):
            held = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            held.bind(("127.0.0.1", 0))
            self._sockets.append(held)
        self.numbers: list[int] = [held.getsockname()[1] for held in self._sockets]

    def close(self) -> None:
        """Give them back."""
        for held in self._sockets:
            held.close()


def start(
    settings: settings_module.Settings, scratch: Path, java_home: Path, configuration: Mapping[str, str]
) -> "JavaGateway":
    """Start the JVM with a configuration of Spark, behind the wall where there is one.

    Its gateway's `proc` is the process, and `reach` is where it may connect to, None for everywhere; `held_ports`, and
    the `stream_door` where there is one, are to be closed after its end. Raises EngineUnavailable.
    """
    try:
        walled = wall.is_wanted() and settings.spark_url.startswith(("local", "spark:"))
    except wall.NoWall as error:
        raise EngineUnavailable(f"Spark cannot start: {error}") from error
    _compile_for_workers()
    alone = settings.is_local
    held = HeldPorts(_OF_SPARK + _DAEMONS if alone else 0)
    door = stream_door.StreamDoor() if walled and alone else None
    try:
        environment = _environment(settings, scratch, java_home, held.numbers[_OF_SPARK:])
        configuration = dict(configuration) | (_fixed_ports(*held.numbers[:_OF_SPARK]) if alone else {})
        words = [word for name, value in configuration.items() for word in ("--conf", f"{name}={value}")]
        submit = [str(_spark_home() / "bin" / "spark-submit"), *words]
        submit += shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
        rules = _rules(settings, scratch, java_home, held.numbers if alone else None) if walled else None
        if door is not None and rules is not None:
            environment[stream_door.VARIABLE] = str(door.port)
            rules = replace(rules, ports=[*(rules.ports or ()), door.port])
        submit = wall.command(rules, submit) if rules else submit
        told = Path(environment["_PYSPARK_DRIVER_CONN_INFO_PATH"])
        gateway: Any = _connected(_started(submit, environment, told), told)
    except BaseException:
        held.close()
        if door is not None:
            door.close()
        raise
    gateway.held_ports, gateway.stream_door = held, door
    gateway.reach = None if rules is None else _reach_of(rules)
    if door is not None:
        door.open(gateway.proc.pid)
    if walled:
        # Hadoop would look the user up in /etc/passwd, which is behind the wall.
        users = gateway.jvm.org.apache.hadoop.security.UserGroupInformation
        users.setLoginUser(users.createRemoteUser("gantry"))
    return gateway


def _fixed_ports(driver: int, block_manager: int) -> dict[str, str]:
    return {
        "spark.driver.port": str(driver),  # from where its own tasks fetch the jars of `spark.jars`
        "spark.blockManager.port": str(block_manager),
        "spark.port.maxRetries": "0",
    }


def _environment(
    settings: settings_module.Settings, scratch: Path, java_home: Path, ports: Sequence[int]
) -> dict[str, str]:
    inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
    if settings.is_local:
        inherited = {"SPARK_LOCAL_IP": "127.0.0.1"} | inherited  # or it goes through the machine's addresses
    storage = settings.storage
    if storage is not None and not storage.access_key_id:
        inherited |= {name: value for name, value in os.environ.items() if name.startswith(_OF_THE_SDK)}
    return inherited | {
        "HOME": str(scratch),
        "TMPDIR": str(scratch / "tmp"),
        "LC_ALL": "C.UTF-8",
        "JAVA_HOME": str(java_home),
        "SPARK_HOME": str(_spark_home()),
        "SPARK_USER": "gantry",  # what a statement is told of the user that runs the engine
        "SPARK_CONNECT_MODE": "0",
        "SPARK_LAUNCHER_OPTS": "-XX:-UsePerfData",
        "PYSPARK_PYTHON": sys.executable,
        # Python workers read messages with our own code (analytics/sources).
        "PYTHONPATH": str(_python_path(scratch)),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUTF8": "1",
        "PYTHON_DAEMON_PORTS": ",".join(map(str, ports)),
        "_PYSPARK_DRIVER_CONN_INFO_PATH": str(scratch / "tmp" / "gateway"),
    }


def _spark_home() -> Path:
    """The installed PySpark's own Spark."""
    import pyspark

    return Path(pyspark.__file__).parent


def _python_path(scratch: Path) -> Path:
    """A folder that holds our packages and nothing else: the project's own may hold the home with its secrets."""
    folder = scratch / "python"
    if not folder.exists():
        folder.mkdir()
        for package in _packages():
            (folder / package.name).symlink_to(package)
        (folder / "sitecustomize.py").symlink_to(Path(__file__).with_name("daemon_ports.py"))
    return folder


def _compile_for_workers() -> None:
    """Let Python keep compiled what Python processes of the JVM will import: they themselves may not write it.

    Each would take a second of a processor longer to start. What is compiled is left as it is, and what cannot be
    written is compiled by each of them.
    """
    if not sys.dont_write_bytecode:
        for pattern in _OF_WORKERS:
            for file in _spark_home().glob(pattern):
                with contextlib.suppress(OSError):
                    compileall.compile_file(file, quiet=2)


def _packages() -> list[Path]:
    root = Path(__file__).resolve().parents[1]
    return [root / "analytics", root / "brokercore"]


def _rules(
    settings: settings_module.Settings, scratch: Path, java_home: Path, held: Sequence[int] | None
) -> wall.Rules:
    java = java_home.resolve()
    # Debian's Java has its configuration in /etc, and links to it.
    configuration = {link.resolve().parent for link in (java / "conf").rglob("*") if link.is_symlink()}
    spark = (os.environ[name] for name in ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "KUBECONFIG") if os.environ.get(name))
    jars = (path for pattern in settings.spark_jars for path in glob.glob(pattern))
    if settings.storage is None:
        settings.lake.mkdir(parents=True, exist_ok=True)
    lake = [] if settings.storage is not None else [settings.lake]
    # The executors of a cluster listen on any port.
    opened = reach.Reach(None, names=True) if held is None else reach.of_a_start(settings)
    programs = [java_home, java, *_runtimes(), sys.prefix, sys.base_prefix, _spark_home()]
    return wall.Rules(
        programs=[str(path) for path in programs],
        reads=[str(path) for path in (*_packages(), *configuration, *spark, *jars, cores_folder(settings.home))],
        writes=[str(path) for path in (scratch, *lake)],
        ports=None if opened.ports is None else [*(held or ()), *sorted(opened.ports)],
        listens=held or (),
        names=opened.names,
    )


def _reach_of(rules: wall.Rules) -> reach.Reach:
    return reach.Reach(None if rules.ports is None else frozenset(rules.ports), rules.names)


def _runtimes() -> Iterable[Path]:
    """The runtime that the wrapper under the home runs."""
    from analytics import java

    runtime = java.bundled_runtime()
    return [] if runtime is None else [runtime]


def _started(command: Sequence[str], environment: Mapping[str, str], told: Path) -> "subprocess.Popen[bytes]":
    """The process, once it has told how it is reached. It ends when its standard input does."""
    told.parent.mkdir(exist_ok=True)
    told.unlink(missing_ok=True)
    process = _Bound(command, environment).process()
    deadline = time.monotonic() + _START_S
    while not told.exists():  # it appears whole, by a rename
        if process.poll() is not None:
            raise EngineUnavailable(f"Spark cannot start: its JVM ended with exit status {process.returncode}.")
        if time.monotonic() > deadline:
            process.kill()
            process.wait()
            raise EngineUnavailable(f"Spark cannot start: its JVM was not ready after {_START_S} s.")
        time.sleep(_LOOK_S)
    return process


class _Bound(threading.Thread):
    """Starts a process that the kernel kills with this one, and waits for its end.

    Linux tells a process of the death of the thread that started it (PR_SET_PDEATHSIG, prctl(2)), so the thread must
    live as long. That a JVM ends with its standard input is not enough: one that failed early, on a full disk for
    instance, does not read it.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        super().__init__(name="jvm", daemon=True)
        self._command, self._environment = command, environment
        self._outcome: Future[subprocess.Popen[bytes]] = Future()

    def process(self) -> "subprocess.Popen[bytes]":
        """Start it. Raises OSError."""
        self.start()
        return self._outcome.result()

    def run(self) -> None:
        """Start it and stay until it has ended; whoever has it collects it."""
        try:
            process = subprocess.Popen(  # noqa: S603
                self._command,
                stdin=subprocess.PIPE,
                env=self._environment,
                preexec_fn=_end_with_thread,  # noqa: PLW1509
            )
        except OSError as error:
            self._outcome.set_exception(error)
            return
        self._outcome.set_result(process)
        with contextlib.suppress(ChildProcessError):  # it was collected meanwhile
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)


def _end_with_thread() -> None:
    _LIBRARY.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _connected(process: "subprocess.Popen[bytes]", told: Path) -> "JavaGateway":
    from pyspark.java_gateway import launch_gateway
    from pyspark.serializers import UTF8Deserializer, read_int

    with told.open("rb") as info:
        port, secret = read_int(info), UTF8Deserializer().loads(info)  # type: ignore[no-untyped-call]
    os.environ |= {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}
    try:
        # It takes the one that it finds in the environment.
        gateway: JavaGateway = launch_gateway()  # type: ignore[no-untyped-call]
    finally:
        del os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"]
    told.unlink()
    gateway.proc = process
    return gateway
