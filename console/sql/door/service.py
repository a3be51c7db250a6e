"""The MySQL door of this process: its start and stop."""

from __future__ import annotations

import asyncio
from ssl import SSLContext

from console.sql.door import auth
from console.sql.door.auth import SqlAccount
from console.sql.door.server import DoorServer
from console.sql.door.session import SqlSession
from console.sql.door.shared import Shared


class SqlDoor:
    """Signs clients in, answers their statements, and ends in order whatever it has begun."""

    def __init__(self, context: SSLContext | None = None) -> None:
        self._shared = Shared(lambda: self.server.control.connections)
        self.server = DoorServer(lambda: SqlSession(self._shared), self._find_account, context)

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen; returns the address. Raises OSError when the port is in use."""
        await self.server.start_server(host=host, port=port)
        address: tuple[str, int] = self.server.sockets()[0].getsockname()[:2]
        return address

    async def stop(self) -> None:
        """Stop listening, end every connection and statement, then the threads."""
        await self.server.stop()
        await self._shared.waiter.close()
        for threads in (self._shared.threads, self._shared.files.threads):
            await asyncio.to_thread(threads.close)

    async def _find_account(self, name: str) -> SqlAccount | None:
        return await self._shared.threads.run(auth.find_account, name)
