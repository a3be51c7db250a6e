"""Consumer groups of this broker: which of their topics are closed to them, and which they consume by POP."""

from __future__ import annotations

import time

from brokercore.names import SYSTEM_GROUPS
from brokercore.protocol.bodies.config import DataVersion, GroupConfig
from brokercore.server.storage.keys import Keys
from brokercore.server.storage.recovery import mend_hash
from brokercore.server.storage.redis_connection import RedisConnection

PULL, POP = "PULL", "POP"
"""How clients that leave the choice to the broker consume (QUERY_ASSIGNMENT)."""


class GroupTable:
    """All consumer groups by name; changes are in Redis before they are seen here."""

    def __init__(self, writer: RedisConnection, keys: Keys) -> None:
        self._writer, self._keys = writer, keys
        self._by_name: dict[str, GroupConfig] = {}
        self._forbidden: set[tuple[str, str]] = set()
        self.version = DataVersion(0, int(time.time() * 1000))

    async def load(self) -> None:
        """Read all groups. Raises StoreUnavailable."""
        table: list[bytes] = await self._writer.call("HGETALL", self._keys.groups)
        for name, config in zip(table[::2], table[1::2], strict=True):
            self._by_name[name.decode()] = GroupConfig.from_json(config)
        for member in await self._writer.call("SMEMBERS", self._keys.forbidden):
            group, _, topic = member.decode().partition("@")
            self._forbidden.add((group, topic))

    def get(self, name: str) -> GroupConfig | None:
        """The group of this name; system groups exist always."""
        found = self._by_name.get(name)
        if found is None and name in SYSTEM_GROUPS:
            return GroupConfig(name)
        return found

    def items(self) -> list[tuple[str, GroupConfig]]:
        """All groups with their names."""
        return list(self._by_name.items())

    async def save(self, config: GroupConfig) -> None:
        """Create a group or change it. Raises StoreUnavailable."""
        await self._writer.call("HSET", self._keys.groups, config.group, config.to_json())
        self._by_name[config.group] = config
        self._changed()

    async def delete(self, name: str) -> None:
        """Delete a group's configuration. Raises StoreUnavailable."""
        await self._writer.call("HDEL", self._keys.groups, name)
        await self.open_again(group=name)
        self._by_name.pop(name, None)
        self._changed()

    def is_forbidden(self, group: str, topic: str) -> bool:
        """True when the group may not read the topic (UPDATE_AND_GET_GROUP_FORBIDDEN)."""
        return bool(self._forbidden) and (group, topic) in self._forbidden

    async def set_readable(self, group: str, topic: str, readable: bool) -> None:
        """Open or close a topic to a group. Raises StoreUnavailable."""
        await self._writer.call("SREM" if readable else "SADD", self._keys.forbidden, f"{group}@{topic}")
        (self._forbidden.discard if readable else self._forbidden.add)((group, topic))

    async def open_again(self, *, group: str | None = None, topic: str | None = None) -> None:
        """Forget what is closed to a group, or in a topic, that is deleted. Raises StoreUnavailable."""
        for pair in [pair for pair in self._forbidden if pair[0] == group or pair[1] == topic]:
            await self.set_readable(*pair, readable=True)

    async def mend(self) -> None:
        """Write back what Redis has forgotten of the groups. Raises StoreUnavailable."""
        groups = {name.encode(): config.to_json() for name, config in self._by_name.items()}
        await mend_hash(self._writer, self._keys.groups, groups)

    def _changed(self) -> None:
        self.version = DataVersion(self.version.counter + 1, int(time.time() * 1000))


class RequestModes:
    """PULL unless somebody said POP (SET_MESSAGE_REQUEST_MODE), by group and topic."""

    def __init__(self, writer: RedisConnection, keys: Keys) -> None:
        self._writer, self._key = writer, keys.pop_modes
        self._pop: set[tuple[str, str]] = set()

    async def load(self) -> None:
        """Read all. Raises StoreUnavailable."""
        for member in await self._writer.call("SMEMBERS", self._key):
            group, _, topic = member.decode().partition("@")
            self._pop.add((group, topic))

    def get(self, group: str, topic: str) -> str:
        """PULL or POP."""
        return POP if (group, topic) in self._pop else PULL

    def popping(self) -> list[tuple[str, str]]:
        """Groups and topics whose mode is POP."""
        return sorted(self._pop)

    async def set(self, group: str, topic: str, mode: str) -> None:
        """Change the mode. Raises StoreUnavailable."""
        await self._writer.call("SADD" if mode == POP else "SREM", self._key, f"{group}@{topic}")
        (self._pop.add if mode == POP else self._pop.discard)((group, topic))

    async def forget(self, *, group: str | None = None, topic: str | None = None) -> None:
        """Forget a group or a topic. Raises StoreUnavailable."""
        for known in [known for known in self._pop if known[0] == group or known[1] == topic]:
            await self.set(*known, PULL)
