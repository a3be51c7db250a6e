"""What all connections of a door share."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from console.sql.door.files import ResultFiles
from console.sql.door.threads import Threads
from console.sql.door.waiting import Waiter

#: Statements whose database work can go on at once.
_DATABASE_THREADS = 8
#: Apart from those and from each other: finding who signs in, and looking for tasks that have ended.
_SIGN_IN_THREADS, _OWN_THREADS = 2, 2
#: Result files that can be read at once; apart, since an object store may be slow.
_FILE_THREADS = 4


class Shared:
    """Threads, waiting and counts of one door; `connections` gives its open connections by number."""

    def __init__(self, connections: Callable[[], Mapping[int, Any]]) -> None:
        self.threads = Threads("sql-door", _DATABASE_THREADS)
        self.files = ResultFiles(Threads("sql-door-files", _FILE_THREADS))
        self.sign_in_threads = Threads("sql-door-sign-in", _SIGN_IN_THREADS)
        self.own_threads = Threads("sql-door-own", _OWN_THREADS)
        self.waiter = Waiter(self.own_threads)
        self.connections = connections
        #: Reading of the monotonic clock, seconds.
        self.started = time.monotonic()
