"""The name server's key-value configurations (requests 100, 101, 102, 219)."""

from __future__ import annotations

import orjson

from brokercore.server.storage.keys import KEY_VALUES
from brokercore.server.storage.redis_connection import RedisConnection

ORDER_NAMESPACE = "ORDER_TOPIC_CONFIG"
"""Namespace in which tools keep the queues of ordered topics (`broker-a:8`)."""


class KeyValues:
    """Values by namespace and key; changes are in Redis before they are seen here. All brokers share them."""

    def __init__(self, writer: RedisConnection) -> None:
        self._writer = writer
        self._values: dict[tuple[str, str], str] = {}

    async def load(self) -> None:
        """Read all values, also those that other brokers changed. Raises StoreUnavailable."""
        table: list[bytes] = await self._writer.call("HGETALL", KEY_VALUES)
        values: dict[tuple[str, str], str] = {}
        for name, value in zip(table[::2], table[1::2], strict=True):
            namespace, key = orjson.loads(name)
            values[namespace, key] = value.decode()
        self._values = values

    def get(self, namespace: str, key: str) -> str | None:
        """One value."""
        return self._values.get((namespace, key))

    def namespace(self, namespace: str) -> dict[str, str]:
        """All values of a namespace."""
        return {key: value for (name, key), value in self._values.items() if name == namespace}

    async def put(self, namespace: str, key: str, value: str) -> None:
        """Set one value. Raises StoreUnavailable."""
        await self._writer.call("HSET", KEY_VALUES, orjson.dumps([namespace, key]), value)
        self._values[namespace, key] = value

    async def delete(self, namespace: str, key: str) -> None:
        """Delete one value. Raises StoreUnavailable."""
        await self._writer.call("HDEL", KEY_VALUES, orjson.dumps([namespace, key]))
        self._values.pop((namespace, key), None)
