"""Consumer status, diagnosis, tracks and resets, on a real broker with real consumers."""

from __future__ import annotations

import threading
import time

import pytest

from brokercore.client.admin.clients import Clients
from brokercore.client.errors import RequestTimeout
from brokercore.protocol.bodies.clients import RunningInfo
from console.audit.models import Entry
from console.messaging import consumption, queries, services, status
from console.messaging.consumption import TrackType
from console.messaging.queries import Source
from console.topics.models import Group, Topic
from console.web.errors import Refused
from tests.console.live import Live
from tests.support.broker import eventually


def test_a_group_that_never_consumed_is_offline_without_progress(live: Live) -> None:
    found = status.group_status(live.group())
    assert (found.online, found.backlog, found.topics, found.connections) == (False, 0, [], [])


def test_it_shows_who_is_online_and_how_far_the_group_is(live: Live) -> None:
    topic, group = live.topic(queues=2), live.group()
    for _ in range(10):
        live.send(topic)
    got = live.consume(group, topic)
    eventually(lambda: len(got) == 10)
    found = eventually(lambda: s if (s := status.group_status(group)).topics and s.backlog == 0 else None, 20)
    assert (found.online, found.consume_model, found.consume_type) == (True, "CLUSTERING", "PUSH")
    assert [c.language for c in found.connections] == ["PYTHON"]
    (row,) = [t for t in found.topics if not t.is_retry]
    assert (row.topic, row.backlog, row.delay_ms, len(row.queues)) == (topic.name, 0, 0, 2)
    assert row.last_timestamp_ms > time.time() * 1000 - 60_000


def test_the_backlog_and_the_delay_grow_while_the_group_is_offline(live: Live) -> None:
    topic, group = live.topic(queues=1), live.group()
    live.send(topic)
    got = live.consume(group, topic)
    eventually(lambda: got)
    live.stop_consumers()
    oldest_ms = time.time() * 1000
    for _ in range(3):
        live.send(topic)
    eventually(lambda: time.time() * 1000 > oldest_ms + 50)
    found = status.group_status(group)
    assert (found.online, found.backlog) == (False, 3)
    assert 50 <= found.delay_ms < 20_000


def test_clients_that_agree_are_said_to_agree(live: Live) -> None:
    topic, group = live.topic(queues=4), live.group()
    live.consume(group, topic)
    live.consume(group, topic)
    found = eventually(lambda: d if (d := status.diagnose(group)).rebalance_ok else None, 45)
    assert found.subscription_same is True
    assert (len(found.clients), found.partial, found.differences, found.unassigned) == (2, False, [], [])
    assert sum(q.topic == topic.physical_name for c in found.clients for q in c.queues) == 4
    assert found.clients[0].subscriptions == {topic.name: "*"}


def test_clients_that_disagree_are_named(live: Live) -> None:
    topic, group = live.topic(), live.group()
    live.consume(group, topic)
    live.consume(group, topic)
    live.consume(group, topic, expression="DL")
    found = status.diagnose(group)
    assert found.subscription_same is False
    assert found.differences[0] == f"The others: {topic.name} (*)"
    assert found.differences[1].endswith(f"{topic.name} (DL)")


def test_clients_that_pop_hold_no_queues_and_miss_none(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    """As those of gRPC: the broker answers for them."""
    topic, group = live.topic(), live.group()
    live.consume(group, topic)
    popping = RunningInfo.from_json(b'{"properties": {"PROP_CONSUME_TYPE": "CONSUME_POP"}, "mqTable": {}}')
    monkeypatch.setattr(Clients, "running_info", lambda *_, **__: popping)
    found = status.diagnose(group)
    assert (found.rebalance_ok, found.unassigned, found.partial) == (True, [], False)
    assert (found.clients[0].consume_type, found.clients[0].consume_model) == ("PUSH", "CLUSTERING")


def test_of_a_client_that_does_not_answer_the_heartbeat_tells_how_it_consumes(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, group = live.topic(), live.group()
    live.consume(group, topic)

    def silent(*_: object) -> None:
        raise RequestTimeout("127.0.0.1:1", 3000)

    monkeypatch.setattr(Clients, "running_info", silent)
    (client,) = status.diagnose(group).clients
    assert client.problem and (client.consume_type, client.consume_model) == ("PUSH", "CLUSTERING")


def test_an_offline_group_has_nothing_to_diagnose(live: Live) -> None:
    found = status.diagnose(live.group())
    assert (found.clients, found.subscription_same, found.rebalance_ok) == ([], None, None)


def track_of(live: Live, topic: Topic, group: Group, message_id: str) -> tuple[TrackType, str]:
    (record,) = queries.find_by_id(Source.of_topic(topic), message_id)
    found = consumption.delivery_tracks(live.admin, topic, record, live.instance.tenant)
    return next((t.track_type, t.explanation) for t in found.tracks if t.group == group)


def test_it_tells_what_became_of_a_message_in_each_group(live: Live) -> None:
    topic, takes_all, takes_some = live.topic(queues=1), live.group(), live.group()
    sent = live.send(topic, tags="UA")
    got = live.consume(takes_all, topic)
    live.consume(takes_some, topic, expression="DL")
    eventually(lambda: got)
    eventually(lambda: track_of(live, topic, takes_all, sent.message_id)[0] == TrackType.CONSUMED, 20)
    wanted = (TrackType.CONSUMED_BUT_FILTERED, "The group subscribes to DL.")
    eventually(lambda: track_of(live, topic, takes_some, sent.message_id) == wanted, 20)
    live.stop_consumers()
    eventually(lambda: track_of(live, topic, takes_all, sent.message_id)[0] == TrackType.NOT_ONLINE)


def test_a_message_behind_the_offset_is_not_consumed_yet(live: Live) -> None:
    topic, group = live.topic(queues=1), live.group()
    sent = live.send(topic)
    gate = threading.Event()
    got = live.consume(group, topic, gate=gate)
    eventually(lambda: got)
    assert track_of(live, topic, group, sent.message_id)[0] == TrackType.NOT_CONSUME_YET
    gate.set()
    eventually(lambda: track_of(live, topic, group, sent.message_id)[0] == TrackType.CONSUMED, 20)


def test_groups_of_other_accounts_are_counted_not_named(live: Live) -> None:
    topic = live.topic(queues=1)
    sent = live.send(topic)
    live.admin.groups.create("GID_elsewhere")
    queue = next(iter(live.admin.topics.stats(topic.physical_name)))
    live.admin.offsets.commit("GID_elsewhere", {queue: 1})
    (record,) = queries.find_by_id(Source.of_topic(topic), sent.message_id)
    found = consumption.delivery_tracks(live.admin, topic, record, live.instance.tenant)
    assert (found.tracks, found.others) == ([], 1)


def consumed_group(live: Live, topic: Topic, count: int) -> Group:
    group = live.group()
    got = live.consume(group, topic)
    eventually(lambda: len(got) == count)
    live.stop_consumers()
    return group


def test_a_preview_tells_what_a_reset_would_skip_and_repeat(live: Live) -> None:
    topic = live.topic(queues=1)
    for n in range(4):
        live.send(topic, f"{n}".encode())
    group = consumed_group(live, topic, 4)
    between_ms = int(time.time() * 1000)
    eventually(lambda: time.time() * 1000 > between_ms + 2)
    for n in range(3):
        live.send(topic, f"{n}".encode())
    at = {target: services.preview_reset(group, topic, target) for target in ("begin", "end", between_ms)}
    assert (at["begin"].skipped, at["begin"].repeated) == (0, 4)
    assert (at["end"].skipped, at["end"].repeated) == (3, 0)
    assert (at[between_ms].skipped, at[between_ms].repeated) == (0, 0)


def test_a_reset_to_the_end_clears_the_backlog_of_an_offline_group(live: Live) -> None:
    topic = live.topic(queues=1)
    live.send(topic)
    group = consumed_group(live, topic, 1)
    live.send(topic)
    assert status.group_status(group).backlog == 1
    assert services.reset_offset(live.actor, group, topic, "end") == {"broker-a:0": 2}
    assert status.group_status(group).backlog == 0
    entry = Entry.objects.get(action="messaging.offset.reset")
    assert (entry.resource, entry.detail["to"]) == (group.physical_name, "end")


def test_a_reset_to_the_beginning_delivers_again(live: Live) -> None:
    topic = live.topic(queues=1)
    live.send(topic, b"again")
    group = consumed_group(live, topic, 1)
    services.reset_offset(live.actor, group, topic, "begin")
    got = live.consume(group, topic)
    eventually(lambda: [m.body for m in got] == [b"again"], 40)


def test_a_time_in_the_future_is_refused(live: Live) -> None:
    with pytest.raises(Refused, match="is in the future"):
        services.preview_reset(live.group(), live.topic(), int(time.time() * 1000) + 60_000)


def test_a_broadcasting_group_cannot_be_reset(live: Live) -> None:
    topic, group = live.topic(), live.group()
    live.consume(group, topic, model="BROADCASTING")
    with pytest.raises(Refused, match="broadcasting mode"):
        services.reset_offset(live.actor, group, topic, "end")


def test_the_time_span_of_a_topic_names_its_oldest_and_newest_message(live: Live) -> None:
    topic, group = live.topic(queues=1), live.group()
    assert status.time_span(group, topic.physical_name).max_ms == 0
    for _ in range(2):
        live.send(topic)
    span = status.time_span(group, topic.physical_name)
    assert 0 < span.min_ms <= span.max_ms
