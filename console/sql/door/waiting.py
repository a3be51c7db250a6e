"""Database work beside the event loop, and waiting for tasks to end."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

from django.db import close_old_connections

from console.sql.models import ENDED, QueryTask

P = ParamSpec("P")
T = TypeVar("T")

#: Statements whose database work can go on at once.
_THREADS = 8
#: How often the tasks that clients wait for are looked at, seconds: one query for all of them.
_LOOK_S = 0.02
_executor = ThreadPoolExecutor(_THREADS, thread_name_prefix="sql-door")


async def in_thread(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run `call` in a thread that keeps its database connection, and drops one that has gone bad."""
    context = contextvars.copy_context()
    work = partial(context.run, _with_fresh_connection, partial(call, *args, **kwargs))
    return await asyncio.get_running_loop().run_in_executor(_executor, work)


def _with_fresh_connection(call: Callable[[], T]) -> T:
    close_old_connections()
    try:
        return call()
    finally:
        close_old_connections()


class Waiter:
    """Waits for the end of tasks: one look at the database for all clients together."""

    def __init__(self) -> None:
        self._waiting: dict[str, asyncio.Future[None]] = {}
        self._looking: asyncio.Task[None] | None = None

    async def ended(self, task_id: str, client_gone: Callable[[], bool]) -> bool:
        """True once the task has ended, False when the client went away before."""
        future = self._waiting[task_id] = asyncio.get_running_loop().create_future()
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())
        try:
            while not client_gone():
                done, _ = await asyncio.wait([future], timeout=0.5)
                if done:
                    future.result()
                    return True
            return False
        finally:
            self._waiting.pop(task_id, None)

    async def _look(self) -> None:
        try:
            while self._waiting:
                for task_id in await in_thread(_ended, list(self._waiting)):
                    self._waiting.pop(task_id).set_result(None)
                await asyncio.sleep(_LOOK_S)
        except Exception as error:  # noqa: BLE001 handed to every client that waits
            for future in self._waiting.values():
                if not future.done():
                    future.set_exception(error)


def _ended(task_ids: list[str]) -> list[str]:
    return list(QueryTask.objects.filter(pk__in=task_ids, status__in=ENDED).values_list("pk", flat=True))
