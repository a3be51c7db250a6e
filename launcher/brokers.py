"""Several embedded brokers: their names, their ports, and the name-server socket that they share."""

from __future__ import annotations

import socket
from collections.abc import Mapping

from launcher.config import COUNTED_PORTS, Config
from launcher.errors import LauncherError

_BACKLOG = 1024


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


def environment(config: Config, number: int, given: Mapping[str, str]) -> dict[str, str]:
    """Return what broker `number` (from 0) finds in its environment beside what all processes find there."""
    if config.brokers == 1:
        return {}
    own = {"GANTRY_BROKER_NAME": config.broker_names[number]}
    own |= {name: str(config.ports[name] + number) for name in COUNTED_PORTS if name in config.ports}
    host, _, port = given.get("GANTRY_BROKER_ADVERTISE", "").rpartition(":")
    if host and port.isdecimal():
        own["GANTRY_BROKER_ADVERTISE"] = f"{host}:{int(port) + number}"
    return own
