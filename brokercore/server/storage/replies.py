"""What a reply of Redis means: a value, a refusal, or a connection that broke before it came."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import hiredis

from brokercore.server.errors import RedisError, StoreUnavailable

Callback = Callable[[Any], None]
"""Takes the reply: a value, a hiredis.ReplyError, or ConnectionError when the connection broke first."""


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
