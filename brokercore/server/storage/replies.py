"""What a reply of Redis means: a value, a refusal, or a connection that broke before it came."""

from __future__ import annotations

import asyncio
from typing import Any

import hiredis

from brokercore.server.errors import RedisError, StoreUnavailable


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
