"""Request-reply: which requests wait for a reply, and on which connection (docs/broker.md, "Request and reply")."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass

from brokercore.protocol import properties as names
from brokercore.server.connection import Connection

REPLY_TOPIC = "_REPLY_TOPIC"
"""Replies are sent to `<cluster>_REPLY_TOPIC`, which holds no messages: they go on to the requester at once."""

MOST = 100_000
"""Requests that wait at a time; the oldest are forgotten first."""

LONGEST_SECONDS = 600.0
_USUAL_MS = 3000


@dataclass(frozen=True, slots=True)
class Awaited:
    """A request whose sender waits: the topic that it was sent to, and the connection that it came on."""

    topic: str
    connection: Connection
    until: float


class AwaitedReplies:
    """Requests by correlation id and client id. A reply that nobody waits for goes nowhere."""

    def __init__(self) -> None:
        self._awaited: OrderedDict[tuple[str, str], Awaited] = OrderedDict()

    def expect(self, properties: Mapping[str, str], topic: str, connection: Connection) -> None:
        """Remember a request until its time to live is over; what names no client waits for nothing."""
        client_id = properties.get(names.REPLY_TO_CLIENT)
        if not client_id:
            return
        ttl = properties.get(names.TIME_TO_LIVE, "")
        seconds = (int(ttl) if ttl.isascii() and ttl.isdecimal() and len(ttl) < 10 else _USUAL_MS) / 1000
        now = time.monotonic()
        while self._awaited and (len(self._awaited) >= MOST or next(iter(self._awaited.values())).until < now):
            self._awaited.popitem(last=False)
        key = properties[names.CORRELATION_ID], client_id
        self._awaited[key] = Awaited(topic, connection, now + min(seconds, LONGEST_SECONDS))

    def find(self, properties: Mapping[str, str]) -> Awaited | None:
        """The request that a reply with these properties is for, if its sender still waits."""
        found = self._awaited.get(_key(properties))
        return found if found and found.until >= time.monotonic() and found.connection.is_open else None

    def done(self, properties: Mapping[str, str]) -> None:
        """The requester has its reply."""
        self._awaited.pop(_key(properties), None)


def _key(properties: Mapping[str, str]) -> tuple[str, str]:
    return properties.get(names.CORRELATION_ID, ""), properties.get(names.REPLY_TO_CLIENT, "")


def reply_cluster(cluster: str, broker_name: str) -> str:
    """What a message says its cluster is where there are several brokers: a reply must reach the requester's own."""
    return f"{cluster}_{broker_name}"


def is_reply_topic(name: str, cluster: str) -> bool:
    """Whether replies are sent there: the cluster's reply topic, in whatever namespace a client puts it."""
    return name.rpartition("%")[2] == cluster + REPLY_TOPIC
