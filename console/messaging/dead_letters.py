"""Dead letters of a group: messages whose last retry failed. They lie in the group's own topic and stay there."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from brokercore.client import MessageQueue, StoredMessage
from brokercore.client.errors import TopicNotExist
from console.accounts.actor import Actor
from console.messaging import queries
from console.messaging.models import Resend
from console.messaging.queries import Source, TimePage
from console.messaging.records import MessageRecord, Position, Recorder
from console.topics.models import Group


@dataclass(frozen=True)
class Letter:
    """A letter as stored, and its record."""

    stored: StoredMessage
    record: MessageRecord


def search(
    actor: Actor, group: Group, begin_ms: int, end_ms: int, *, page: int = 1, page_size: int = 20
) -> TimePage | None:
    """Letters that died from `begin_ms` to `end_ms`, newest first; None when the group never had any.

    Raises what `queries.search_by_time` raises.
    """
    try:
        return queries.search_by_time(
            actor, Source.of_dead_letters(group), begin_ms, end_ms, page=page, page_size=page_size
        )
    except TopicNotExist:
        return None


def next_page(actor: Actor, group: Group, task_id: str, page: int) -> TimePage:
    """Another page of `search`."""
    return queries.next_page(actor, Source.of_dead_letters(group), task_id, page)


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


def resends(group: Group, letters: list[MessageRecord]) -> dict[str, list[Resend]]:
    """What was sent again, by the offset id of the letter, oldest first."""
    ids = [letter.offset_message_id for letter in letters]
    found: dict[str, list[Resend]] = defaultdict(list)
    for row in Resend.objects.filter(group=group, offset_message_id__in=ids).select_related("actor").order_by("id"):
        found[row.offset_message_id].append(row)
    return dict(found)
