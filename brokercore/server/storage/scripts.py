"""The Lua scripts: loaded with the package, sent by their digest, sent whole where Redis does not know them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import hiredis

from brokercore.server.storage.redis_connection import RedisConnection
from brokercore.server.storage.replies import Callback

Argument = bytes | str | int


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
