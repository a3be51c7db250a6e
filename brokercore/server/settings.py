"""The broker's settings, read once from the environment; docs/operate/broker.md lists every name."""

from __future__ import annotations

import logging
import os
import re
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from brokercore.logs import FORMATTERS, FloodFilter
from brokercore.names import DEFAULT_CLUSTER
from brokercore.secret_files import SecretError, read_secret
from brokercore.server.errors import SettingsError

BOUNDS = {
    "store_max_bytes": (1 << 20, 1 << 50),
    "retention_hours": (1, 24 * 3650),
    "hot_bytes": (1 << 20, 1 << 40),
    "transaction_check_seconds": (1, 86_400),
}
"""Smallest and largest value of a setting, also where it is changed while the broker runs."""

_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
_SWITCH = {"on": True, "off": False}


class TlsMode(StrEnum):
    """Which connections are taken (RocketMQ's `tls.server.mode`)."""

    DISABLED = "disabled"
    PERMISSIVE = "permissive"
    ENFORCING = "enforcing"


@dataclass(frozen=True, slots=True)
class Settings:
    """What one broker process runs with. Times are in the unit their name says, sizes in bytes."""

    redis_url: str
    host: str = "127.0.0.1"
    namesrv_port: int = 9876
    namesrv_fd: int | None = None
    """A socket that listens already and is shared with the cluster's other brokers, instead of the port."""
    broker_port: int = 10911
    metrics_port: int | None = None
    """Where figures and health are told; None: nowhere."""
    grpc_port: int | None = None
    """Where clients of gRPC are served; None: nowhere."""

    advertise: str = ""
    """`host:port` that clients dial; "" means the host and port that are listened on."""
    broker_name: str = "broker-a"
    cluster_name: str = DEFAULT_CLUSTER
    region: str = "DefaultRegion"
    store_max_bytes: int = 1 << 30
    retention_hours: float = 72.0
    hot_bytes: int = 64 << 20
    check_message_type: bool = True
    vip_channel: bool = True
    """Whether the port two below the broker's is served too, which clients with a "VIP channel" dial."""

    transaction_check_seconds: int = 30
    system_access_key_id: str = ""
    system_access_key_secret: str = ""
    master_key: str = ""
    tls_mode: TlsMode = TlsMode.DISABLED
    tls_folder: Path = Path()
    """Holds `broker.crt` and `broker.key`."""


def read_settings(environ: Mapping[str, str] = os.environ) -> Settings:
    """Settings from the environment. Raises SettingsError with one sentence for the first value that makes no sense."""
    home = Path(environ.get("GANTRY_HOME") or "var").expanduser().absolute()
    shared = whole(environ, "GANTRY_NAMESRV_FD", 0, 3, 1 << 20) if environ.get("GANTRY_NAMESRV_FD") else None
    metrics = whole(environ, "GANTRY_METRICS_PORT", 0, 0, 65535) if environ.get("GANTRY_METRICS_PORT") else None
    grpc = whole(environ, "GANTRY_GRPC_PORT", 0, 0, 65535) if environ.get("GANTRY_GRPC_PORT") else None
    return Settings(
        redis_url=_text_or_file(environ, "REDIS_URL") or f"unix://{home}/run/redis.sock",
        host=environ.get("GANTRY_HOST") or "127.0.0.1",
        namesrv_port=whole(environ, "GANTRY_NAMESRV_PORT", 9876, 0, 65535),
        namesrv_fd=shared,
        broker_port=whole(environ, "GANTRY_BROKER_PORT", 10911, 0, 65535),
        metrics_port=metrics,
        grpc_port=grpc,
        advertise=_address(environ.get("GANTRY_BROKER_ADVERTISE") or ""),
        broker_name=environ.get("GANTRY_BROKER_NAME") or "broker-a",
        cluster_name=environ.get("GANTRY_CLUSTER_NAME") or DEFAULT_CLUSTER,
        store_max_bytes=whole(environ, "GANTRY_STORE_MAX_BYTES", 1 << 30, *BOUNDS["store_max_bytes"]),
        retention_hours=_hours(environ, "GANTRY_STORE_RETENTION_HOURS", 72.0, 0.1, BOUNDS["retention_hours"][1]),
        hot_bytes=whole(environ, "GANTRY_STORE_HOT_BYTES", 64 << 20, *BOUNDS["hot_bytes"]),
        check_message_type=_switch(environ, "GANTRY_CHECK_MESSAGE_TYPE"),
        vip_channel=_switch(environ, "GANTRY_VIP_CHANNEL"),
        transaction_check_seconds=whole(
            environ, "GANTRY_TRANSACTION_CHECK_SECONDS", 30, *BOUNDS["transaction_check_seconds"]
        ),
        system_access_key_id=_secret(environ, "GANTRY_BROKER_ACCESS_KEY_ID", home / "secrets/broker_access_key_id"),
        system_access_key_secret=_secret(
            environ, "GANTRY_BROKER_ACCESS_KEY_SECRET", home / "secrets/broker_access_key_secret"
        ),
        master_key=_secret(environ, "GANTRY_MASTER_KEY", home / "secrets/master_key"),
        tls_mode=_mode(environ),
        tls_folder=home / "tls",
    )


def configure_logs(environ: Mapping[str, str]) -> None:
    """Write log lines to stderr as GANTRY_LOG_FORMAT and GANTRY_LOG_LEVEL say. Raises SettingsError."""
    wanted, level = environ.get("GANTRY_LOG_FORMAT") or "text", environ.get("GANTRY_LOG_LEVEL") or "INFO"
    if wanted not in FORMATTERS:
        raise SettingsError(f"GANTRY_LOG_FORMAT is {wanted!r}; allowed are {' and '.join(FORMATTERS)}.")
    if level not in _LEVELS:
        raise SettingsError(f"GANTRY_LOG_LEVEL is {level!r}; allowed are {', '.join(_LEVELS)}.")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(FORMATTERS[wanted]())
    handler.addFilter(FloodFilter())
    logging.basicConfig(level=level, handlers=[handler])


def ipv4_of(host: str) -> str:
    """The IPv4 address a stored message names as its broker: message ids hold nothing else.

    Raises SettingsError when the host has none.
    """
    try:
        return str(socket.getaddrinfo(host, None, socket.AF_INET, socket.SOCK_STREAM)[0][4][0])
    except OSError as error:
        raise SettingsError(f"GANTRY_BROKER_ADVERTISE: {host} has no IPv4 address ({error.strerror}).") from error


def whole(environ: Mapping[str, str], name: str, default: int, low: int, high: int) -> int:
    """A whole number of the environment. Raises SettingsError."""
    value = environ.get(name) or str(default)
    if not value.isascii() or not value.isdecimal() or not low <= int(value) <= high:
        raise SettingsError(f"{name} is {value!r}; allowed are whole numbers from {low} to {high}.")
    return int(value)


def _hours(environ: Mapping[str, str], name: str, default: float, low: float, high: float) -> float:
    value = environ.get(name) or str(default)
    if not re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,6})?", value) or not low <= float(value) <= high:
        raise SettingsError(f"{name} is {value!r}; allowed are hours from {low:g} to {high:g}, such as 72 or 0.5.")
    return float(value)


def _switch(environ: Mapping[str, str], name: str) -> bool:
    value = environ.get(name) or "on"
    if value not in _SWITCH:
        raise SettingsError(f"{name} is {value!r}; allowed are on and off.")
    return _SWITCH[value]


def _mode(environ: Mapping[str, str]) -> TlsMode:
    value = environ.get("GANTRY_BROKER_TLS") or TlsMode.PERMISSIVE
    try:
        return TlsMode(value)
    except ValueError:
        raise SettingsError(f"GANTRY_BROKER_TLS is {value!r}; allowed are {', '.join(TlsMode)}.") from None


def _address(value: str) -> str:
    host, _, port = value.rpartition(":")
    if value and (not host or not port.isdecimal() or not 1 <= int(port) <= 65535):
        raise SettingsError(f"GANTRY_BROKER_ADVERTISE is {value!r}; it is host:port, such as 10.0.0.5:10911.")
    return value


def _text_or_file(environ: Mapping[str, str], name: str, usual: Path | None = None) -> str:
    try:
        return read_secret(environ, name, usual)
    except SecretError as error:
        raise SettingsError(str(error)) from error


def _secret(environ: Mapping[str, str], name: str, usual: Path) -> str:
    value = _text_or_file(environ, name, usual)
    if not value:
        path = environ.get(f"{name}_FILE") or usual
        raise SettingsError(f"{name} is not set, and {path} is empty or cannot be read.")
    return value
