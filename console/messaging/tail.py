"""The newest messages of a topic as they come (docs/use/messages.md#live).

Queues are read by offset, as a search does: there is no consumer group, nothing is committed, and no client notices.
What one answer reads is bounded; of what comes faster, the newest is shown and the rest is counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from brokercore.client import MessageQueue, QueueStats, StoredMessage
from brokercore.client.filtering import MessageFilter
from console.messaging.queries import Source
from console.messaging.records import MessageRecord, Recorder, preview
from console.web.text import visible

MOST_READ = 200
"""Messages of one answer; the page asks once a second."""
MOST_BYTES = 2 << 20
"""So many bytes are read for one answer, and the message that goes beyond."""
_FILTER_SECONDS = 0.05
_BODY, _WORDS = 48, 40
"""Characters of a body, of which its column has room for fewer, and of a tag and keys."""
_MOST_SHARED = 40
_COUNTED = re.compile("[0-9A-F]{32}")
_QUEUE = re.compile(r"([^:,]{1,127}):(\d{1,9}):(\d{1,18})")
_MOST_QUEUES = 4096

Place = dict[MessageQueue, int]
"""The next offset to read of each queue."""


@dataclass(frozen=True)
class Filter:
    """What is let through: tags, an SQL92 expression over properties, and a text in the body, each where it is told."""

    messages: MessageFilter
    body: str = ""

    def passes(self, message: StoredMessage, record: MessageRecord) -> bool:
        """Whether a message is shown. One that takes too long to tell is."""
        if self.messages.passes(message, _FILTER_SECONDS) is False:
            return False
        return not self.body or self.body.casefold() in record.body.decode(errors="replace").casefold()


@dataclass
class News:
    """What came since a place, newest first, and where to go on; `skipped` were too many, `seen` were looked at."""

    place: Place
    messages: list[MessageRecord] = field(default_factory=list)
    seen: int = 0
    skipped: int = 0


def end_of(source: Source) -> Place:
    """Where the topic ends now. Raises TopicNotExist and what an outage raises."""
    return {queue: stats.max_offset for queue, stats in source.admin.topics.stats(source.physical_topic).items()}


def news(source: Source, place: Place, wanted: Filter) -> News:
    """What came since `place`. Raises TopicNotExist and what an outage raises."""
    ends = source.admin.topics.stats(source.physical_topic)
    found = News({queue: _begin(place, queue, stats) for queue, stats in ends.items()})
    waiting = {queue: stats.max_offset for queue, stats in ends.items() if stats.max_offset > found.place[queue]}
    share = max(1, MOST_READ // len(waiting)) if waiting else 0
    recorder = Recorder(source.admin, source.instance)
    size = 0
    for queue, end in waiting.items():
        begin = max(found.place[queue], end - share)
        found.skipped += begin - found.place[queue]
        found.place[queue] = begin
        while found.place[queue] < end and size < MOST_BYTES:
            pulled = source.admin.messages.pull(queue, found.place[queue], end - found.place[queue])
            for message in pulled.messages:
                size += message.total_size
                found.seen += 1
                record = recorder.record(message, queue)
                if wanted.passes(message, record):
                    found.messages.append(record)
            after = [message.queue_offset + 1 for message in pulled.messages]
            following = max([pulled.next_offset, *after])
            found.place[queue] = following if following > found.place[queue] else end
    found.messages.sort(key=lambda one: (one.stored_at_ms, one.position.queue_id, one.position.offset), reverse=True)
    return found


def _begin(place: Place, queue: MessageQueue, stats: QueueStats) -> int:
    """Where to go on; a queue that is new is read from its first message, and no offset lies outside of it."""
    return min(max(place.get(queue, stats.min_offset), stats.min_offset), stats.max_offset)


def lines(messages: Iterable[MessageRecord]) -> str:
    """A line for each message, newest first, with tabs between what the page shows of it.

    Each cell is told by what differs from the line above: messages of a topic are alike, and who sees them live gets
    many. When it was stored: ms to go back, from 0 at first. The id: `-` and the hexadecimal number to go back, or a
    text. `broker:queue`, with `:offset` unless that is the one before the last of this queue. Tag, keys, body. A text
    begins with a character that says how many it shares with the one above: `0` for none, then `1` and so on.
    """
    told: list[str] = []
    at, identity = 0, ""
    above: tuple[str, ...] = ("",) * 4
    following: dict[str, int] = {}
    for one in messages:
        place = one.position
        queue = f"{place.broker_name}:{place.queue_id}"
        where = queue if following.get(queue) == place.offset else str(place)
        following[queue] = place.offset - 1
        shown = _shown(one.message_id)
        cells = (where, *map(_shown, (_cut(one.tag), _cut(" ".join(one.keys)), preview(one.body, _BODY))))
        pairs = zip(above, cells, strict=True)
        told.append(
            "\t".join((str(at - one.stored_at_ms), _back(identity, shown), *(_beside(*pair) for pair in pairs)))
        )
        at, identity, above = one.stored_at_ms, shown, cells
    return "\n".join(told)


def _shown(text: str) -> str:
    return " ".join(visible(text).split())


def _back(above: str, identity: str) -> str:
    """Ids that a client counts up are a number apart."""
    if above > identity and _COUNTED.fullmatch(above) and _COUNTED.fullmatch(identity):
        return f"-{int(above, 16) - int(identity, 16):x}"
    return _beside(above, identity)


def _beside(above: str, cell: str) -> str:
    shared = 0
    for one, other in zip(above[:_MOST_SHARED], cell, strict=False):
        if one != other:
            break
        shared += 1
    return chr(ord("0") + shared) + cell[shared:]


def _cut(text: str) -> str:
    return text if len(text) <= _WORDS else text[: _WORDS - 1] + "…"


def dump(place: Place) -> str:
    """A place as a text: `broker-a:0:17,broker-a:1:4`."""
    return ",".join(f"{queue.broker_name}:{queue.queue_id}:{offset}" for queue, offset in sorted(place.items()))


def steps(before: Place, after: Place) -> str:
    """What leads from one place to the next, `+2,0,1` by queues in their order; the whole place where others are."""
    if before.keys() != after.keys():
        return dump(after)
    return "+" + ",".join(str(after[queue] - before[queue]) for queue in sorted(before))


def load(text: str, topic: str) -> Place:
    """The place of `dump`. Raises ValueError for any other text."""
    parts = text.split(",") if text else []
    if len(parts) > _MOST_QUEUES:
        raise ValueError("too many queues")
    return dict(_queue(part, topic) for part in parts)


def _queue(part: str, topic: str) -> tuple[MessageQueue, int]:
    found = _QUEUE.fullmatch(part)
    if found is None or not part.isascii():
        raise ValueError(f"{part[:50]!r} is no place in a queue")
    return MessageQueue(topic, found[1], int(found[2])), int(found[3])
