"""Waiting for tasks to end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from console.sql.door.threads import Threads
from console.sql.models import ENDED, QueryTask

#: How often the tasks that clients wait for are looked at, seconds: one query for all of them.
_LOOK_S = 0.02
#: How often a client that waits is looked at, seconds.
_CLIENT_S = 0.5


class Waiter:
    """Waits for the end of tasks: one look at the database for all clients together."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._waiting: dict[str, asyncio.Future[None]] = {}
        self._looking: asyncio.Task[None] | None = None

    async def ended(self, task_id: str, client_gone: Callable[[], bool]) -> bool:
        """True once the task has ended, False when the client went away before."""
        future = self._waiting[task_id] = asyncio.get_running_loop().create_future()
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look(), name="sql-door-waiter")
        try:
            while not client_gone():
                done, _ = await asyncio.wait([future], timeout=_CLIENT_S)
                if done:
                    future.result()
                    return True
            return False
        finally:
            self._waiting.pop(task_id, None)

    async def close(self) -> None:
        """End the look at the database, and with it whatever still waits."""
        looking, self._looking = self._looking, None
        if looking is not None:
            looking.cancel()
            await asyncio.wait([looking])
        for future in self._waiting.values():
            future.cancel()

    async def _look(self) -> None:
        try:
            while self._waiting:
                for task_id in await self._threads.run(_ended, list(self._waiting)):
                    future = self._waiting.pop(task_id, None)
                    if future is not None and not future.done():
                        future.set_result(None)
                await asyncio.sleep(_LOOK_S)
        except Exception as error:  # noqa: BLE001 handed to every client that waits
            for future in self._waiting.values():
                if not future.done():
                    future.set_exception(error)


def _ended(task_ids: list[str]) -> list[str]:
    return list(QueryTask.objects.filter(pk__in=task_ids, status__in=ENDED).values_list("pk", flat=True))
