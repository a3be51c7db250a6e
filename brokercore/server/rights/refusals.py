"""Requests that are refused for want of rights, of a right signature or of room: counted, logged, told to the console.

A hostile peer can be refused thousands of times a second. So each sort of refusal is a log line at most every few
seconds, with the number of those that were not logged, and an entry for the console at most every few minutes.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, OrderedDict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from brokercore.policy.table import REFUSED, REFUSED_FIELD, Refused
from brokercore.protocol.codes import RequestCode
from brokercore.protocol.command import Command
from brokercore.protocol.signature import ACCESS_KEY
from brokercore.server.errors import RedisError, Refusal, StoreUnavailable

if TYPE_CHECKING:
    from brokercore.server.connections.connection import Connection
    from brokercore.server.rights.authentication import Caller, Security
    from brokercore.server.storage.redis_connection import RedisConnection

logger = logging.getLogger(__name__)

LOG_SECONDS, LOG_LINES = 10.0, 10
"""Of the same sort and the same peer so many lines are written in so many seconds; the rest is counted."""

ALL_LINES = 100
"""Of all sorts and peers together, in as many seconds."""

TELL_SECONDS = 2.0
TELL_AGAIN_SECONDS = 300.0
"""How long a sort of refusal that the console was told is only counted."""

MOST_LOGGED, MOST_TOLD, MOST_TOLD_OF_A_TENANT = 10_000, 2_000, 50
STREAM_LENGTH = 10_000
_LONGEST_NAME = 255


class Client(Protocol):
    """Whoever was refused: host and port, the same as one text, and what it calls itself."""

    @property
    def peer(self) -> tuple[str, int]: ...
    @property
    def address(self) -> str: ...
    @property
    def client_id(self) -> str: ...


class Throttle:
    """Says which lines are written: some of each key in a while, and not too many of all together."""

    def __init__(self) -> None:
        self._windows: OrderedDict[str, Window] = OrderedDict()
        self._all = Window(0.0)
        self.suppressed = 0
        """Lines that were not written and that no later line has told of."""

    def passes(self, key: str) -> int | None:
        """How many lines with this key were kept back before this one; None when it is to be kept back too."""
        now = time.monotonic()
        window = self._windows.get(key)
        if window is None:
            window = self._windows[key] = Window(now)
            if len(self._windows) > MOST_LOGGED:
                self._windows.popitem(last=False)
        elif now - window.began >= LOG_SECONDS:
            window.began, window.lines = now, 0
            self._windows.move_to_end(key)
        if now - self._all.began >= LOG_SECONDS:
            self._all.began, self._all.lines = now, 0
        if window.lines >= LOG_LINES or self._all.lines >= ALL_LINES:
            window.suppressed += 1
            self.suppressed += 1
            return None
        window.lines += 1
        self._all.lines += 1
        before, window.suppressed = window.suppressed, 0
        self.suppressed = max(0, self.suppressed - before)
        return before


@dataclass(slots=True)
class Window:
    """Lines with one key since `began` (monotonic seconds)."""

    began: float
    lines: int = 0
    suppressed: int = 0


@dataclass(slots=True)
class Told:
    """One sort of refusal of a tenant; `count`, `first_ms` and `last_ms` are of what the console does not know yet."""

    row: Refused
    count: int = 0
    first_ms: int = 0
    last_ms: int = 0
    due: float = 0.0


class Refusals:
    """What was refused, of known tenants and of strangers."""

    def __init__(self, security: Security, redis: RedisConnection, channel: str = "broker") -> None:
        self._security, self._redis, self._channel = security, redis, channel
        self._throttle = Throttle()
        self.of_strangers: Counter[str] = Counter()
        """Refusals that belong to no tenant, by reason."""
        self._told: dict[tuple[str, ...], Told] = {}
        self._of_tenant: Counter[str] = Counter()

    def note(self, connection: Connection, command: Command, refusal: Refusal) -> None:
        """A request was refused. Refusals without a `kind` are everyday answers, such as an unknown topic."""
        if refusal.kind:
            caller: Caller | None = getattr(connection, "caller", None)  # a gRPC call's was found when it began
            key_id = caller.key_id if caller else command.ext.get(ACCESS_KEY) or ""
            self.note_call(connection, _code_name(command.code), key_id, refusal)

    def note_call(self, connection: Client, request: str, key_id: str, refusal: Refusal) -> None:
        """The same for a request that is told by its name and the AccessKey that it names."""
        key_id = key_id[:64]
        caller = self._security.named(key_id)
        if caller is not None and caller.account is not None and caller.tenant:
            refused = caller.account.refused
            refused[refusal.kind] = refused.get(refusal.kind, 0) + 1
            row = Refused(
                tenant=caller.tenant,
                name=caller.name,
                key=key_id,
                request=request if refusal.resource else "",
                kind=refusal.kind,
                action=refusal.action,
                resource=refusal.resource[:_LONGEST_NAME],
                address=connection.peer[0],
                remark=refusal.remark[:1000],
                channel=self._channel,
            )
            self._tell(row)
        else:
            self.of_strangers[refusal.kind] += 1
        before = self._throttle.passes(f"{refusal.kind} {connection.peer[0]} {key_id}")
        if before is None:
            return
        fields = {
            "reason": refusal.kind,
            "connection": connection.address,
            "client_id": connection.client_id,
            "tenant": caller.tenant if caller else "",
            "access_key_id": key_id,
            "request": request,
            "resource": refusal.resource[:_LONGEST_NAME],
            "code": int(refusal.code),
            "remark": refusal.remark,
            "suppressed": before or None,
        }
        logger.warning("request refused", extra={"fields": fields, "bounded": True})

    def closed(self, connection: Connection, kind: str, why: str) -> None:
        """A connection is closed for what its peer did."""
        self.of_strangers[kind] += 1
        before = self._throttle.passes(f"{kind} {connection.peer[0]}")
        if before is not None:
            fields = {
                "reason": kind,
                "connection": connection.address,
                "client_id": connection.client_id,
                "tenant": connection.account.uid if connection.account else "",
                "remark": why,
                "suppressed": before or None,
            }
            logger.warning("connection closed", extra={"fields": fields, "bounded": True})

    async def run(self) -> None:
        """Tell the console until cancelled."""
        lines_told = time.monotonic()
        while True:
            await asyncio.sleep(TELL_SECONDS)
            try:
                await self.write()
            except (StoreUnavailable, RedisError) as error:
                logger.debug("refusals are not told: %s", error)  # the store's own log tells of it
            if self._throttle.suppressed and time.monotonic() - lines_told > LOG_SECONDS:
                lines_told = time.monotonic()
                logger.warning("refusals not logged", extra={"fields": {"count": self._throttle.suppressed}})
                self._throttle.suppressed = 0

    async def write(self) -> None:
        """Tell the console what it does not know yet. Raises StoreUnavailable and RedisError."""
        now, commands = time.monotonic(), []
        for sort, told in list(self._told.items()):
            if told.due > now:
                continue
            if not told.count:
                del self._told[sort]
                self._of_tenant[sort[0]] -= 1
                continue
            row = replace(told.row, count=told.count, first_ms=told.first_ms, last_ms=told.last_ms)
            commands.append(("XADD", REFUSED, "MAXLEN", "~", STREAM_LENGTH, "*", REFUSED_FIELD, row.encode()))
            told.count, told.due = 0, now + TELL_AGAIN_SECONDS
        if commands:
            await self._redis.call_many(commands)

    def _tell(self, row: Refused) -> None:
        told = self._told.get(_sort(row))
        if told is None and self._of_tenant[row.tenant] >= MOST_TOLD_OF_A_TENANT:
            row = replace(row, request="", action="", resource="")  # what is more is told by key and kind alone
            told = self._told.get(_sort(row))
        if told is None:
            if self._of_tenant[row.tenant] >= 2 * MOST_TOLD_OF_A_TENANT or len(self._told) >= MOST_TOLD:
                return  # counted in the figures
            told = self._told[_sort(row)] = Told(row)
            self._of_tenant[row.tenant] += 1
        now_ms = int(time.time() * 1000)
        told.first_ms = told.first_ms if told.count else now_ms
        told.last_ms = now_ms
        told.count += 1


def _sort(row: Refused) -> tuple[str, ...]:
    return row.tenant, row.name, row.key, row.request, row.kind, row.action, row.resource


def _code_name(code: int) -> str:
    try:
        return RequestCode(code).name
    except ValueError:
        return str(code)
