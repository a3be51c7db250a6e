"""The environment as one typed, checked value, and the error that ends a start.

docs/operate/settings.md lists every name.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from string import ascii_lowercase
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parent.parent

#: Bytes that a unix socket's path may have on every system we run on (Linux allows 107), with room to spare.
SOCKET_PATH_MAX = 100

#: Every port of a copy: the environment name and the default.
PORTS = {
    "GANTRY_WEB_PORT": 8000,
    "GANTRY_NAMESRV_PORT": 9876,
    "GANTRY_BROKER_PORT": 10911,
    "GANTRY_GRPC_PORT": 8081,
    "GANTRY_SQL_PORT": 10000,
    "GANTRY_SMQ_PORT": 8071,
    "GANTRY_DEMO_PORT": 5433,
    "GANTRY_CONSOLE_METRICS_PORT": 8072,
}

#: Ports of which each embedded broker has one of its own, counted from the setting.
COUNTED_PORTS = ("GANTRY_BROKER_PORT", "GANTRY_GRPC_PORT", "GANTRY_METRICS_PORT")

#: Ports that are not opened where 0 is set.
SPARED_PORTS = ("GANTRY_CONSOLE_METRICS_PORT",)

#: Ports that are opened only when they are set to something else than 0.
OPTIONAL_PORTS = ("GANTRY_METRICS_PORT", "GANTRY_SMQ_METRICS_PORT")

BROKERS_MAX = 8

#: Each takes a gigabyte of memory or more.
SPARK_WORKERS_MAX = 16

FLUSH_MODES = ("everysec", "always")


class LauncherError(Exception):
    """A start that cannot go on. The text says what is wrong, where, and what to do about it."""


@dataclass(frozen=True)
class Config:
    """What the launcher itself acts on; the children read the rest of the environment themselves."""

    home: Path
    host: str
    ports: dict[str, int]
    namesrv: str | None
    """`host:port` of a RocketMQ cluster; None starts the embedded broker."""
    redis_url: str | None
    """Address of a Redis of one's own; None starts the embedded one."""
    append_fsync: str
    brokers: int
    """Processes of the embedded broker, one cluster."""
    broker_names: tuple[str, ...]
    web_name: str
    """A host name that the console answers to."""
    spark_workers: int
    """Processes that run SQL, each with a JVM of its own."""
    pipeline_workers: int = 1
    """Processes that run SQL jobs, each with a JVM of its own once there is a job."""
    web_connections: int = 8192
    """Connections to the web server at a time."""
    web_header_seconds: int = 15
    """Time in which the head of a request has come."""
    demo: bool = True
    """Whether the demo account has a database of its own, on GANTRY_DEMO_PORT of 127.0.0.1."""

    @property
    def is_private(self) -> bool:
        """Whether nobody but this machine reaches what it opens."""
        try:
            return self.host == "localhost" or ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def connect_host(self) -> str:
        """The address at which this machine reaches what is bound to `host`."""
        return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)  # noqa: S104

    @property
    def redis_socket(self) -> Path:
        """Where the embedded Redis listens: under the home, or, when that is too long a path, in a short folder."""
        usual = self.home / "run" / "redis.sock"
        if len(os.fsencode(usual)) <= SOCKET_PATH_MAX:
            return usual
        digest = hashlib.sha256(os.fsencode(self.home)).hexdigest()[:12]
        return Path(tempfile.gettempdir()) / f"gantry-{os.getuid()}-{digest}" / "redis.sock"

    @property
    def listening(self) -> dict[str, int]:
        """The ports that this start will open on `host`, by environment name."""
        embedded = self.namesrv is None
        ports = {
            name: port
            for name, port in self.ports.items()
            if (embedded or name not in {"GANTRY_NAMESRV_PORT", *COUNTED_PORTS}) and name != "GANTRY_DEMO_PORT"
        }
        return ports | (_further_ports(ports, self.broker_names) if embedded else {})


def read(environ: Mapping[str, str]) -> Config:
    """Return the configuration that `environ` asks for; raise LauncherError on the first value that makes no sense."""
    spared = {name for name in SPARED_PORTS if environ.get(name) == "0"}
    ports = {name: _port(environ, name, default) for name, default in PORTS.items() if name not in spared}
    ports |= {name: _port(environ, name, 0) for name in OPTIONAL_PORTS if environ.get(name) not in (None, "", "0")}
    brokers = _number(environ, "GANTRY_BROKERS", 1, most=BROKERS_MAX)
    names = _broker_names(environ.get("GANTRY_BROKER_NAME") or "broker-a", brokers)
    seen: dict[int, str] = {}
    for name, port in (ports | _further_ports(ports, names)).items():
        if port > 65535:
            raise LauncherError(f"{name} is {port}: a port is a whole number from 1 to 65535.")
        if port in seen:
            raise LauncherError(f"{seen[port]} and {name} are both {port}: give each a port of its own.")
        seen[port] = name
    return Config(
        home=Path(environ.get("GANTRY_HOME") or ROOT / "var").expanduser().absolute(),
        host=environ.get("GANTRY_HOST") or "127.0.0.1",
        ports=ports,
        namesrv=_namesrv(environ.get("GANTRY_NAMESRV", "")),
        redis_url=_redis_url(_text_or_file(environ, "REDIS_URL")),
        append_fsync=_choice(environ, "GANTRY_APPENDFSYNC", FLUSH_MODES),
        brokers=brokers,
        broker_names=names,
        web_name=_web_name(environ.get("GANTRY_ALLOWED_HOSTS", "")),
        spark_workers=_number(environ, "GANTRY_SPARK_WORKERS", 1, most=SPARK_WORKERS_MAX),
        pipeline_workers=_number(environ, "GANTRY_PIPELINE_WORKERS", 1, least=0, most=SPARK_WORKERS_MAX),
        web_connections=_number(environ, "GANTRY_WEB_CONNECTIONS", 8192, most=1_000_000),
        web_header_seconds=_number(environ, "GANTRY_WEB_HEADER_SECONDS", 15, most=60),
        demo=_choice(environ, "GANTRY_DEMO", ("true", "false")) == "true",
    )


def _broker_names(first: str, count: int) -> tuple[str, ...]:
    """`broker-a`, `broker-b`, …; a first name of one's own is kept, since its messages lie under it."""
    stem = first.removesuffix("-a")
    return (first, *(f"{stem}-{letter}" for letter in ascii_lowercase[1:count]))


def _further_ports(ports: Mapping[str, int], names: tuple[str, ...]) -> dict[str, int]:
    """The ports of the second broker and those after it, under what says how they came about."""
    return {
        f"{setting} ({names[number]}: {ports[setting]} + {number})": ports[setting] + number
        for setting in COUNTED_PORTS
        if setting in ports
        for number in range(1, len(names))
    }


def _port(environ: Mapping[str, str], name: str, default: int) -> int:
    value = environ.get(name) or str(default)
    if not value.isascii() or not value.isdecimal() or not 1 <= int(value) <= 65535:
        raise LauncherError(f"{name} is {value!r}: a port is a whole number from 1 to 65535.")
    return int(value)


def _number(environ: Mapping[str, str], name: str, default: int, *, most: int, least: int = 1) -> int:
    value = environ.get(name) or str(default)
    if not value.isascii() or not value.isdecimal() or not least <= int(value) <= most:
        raise LauncherError(f"{name} is {value!r}: it is a whole number from {least} to {most}.")
    return int(value)


def _choice(environ: Mapping[str, str], name: str, allowed: tuple[str, ...]) -> str:
    value = environ.get(name) or allowed[0]
    if value not in allowed:
        raise LauncherError(f"{name} is {value!r}: allowed are {' and '.join(allowed)}.")
    return value


def _web_name(allowed: str) -> str:
    """The first name of GANTRY_ALLOWED_HOSTS: Django's patterns are a leading dot, for any subdomain, and `*`."""
    first = allowed.split(",", maxsplit=1)[0].strip().lstrip(".")
    return first if first not in ("", "*") else "127.0.0.1"


def _namesrv(value: str) -> str | None:
    for address in filter(None, value.split(";")):
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal() or not 1 <= int(port) <= 65535:
            raise LauncherError(
                f"GANTRY_NAMESRV is {value!r}: it is host:port of a name server, such as 10.0.0.5:9876."
            )
    return value or None


def _text_or_file(environ: Mapping[str, str], name: str) -> str:
    """The rule of brokercore/secret_files.py, said once more: the launcher imports nothing of ours."""
    file = environ.get(f"{name}_FILE")
    if environ.get(name) or not file:
        return environ.get(name, "")
    try:
        return Path(file).read_text().strip()
    except OSError as error:
        raise LauncherError(f"{name}_FILE names {file}, which cannot be read: {error.strerror}.") from error


def _redis_url(value: str) -> str | None:
    if not value:
        return None
    parts = urlsplit(value)
    if parts.scheme not in ("unix", "redis", "rediss"):
        raise LauncherError(f"REDIS_URL is {value!r}: it is redis://host:port, rediss://host:port or unix:///path.")
    if parts.scheme != "unix" and (not parts.hostname or parts.path not in ("", "/")):
        raise LauncherError(f"REDIS_URL is {value!r}: it names host and port and no database (0, 1 and 2 are used).")
    return value
