"""Finding messages: by topic and time, by id, by key. Never one of another topic or instance."""

from __future__ import annotations

import math
import secrets
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from django.core.cache import cache
from django.utils.translation import gettext as _

from brokercore.client import Admin, MessageQueue, StoredMessage
from brokercore.client.errors import BrokerNotExist, InvalidParameter, NoMessage, QueryNotFound, SystemFault
from brokercore.names import dead_letter_topic
from console.accounts.actor import Actor
from console.instances import broker
from console.instances.models import Instance
from console.messaging.records import MessageRecord, Position, Recorder, belongs_to
from console.topics.models import Group, Topic
from console.web.errors import Refused

Accept = Callable[[StoredMessage], bool]
Wanted = dict[str, str]
"""What a search looks for besides its range, as plain words that its task keeps; empty for everything."""
Matching = Callable[[Wanted], Accept]
"""Makes the decision about single messages from such words."""

PULL_BUDGET = 160
"""Pulls of one request: the 2,500 messages that a query task reaches at most, plus one round over many queues."""
_BATCH = 32

LIFETIME_SECONDS = 600
MAX_PAGES = 50
MIN_PAGE_SIZE, MAX_PAGE_SIZE = 5, 50
DEFAULT_PAGE_SIZE = 20

MAX_BY_KEY = 64
FOREVER_MS = 2**63 - 1
_OFFSET_ID_LENGTHS = (32, 56)
_NOT_THERE = (BrokerNotExist, InvalidParameter, NoMessage, QueryNotFound, SystemFault)
"""Answers to a look-up by place that mean "no such message here", not "the broker is out of order"."""


@dataclass
class Cursor:
    """A range of one queue: offsets from `begin` to before `end`.

    `position` is the next offset to read (oldest first) or the one after it (newest first). Offsets are dense, so a
    range of times is one of offsets in each queue, and the place where a page ends is one offset a queue.
    """

    broker_name: str
    queue_id: int
    begin: int
    end: int
    position: int


@dataclass
class ScanPage:
    """Messages of a scan in order. `stopped`: the budget ran out before enough were found."""

    messages: list[tuple[MessageQueue, StoredMessage]] = field(default_factory=list)
    scanned: int = 0
    stopped: bool = False
    last_ms: int = 0


def open_range(admin: Admin, topic: str, begin_ms: int, end_ms: int, *, newest_first: bool) -> list[Cursor]:
    """Cursors over the messages stored from `begin_ms` to `end_ms`, both inclusive."""
    cursors = []
    for queue, stats in sorted(admin.topics.stats(topic).items()):
        if stats.max_offset <= stats.min_offset or stats.last_update_ms < begin_ms:
            continue
        begin = max(stats.min_offset, admin.offsets.search(queue, begin_ms))
        # Searching behind the newest message is asking for trouble: brokers answer it differently.
        end = stats.max_offset if end_ms >= stats.last_update_ms else admin.offsets.search(queue, end_ms + 1)
        end = min(end, stats.max_offset)
        if begin < end:
            start = end if newest_first else begin
            cursors.append(Cursor(queue.broker_name, queue.queue_id, begin, end, start))
    return cursors


def dump(cursors: list[Cursor]) -> list[dict[str, Any]]:
    """Cursors as plain values, for a query task."""
    return [asdict(cursor) for cursor in cursors]


def load_scan(values: list[dict[str, Any]]) -> list[Cursor]:
    """The cursors of `dump`."""
    return [Cursor(**value) for value in values]


class Scan:
    """Merges the queues of one topic from `cursors`, which move with what is read."""

    def __init__(
        self, admin: Admin, topic: str, cursors: list[Cursor], *, newest_first: bool, batch: int = _BATCH
    ) -> None:
        self._admin = admin
        self._topic = topic
        self._newest_first = newest_first
        self._budget = PULL_BUDGET
        self._lanes = [_Lane(cursor, newest_first, min(batch, _BATCH)) for cursor in cursors]

    def read(self, count: int, accept: Accept) -> ScanPage:
        """The next `count` messages that `accept` lets through, or fewer at the end or when the budget is spent."""
        found = ScanPage()
        while len(found.messages) < count:
            lane = self._next_lane()
            if lane is None:
                found.stopped = self._budget <= 0 and self.more
                break
            message = lane.pop()
            found.scanned += 1
            found.last_ms = message.store_timestamp
            if accept(message):
                found.messages.append((lane.queue(self._topic), message))
        return found

    @property
    def more(self) -> bool:
        """True when something of the range is unread."""
        return any(not lane.done for lane in self._lanes)

    def _next_lane(self) -> _Lane | None:
        """The lane whose head comes next; None at the end, or when a head is missing and no pull is left."""
        heads: list[_Lane] = []
        for lane in self._lanes:
            while not lane.buffer and not lane.done:
                if self._budget <= 0:
                    return None
                self._budget -= 1
                lane.fill(self._admin, self._topic)
            if lane.buffer:
                heads.append(lane)
        if not heads:
            return None
        choose = max if self._newest_first else min
        return choose(heads, key=lambda lane: (lane.buffer[0].store_timestamp, lane.cursor.queue_id))


class _Lane:
    """One queue of a scan with what was pulled ahead."""

    def __init__(self, cursor: Cursor, newest_first: bool, batch: int) -> None:
        self.cursor = cursor
        self.buffer: deque[StoredMessage] = deque()
        self._newest_first = newest_first
        self._batch = batch

    @property
    def done(self) -> bool:
        edge = self.cursor.begin if self._newest_first else self.cursor.end
        return not self.buffer and self.cursor.position == edge

    def queue(self, topic: str) -> MessageQueue:
        return MessageQueue(topic, self.cursor.broker_name, self.cursor.queue_id)

    def pop(self) -> StoredMessage:
        message = self.buffer.popleft()
        self.cursor.position = message.queue_offset + (0 if self._newest_first else 1)
        return message

    def fill(self, admin: Admin, topic: str) -> None:
        """One pull. Where it brings nothing the range shrinks, so that filling comes to an end."""
        cursor = self.cursor
        start = max(cursor.begin, cursor.position - self._batch) if self._newest_first else cursor.position
        stop = cursor.position if self._newest_first else cursor.end
        result = admin.messages.pull(self.queue(topic), start, min(self._batch, stop - start))
        found = [m for m in result.messages if start <= m.queue_offset < stop]
        if self._newest_first:
            self._fill_backwards(found, start, stop, result.min_offset)
        elif found:
            self.buffer.extend(found)
        else:
            after = max(result.next_offset, result.min_offset)
            cursor.position = min(cursor.end, after) if after > start else cursor.end

    def _fill_backwards(self, found: list[StoredMessage], start: int, stop: int, min_offset: int) -> None:
        if not found:
            if min_offset > start:  # retention took the older part meanwhile
                self.cursor.begin = min(min_offset, stop)
            else:
                self.cursor.position = start
        elif found[-1].queue_offset < stop - 1 and len(found) < stop - start:
            # A response holds 256 KiB: of large messages fewer fit, so ask for fewer and get the newest.
            self._batch = len(found) if len(found) < self._batch else 1
        else:
            self.buffer.extend(reversed(found))


@dataclass
class QueryTask:
    """The state of one search, read page by page (docs/use/messages.md; message/getByPagedTopic, getByPagedDLQ).

    `starts[n]` are the cursors at the beginning of page n + 1.
    """

    task_id: str
    owner: str
    physical_topic: str
    begin_ms: int
    end_ms: int
    page_size: int
    newest_first: bool
    wanted: Wanted
    total: int
    starts: list[list[dict[str, Any]]]

    @property
    def max_page_count(self) -> int:
        """Pages that can be reached. With a filter they are not known before everything is read."""
        return min(MAX_PAGES, math.ceil(self.total / self.page_size))


def create(
    actor: Actor,
    physical_topic: str,
    cursors: list[Cursor],
    *,
    begin_ms: int,
    end_ms: int,
    page_size: int,
    newest_first: bool,
    wanted: Wanted,
) -> QueryTask:
    """A new task at its first page."""
    return QueryTask(
        task_id=secrets.token_urlsafe(12),
        owner=_owner(actor),
        physical_topic=physical_topic,
        begin_ms=begin_ms,
        end_ms=end_ms,
        page_size=page_size,
        newest_first=newest_first,
        wanted=wanted,
        total=sum(c.end - c.begin for c in cursors),
        starts=[dump(cursors)],
    )


def save(task: QueryTask) -> None:
    """Keep the task for another ten minutes."""
    cache.set(_key(task.task_id), vars(task), LIFETIME_SECONDS)


def load(actor: Actor, physical_topic: str, task_id: str) -> QueryTask:
    """The caller's task. Raises Refused when it is unknown, expired, of someone else or of another topic."""
    values = cache.get(_key(task_id)) if task_id.isascii() and len(task_id) <= 64 else None
    if values is None or values["owner"] != _owner(actor) or values["physical_topic"] != physical_topic:
        raise _expired()
    try:
        return QueryTask(**values)
    except TypeError:  # kept by another version of the product, while it was updated
        raise _expired() from None


def _expired() -> Refused:
    return Refused("BIZ_TASK_NOT_FOUND", _("This search has expired; please search again."), "task_id")


def _owner(actor: Actor) -> str:
    return actor.name


def _key(task_id: str) -> str:
    return f"messaging:task:{task_id}"


@dataclass(frozen=True)
class Source:
    """Where to look: the physical topic, which is one of the instance."""

    instance: Instance
    physical_topic: str

    @classmethod
    def of_topic(cls, topic: Topic) -> Source:
        """A topic's messages."""
        return cls(topic.instance, topic.physical_name)

    @classmethod
    def of_dead_letters(cls, group: Group) -> Source:
        """A group's dead letters."""
        return cls(group.instance, dead_letter_topic(group.physical_name))

    @property
    def admin(self) -> Admin:
        """The admin client of the instance's cluster."""
        return broker.admin(self.instance.cluster)


@dataclass(frozen=True)
class TimePage:
    """One page of a time search. Times are epoch milliseconds.

    `total` counts the whole range, before any tag. `stopped_at_ms` is set when the request's budget ran out before
    the page was full: everything up to that store time was looked at.
    """

    task_id: str
    page: int
    page_size: int
    max_page_count: int
    messages: list[MessageRecord]
    total: int
    scanned: int
    has_next: bool
    stopped_at_ms: int | None


def with_tag(wanted: Wanted) -> Accept:
    """Messages with exactly this tag."""
    return lambda message: message.tags == wanted["tag"]


def search_by_time(
    actor: Actor,
    source: Source,
    begin_ms: int,
    end_ms: int,
    *,
    page: int = 1,
    page_size: int = DEFAULT_PAGE_SIZE,
    newest_first: bool = True,
    wanted: Wanted | None = None,
    matching: Matching = with_tag,
) -> TimePage:
    """Start a query task over the messages stored from `begin_ms` to `end_ms` (inclusive) and read one page.

    Of them those that `matching` lets through for `wanted`: with the default, those with exactly the `tag` it names.
    Raises Refused for a range that ends before it begins or a page or page size out of bounds, ClientError when
    the broker fails.
    """
    if end_ms < begin_ms:
        raise Refused("BIZ_FIELD_CHECK_INVALID", _("The end of the range is before its start."), "end_ms")
    if not MIN_PAGE_SIZE <= page_size <= MAX_PAGE_SIZE:
        message = _("A page has %(least)s to %(most)s messages.") % {"least": MIN_PAGE_SIZE, "most": MAX_PAGE_SIZE}
        raise Refused("BIZ_FIELD_CHECK_INVALID", message, "page_size")
    cursors = open_range(source.admin, source.physical_topic, begin_ms, end_ms, newest_first=newest_first)
    task = create(
        actor,
        source.physical_topic,
        cursors,
        begin_ms=begin_ms,
        end_ms=end_ms,
        page_size=page_size,
        newest_first=newest_first,
        wanted=wanted or {},
    )
    return _read_page(source, task, page, matching)


def next_page(actor: Actor, source: Source, task_id: str, page: int, matching: Matching = with_tag) -> TimePage:
    """Another page of a query task; its first call's filter and page size hold.

    Raises Refused for an unknown, expired or foreign task and for a page beyond the last.
    """
    return _read_page(source, load(actor, source.physical_topic, task_id), page, matching)


def find_by_id(source: Source, message_id: str) -> list[MessageRecord]:
    """The messages with this unique id, or the one with this offset id; newest first, empty when there is none.

    A unique id of 32 digits looks like an offset id, so it is looked up as a unique id first.
    """
    message_id = message_id.strip()
    if not message_id.isascii() or not message_id.isalnum() or len(message_id) > 128:
        return []
    topic = source.physical_topic
    found = [
        m
        for m in source.admin.messages.query(topic, message_id, unique=True, max_messages=32)
        if m.unique_id == message_id
    ]
    if not found and len(message_id) in _OFFSET_ID_LENGTHS:
        found = _by_offset_id(source, message_id)
    recorder = Recorder(source.admin, source.instance)
    own = [m for m in found if belongs_to(m, topic)]
    return sorted(recorder.records(own), key=lambda m: (m.stored_at_ms, m.position.offset), reverse=True)


def find_by_key(source: Source, key: str, begin_ms: int = 0, end_ms: int = FOREVER_MS) -> list[MessageRecord]:
    """The 64 newest messages one of whose keys is exactly `key`, newest first (docs/use/messages.md)."""
    key = key.strip()
    if not key or len(key) > 1024:
        return []
    found = source.admin.messages.query(
        source.physical_topic, key, max_messages=MAX_BY_KEY, begin_ms=begin_ms, end_ms=end_ms
    )
    recorder = Recorder(source.admin, source.instance)
    own = [
        m
        for m in found
        if belongs_to(m, source.physical_topic) and key in m.keys.split(" ") and begin_ms <= m.store_timestamp <= end_ms
    ]
    return sorted(recorder.records(own), key=lambda m: (m.stored_at_ms, m.position.offset), reverse=True)[:MAX_BY_KEY]


def message_at(source: Source, position: Position) -> MessageRecord | None:
    """The message at an exact place of the topic, as links in lists name it; None when it is gone."""
    queue = MessageQueue(source.physical_topic, position.broker_name, position.queue_id)
    if queue not in source.admin.topics.stats(source.physical_topic):
        return None
    for message in source.admin.messages.pull(queue, position.offset, 1).messages:
        if message.queue_offset == position.offset:
            return Recorder(source.admin, source.instance).record(message, queue)
    return None


def _by_offset_id(source: Source, message_id: str) -> list[StoredMessage]:
    """The message at the place an offset id names; none when the id names a broker outside the topic's route."""
    try:
        return [source.admin.messages.view(message_id, source.physical_topic)]
    except (ValueError, *_NOT_THERE):
        return []


def _read_page(source: Source, task: QueryTask, page: int, matching: Matching) -> TimePage:
    """Read on from the nearest page whose beginning is known."""
    reachable = MAX_PAGES if task.wanted else max(1, task.max_page_count)
    if not 1 <= page <= reachable:
        raise Refused(
            "BIZ_FIELD_CHECK_INVALID",
            _("The page is %(page)s; allowed is 1 to %(reachable)s.") % {"page": page, "reachable": reachable},
            "page",
        )
    known = min(page, len(task.starts))
    cursors = load_scan(task.starts[known - 1])
    reader = Scan(
        source.admin, source.physical_topic, cursors, newest_first=task.newest_first, batch=task.page_size + 1
    )
    found = ScanPage()
    accept = _accepting(task, matching)
    for number in range(known, page + 1):
        found = reader.read(task.page_size, accept)
        if len(task.starts) == number:
            task.starts.append(dump(cursors))
        if found.stopped and number < page:
            found = ScanPage([], found.scanned, True, found.last_ms)
            break
    save(task)
    recorder = Recorder(source.admin, source.instance)
    return TimePage(
        task_id=task.task_id,
        page=page,
        page_size=task.page_size,
        max_page_count=task.max_page_count,
        messages=[recorder.record(message, queue) for queue, message in found.messages],
        total=task.total,
        scanned=found.scanned,
        has_next=reader.more and page < reachable,
        stopped_at_ms=found.last_ms if found.stopped else None,
    )


def _accepting(task: QueryTask, matching: Matching) -> Accept:
    matches = matching(task.wanted) if task.wanted else None

    def accept(message: StoredMessage) -> bool:
        in_range = task.begin_ms <= message.store_timestamp <= task.end_ms
        return in_range and (matches is None or matches(message))

    return accept
