"""Connections by address: one each, opened when needed, opened anew when broken and after a fork."""

from __future__ import annotations

import ssl
import threading
from collections import defaultdict

from brokercore.client.connection import Connection, RequestHandler
from brokercore.client.errors import ClientClosed


class Pool:
    """Hands out the one connection to an address. Safe in threads and over forks."""

    def __init__(self, on_request: RequestHandler, connect_timeout_ms: int, tls: ssl.SSLContext | None = None) -> None:
        self._on_request = on_request
        self._tls = tls
        self.connect_timeout_ms = connect_timeout_ms
        self._closed = False
        self._connections: dict[str, Connection] = {}
        self._opening: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    def get(self, address: str) -> Connection:
        """The open connection to `host:port`. Raises BrokerUnreachable, or ClientClosed after close()."""
        connection = self._connections.get(address)
        if connection is not None and connection.is_open:
            return connection
        with self._opening[address]:
            connection = self._connections.get(address)
            if connection is None or not connection.is_open:
                if self._closed:
                    raise ClientClosed("The client is closed.")
                connection = Connection(address, self._on_request, self.connect_timeout_ms, self._tls)
                self._connections[address] = connection
                self._close_if_late(connection)
            return connection

    def _close_if_late(self, connection: Connection) -> None:
        """Another thread may have closed the pool while this one connected."""
        if self._closed:
            connection.close()
            raise ClientClosed("The client is closed.")

    def has(self, address: str) -> bool:
        """True when there is an open connection to `host:port` already."""
        connection = self._connections.get(address)
        return connection is not None and connection.is_open

    def close(self) -> None:
        """Close all connections. Can be called again."""
        self._closed = True
        while self._connections:
            self._connections.popitem()[1].close()

    def start_anew(self) -> None:
        """In a forked child: leave the parent's connections and locks behind."""
        for connection in self._connections.values():
            connection.forget()
        self._connections = {}
        self._opening = defaultdict(threading.Lock)
