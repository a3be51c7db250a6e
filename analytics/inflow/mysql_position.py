"""Where a reader of a binary log stands, as text that survives restarts and, by GTIDs, the server.

`mysql-bin.000012:4711 0-1-35` is a file, an offset in it, and the transactions that are done; without the last part
where the server numbers none. `+3@0-1-36` behind it says that of transaction 0-1-36, the next, three changes are done
too. `snapshot` is a snapshot that has not ended: it begins again.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from uuid import UUID

SNAPSHOT = "snapshot"
_POSITION = re.compile(
    r"(?P<file>[^\s:]+\.\d+):(?P<offset>\d+)(?: (?P<gtids>[^\s+]+))?(?: \+(?P<done>\d+)@(?P<transaction>\S+))?"
)
_MARIADB_GTID = re.compile(r"(\d+)-(\d+)-(\d+)")


@dataclass(frozen=True, slots=True)
class Gtids:
    """The transactions that are done. A server gives a set of one of the two kinds; empty where it numbers none."""

    domains: Mapping[int, str] = field(default_factory=dict)
    """MariaDB: the last transaction of each domain, `domain-server-number`."""
    sources: Mapping[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    """MySQL: of each server's UUID the numbers, as ranges of which both ends belong to them."""

    @classmethod
    def parse(cls, text: str) -> Gtids:
        """Read a server's own text. Raises ValueError."""
        domains: dict[int, str] = {}
        sources: dict[str, tuple[tuple[int, int], ...]] = {}
        for part in filter(None, (part.strip() for part in text.split(","))):
            if found := _MARIADB_GTID.fullmatch(part):
                domains[int(found[1])] = part
                continue
            uuid, *ranges = part.split(":")
            pairs = [tuple(map(int, numbers.split("-"))) for numbers in ranges]
            if not pairs or any(len(pair) > 2 for pair in pairs):
                raise ValueError(f"{part!r} is no GTID")
            sources[str(UUID(uuid))] = tuple((pair[0], pair[-1]) for pair in pairs)
        return cls(domains, sources)

    def __str__(self) -> str:
        if self.domains:
            return ",".join(self.domains[domain] for domain in sorted(self.domains))
        return ",".join(
            f"{uuid}:{':'.join(f'{a}-{b}' if a != b else str(a) for a, b in self.sources[uuid])}"
            for uuid in sorted(self.sources)
        )

    def __bool__(self) -> bool:
        return bool(self.domains or self.sources)

    def with_done(self, gtid: str) -> Gtids:
        """The set and one more transaction, told as a server does: `0-1-36`, or `uuid:36`."""
        if found := _MARIADB_GTID.fullmatch(gtid):
            return replace(self, domains={**self.domains, int(found[1]): gtid})
        uuid, _, number = gtid.partition(":")
        return replace(self, sources={**self.sources, uuid: _with_number(self.sources.get(uuid, ()), int(number))})

    def packed(self) -> bytes:
        """A MySQL set as COM_BINLOG_DUMP_GTID wants it."""
        parts = [struct.pack("<Q", len(self.sources))]
        for uuid, ranges in self.sources.items():
            parts += [UUID(uuid).bytes, struct.pack("<Q", len(ranges))]
            parts += [struct.pack("<QQ", first, last + 1) for first, last in ranges]
        return b"".join(parts)


def _with_number(ranges: tuple[tuple[int, int], ...], number: int) -> tuple[tuple[int, int], ...]:
    if ranges and ranges[-1][1] == number - 1:  # nearly always
        return (*ranges[:-1], (ranges[-1][0], number))
    merged: list[tuple[int, int]] = []
    for first, last in sorted({*ranges, (number, number)}):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return tuple(merged)


@dataclass(frozen=True, slots=True)
class Position:
    """The end of a transaction, and how much of the next one is done."""

    file: str
    offset: int
    gtids: Gtids = Gtids()
    done: int = 0
    """Changes of `transaction`, which begins here, that are done."""
    transaction: str = ""

    @classmethod
    def parse(cls, text: str) -> Position:
        """Read what `str` wrote. Raises ValueError."""
        found = _POSITION.fullmatch(text)
        if found is None:
            raise ValueError(f"{text!r} is no position of a binary log, such as 'mysql-bin.000012:4711 0-1-35'")
        return cls(
            found["file"],
            int(found["offset"]),
            Gtids.parse(found["gtids"] or ""),
            int(found["done"] or 0),
            found["transaction"] or "",
        )

    def __str__(self) -> str:
        gtids = f" {self.gtids}" if self.gtids else ""
        done = f" +{self.done}@{self.transaction}" if self.done else ""
        return f"{self.file}:{self.offset}{gtids}{done}"

    @property
    def in_file(self) -> str:
        """File and offset alone."""
        return f"{self.file}:{self.offset}"
