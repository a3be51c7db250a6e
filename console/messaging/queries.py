"""Finding messages: by topic and time, by id, by key. Never one of another topic or instance."""

from __future__ import annotations

from dataclasses import dataclass

from brokercore.client import Admin, MessageQueue, StoredMessage
from brokercore.client.errors import BrokerNotExist, InvalidParameter, NoMessage, QueryNotFound, SystemFault
from console.accounts.actor import Actor
from console.instances import broker
from console.instances.models import Instance
from console.messaging import query_tasks, scan
from console.messaging.names import dead_letter_topic
from console.messaging.query_tasks import DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE, MAX_PAGES, MIN_PAGE_SIZE, QueryTask
from console.messaging.records import MessageRecord, Position, Recorder, belongs_to
from console.topics.models import Group, Topic
from console.web.errors import Refused

MAX_BY_KEY = 64
FOREVER_MS = 2**63 - 1
_OFFSET_ID_LENGTHS = (32, 56)
_NOT_THERE = (BrokerNotExist, InvalidParameter, NoMessage, QueryNotFound, SystemFault)
"""Answers to a look-up by place that mean "no such message here", not "the broker is out of order"."""


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
        return cls(group.instance, dead_letter_topic(group))

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


def search_by_time(
    actor: Actor,
    source: Source,
    begin_ms: int,
    end_ms: int,
    *,
    page: int = 1,
    page_size: int = DEFAULT_PAGE_SIZE,
    newest_first: bool = True,
    tag: str = "",
) -> TimePage:
    """Start a query task over the messages stored from `begin_ms` to `end_ms` (inclusive) and read one page.

    Raises Refused for a range that ends before it begins or a page or page size out of bounds, ClientError when
    the broker fails.
    """
    if end_ms < begin_ms:
        raise Refused("BIZ_FIELD_CHECK_INVALID", "The end of the range lies before its begin.", "end_ms")
    if not MIN_PAGE_SIZE <= page_size <= MAX_PAGE_SIZE:
        message = f"A page has {MIN_PAGE_SIZE} to {MAX_PAGE_SIZE} messages."
        raise Refused("BIZ_FIELD_CHECK_INVALID", message, "page_size")
    cursors = scan.open_range(source.admin, source.physical_topic, begin_ms, end_ms, newest_first=newest_first)
    task = query_tasks.create(
        actor,
        source.physical_topic,
        cursors,
        begin_ms=begin_ms,
        end_ms=end_ms,
        page_size=page_size,
        newest_first=newest_first,
        tag=tag,
    )
    return _read_page(source, task, page)


def next_page(actor: Actor, source: Source, task_id: str, page: int) -> TimePage:
    """Another page of a query task; its first call's filter and page size hold.

    Raises Refused for an unknown, expired or foreign task and for a page beyond the last.
    """
    return _read_page(source, query_tasks.load(actor, source.physical_topic, task_id), page)


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
        for m in source.admin.query_message(topic, message_id, unique=True, max_messages=32)
        if m.unique_id == message_id
    ]
    if not found and len(message_id) in _OFFSET_ID_LENGTHS:
        found = _by_offset_id(source, message_id)
    recorder = Recorder(source.admin, source.instance)
    own = [m for m in found if belongs_to(m, topic)]
    return sorted(recorder.records(own), key=lambda m: (m.stored_at_ms, m.position.offset), reverse=True)


def find_by_key(source: Source, key: str, begin_ms: int = 0, end_ms: int = FOREVER_MS) -> list[MessageRecord]:
    """The 64 newest messages one of whose keys is exactly `key`, newest first (docs/messages.md)."""
    key = key.strip()
    if not key or len(key) > 1024:
        return []
    found = source.admin.query_message(
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
    if queue not in source.admin.topic_stats(source.physical_topic):
        return None
    for message in source.admin.pull(queue, position.offset, 1).messages:
        if message.queue_offset == position.offset:
            return Recorder(source.admin, source.instance).record(message, queue)
    return None


def _by_offset_id(source: Source, message_id: str) -> list[StoredMessage]:
    """The message at the place an offset id names; none when the id names a broker outside the topic's route."""
    try:
        return [source.admin.view_message(message_id, source.physical_topic)]
    except (ValueError, *_NOT_THERE):
        return []


def _read_page(source: Source, task: QueryTask, page: int) -> TimePage:
    """Read on from the nearest page whose beginning is known."""
    reachable = MAX_PAGES if task.tag else max(1, task.max_page_count)
    if not 1 <= page <= reachable:
        raise Refused("BIZ_FIELD_CHECK_INVALID", f"The page is {page}; allowed is 1 to {reachable}.", "page")
    known = min(page, len(task.starts))
    cursors = scan.load(task.starts[known - 1])
    reader = scan.Scan(
        source.admin, source.physical_topic, cursors, newest_first=task.newest_first, batch=task.page_size + 1
    )
    taken = scan.Taken()
    for number in range(known, page + 1):
        taken = reader.take(task.page_size, _accepting(task))
        if len(task.starts) == number:
            task.starts.append(scan.dump(cursors))
        if taken.stopped and number < page:
            taken = scan.Taken([], taken.scanned, True, taken.last_ms)
            break
    query_tasks.save(task)
    recorder = Recorder(source.admin, source.instance)
    return TimePage(
        task_id=task.task_id,
        page=page,
        page_size=task.page_size,
        max_page_count=task.max_page_count,
        messages=[recorder.record(message, queue) for queue, message in taken.messages],
        total=task.total,
        scanned=taken.scanned,
        has_next=reader.more and page < reachable,
        stopped_at_ms=taken.last_ms if taken.stopped else None,
    )


def _accepting(task: QueryTask) -> scan.Accept:
    def accept(message: StoredMessage) -> bool:
        in_range = task.begin_ms <= message.store_timestamp <= task.end_ms
        return in_range and (not task.tag or message.tags == task.tag)

    return accept
