"""One broker writes under one name: a second one that is started by mistake steps back and says why.

Offsets are given out in memory, so two writers would give out the same ones. Each names its connection to Redis,
which lists connections in the order in which they came: the first stays. What a broker that died still had on its
way is thus also over before its successor reads the streams.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from typing import TYPE_CHECKING

from brokercore.server.errors import NameInUse, RedisError

if TYPE_CHECKING:
    from brokercore.server.storage.keys import Keys
    from brokercore.server.storage.redis_connection import RedisConnection

logger = logging.getLogger(__name__)

PATIENCE_SECONDS = 3.0
"""How long the connection of a broker that was killed may still be listed: Redis ends it when it reads its end."""

_DEAD_SECONDS = 15
"""A writer asks Redis something every second; one that has been silent for so long is dead or frozen."""


_CLOSED = "closed"
"""Stands in place of the run of Redis, after the token, where a broker has ended in order."""


class SoleWriter:
    """The right to write, taken anew with each connection."""

    def __init__(self, keys: Keys, broker_name: str) -> None:
        self._key, self._broker_name = keys.writer, broker_name
        self._token = secrets.token_hex(8)
        self._had_it = False
        self._before = ""
        self.is_superseded = False
        """True when another broker had it since this one did: what is in memory holds no more."""

        self.syncs_always = False
        """Whether Redis syncs every write to its disk before it answers."""

        self.may_have_lost = False
        """True when Redis and the broker before this one both ended out of order, and Redis syncs now and then:
        what was written last may be missing, and nobody is left who knows it."""

    async def claim(self, redis: RedisConnection) -> None:
        """Take it. Raises NameInUse while another broker of this name is connected, StoreUnavailable."""
        try:
            await self._step_in(redis)
        except RedisError as error:  # a Redis whose user may not ask for connections
            logger.warning("whether another broker writes to this Redis cannot be told: %s", error)
        known = (await redis.call("GET", self._key) or b"").decode()
        token, _, run = known.partition(" ")
        this_run = await _run_id(redis)
        self.is_superseded = self._had_it and token not in ("", self._token, self._before)
        self.syncs_always = await _syncs_always(redis)
        in_doubt = not self._had_it and bool(known) and run not in (this_run, _CLOSED)
        self.may_have_lost = in_doubt and not self.syncs_always
        self._had_it = True
        try:
            await redis.call("SET", self._key, f"{self._token} {this_run}")
        except RedisError as error:  # full memory or disk: consumers can still be served
            self._before = token
            logger.warning("redis %s: %s", redis.name, error)

    async def release(self, redis: RedisConnection) -> None:
        """Give it back: this broker ends in order, and everything it wrote is there. Raises StoreUnavailable."""
        if self._had_it and not self.is_superseded:
            await redis.call("SET", self._key, f"{self._token} {_CLOSED}")

    async def _step_in(self, redis: RedisConnection) -> None:
        prefix = f"gantry:{self._broker_name}:writer:"
        await redis.call("CLIENT", "SETNAME", prefix + self._token)
        own = int(await redis.call("CLIENT", "ID"))
        deadline = asyncio.get_running_loop().time() + PATIENCE_SECONDS
        while True:
            earlier = [client for client in _clients(await redis.call("CLIENT", "LIST"))
                       if client["name"].startswith(prefix) and int(client["id"]) < own]  # fmt: skip
            for client in earlier:
                if client["name"] == prefix + self._token or int(client["idle"]) > _DEAD_SECONDS:
                    await redis.call("CLIENT", "KILL", "ID", client["id"])
            if not earlier:
                return
            if asyncio.get_running_loop().time() > deadline:
                raise NameInUse(
                    f"another broker named {self._broker_name} writes to this Redis ({earlier[0]['addr']}); "
                    "end it, or give one of them another GANTRY_BROKER_NAME"
                )
            await asyncio.sleep(0.02)


async def _run_id(redis: RedisConnection) -> str:
    """Which run of Redis this is; it is another one after each of its starts."""
    try:
        lines = (await redis.call("INFO", "server")).decode().splitlines()
    except RedisError:
        return ""
    return next((line.partition(":")[2] for line in lines if line.startswith("run_id:")), "")


async def _syncs_always(redis: RedisConnection) -> bool:
    try:
        return bool((await redis.call("CONFIG", "GET", "appendfsync"))[1:] == [b"always"])
    except RedisError:  # a hosted Redis that does not tell
        return False


def _clients(reply: bytes) -> list[dict[str, str]]:
    """The lines of CLIENT LIST, as fields by name."""
    lines = reply.decode(errors="replace").splitlines()
    rows = [dict(word.partition("=")[::2] for word in line.split(" ")) for line in lines]
    return [{"name": "", "idle": "0", "id": "0", "addr": "?"} | row for row in rows]
