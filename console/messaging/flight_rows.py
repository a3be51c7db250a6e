"""The flights as rows of a database, for change tracking to read, and changes of them (`make traffic`).

A flight's `id` is its number in the file. The table begins with the flights of January; traffic adds those that
follow in the file, takes away the oldest, and corrects the delays of others, so that the table stays about as large as
it is.
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from queue import SimpleQueue
from random import Random
from typing import Any

import psycopg
from psycopg import sql

from console.messaging.flights import Flight, flights

log = logging.getLogger(__name__)

TABLE = "flights"
_COLUMNS = {
    "year": "smallint", "month": "smallint", "day": "smallint", "dep_time": "smallint", "sched_dep_time": "smallint",
    "dep_delay": "integer", "arr_time": "smallint", "sched_arr_time": "smallint", "arr_delay": "integer",
    "carrier": "text", "flight": "integer", "tailnum": "text", "origin": "text", "dest": "text", "air_time": "smallint",
    "distance": "integer", "hour": "smallint", "minute": "smallint", "time_hour": "timestamptz",
}  # fmt: skip
_CONNECT_S, _MOST_WAITING, _CLOSE_S = 5, 1000, 10.0
_LONGEST_CORRECTION = 45


@dataclass(frozen=True)
class Place:
    """Where the database is, and who asks."""

    host: str
    port: int
    database: str
    user: str
    password: str = field(repr=False)

    @classmethod
    def of_demo(cls, told: Mapping[str, Any]) -> Place:
        """Read `database` of demo.json. Raises KeyError for a missing field."""
        return cls(told["host"], int(told["port"]), told["database"], told["user"], told["password"])

    def to_demo(self) -> dict[str, Any]:
        """As it stands in demo.json."""
        return {
            "host": self.host,
            "port": self.port,
            "user": self.user,
            "password": self.password,
            "database": self.database,
        }

    def connect(self) -> psycopg.Connection:
        """A connection that commits each statement. Raises psycopg.OperationalError."""
        return psycopg.connect(
            host=self.host,
            port=self.port,
            dbname=self.database,
            user=self.user,
            password=self.password,
            connect_timeout=_CONNECT_S,
            autocommit=True,
        )


def ensure_table(place: Place) -> bool:
    """Make the table with the flights of January unless it is there; return whether it was not.

    Raises psycopg.Error, and FileNotFoundError without the package of the flights.
    """
    with place.connect() as connection:
        (found,) = connection.execute("SELECT to_regclass('public.flights') IS NOT NULL").fetchone() or (False,)
        if not found:
            with connection.transaction():
                _make(connection)
        return not found


def _make(connection: psycopg.Connection) -> None:
    columns = sql.SQL(", ").join(
        sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(kind)) for name, kind in _COLUMNS.items()
    )
    connection.execute(sql.SQL("CREATE TABLE {} (id bigint PRIMARY KEY, {})").format(sql.Identifier(TABLE), columns))
    # An update and a delete show all that was there before.
    connection.execute(sql.SQL("ALTER TABLE {} REPLICA IDENTITY FULL").format(sql.Identifier(TABLE)))
    january = itertools.takewhile(lambda flight: flight.fields["month"] == 1, flights())
    with connection.cursor().copy(sql.SQL("COPY {} FROM STDIN").format(sql.Identifier(TABLE))) as copy:
        for number, flight in enumerate(january, 1):
            copy.write_row((number, *(flight.fields[name] for name in _COLUMNS)))


class Changes:
    """One change after the other: of ten, six correct a flight, two add the next one, two take the oldest away."""

    def __init__(self, connection: psycopg.Connection, random: Random) -> None:
        self._connection, self._random = connection, random
        (self._last,) = self._one("SELECT coalesce(max(id), 0) FROM flights")
        self._next: Iterator[Flight] = itertools.islice(flights(), self._last, None)

    def make(self, number: int) -> None:
        """Make the `number`-th change. Raises psycopg.Error."""
        choice = number % 5
        if choice == 1:
            self._add()
        elif choice == 3:
            self._connection.execute("DELETE FROM flights WHERE id = (SELECT min(id) FROM flights)")
        else:
            self._correct()

    def _add(self) -> None:
        flight = next(self._next, None)
        if flight is None:
            return  # the year is over
        self._last += 1
        values = (self._last, *(flight.fields[name] for name in _COLUMNS))
        places = sql.SQL(", ").join(sql.Placeholder() * len(values))
        self._connection.execute(
            sql.SQL("INSERT INTO flights VALUES ({}) ON CONFLICT DO NOTHING").format(places), values
        )

    def _correct(self) -> None:
        first, last = self._one("SELECT coalesce(min(id), 0), coalesce(max(id), 0) FROM flights")
        minutes = self._random.randint(1, _LONGEST_CORRECTION)
        self._connection.execute(
            "UPDATE flights SET dep_delay = coalesce(dep_delay, 0) + %s, arr_delay = coalesce(arr_delay, 0) + %s"
            " WHERE id = (SELECT min(id) FROM flights WHERE id >= %s)",
            (minutes, minutes, self._random.randint(first, last)),
        )

    def _one(self, statement: str) -> tuple[Any, ...]:
        return self._connection.execute(statement.encode()).fetchone() or (0, 0)


class RowFeeder:
    """Makes changes in a thread: what holds it up holds nobody else up. A database that is away is tried again."""

    def __init__(self, place: Place, count: Callable[[str], None]) -> None:
        self._place, self._count = place, count
        self._waiting: SimpleQueue[int | None] = SimpleQueue()
        self._fed = 0
        self._begun = False
        self._thread = threading.Thread(target=self._run, name="row feeder", daemon=True)
        self._thread.start()

    def feed(self) -> None:
        """Make one change soon; it is left out while more than 1,000 wait."""
        if self._waiting.qsize() < _MOST_WAITING:
            self._waiting.put(self._fed)
            self._fed += 1

    def close(self) -> None:
        """Make the changes that wait, and end."""
        self._waiting.put(None)
        self._thread.join(_CLOSE_S)

    def _run(self) -> None:
        failed = False
        while True:
            self._begun = False
            try:
                with self._place.connect() as connection:
                    self._follow(Changes(connection, Random()))
                return
            except (psycopg.Error, FileNotFoundError) as error:
                if not failed:
                    log.warning("the rows of the database are not changed: %s", str(error).strip())
                failed = True
            # One change is lost with each try: that which failed, or where none was begun the next one.
            if not self._begun and self._waiting.get() is None:
                return
            self._count("rows not changed")

    def _follow(self, changes: Changes) -> None:
        while (number := self._waiting.get()) is not None:
            self._begun = True
            changes.make(number)
            self._count("rows changed")
            self._begun = False
