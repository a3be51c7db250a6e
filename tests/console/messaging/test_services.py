"""Publishing test messages and sending dead letters again, on a real broker."""

from __future__ import annotations

import time

import pytest

from console.audit.models import Entry
from console.messaging import dead_letters, queries, services
from console.messaging.models import Resend
from console.messaging.queries import Source
from console.messaging.records import MessageRecord
from console.topics.models import Group, OrderType, Topic
from console.web.errors import Refused
from tests.console.live import Live
from tests.support.broker import eventually


def published(live: Live, topic: Topic, message_id: str) -> MessageRecord:
    found: list[MessageRecord] = eventually(lambda: queries.find_by_id(Source.of_topic(topic), message_id))
    return found[0]


@pytest.mark.parametrize("order_type", [OrderType.NORMAL, OrderType.TRANSACTIONAL, OrderType.DELAYED])
def test_it_publishes_to_a_topic_of_each_type(live: Live, order_type: OrderType) -> None:
    topic = live.topic(order_type)
    result = services.publish_test_message(
        live.actor, topic, body=b'{"n":1}', tag="DL", key="N1", properties={"shade": "blue"}
    )
    found = published(live, topic, result.message_id)
    assert (found.body, found.tag, found.keys, found.properties["shade"]) == (b'{"n":1}', "DL", ("N1",), "blue")
    entry = Entry.objects.get(action="messaging.message.publish")
    assert (entry.resource, entry.detail["message_id"]) == (topic.physical_name, result.message_id)


def test_messages_of_one_sharding_key_go_to_one_queue(live: Live) -> None:
    topic = live.topic(OrderType.PARTITIONALLY_ORDERED, queues=8)
    results = [
        services.publish_test_message(live.actor, topic, body=b"x", sharding_key=key) for key in ("a", "a", "b", "c")
    ]
    assert results[0].queue == results[1].queue
    assert len({r.queue.queue_id for r in results}) > 1
    assert published(live, topic, results[0].message_id).sharding_key == "a"


def test_a_delayed_message_is_not_there_before_its_time(live: Live) -> None:
    topic = live.topic(OrderType.DELAYED)
    due = int(time.time() * 1000) + 2000
    result = services.publish_test_message(live.actor, topic, body=b"later", deliver_at_ms=due)
    assert queries.search_by_time(live.actor, Source.of_topic(topic), 0, due + 60_000).total == 0
    assert published(live, topic, result.message_id).deliver_at_ms == due


def test_what_the_topic_or_the_client_cannot_take_is_refused(live: Live) -> None:
    topic, delayed = live.topic(), live.topic(OrderType.DELAYED)
    now = int(time.time() * 1000)
    with pytest.raises(Refused, match="not a topic for scheduled or delayed"):
        services.publish_test_message(live.actor, topic, body=b"x", deliver_at_ms=now + 1000)
    with pytest.raises(Refused, match="more than 40 days ahead"):
        services.publish_test_message(live.actor, delayed, body=b"x", deliver_at_ms=now + 41 * 86_400_000)
    with pytest.raises(Refused, match="RETRY_TOPIC is set by the client"):
        services.publish_test_message(live.actor, topic, body=b"x", properties={"RETRY_TOPIC": "other"})
    assert not Entry.objects.filter(action="messaging.message.publish").exists()


def dead_letter(live: Live, group: Group, topic: Topic, **fields: str) -> MessageRecord:
    """Let a message die: a consumer without retries fails on it."""
    sent = live.send(topic, b'{"n":1}', **fields)
    live.consume(group, topic, fail=True, retries=0)
    letter = eventually(lambda: dead_letters.find(group, sent.message_id), 20)
    live.stop_consumers()
    record: MessageRecord = letter.record
    return record


def test_a_group_that_never_failed_has_no_letters(live: Live) -> None:
    group = live.group()
    assert dead_letters.search(live.actor, group, 0, int(time.time() * 1000)) is None
    assert dead_letters.find(group, "0" * 32) is None


def test_a_letter_sent_again_reaches_its_group_with_its_first_topic(live: Live) -> None:
    topic, group, bystander = live.topic(), live.group(), live.group()
    letter = dead_letter(live, group, topic, tags="DL", keys="N14228")
    assert letter.original_topic == topic.physical_name
    others = live.consume(bystander, topic)
    eventually(lambda: others)
    got = live.consume(group, topic)

    (result,) = services.resend_dead_letters(live.actor, group, [str(letter.position)])

    assert (result.message_id, result.error) == (letter.message_id, "")
    (message,) = eventually(lambda: got, 20)
    assert (message.topic, message.message_id, message.body) == (topic.name, letter.message_id, b'{"n":1}')
    assert (message.tags, message.keys, message.reconsume_times) == ("DL", "N14228", 0)
    assert len(others) == 1


def test_the_letter_stays_and_is_marked(live: Live) -> None:
    topic, group = live.topic(), live.group()
    letter = dead_letter(live, group, topic)
    services.resend_dead_letters(live.actor, group, [letter.message_id])
    page = dead_letters.search(live.actor, group, 0, int(time.time() * 1000))
    assert page is not None
    assert [m.position for m in page.messages] == [letter.position]
    (row,) = dead_letters.noted(group, page.messages)[letter.offset_message_id].resends
    assert (row.message_id, row.error, row.actor) == (letter.message_id, "", live.actor.user)
    assert row.new_offset_message_id != letter.offset_message_id


def test_one_letter_that_cannot_be_sent_does_not_stop_the_others(live: Live) -> None:
    topic, group = live.topic(), live.group()
    letter = dead_letter(live, group, topic)
    results = services.resend_dead_letters(live.actor, group, ["broker-a:0:99", str(letter.position), "nobody:0:0"])
    assert [bool(r.error) for r in results] == [True, False, True]
    assert results[0].error == "This dead letter is not in the dead-letter queue any more, or never was."
    assert Resend.objects.filter(group=group).count() == 1
    assert Entry.objects.get(action="messaging.dead_letter.resend").result == "failed"


def test_a_letter_that_is_named_more_than_once_is_sent_once(live: Live) -> None:
    topic, group = live.topic(), live.group()
    letter = dead_letter(live, group, topic)
    place = str(letter.position)
    results = services.resend_dead_letters(live.actor, group, [place, place, letter.message_id, place])
    assert [(result.message_id, result.error) for result in results] == [(letter.message_id, "")]
    assert Resend.objects.filter(group=group).count() == 1


def test_a_letter_that_fails_again_is_a_new_letter_with_the_same_id(live: Live) -> None:
    topic, group = live.topic(), live.group()
    letter = dead_letter(live, group, topic)
    live.consume(group, topic, fail=True, retries=0)
    services.resend_dead_letters(live.actor, group, [str(letter.position)])

    def letters() -> list[MessageRecord]:
        page = dead_letters.search(live.actor, group, 0, int(time.time() * 1000) + 1000)
        return page.messages if page else []

    eventually(lambda: len(letters()) == 2, 20)
    assert {m.message_id for m in letters()} == {letter.message_id}
    newest = dead_letters.find(group, letter.message_id)
    assert newest is not None
    assert newest.record.position.offset == 1


def test_a_page_of_letters_is_the_most(live: Live) -> None:
    with pytest.raises(Refused, match="51 dead letters are too many"):
        services.resend_dead_letters(live.actor, live.group(), [f"broker-a:0:{n}" for n in range(51)])
