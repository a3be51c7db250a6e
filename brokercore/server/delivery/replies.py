"""Request-reply: which requests wait for a reply, and on which connection.

See docs/operate/broker.md, "Request and reply".
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass

from brokercore.names import REPLY_SUFFIX
from brokercore.protocol import properties as names
from brokercore.server.connections.connection import Connection
from brokercore.server.rights.account import Account

MOST = 10_000
"""Requests of one account that wait at a time; the oldest of that account are forgotten first."""

LONGEST_SECONDS = 600.0
_USUAL_MS = 3000

_Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Awaited:
    """A request whose sender waits: the topic that it was sent to, and the connection that it came on."""

    topic: str
    connection: Connection
    until: float
    account: Account | None
    """Whose share of the table it takes; None is the system."""


class AwaitedReplies:
    """Requests by correlation id and client id. A reply that nobody waits for goes nowhere."""

    def __init__(self) -> None:
        self._awaited: dict[_Key, Awaited] = {}
        self._of_account: dict[object, OrderedDict[_Key, Awaited]] = {}

    def expect(self, properties: Mapping[str, str], topic: str, connection: Connection) -> None:
        """Remember a request until its time to live is over; what names no client waits for nothing.

        Another connection's request of the same ids stays what it is: nobody takes somebody else's reply away.
        """
        client_id = properties.get(names.REPLY_TO_CLIENT)
        if not client_id:
            return
        key = properties[names.CORRELATION_ID], client_id
        now = time.monotonic()
        known = self._awaited.get(key)
        if known is not None and known.connection is not connection and _waits(known, now):
            return
        if known is not None:
            self._forget(key)
        ttl = properties.get(names.TIME_TO_LIVE, "")
        seconds = (int(ttl) if ttl.isascii() and ttl.isdecimal() and len(ttl) < 10 else _USUAL_MS) / 1000
        mine = self._of_account.setdefault(connection.account, OrderedDict())
        while mine and (len(mine) >= MOST or not _waits(next(iter(mine.values())), now)):
            del self._awaited[mine.popitem(last=False)[0]]
        awaited = Awaited(topic, connection, now + min(seconds, LONGEST_SECONDS), connection.account)
        self._awaited[key] = mine[key] = awaited

    def find(self, properties: Mapping[str, str]) -> Awaited | None:
        """The request that a reply with these properties is for, if its sender still waits."""
        found = self._awaited.get(_key(properties))
        return found if found and _waits(found, time.monotonic()) else None

    def done(self, properties: Mapping[str, str]) -> None:
        """The requester has its reply."""
        key = _key(properties)
        if key in self._awaited:
            self._forget(key)

    def _forget(self, key: _Key) -> None:
        awaited = self._awaited.pop(key)
        mine = self._of_account[awaited.account]
        del mine[key]
        if not mine:
            del self._of_account[awaited.account]


def _waits(awaited: Awaited, now: float) -> bool:
    return awaited.until >= now and awaited.connection.is_open


def _key(properties: Mapping[str, str]) -> tuple[str, str]:
    return properties.get(names.CORRELATION_ID, ""), properties.get(names.REPLY_TO_CLIENT, "")


def reply_cluster(cluster: str, broker_name: str) -> str:
    """What a message says its cluster is where there are several brokers: a reply must reach the requester's own."""
    return f"{cluster}_{broker_name}"


def is_reply_topic(name: str, cluster: str) -> bool:
    """Whether replies are sent there: the cluster's reply topic, in whatever namespace a client puts it."""
    return name.rpartition("%")[2] == cluster + REPLY_SUFFIX
