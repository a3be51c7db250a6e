"""Group commit where Redis syncs every write: many messages reach the disk together.

With `appendfsync always` Redis syncs once for what it reads from a connection at a time, which is 16 KB, or a single
large message. What stands in a MULTI it carries out when it has read all of it, and syncs once.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import hiredis

from brokercore.server.storage.replies import Callback, is_error

logger = logging.getLogger(__name__)

_READ_BYTES, _LARGE_BYTES = 16 << 10, 96 << 10

_MULTI, _EXEC = b"*1\r\n$5\r\nMULTI\r\n", b"*1\r\n$4\r\nEXEC\r\n"


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
