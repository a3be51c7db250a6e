"""Who a client says it is."""

from __future__ import annotations

import os
import socket
import time

from brokercore.client.connection import split_address
from brokercore.client.errors import BrokerUnreachable


def local_address(peer: str) -> str:
    """The address this machine would use towards `host:port`; 127.0.0.1 when it cannot tell."""
    try:
        host, port = split_address(peer)
        family = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0][0]
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((host, port))  # no packet is sent
            return str(probe.getsockname()[0])
    except (OSError, BrokerUnreachable):
        return "127.0.0.1"


def new_client_id(peer: str) -> str:
    """`ip@pid#nanoseconds`, as Java clients name themselves: unique for each client object."""
    return f"{local_address(peer)}@{os.getpid()}#{time.monotonic_ns()}"
