"""The brokers that share one Redis are one cluster: which others there are, whether they serve, their topics."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import Enum, StrEnum, auto
from typing import TypeVar

import orjson

from brokercore.protocol.bodies.config import TopicConfig
from brokercore.protocol.command import Command
from brokercore.server.errors import RedisError, StoreUnavailable
from brokercore.server.settings import Settings, TlsMode
from brokercore.server.storage.keys import BROKER_BEATS, BROKERS, Keys
from brokercore.server.storage.redis_connection import RedisConnection

logger = logging.getLogger(__name__)

T = TypeVar("T")

LOOK_SECONDS = 0.5
"""Time between two looks at the registry, and between two beats."""

ASK_LOOKS, SILENT_ASKS = 2, 3
"""Looks without a beat after which a broker is asked, and unanswered questions after which it leaves the routes."""

SEEN_SECONDS = 3.0
"""How long a broker that starts waits until the others have seen it."""

LEAVE_SECONDS = 2.0
"""How long a broker that stops tries to say so while Redis does not answer."""

ANSWER_SECONDS = 1.0
"""How long another broker may take for an answer; and how long the name server waits for Redis."""

_UNKNOWN = 0
"""A request code that there is not: answered before anything is looked at, and by no log line."""


class State(StrEnum):
    """What a broker of the cluster does: serve, not answer, or nothing since it was stopped in order."""

    SERVING = "serving"
    SILENT = "silent"
    STOPPED = "stopped"


@dataclass(slots=True, eq=False)
class Peer:
    """Another broker of the cluster; `since` (epoch ms) tells one start of it from the next."""

    name: str
    address: str
    since: int
    stopped: bool
    store_host: str
    """Its address as it stands in ids of its messages, in hex digits."""
    grpc_port: int
    """Where it takes clients of gRPC, on the host of its address; 0: nowhere."""
    keys: Keys
    beat: bytes = b""
    looks_without_beat: int = 0
    unanswered: int = 0
    refused: bool = False
    """Nobody listens at its address, and no beat has come since."""

    @property
    def in_doubt(self) -> bool:
        """Whether it ought to be asked."""
        return not self.stopped and not self.refused and self.looks_without_beat >= ASK_LOOKS

    @property
    def state(self) -> State:
        """What is known of it now."""
        if self.stopped:
            return State.STOPPED
        return State.SILENT if self.refused or self.unanswered >= SILENT_ASKS else State.SERVING


@dataclass(slots=True, eq=False)
class Registry:
    """This broker's row, and the other brokers by name. `on_changed` is called when `alone` changes.

    One whose beat stands still is asked over its own port before it leaves the routes: a Redis that is slow, frozen or
    takes no writes stops all beats, and must not make the whole cluster vanish.
    """

    settings: Settings
    address: str
    store_host: bytes
    own_keys: Keys
    redis: RedisConnection
    on_changed: Callable[[], None] = lambda: None
    grpc_port: int = 0
    peers: dict[str, Peer] = field(default_factory=dict)
    _known: dict[str, dict[str, TopicConfig]] = field(default_factory=dict)
    _announced: bool = True
    _since: int = field(default_factory=lambda: int(time.time() * 1000))

    @property
    def alone(self) -> bool:
        """True while no other broker is meant to serve."""
        return all(peer.stopped for peer in self.peers.values())

    @property
    def serving(self) -> list[Peer]:
        """The other brokers that routes show."""
        return [peer for peer in self.peers.values() if peer.state is State.SERVING]

    @property
    def states(self) -> dict[str, State]:
        """The state of every other broker that there ever was, by name."""
        return {name: peer.state for name, peer in sorted(self.peers.items())}

    def is_other(self, store_host: bytes) -> bool:
        """Whether a message id with this address is one of another broker."""
        return any(peer.store_host == store_host.hex() for peer in self.peers.values())

    # Life

    async def load(self) -> bool:
        """Read who is there; False when this broker's own row is missing. Raises StoreUnavailable and RedisError."""
        rows, beats = await self.redis.call_many([("HGETALL", BROKERS), ("HGETALL", BROKER_BEATS)])
        was_alone = self.alone
        by_name = dict(zip(beats[::2], beats[1::2], strict=True))
        for name, row in zip(rows[::2], rows[1::2], strict=True):
            with contextlib.suppress(ValueError, KeyError):  # written by another version: not one to work with
                self._see(name.decode(), orjson.loads(row), by_name.get(name, b""))
        for name in self.peers.keys() - {name.decode() for name in rows[::2]}:
            del self.peers[name]
        if self.alone is not was_alone:
            self.on_changed()
        return self.settings.broker_name.encode() in rows[::2]

    async def announce(self, *, stopped: bool = False) -> bool:
        """Write this broker's row; True when that is done. Raises StoreUnavailable.

        A Redis whose memory or disk is full refuses it: a broker that starts then serves consumers all the same.
        """
        row = {
            "address": self.address,
            "cluster": self.settings.cluster_name,
            "grpcPort": self.grpc_port,
            "since": self._since,
            "storeHost": self.store_host.hex(),
            "stopped": stopped,
        }
        try:
            await self.redis.call("HSET", BROKERS, self.settings.broker_name, orjson.dumps(row))
        except RedisError as error:
            if self._announced:
                logger.warning("the other brokers are not told of this one: %s", error)
            self._announced = False
        else:
            self._announced = True
        return self._announced

    async def join(self) -> None:
        """Announce this broker and wait until all others that serve have seen it: a change sent to every master from
        then on is sent to this one too. Raises StoreUnavailable and RedisError.
        """
        await self.announce()
        before = {name: peer.beat for name, peer in self.peers.items()}
        await asyncio.gather(*(self._ask(peer) for peer in self.serving))
        with contextlib.suppress(TimeoutError):  # one that hangs
            async with asyncio.timeout(SEEN_SECONDS):
                while any(peer.beat == before.get(peer.name) for peer in self.serving):
                    await asyncio.sleep(LOOK_SECONDS / 10)
                    await self.load()

    async def leave(self) -> None:
        """Tell the others that this broker stops; without Redis they will notice by themselves."""
        try:
            async with asyncio.timeout(LEAVE_SECONDS):
                while not await self._soon(self.announce(stopped=True)):  # noqa: ASYNC110 - Redis makes it true
                    await asyncio.sleep(LOOK_SECONDS / 10)
        except TimeoutError:
            logger.warning("the other brokers are not told that this one stops")
            return
        if not self.alone:
            await asyncio.sleep(LOOK_SECONDS)  # the routes forget this broker before it closes its connections

    async def run(self) -> None:
        """Look and beat until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                await self.look()
            except (StoreUnavailable, RedisError) as error:
                logger.debug("the registry of brokers cannot be read: %s", error)  # the store's own log tells of it

    async def look(self) -> None:
        """One look at the others, and a beat for them. Raises StoreUnavailable and RedisError."""
        before = self.states
        beat = None if self.alone else self._beat()  # ahead of what is read, so that a beat tells that all was seen
        if not await self.load() or not self._announced:
            await self.announce()
        await asyncio.gather(*(self._ask(peer) for peer in self.peers.values() if peer.in_doubt))
        for name, state in self.states.items():
            if before.get(name) is not state:
                logger.info("broker %s is %s", name, state)
        if beat is None and not self.alone:
            beat = self._beat()
        if beat is not None:
            await beat

    # What the others have

    async def topic(self, name: str) -> dict[str, TopicConfig]:
        """The configuration of a topic on each other broker that serves, as of now.

        While Redis does not answer, what it said last of this topic counts. Raises StoreUnavailable when that is
        nothing: half a route would take the other half away from clients.
        """
        serving = self.serving
        commands = [("HGET", peer.keys.topics, name) for peer in serving]
        replies = await self._soon(self.redis.call_many(commands))
        if replies is None:
            known = self._known.get(name)
            if known is None:
                raise StoreUnavailable("Redis cannot be reached")
            return {peer.name: known[peer.name] for peer in serving if peer.name in known}
        found = {
            peer.name: TopicConfig.from_json(reply)
            for peer, reply in zip(serving, replies, strict=True)
            if reply is not None
        }
        if found:
            self._known[name] = found
        else:
            self._known.pop(name, None)
        return found

    async def topic_names(self) -> set[str]:
        """Names of all topics of the other brokers that serve. Raises StoreUnavailable."""
        replies = await self._soon(self.redis.call_many([("HKEYS", peer.keys.topics) for peer in self.serving]))
        if replies is None:
            raise StoreUnavailable("Redis cannot be reached")
        return {name.decode() for names in replies for name in names}

    async def deleted(self, topic: str) -> None:
        """A topic was deleted in the cluster: brokers that are away delete theirs at their next start.

        Raises StoreUnavailable and RedisError.
        """
        self._known.pop(topic, None)
        away = [peer for peer in self.peers.values() if peer.state is not State.SERVING]
        await self.redis.call_many([("SADD", peer.keys.deleted, topic) for peer in away])

    async def catch_up_with(self, load: Callable[[], Awaitable[None]]) -> None:
        """Read anew what other brokers may have changed; while Redis does not answer, what is known counts."""
        if not self.alone:
            await self._soon(load())

    # Inside

    def _see(self, name: str, row: dict[str, object], beat: bytes) -> None:
        if name == self.settings.broker_name or row.get("cluster") != self.settings.cluster_name:
            return
        peer = self.peers.get(name)
        if peer is None or peer.since != row["since"] or peer.stopped != row["stopped"]:
            address, since, stopped = str(row["address"]), int(str(row["since"])), bool(row["stopped"])
            grpc_port = int(str(row.get("grpcPort", 0)))
            self.peers[name] = Peer(name, address, since, stopped, str(row["storeHost"]), grpc_port, Keys(name), beat)
        elif beat != peer.beat:
            peer.beat, peer.looks_without_beat, peer.unanswered, peer.refused = beat, 0, 0, False
        else:
            peer.looks_without_beat += 1

    def _beat(self) -> asyncio.Future[int]:
        beat = self.redis.call("HINCRBY", BROKER_BEATS, self.settings.broker_name, 1)
        beat.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody may wait for it any more
        return beat

    async def _ask(self, peer: Peer) -> None:
        match await ask(peer.address, self.settings.tls_mode, ANSWER_SECONDS):
            case Probe.ANSWERED:
                peer.looks_without_beat = peer.unanswered = 0
            case Probe.REFUSED:
                peer.refused = True
            case Probe.SILENT:
                peer.unanswered += 1

    async def _soon(self, replies: Awaitable[T]) -> T | None:
        try:
            return await asyncio.wait_for(replies, ANSWER_SECONDS)
        except (StoreUnavailable, RedisError, TimeoutError):
            return None


class Probe(Enum):
    """What came of it: any answer, nobody listens there, or neither."""

    ANSWERED = auto()
    REFUSED = auto()
    SILENT = auto()


async def ask(address: str, tls_mode: TlsMode, seconds: float) -> Probe:
    """Ask the broker at `address` (`host:port`), and wait at most so long."""
    host, _, port = address.rpartition(":")
    try:
        async with asyncio.timeout(seconds):
            reader, writer = await asyncio.open_connection(host, int(port), ssl=_context(tls_mode))
            try:
                writer.write(Command(_UNKNOWN, 1).encode())
                return Probe.ANSWERED if await reader.read(4) else Probe.SILENT
            finally:
                writer.close()
    except ConnectionRefusedError:
        return Probe.REFUSED
    except (OSError, TimeoutError):
        return Probe.SILENT


def _context(tls_mode: TlsMode) -> ssl.SSLContext | None:
    """Plain wherever that is taken. No certificate is checked: nothing secret is said or believed here."""
    if tls_mode is not TlsMode.ENFORCING:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
