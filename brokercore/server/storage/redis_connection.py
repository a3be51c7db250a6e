"""One asyncio connection to Redis: all commands of a loop turn leave in one write, replies come back in order.

Its pulse notices a Redis that is there and does not answer: frozen, stuck on its disk, or behind a broken network. Lua
scripts are loaded with the package, sent by their digest, and sent whole where Redis does not know them.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import hiredis

from brokercore.server.connections.write_batching import Turn
from brokercore.server.errors import RedisError, SettingsError, StoreNotOurs, StoreUnavailable

logger = logging.getLogger(__name__)

MAX_IN_FLIGHT_BYTES = 128 << 20
"""Bytes written and not yet answered, above which nothing more is taken: a Redis that hangs must not fill memory."""

_GROUP_BYTES = 128 << 10  # so much is written at once, even while Redis works on the last write
_SYNCED_GROUP_BYTES = 1 << 20  # and so much to a Redis whose last write has to reach the disk first
_JOINED_PIECE = 4096  # pieces of up to so many bytes, on average, are joined before they are written
_RETRY_SECONDS = (0.05, 0.1, 0.2, 0.5, 1.0)
_CONNECT_SECONDS = 5.0
_REPLY_BYTES = 8  # what one in-flight command costs beside its own bytes, so that tiny commands count too

# With `appendfsync always` Redis syncs once for what it reads from a connection at a time, which is 16 KB, or a single
# large message. What stands in a MULTI it carries out when it has read all of it, and syncs once.
_READ_BYTES, _LARGE_BYTES = 16 << 10, 96 << 10

_MULTI, _EXEC = b"*1\r\n$5\r\nMULTI\r\n", b"*1\r\n$4\r\nEXEC\r\n"

Callback = Callable[[Any], None]
"""Takes the reply: a value, a hiredis.ReplyError, or ConnectionError when the connection broke first."""

Argument = bytes | str | int

INTERVAL = 0.25
"""Seconds between two looks of the pulse."""

HANG_SECONDS = 2.0
"""A command without an answer for so long: Redis hangs, and nothing more is given to it until it answers."""

GONE_SECONDS = 30.0
"""After so long the connection is given up. TCP would hold on to a machine that vanished for a quarter of an hour."""

_BEAT_SECONDS = 1.0
"""A connection with nothing to do asks so often, so that a silent end is seen, and Redis sees that we are there."""


class RedisConnection(asyncio.Protocol):
    """A pipelined connection that connects again by itself.

    `on_connect` runs after each connect: there the owner reads back what Redis holds. `on_lost` runs first of all
    when the connection breaks, then the callbacks of what was in flight.
    """

    def __init__(
        self,
        url: str,
        name: str,
        on_connect: Callable[[], Awaitable[None]] | None = None,
        on_lost: Callable[[], None] | None = None,
        turn: Turn | None = None,
    ) -> None:
        self.url, self.name = url, name
        self.connected = False
        self.hangs = False  # Redis is silent for long (`Pulse`): nothing more is taken
        self.refused = ""  # why the last try to connect failed
        self._on_connect, self._on_lost = on_connect, on_lost
        self._on_flush: list[Callable[[], None]] = []
        self._transport: asyncio.Transport | None = None
        self._reader = hiredis.Reader()
        self._gathered = Gathering()
        self._in_flight: deque[tuple[Callback | None, int]] = deque()
        self._in_flight_bytes = 0
        self._scheduled = False
        self._held = False  # scheduled, and waiting for the replies to what was written before
        self._silent_until = 0.0
        self._closing = False
        self._lost = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._turn = turn or Turn(self._loop)
        self._pulse = Pulse(self, self._loop)
        self._together, self._group_bytes = False, _GROUP_BYTES

    # Life

    async def start(self) -> None:
        """Connect, and keep connecting whenever the connection breaks. Raises StoreUnavailable at the first try."""
        if self._keeper is not None:
            return
        self._pulse.start()
        await self._connect()
        self._keeper = self._loop.create_task(self._keep(), name=f"redis {self.name}")

    async def close(self) -> None:
        """Close the connection; what is in flight fails."""
        self._closing = True
        self._pulse.stop()
        if self._keeper:
            self._keeper.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._keeper
        if self._transport:
            self._transport.close()
        self._fail_all("the broker is closing")

    @property
    def trouble(self) -> str:
        """Why no command is taken, empty while commands are."""
        if not self.connected:
            return "Redis cannot be reached"
        return f"Redis has not answered for {self._pulse.silent_seconds:.0f} s" if self.hangs else ""

    @property
    def oldest(self) -> object:
        """The command that has waited longest for its answer; None when none waits."""
        return self._in_flight[0] if self._in_flight else None

    def beat(self) -> None:
        """Ask something that any Redis answers: PING is refused by one whose disk is full."""
        if self.connected and not self._in_flight:
            self.send("ECHO", "gantry")

    def reset(self, reason: str) -> None:
        """Give this connection up and open another one; what is in flight fails."""
        if self._transport is not None and not self._closing:
            logger.error("redis %s: connection given up: %s", self.name, reason)
            self._transport.abort()

    def before_flush(self, hook: Callable[[], None]) -> None:
        """Call `hook` before each write, to add what it gathered during the loop turn with `submit_first`."""
        self._on_flush.append(hook)

    def commit_together(self, together: bool) -> None:
        """Whether Redis syncs every write, so that many messages should reach the disk as one (`grouped`)."""
        self._together = together
        self._group_bytes = _SYNCED_GROUP_BYTES if together else _GROUP_BYTES

    # Commands

    def submit(self, command: Iterable[bytes], size: int, callback: Callback | None = None) -> None:
        """Add one command, encoded as RESP in parts of `size` bytes in all, to this turn's write.

        Raises StoreUnavailable when Redis is gone or hangs.
        """
        if not self.connected:
            raise StoreUnavailable("Redis cannot be reached")
        if self.hangs or self._in_flight_bytes > MAX_IN_FLIGHT_BYTES:
            raise StoreUnavailable("Redis does not answer")
        gathered = self._gathered
        gathered.parts += command
        gathered.callbacks.append(callback)
        gathered.size += size
        if not self._scheduled:
            self._scheduled = True
            self._turn.later(self._flush)
        elif self._held and gathered.size >= self._group_bytes:
            self._held = False
            self._turn.later(self._flush)

    def submit_all(self, commands: list[bytes], size: int, callback: Callback, count: int) -> None:
        """As `submit`, for `count` commands in one: all of them are taken, or none. `callback` gets every reply."""
        self.submit(commands, size, callback)
        self._gathered.callbacks += [callback] * (count - 1)

    def submit_first(self, *arguments: bytes | str | int, callback: Callback | None = None) -> None:
        """Add a command ahead of all others of this turn: references, which must be there before what they name."""
        self.submit_packed_first(pack(arguments), callback)

    def submit_packed_first(self, command: bytes, callback: Callback | None = None) -> None:
        """As `submit_first`, for a command that is RESP already."""
        self._gathered.first.append(command)
        self._gathered.first_callbacks.append(callback or self.log_error)
        if not self._scheduled:
            self._scheduled = True
            self._turn.later(self._flush)

    def send(self, *arguments: bytes | str | int, callback: Callback | None = None) -> None:
        """Add one command to this turn's write. Raises StoreUnavailable."""
        self._submit(arguments, callback or self.log_error)

    def call(self, *arguments: bytes | str | int) -> asyncio.Future[Any]:
        """Add one command; the future gives its reply, or raises RedisError or StoreUnavailable."""
        future: asyncio.Future[Any] = self._loop.create_future()
        self._submit(arguments, lambda reply: settle(future, reply))
        return future

    def _submit(self, arguments: tuple[bytes | str | int, ...], callback: Callback) -> None:
        packed = pack(arguments)
        self.submit((packed,), len(packed), callback)
        self._gathered.mixed = True

    async def call_all(self, commands: Iterable[tuple[bytes | str | int, ...]]) -> None:
        """Carry out several commands as one (MULTI): after a crash there are all of them or none.

        Raises RedisError when Redis refuses one, and StoreUnavailable.
        """
        *_, answered = await self.call_many([("MULTI",), *commands, ("EXEC",)])
        for reply in answered or ():  # what fails only when it is carried out is told inside of EXEC's answer
            if isinstance(reply, hiredis.ReplyError):
                raise RedisError(str(reply))

    async def call_many(self, commands: Iterable[tuple[bytes | str | int, ...]]) -> list[Any]:
        """Replies of several commands, written together; an error of one raises RedisError."""
        return await all_of([self.call(*command) for command in commands])

    # Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]
        self._reader = hiredis.Reader()

    def data_received(self, data: bytes) -> None:
        reader, in_flight = self._reader, self._in_flight
        reader.feed(data)
        self._turn.begin()
        answered: list[tuple[Callback, Any]] = []
        while (reply := reader.gets()) is not False:
            callback, size = in_flight.popleft()
            self._in_flight_bytes -= size
            if callback is not None:
                answered.append((callback, reply))
        if self._held and not in_flight:
            self._flush()  # Redis works on it while the answers go out
        for callback, reply in answered:
            try:
                callback(reply)
            except Exception:  # one request's trouble must not keep the others' answers back
                logger.exception("redis %s: a reply could not be taken", self.name)
        self._turn.end()

    def connection_lost(self, error: Exception | None) -> None:
        was_connected, self.connected, self._transport = self.connected, False, None
        self.hangs = False
        if self._on_lost:
            self._on_lost()
        self._fail_all(f"the connection to Redis broke ({error or 'closed by Redis'})")
        if was_connected and not self._closing:
            logger.error("redis %s: connection lost: %s", self.name, error or "closed by Redis")
        self._lost.set()

    # Inside

    def _flush(self) -> None:
        """Write what was gathered. While Redis works on the last write, what comes is gathered for the next one."""
        self._held = bool(self._in_flight) and self._gathered.size < self._group_bytes
        if self._held:
            return
        for hook in self._on_flush:
            hook()
        self._scheduled = False
        parts, callbacks, size = self._gathered.drain(together=self._together)
        if not parts:
            return
        if self._transport is None:
            for callback in filter(None, callbacks):
                callback(ConnectionError("Redis cannot be reached"))
            return
        share = size // len(callbacks) + _REPLY_BYTES
        self._in_flight.extend([(callback, share) for callback in callbacks])
        self._in_flight_bytes += share * len(callbacks)
        if size <= len(parts) * _JOINED_PIECE:  # a copy costs less than many small pieces in a system call
            self._transport.write(b"".join(parts))
        else:
            self._transport.writelines(parts)

    def _fail_all(self, reason: str) -> None:
        error = ConnectionError(reason)
        waiting = [callback for callback, _ in self._in_flight] + self._gathered.drain()[1]
        self._in_flight.clear()
        self._in_flight_bytes = 0
        if self._held:
            self._held = self._scheduled = False
        for callback in filter(None, waiting):
            callback(error)

    def log_error(self, reply: Any) -> None:
        """Log what Redis refuses, at most once a second: a full disk refuses everything."""
        if isinstance(reply, hiredis.ReplyError) and self._loop.time() >= self._silent_until:
            self._silent_until = self._loop.time() + 1
            logger.error("redis %s: %s", self.name, reply)

    async def _keep(self) -> None:
        while True:
            await self._lost.wait()
            for attempt in range(1 << 30):
                await asyncio.sleep(_RETRY_SECONDS[min(attempt, len(_RETRY_SECONDS) - 1)])
                try:
                    await self._connect()
                except StoreUnavailable as error:
                    if attempt in (0, 10) or attempt % 60 == 0:
                        logger.error("redis %s: %s", self.name, error.reason)
                    continue
                logger.info("redis %s: connected again", self.name)
                break

    async def _connect(self) -> None:
        self._lost.clear()
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                await dial(self._loop, self.url, self)
                self.connected = True  # so that on_connect can use this connection
                if words := credentials(self.url):
                    await self.call("AUTH", *words)
            await self.call("ECHO", "gantry")  # refused while Redis loads; PING also while its disk is full
            if self._on_connect:
                await self._on_connect()
            self.refused = ""
        except Exception as error:  # whatever the owner stumbles over, the keeper must go on connecting
            self.connected = False
            if self._transport:
                self._transport.abort()
            if not isinstance(error, OSError | RedisError | StoreUnavailable):
                logger.exception("redis %s: what Redis holds cannot be read", self.name)
            self.refused = reason = error.reason if isinstance(error, StoreUnavailable) else str(error) or "no answer"
            kind = type(error) if isinstance(error, StoreNotOurs) else StoreUnavailable
            raise kind(f"{shown(self.url)}: {reason}") from error


def pack(arguments: tuple[bytes | str | int, ...]) -> bytes:
    """One command as RESP."""
    packed: bytes = hiredis.pack_command(arguments)  # type: ignore[arg-type]
    return packed


class Gathering:
    """What the next write to Redis will hold; `size` are the bytes of `parts`, `mixed` that not all are new messages.

    References stand in `first`, ahead of all others: they must be there before what they name.
    """

    __slots__ = ("callbacks", "first", "first_callbacks", "mixed", "parts", "size")

    def __init__(self) -> None:
        self.first: list[bytes] = []
        self.first_callbacks: list[Callback | None] = []
        self.parts: list[bytes] = []
        self.callbacks: list[Callback | None] = []
        self.size = 0
        self.mixed = False

    def drain(self, *, together: bool = False) -> tuple[list[bytes], list[Callback | None], int]:
        """Parts, callbacks and size of everything, which is gone from here then; messages as one group if wanted."""
        taken = self.first + self.parts, self.first_callbacks + self.callbacks, self.size + sum(map(len, self.first))
        if together and not self.mixed and is_worth_it(len(taken[1]), taken[2]):
            taken = grouped(*taken)
        self.first, self.first_callbacks = [], []
        self.parts, self.callbacks, self.size, self.mixed = [], [], 0, False
        return taken


def is_worth_it(commands: int, size: int) -> bool:
    """Whether so many commands of `size` bytes in all are better one group.

    Small commands are not: Redis works on some of them while the answers of the others are on their way.
    """
    return commands > 1 and (size > _LARGE_BYTES or size > commands * _READ_BYTES)


def grouped(
    parts: list[bytes], callbacks: Sequence[Callback | None], size: int
) -> tuple[list[bytes], list[Callback | None], int]:
    """The same commands as one group: parts, a callback for every reply of Redis, and the size in bytes.

    Each of `callbacks` gets the reply it would have got without the group. When Redis refuses one command beforehand
    (memory, disk), it carries out none, and the others get the refusal of the group.
    """
    group = _Group(callbacks)
    replies: list[Callback | None] = [None, *[group.queued] * len(callbacks), group.executed]
    return [_MULTI, *parts, _EXEC], replies, size + len(_MULTI) + len(_EXEC)


class _Group:
    """Replies of one group, on their way to those who wait for them."""

    __slots__ = ("_callbacks", "_queued")

    def __init__(self, callbacks: Sequence[Callback | None]) -> None:
        self._callbacks = callbacks
        self._queued: list[Any] = []

    def queued(self, reply: Any) -> None:
        """Redis keeps a command for the end of the group, or refuses it."""
        self._queued.append(reply)

    def executed(self, reply: Any) -> None:
        """The group is over."""
        if isinstance(reply, list):
            replies = reply
        else:
            error = reply if is_error(reply) else hiredis.ReplyError(f"unexpected answer to EXEC: {reply!r}")
            replies = [queued if is_error(queued) else error for queued in self._queued]
        for callback, answer in zip(self._callbacks, replies, strict=True):
            if callback is None:
                continue
            try:
                callback(answer)
            except Exception:  # one request's trouble must not keep the others' answers back
                logger.exception("a reply could not be taken")


def settle(future: asyncio.Future[Any], reply: Any) -> None:
    """Give a reply to who waits for it, refusals as exceptions."""
    if future.done():
        return
    if isinstance(reply, hiredis.ReplyError):
        future.set_exception(RedisError(str(reply)))
    elif isinstance(reply, ConnectionError):
        future.set_exception(StoreUnavailable(str(reply)))
    else:
        future.set_result(reply)


def is_error(reply: Any) -> bool:
    """True when a reply says that a command was not carried out."""
    return isinstance(reply, hiredis.ReplyError | ConnectionError)


async def all_of(futures: Sequence[asyncio.Future[Any]]) -> list[Any]:
    """The results of all of them; the first error is raised, and nobody is told of those of the others."""
    try:
        return [await future for future in futures]
    finally:
        for future in futures:
            if not future.done():
                future.cancel()
            elif not future.cancelled():
                future.exception()


def check_url(url: str) -> None:
    """Raise SettingsError when the address is none that `RedisConnection` can open."""
    parts = urlsplit(url)
    if parts.scheme not in ("unix", "redis", "rediss") or (parts.scheme == "unix" and not parts.path):
        raise SettingsError(f"REDIS_URL is {shown(url)!r}; it is unix:///path or redis://host:port.")


def shown(url: str) -> str:
    """The address without its password."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


async def dial(loop: asyncio.AbstractEventLoop, url: str, protocol: asyncio.Protocol) -> None:
    """Connect `protocol` to Redis. Raises OSError."""
    parts = urlsplit(url)
    if parts.scheme == "unix":
        await loop.create_unix_connection(lambda: protocol, unquote(parts.path))
    else:
        await loop.create_connection(
            lambda: protocol, parts.hostname or "127.0.0.1", parts.port or 6379, ssl=parts.scheme == "rediss" or None
        )


def credentials(url: str) -> tuple[str, ...]:
    """What AUTH takes: password, or user and password; nothing when the address has none."""
    parts = urlsplit(url)
    if not parts.password:
        return ()
    return (unquote(parts.username), unquote(parts.password)) if parts.username else (unquote(parts.password),)


class Pulse:
    """Looks at the oldest unanswered command of a connection; the hot path pays nothing for it.

    Time is counted in looks: while the broker itself is frozen no time passes here, or it would take its own
    absence for that of Redis.
    """

    def __init__(self, connection: RedisConnection, loop: asyncio.AbstractEventLoop) -> None:
        self._connection, self._loop = connection, loop
        self._oldest: object = None
        self._timer: asyncio.TimerHandle | None = None
        self._idle = 0.0
        self.silent_seconds = 0.0

    def start(self) -> None:
        """Look from now on."""
        if self._timer is None:
            self._timer = self._loop.call_later(INTERVAL, self._look)

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = self._loop.call_later(INTERVAL, self._look)
        oldest = self._connection.oldest
        if oldest is not None and oldest is self._oldest:
            self.silent_seconds += INTERVAL
        else:
            self.silent_seconds = 0.0
        self._oldest = oldest
        self._connection.hangs = self.silent_seconds >= HANG_SECONDS
        if self.silent_seconds >= GONE_SECONDS:
            self.silent_seconds, self._oldest = 0.0, None
            self._connection.reset(f"no answer for {GONE_SECONDS:.0f} s")
        self._beat(idle=oldest is None)

    def _beat(self, *, idle: bool) -> None:
        self._idle = self._idle + INTERVAL if idle and self._connection.connected else 0.0
        if self._idle >= _BEAT_SECONDS:
            self._idle = 0.0
            self._connection.beat()


class Script:
    """One script of the folder `lua`; its head lists keys and arguments."""

    def __init__(self, name: str) -> None:
        self._text = (Path(__file__).parent / "lua" / f"{name}.lua").read_text(encoding="utf-8")
        self._digest = hashlib.sha1(self._text.encode(), usedforsecurity=False).hexdigest()

    def run(
        self, redis: RedisConnection, keys: Sequence[Argument], arguments: Sequence[Argument], callback: Callback
    ) -> None:
        """Run the script; `callback` takes its reply. Raises StoreUnavailable."""

        def answered(reply: Any) -> None:
            if isinstance(reply, hiredis.ReplyError) and str(reply).startswith("NOSCRIPT") and redis.connected:
                redis.send("EVAL", self._text, len(keys), *keys, *arguments, callback=callback)
            else:
                callback(reply)

        redis.send("EVALSHA", self._digest, len(keys), *keys, *arguments, callback=answered)

    async def load(self, redis: RedisConnection) -> None:
        """Let Redis know the script, so that it stays in its place among other commands. Raises StoreUnavailable."""
        await redis.call("SCRIPT", "LOAD", self._text)
