"""Blocking work beside the event loop: a few threads that keep their database connections."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, ParamSpec, TypeVar
from weakref import WeakValueDictionary

from django.db import connections

P = ParamSpec("P")
T = TypeVar("T")


class Threads:
    """Runs calls that block. A thread's database connection is kept from call to call: opening one costs more than
    most calls. One that has gone bad is replaced before its next use.
    """

    def __init__(self, name: str, size: int) -> None:
        self._executor = ThreadPoolExecutor(size, thread_name_prefix=name)
        self._most_of_one = max(1, size // 2)
        self._places: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._kept: set[Any] = set()
        self._lock = threading.Lock()

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `call` in one of the threads, with the context of the caller."""
        return await self.start(call, *args, **kwargs)

    def start(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:
        """As `run`, for a caller that goes on meanwhile; the call itself cannot be cancelled once it runs."""
        work = partial(contextvars.copy_context().run, self._run, partial(call, *args, **kwargs))
        return asyncio.get_running_loop().run_in_executor(self._executor, work)

    async def run_for(self, holder: str, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """As `run`, for a holder that has half of the threads at most: its further calls wait in a line of its own.

        A call that nobody waits for any more, because its client left, still counts until it ends.
        """
        places = self._places.get(holder)
        if places is None:
            places = self._places[holder] = asyncio.Semaphore(self._most_of_one)
        await places.acquire()
        loop = asyncio.get_running_loop()
        work = partial(contextvars.copy_context().run, self._run, partial(call, *args, **kwargs))
        try:
            begun: Future[T] = self._executor.submit(work)
        except BaseException:
            places.release()
            raise
        begun.add_done_callback(lambda _: loop.call_soon_threadsafe(places.release))
        return await asyncio.wrap_future(begun)

    def _run(self, call: Callable[[], T]) -> T:
        try:
            return call()
        finally:
            self._keep_connections()

    def _keep_connections(self) -> None:
        for connection in connections.all(initialized_only=True):
            connection.close_at = None  # CONN_MAX_AGE is meant for threads that end with their request
            connection.health_check_enabled = True  # type: ignore[attr-defined]
            connection.close_if_unusable_or_obsolete()
            if connection not in self._kept:
                connection.inc_thread_sharing()  # so that `close` may close it
                with self._lock:
                    self._kept.add(connection)

    def close(self) -> None:
        """Wait for what runs, then close the database connections. Blocks."""
        self._executor.shutdown(wait=True)
        for connection in self._kept:
            connection.close()
        self._kept.clear()
