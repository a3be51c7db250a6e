"""The log of one pipeline, for its page: what its worker says, and what its tables `print` wrote. Redis, database 2.

gantry:pipelines:<id>:log  stream of entries: `level`, `text`; the last 2,000 or so, kept for a week
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import redis

from console.web import redis as web_redis

Level = Literal["info", "warning", "error", "print"]
MOST_KEPT = 2_000
MOST_SHOWN = 500
_LONGEST = 8_192
_KEPT_SECONDS = 7 * 24 * 3600
_CURSOR = re.compile(r"\d{1,15}-\d{1,10}")


@dataclass(frozen=True, slots=True)
class Line:
    """One entry; `cursor` is its place in the log."""

    cursor: str
    level: str
    text: str

    @property
    def at_ms(self) -> int:
        """When it was written, epoch ms."""
        return int(self.cursor.partition("-")[0])


def write(pipeline_id: int, level: Level, text: str) -> None:
    """Add an entry; a longer text is cut."""
    write_all(pipeline_id, level, [text])


def write_all(pipeline_id: int, level: Level, texts: Sequence[str]) -> None:
    """Add entries; of more than are kept the last ones."""
    client = _redis()
    pipe = client.pipeline(transaction=False)
    for text in texts[-MOST_KEPT:]:
        pipe.xadd(_key(pipeline_id), {"level": level, "text": text[:_LONGEST]}, maxlen=MOST_KEPT, approximate=True)
    pipe.expire(_key(pipeline_id), _KEPT_SECONDS)
    pipe.execute()


def lines(pipeline_id: int, after: str = "") -> list[Line]:
    """The newest entries, or those behind a cursor, oldest first; at most MOST_SHOWN. What is no cursor is none."""
    client = _redis()
    found: Any
    if _CURSOR.fullmatch(after):
        found = client.xrange(_key(pipeline_id), min=f"({after}", count=MOST_SHOWN)
    else:
        newest: Any = client.xrevrange(_key(pipeline_id), count=MOST_SHOWN)
        found = reversed(newest)
    return [Line(cursor, entry["level"], entry["text"]) for cursor, entry in found]


def forget(pipeline_id: int) -> None:
    """Drop the log of a pipeline that is no more."""
    _redis().delete(_key(pipeline_id))


def _key(pipeline_id: int) -> str:
    return f"gantry:pipelines:{pipeline_id}:log"


def _redis() -> redis.Redis:
    return web_redis.connection(2)
