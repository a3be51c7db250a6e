"""The MySQL door of this process: what all its connections share, and its start and stop."""

from __future__ import annotations

import asyncio
import time
from ssl import SSLContext

from console.sql.door import auth
from console.sql.door.auth import SqlAccount
from console.sql.door.files import ResultFiles
from console.sql.door.server import DoorServer
from console.sql.door.session import SqlSession
from console.sql.door.threads import Threads
from console.sql.door.waiting import Waiter

#: Statements whose database work can go on at once.
_DATABASE_THREADS = 8
#: Result files that can be read at once; apart, since an object store may be slow.
_FILE_THREADS = 4


class SqlDoor:
    """Signs clients in, answers their statements, and ends in order whatever it has begun."""

    def __init__(self, context: SSLContext | None = None) -> None:
        self.threads = Threads("sql-door", _DATABASE_THREADS)
        self.files = ResultFiles(Threads("sql-door-files", _FILE_THREADS))
        self.waiter = Waiter(self.threads)
        self.started = time.monotonic()
        self.questions = 0
        self.server = DoorServer(lambda: SqlSession(self), self._find_account, context)

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen; returns the address. Raises OSError when the port is in use."""
        await self.server.start_server(host=host, port=port)
        address: tuple[str, int] = self.server.sockets()[0].getsockname()[:2]
        return address

    async def stop(self) -> None:
        """Stop listening, end every connection and statement, then the threads."""
        await self.server.stop()
        await self.waiter.close()
        for threads in (self.threads, self.files.threads):
            await asyncio.to_thread(threads.close)

    async def _find_account(self, name: str) -> SqlAccount | None:
        return await self.threads.run(auth.find_account, name)
