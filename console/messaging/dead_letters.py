"""Dead letters of a group: messages whose last retry failed. They lie in the group's own topic and stay there."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from brokercore.client import SYSTEM_NAMES, MessageQueue, StoredMessage
from brokercore.client.errors import TopicNotExist
from console.accounts.actor import Actor
from console.messaging import queries
from console.messaging.letter_filters import matching_of, wanted_of
from console.messaging.models import Discard, Resend
from console.messaging.queries import Source, TimePage, Wanted
from console.messaging.records import MessageRecord, Position, Recorder
from console.topics.models import Group, Topic
from console.topics.queries import visible_topics


@dataclass(frozen=True)
class Letter:
    """A letter as stored, and its record."""

    stored: StoredMessage
    record: MessageRecord


@dataclass(frozen=True)
class Noted:
    """What the console did with one letter: when it was sent again, oldest first, and whether it was put aside."""

    resends: list[Resend]
    discard: Discard | None

    @property
    def sent(self) -> bool:
        """True when it was sent again at least once."""
        return any(not row.error for row in self.resends)


def search(
    actor: Actor,
    group: Group,
    begin_ms: int,
    end_ms: int,
    *,
    page: int = 1,
    page_size: int = 20,
    wanted: Wanted | None = None,
) -> TimePage | None:
    """Letters that died from `begin_ms` to `end_ms`, newest first; None when the group never had any.

    `wanted` has any of `state`, `reason`, `tag`, `key`, `property` and `body`; what was discarded is left
    out unless `state` says so. Raises what `queries.search_by_time` raises.
    """
    try:
        return queries.search_by_time(
            actor,
            Source.of_dead_letters(group),
            begin_ms,
            end_ms,
            page=page,
            page_size=page_size,
            wanted=wanted_of(group, wanted or {}),
            matching=matching_of(group),
        )
    except TopicNotExist:
        return None


def next_page(actor: Actor, group: Group, task_id: str, page: int) -> TimePage:
    """Another page of `search`."""
    return queries.next_page(actor, Source.of_dead_letters(group), task_id, page, matching_of(group))


def by_id(group: Group, message_id: str) -> list[MessageRecord]:
    """All letters with this id, newest first: each time that it fails again, a message becomes another letter."""
    try:
        return queries.find_by_id(Source.of_dead_letters(group), message_id)
    except TopicNotExist:
        return []


def find(group: Group, reference: str) -> Letter | None:
    """The letter at a place (`broker-a:0:17`) or the newest one with a message id; None when there is none."""
    source = Source.of_dead_letters(group)
    try:
        position = Position.parse(reference)
        if position is None:
            found = queries.find_by_id(source, reference)
            if not found:
                return None
            position = found[0].position
        queue = MessageQueue(source.physical_topic, position.broker_name, position.queue_id)
        if queue not in source.admin.topics.stats(source.physical_topic):
            return None
    except TopicNotExist:
        return None
    for message in source.admin.messages.pull(queue, position.offset, 1).messages:
        if message.queue_offset == position.offset:
            return Letter(message, Recorder(source.admin, source.instance).record(message, queue))
    return None


@dataclass(frozen=True)
class Original:
    """The message that became a letter, as it lies in its own topic.

    `topic` is None where the caller may not read that topic (`hidden`) or the instance does not have it any more;
    `record` is None where retention has removed the message.
    """

    topic: Topic | None = None
    record: MessageRecord | None = None
    hidden: bool = False


def original(actor: Actor, group: Group, letter: MessageRecord) -> Original:
    """What the letter was when it was published. Raises ClientError."""
    there = Topic.objects.filter(instance=group.instance, physical_name=letter.original_topic)
    topic = (
        visible_topics(actor, group.instance, "mq:QueryMessage")
        .filter(pk__in=there)
        .select_related("instance__tenant", "instance__cluster")
        .first()
    )
    if topic is None:
        return Original(hidden=there.exists())
    found = queries.find_by_id(Source.of_topic(topic), letter.message_id)
    first = letter.properties.get("ORIGIN_MESSAGE_ID", "")
    record = next((one for one in found if one.offset_message_id == first), found[-1] if found else None)
    return Original(topic, record)


def own_properties(record: MessageRecord) -> dict[str, str]:
    """Properties that the producer set, without those of client and broker."""
    return {name: value for name, value in record.properties.items() if name not in SYSTEM_NAMES}


def told_error(record: MessageRecord) -> str:
    """What a program wrote about the failure into a property of the message; the protocol itself tells no error."""
    for name, value in own_properties(record).items():
        if any(word in name.casefold() for word in ("error", "exception", "reason")):
            return value
    return ""


def noted(group: Group, letters: list[MessageRecord]) -> dict[str, Noted]:
    """What was done with each letter, by its offset id."""
    ids = [letter.offset_message_id for letter in letters]
    sent: dict[str, list[Resend]] = defaultdict(list)
    for row in Resend.objects.filter(group=group, offset_message_id__in=ids).select_related("actor").order_by("id"):
        sent[row.offset_message_id].append(row)
    aside = {
        row.offset_message_id: row
        for row in Discard.objects.filter(group=group, offset_message_id__in=ids).select_related("actor")
    }
    return {one: Noted(sent.get(one, []), aside.get(one)) for one in ids}
