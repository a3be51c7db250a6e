"""What all connections of an endpoint share: threads for work that blocks, the wait for tasks, open result files."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, ParamSpec, TypeVar
from weakref import WeakValueDictionary

from django.db import connections

from analytics import lake
from analytics.errors import LakeError
from console.sql.models import ENDED, QueryTask
from console.sql.mysql import errors
from console.sql.mysql.errors import EndpointError
from mysqlwire.aio.results import Row

P = ParamSpec("P")
T = TypeVar("T")

#: How often the tasks that clients wait for are looked at, seconds: one query for all of them.
_LOOK_S = 0.02
#: How often a client that waits is looked at, seconds.
_CLIENT_S = 0.5

#: A piece ends with the row that makes it larger than this, in characters.
PIECE_CHARACTERS = 256 * 1024
#: Result files that may be open at once, over all connections: each holds a file and up to a few MiB. One account has
#: at most half of what the others leave.
MAX_OPEN = 200
#: Characters of a row that is large; and of all large rows that clients of one account have not taken yet. Answers of
#: the console, which are in memory as a whole, count as rows.
LARGE_ROW, MOST_LARGE = 1024 * 1024, 128 * 1024 * 1024
Cells = Iterator[list[str | None]]

#: Statements whose database work can go on at once.
_DATABASE_THREADS = 8
#: Apart from those and from each other: finding who signs in, and looking for tasks that have ended.
_SIGN_IN_THREADS, _OWN_THREADS = 2, 2
#: Result files that can be read at once; apart, since an object store may be slow.
_FILE_THREADS = 4


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
            self._looking = asyncio.create_task(self._look(), name="mysql-waiter")
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


class ResultFiles:
    """The result files that clients are reading."""

    def __init__(self, threads: Threads) -> None:
        self.threads = threads
        self._open: Counter[str] = Counter()
        self._large: Counter[str] = Counter()
        self._lock = threading.Lock()

    @property
    def open(self) -> int:
        """How many are open."""
        return self._open.total()

    async def rows(self, location: str, most_rows: int | None, holder: str) -> FileRows:
        """Open a result, for an account. Raises EndpointError when it is gone, or too many are open."""
        others = self.open - self._open[holder]
        if self.open >= MAX_OPEN or self._open[holder] >= (MAX_OPEN - others + 1) // 2:
            raise EndpointError(errors.UNKNOWN, "Too many results are being read through this endpoint; try again.")
        self._open[holder] += 1
        try:
            _, cells = await self.threads.run_for(holder, lake.read_result, location)
        except LakeError as error:
            self.closed(holder)
            raise EndpointError(errors.UNKNOWN, f"The result cannot be read: {error.user_message}") from error
        except BaseException:
            self.closed(holder)
            raise
        return FileRows(self, cells, most_rows, holder)

    def reserve_room(self, holder: str, size: int) -> None:
        """Count a large row of the holder's, from any thread. Raises EndpointError when it has too many."""
        with self._lock:
            if self._large[holder] + size > MOST_LARGE and self._large[holder]:
                raise EndpointError(
                    errors.UNKNOWN, "Too many rows of megabytes wait for clients of this account; try again."
                )
            self._large[holder] += size

    def release_room(self, holder: str, size: int) -> None:
        """So much of the holder's large rows was taken, or given up."""
        with self._lock:
            self._large[holder] -= size
            self._large += Counter()  # forgets who has none

    def closed(self, holder: str) -> None:
        """One of the holder's is open no more."""
        self._open[holder] -= 1
        self._open += Counter()  # forgets who has none


class FileRows:
    """The rows of one open result file, at most `most_rows` of them."""

    def __init__(self, files: ResultFiles, cells: Cells, most_rows: int | None, holder: str) -> None:
        self._files = files
        self._holder = holder
        self._cells: Cells | None = cells
        self._left = most_rows
        self._large = 0
        self._reading: asyncio.Future[tuple[list[Row], bool]] | None = None
        self.ended = False

    async def fetch(self, most: int) -> Sequence[Row]:
        """The next rows. Raises EndpointError when the file cannot be read on."""
        if self.ended or self._cells is None:
            return []
        if self._left is not None:
            most = min(most, self._left)
        self._leave_room()
        piece = self._files.threads.run_for(self._holder, self._piece, self._cells, most)
        self._reading = asyncio.ensure_future(piece)
        try:
            rows, self.ended = await asyncio.shield(self._reading)
        except LakeError as error:
            raise EndpointError(errors.UNKNOWN, f"The result cannot be read: {error.user_message}") from error
        if self._left is not None:
            self._left -= len(rows)
            self.ended = self.ended or self._left == 0
        return rows

    async def close(self) -> None:
        """Close the file, as soon as no thread reads it any more."""
        cells, self._cells = self._cells, None
        if cells is None:
            return
        self._files.closed(self._holder)
        if self._reading is not None:
            await asyncio.gather(self._reading, return_exceptions=True)
        self._leave_room()
        await self._files.threads.run(_close, cells)

    def _piece(self, cells: Cells, most: int) -> tuple[list[Row], bool]:
        """The next rows, and whether they are the last."""
        rows: list[Row] = []
        characters = 0
        for row in cells:
            size = sum(len(cell) for cell in row if cell is not None)
            if size > LARGE_ROW:
                self._files.reserve_room(self._holder, size)
                self._large += size
            rows.append(row)
            characters += size
            if len(rows) >= most or characters >= PIECE_CHARACTERS:
                return rows, False
        return rows, True

    def _leave_room(self) -> None:
        """What was large has been taken."""
        size, self._large = self._large, 0
        if size:
            self._files.release_room(self._holder, size)


def _close(cells: Cells) -> None:
    if hasattr(cells, "close"):
        cells.close()


class Shared:
    """Threads, waiting and counts of one endpoint; `connections` gives its open connections by number."""

    def __init__(self, connections: Callable[[], Mapping[int, Any]]) -> None:
        self.threads = Threads("mysql", _DATABASE_THREADS)
        self.files = ResultFiles(Threads("mysql-files", _FILE_THREADS))
        self.sign_in_threads = Threads("mysql-sign-in", _SIGN_IN_THREADS)
        self.own_threads = Threads("mysql-own", _OWN_THREADS)
        self.waiter = Waiter(self.own_threads)
        self.connections = connections
        #: Reading of the monotonic clock, seconds.
        self.started = time.monotonic()
