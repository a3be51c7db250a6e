"""The address of Redis, as REDIS_URL gives it."""

from __future__ import annotations

import asyncio
from urllib.parse import unquote, urlsplit

from brokercore.server.errors import SettingsError


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
