"""Which groups consume a topic by POP: clients that leave the choice to the broker ask it (QUERY_ASSIGNMENT)."""

from __future__ import annotations

from brokercore.server.storage.keys import Keys
from brokercore.server.storage.redis_connection import RedisConnection

PULL, POP = "PULL", "POP"


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
