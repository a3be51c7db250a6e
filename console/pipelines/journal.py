"""The log of one pipeline, for its page: what its worker says, and what its tables `print` wrote. Redis, database 2.

gantry:pipelines:<id>:log         stream of entries: `level`, `text`; kept for a week after the last one
gantry:pipelines:logs:<account>   hash: pipeline → what its log takes, bytes

A log has so many lines and bytes, and those of an account so many bytes together: for what comes the oldest go, of the
longest log first.
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
#: Of one log, and of all logs of an account.
MOST_BYTES, MOST_BYTES_OF_ACCOUNT = 1 << 20, 8 << 20
_LONGEST = 8_192
_KEPT_SECONDS = 7 * 24 * 3600
_CURSOR = re.compile(r"\d{1,15}-\d{1,10}")

#: KEYS: the log, the sizes of its account. ARGV: pipeline, most lines, most bytes, seconds to keep, level, texts…
#: Adds the texts, removes the oldest entries that are too many, and returns what all logs of the account take, bytes.
_ADD = """
local LINE = 100  -- bytes of an entry beside its text, about
local name, most_lines, most_bytes = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local function cost(entry)
  return LINE + #entry[2][4]
end
local size = tonumber(redis.call('HGET', KEYS[2], name))
if redis.call('EXISTS', KEYS[1]) == 0 then
  size = 0
elseif not size then
  size = 0
  for _, entry in ipairs(redis.call('XRANGE', KEYS[1], '-', '+')) do size = size + cost(entry) end
end
for number = 6, #ARGV do
  redis.call('XADD', KEYS[1], '*', 'level', ARGV[5], 'text', ARGV[number])
  size = size + LINE + #ARGV[number]
end
local lines = redis.call('XLEN', KEYS[1])
while lines > 0 and (lines > most_lines or size > most_bytes) do
  for _, entry in ipairs(redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', 100)) do
    if lines <= most_lines and size <= most_bytes then break end
    redis.call('XDEL', KEYS[1], entry[1])
    lines, size = lines - 1, size - cost(entry)
  end
end
if lines > 0 then
  redis.call('HSET', KEYS[2], name, size)
  if #ARGV > 5 then redis.call('EXPIRE', KEYS[1], ARGV[4]) end
else
  redis.call('HDEL', KEYS[2], name)
end
redis.call('EXPIRE', KEYS[2], ARGV[4])
local total = 0
for _, bytes in ipairs(redis.call('HVALS', KEYS[2])) do total = total + tonumber(bytes) end
return total
"""


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


@dataclass(frozen=True, slots=True)
class Kept:
    """How many lines a log has, and how many it had and has no more."""

    lines: int
    gone: int


def write(account: str, pipeline_id: int, level: Level, text: str) -> None:
    """Add an entry; a longer text is cut. `account` is the ID of whose pipeline it is."""
    write_all(account, pipeline_id, level, [text])


def write_all(account: str, pipeline_id: int, level: Level, texts: Sequence[str]) -> None:
    """Add entries; of more than are kept the last ones."""
    cut = [text.encode(errors="replace")[:_LONGEST].decode(errors="ignore") for text in texts[-MOST_KEPT:]]
    if cut and _added(account, pipeline_id, MOST_BYTES, level, *cut) > MOST_BYTES_OF_ACCOUNT:
        _make_room(account)


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


def kept(pipeline_id: int) -> Kept:
    """How much of the log there is."""
    try:
        about: Any = _redis().xinfo_stream(_key(pipeline_id))
    except redis.ResponseError:  # no such key
        return Kept(0, 0)
    return Kept(about["length"], about["entries-added"] - about["length"])


def forget(account: str, pipeline_id: int) -> None:
    """Drop the log of a pipeline that is no more."""
    client = _redis()
    client.delete(_key(pipeline_id))
    client.hdel(_sizes(account), str(pipeline_id))


def _make_room(account: str) -> None:
    """Shorten the longest logs of an account; none to less than an equal share."""
    client = _redis()
    told: Any = client.hgetall(_sizes(account))
    sizes = {int(name): int(size) for name, size in told.items()}
    for name in list(sizes):
        if not client.exists(_key(name)):  # a week has passed
            client.hdel(_sizes(account), str(name))
            del sizes[name]
    while (excess := sum(sizes.values()) - MOST_BYTES_OF_ACCOUNT) > 0:
        longest = max(sizes, key=lambda name: sizes[name])
        sizes[longest] = max(sizes[longest] - excess, MOST_BYTES_OF_ACCOUNT // len(sizes))
        _added(account, longest, sizes[longest])


def _added(account: str, pipeline_id: int, most_bytes: int, level: Level = "info", *texts: str) -> int:
    keys = [_key(pipeline_id), _sizes(account)]
    about = [pipeline_id, MOST_KEPT, most_bytes, _KEPT_SECONDS, level]
    total: Any = _redis().eval(_ADD, len(keys), *keys, *about, *texts)
    return int(total)


def _key(pipeline_id: int) -> str:
    return f"gantry:pipelines:{pipeline_id}:log"


def _sizes(account: str) -> str:
    return f"gantry:pipelines:logs:{account}"


def _redis() -> redis.Redis:
    return web_redis.connection(2)
