"""The MySQL door of this process: its start and stop."""

from __future__ import annotations

import asyncio
import logging
import socket
from ssl import SSLContext

from redis.exceptions import RedisError

from console.accounts import limits
from console.sql.door import auth
from console.sql.door.auth import SqlAccount
from console.sql.door.server import DoorServer
from console.sql.door.session import SqlSession
from console.sql.door.shared import Shared
from console.sql.parsers import parsers

log = logging.getLogger(__name__)

#: How often the open connections of each account are written down, seconds.
TELL_EVERY_S = 5.0


class SqlDoor:
    """Signs clients in, answers their statements, and ends in order whatever it has begun."""

    def __init__(self, context: SSLContext | None = None) -> None:
        self._shared = Shared(lambda: self.server.control.connections)
        self._telling: asyncio.Task[None] | None = None
        self.server = DoorServer(lambda: SqlSession(self._shared), self._find_account, context)

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen; returns the address. Raises OSError when the port is in use."""
        await asyncio.to_thread(parsers.warm)
        await self.server.start_server(host=host, port=port)
        address: tuple[str, int] = self.server.sockets()[0].getsockname()[:2]
        self._telling = asyncio.create_task(self._tell(f"{socket.gethostname()}:{address[1]}"), name="sql-door-use")
        return address

    async def stop(self) -> None:
        """Stop listening, end every connection and statement, then the threads."""
        if self._telling is not None:
            self._telling.cancel()
            await asyncio.wait([self._telling])
        await self.server.stop()
        await self._shared.waiter.close()
        shared = self._shared
        for threads in (shared.threads, shared.sign_in_threads, shared.own_threads, shared.files.threads):
            await asyncio.to_thread(threads.close)

    async def _find_account(self, name: str) -> SqlAccount | None:
        return await self._shared.sign_in_threads.run(auth.find_account, name)

    async def _tell(self, name: str) -> None:
        """Write down for ever what each account has open, for the page that shows its limits."""
        while True:
            try:
                used = self.server.control.used()
                await self._shared.own_threads.run(limits.tell_sql_connections, name, used)
            except RedisError as error:
                log.info("the open connections cannot be written down: %s", error)
            await asyncio.sleep(TELL_EVERY_S)
