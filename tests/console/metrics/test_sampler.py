"""The sampler and the curves read from it, on a real broker and a real Redis."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zlib import crc32

import pytest

from brokercore.client import MessageQueue
from brokercore.client.errors import RequestNotSupported
from brokercore.names import is_system_topic
from brokercore.protocol.codes import OwnRequestCode, ResponseCode
from console.metrics import curves, queries, sampler, store, totals
from console.metrics.sampler import Reading
from console.metrics.store import Change, HotSample, Known, Latest, Store
from console.topics.models import Topic
from console.web.errors import Refused
from tests.console.live import Live
from tests.support.broker import eventually

MINUTE = 60_000


@pytest.fixture(autouse=True)
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GANTRY_LAKE", str(tmp_path))


def now_ms() -> int:
    return int(time.time() * 1000)


def sample_again(live: Live, seconds_ago: int = 10) -> None:
    """Take a sample as if the last one had been taken so long ago."""
    kept = Store(live.instance.cluster.name)
    last = kept.latest()
    if last is not None:
        then = now_ms() - seconds_ago * 1000
        kept.put_latest(replace(last, at_ms=then, turns=[then]))
    assert sampler.sample_cluster(live.instance.cluster)


def test_one_sample_gives_rates_and_backlogs_of_everything(live: Live) -> None:
    topic, group = live.topic(), live.group()
    sample_again(live)
    first = totals.now(live.actor.tenant)
    assert (first["in_tps"], first["backlog"]) == (None, 0)  # one reading tells no rate
    for _ in range(20):
        live.send(topic)
    got = live.consume(group, topic)
    eventually(lambda: len(got) == 20)
    live.stop_consumers()
    for _ in range(5):
        live.send(topic)
    sample_again(live, seconds_ago=50)  # so long that what the sample itself takes is little
    rates = queries.rates(live.instance.cluster)
    assert rates.in_tps[topic.physical_name] == pytest.approx(0.5, rel=0.1)
    assert rates.backlog[group.physical_name] == 5
    told = totals.now(live.actor.tenant)
    assert told["in_tps"] == pytest.approx(0.5, rel=0.1)
    assert (told["backlog"], told["sampled_at"]) == (5, rates.sampled_at)


def test_totals_are_the_tenants_own(live: Live) -> None:
    live.admin.topics.create("somebody-elses", queues=1)
    sample_again(live)
    live.producer.send(message_to("somebody-elses"))
    sample_again(live)
    assert queries.rates(live.instance.cluster).in_tps["somebody-elses"]
    assert totals.now(live.actor.tenant)["in_tps"] == 0


def message_to(topic: str):  # type: ignore[no-untyped-def]
    from brokercore.client import Message

    return Message(topic, b"{}")


def test_without_a_recent_sample_nothing_is_claimed(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = {"in_tps": None, "out_tps": None, "backlog": None, "sampled_at": None}
    assert totals.now(live.actor.tenant) == nothing
    sample_again(live)
    assert totals.now(live.actor.tenant)["backlog"] == 0
    assert queries.rates(live.instance.cluster).sampled_at is not None
    monkeypatch.setattr(store, "STALE_MS", -1)
    assert totals.now(live.actor.tenant) == nothing
    assert queries.rates(live.instance.cluster).sampled_at is None


def test_two_workers_do_not_sample_at_once(live: Live) -> None:
    with Store(live.instance.cluster.name).lease() as held:
        assert held
        assert not sampler.sample_cluster(live.instance.cluster)
    assert sampler.sample_cluster(live.instance.cluster)
    assert not sampler.sample_cluster(live.instance.cluster)  # the last sample is too fresh


def test_a_lease_that_ran_out_is_not_taken_from_its_next_holder(live: Live) -> None:
    first, second = Store("c").lease(), Store("c").lease()
    first.__enter__()
    store.connection().delete("gantry:metrics:c:lease")
    assert second.__enter__()
    first.__exit__(None, None, None)
    with Store("c").lease() as third:
        assert not third
    second.__exit__(None, None, None)


def test_a_worker_whose_lease_ran_out_keeps_nothing(live: Live) -> None:
    """Its reading is older than the one that another worker has kept by then."""
    kept = Store("c")
    with kept.lease() as first:
        store.connection().delete("gantry:metrics:c:lease")
        with kept.lease() as second:
            assert kept.commit(second, Change(Latest(20_000, None, [], [20_000]), topics={"t": b"{}"}))
            assert not kept.commit(first, Change(Latest(10_000, None, [], [10_000]), gone_topics=["t"]))
    assert kept.known() == Known(Latest(20_000, None, [], [20_000]), {"t": b"{}"}, {}, {})
    assert not kept.commit(second, Change(Latest(30_000, None, [], [30_000])))


def test_a_worker_that_died_is_replaced_when_its_lease_ends(live: Live) -> None:
    died = Store(live.instance.cluster.name).lease()
    assert died.__enter__()
    lease = f"gantry:metrics:{live.instance.cluster.name}:lease"
    assert 0 < store.connection().pttl(lease) <= store.LEASE_MS
    assert not sampler.sample_cluster(live.instance.cluster)
    store.connection().pexpire(lease, 1)
    eventually(lambda: sampler.sample_cluster(live.instance.cluster))


def test_an_idle_topic_costs_no_sample_and_its_curve_is_zero(live: Live) -> None:
    topic, quiet, late = live.topic(), live.topic(), live.topic()
    kept, start = Store(live.instance.cluster.name), (now_ms() // MINUTE - 5) * MINUTE
    Topic.objects.filter(pk__in=[topic.pk, quiet.pk]).update(created_at=at(start))
    Topic.objects.filter(pk=late.pk).update(created_at=at(start + MINUTE))
    for number in range(1, 13):
        counts = {f"in:{topic.physical_name}": (7, 10.0)} if number == 5 else {}
        kept.add(start + number * 10_000, 10.0, counts)
    shown: Any = {"period_minutes": 1, "measure": "count", "begin_ms": start - MINUTE, "end_ms": start + 3 * MINUTE - 1}
    for _ in ("from the hot window", "from the lake"):
        values = [
            [point.value for point in curves.topic_curve(Topic.objects.get(pk=one.pk), **shown).points]
            for one in (topic, quiet, late)
        ]
        assert values == [[None, 7, 0, None], [None, 0, 0, None], [None, None, 0, None]]
        assert kept.series() in ([f"in:{topic.physical_name}"], [])
        sampler.flush(kept, start + 2 * MINUTE + 5_000, live.instance.cluster)
        store.connection().flushdb()


def at(epoch_ms: int) -> datetime:
    return datetime.fromtimestamp(epoch_ms / 1000, UTC)


def test_the_curve_shows_what_was_sampled_and_gaps_elsewhere(live: Live) -> None:
    topic = live.topic()
    sample_again(live)
    for _ in range(12):
        live.send(topic)
    sample_again(live, seconds_ago=50)
    end = now_ms()
    curve = curves.topic_curve(topic, period_minutes=1, measure="count", begin_ms=end - 10 * MINUTE, end_ms=end)
    values = {p.start_ms: p.value for p in curve.points}
    assert all(start % MINUTE == 0 for start in values)
    assert [v for v in values.values() if v] == [12]
    assert sum(v is None for v in values.values()) >= 9
    assert curve.title == topic.physical_name
    assert not curve.empty


def test_samples_reach_the_lake_once_a_minute_and_survive_redis(live: Live) -> None:
    topic = live.topic()
    kept = Store(live.instance.cluster.name)
    start = (now_ms() // MINUTE - 3) * MINUTE
    for at in range(start + 10_000, start + 2 * MINUTE + 1, 10_000):
        kept.add(at, 10.0, {f"in:{topic.physical_name}": (3, 10.0)})
    assert sampler.flush(kept, start + 2 * MINUTE + 5_000, live.instance.cluster) == 4
    assert sampler.flush(kept, start + 2 * MINUTE + 15_000, live.instance.cluster) == 0
    store.connection().flushdb()
    curve = curves.topic_curve(
        topic, period_minutes=1, measure="count", begin_ms=start - MINUTE, end_ms=start + 3 * MINUTE - 1
    )
    assert [p.value for p in curve.points] == [None, 18, 18, None]
    tps = curves.topic_curve(topic, period_minutes=1, measure="tps", begin_ms=start, end_ms=start + 2 * MINUTE)
    assert [p.value for p in tps.points] == [0.3, 0.3]


def test_a_period_sampled_less_than_half_is_a_gap(live: Live) -> None:
    topic = live.topic()
    start = (now_ms() // MINUTE - 3) * MINUTE
    Store(live.instance.cluster.name).add(start + 10_000, 10.0, {f"in:{topic.physical_name}": (3, 10.0)})
    curve = curves.topic_curve(topic, period_minutes=1, measure="count", begin_ms=start, end_ms=start)
    assert [p.value for p in curve.points] == [None]


def test_a_groups_curve_sums_its_topics(live: Live) -> None:
    one, two, group = live.topic(), live.topic(), live.group()
    start = (now_ms() // MINUTE - 3) * MINUTE
    kept = Store(live.instance.cluster.name)
    kept.add(
        start + 50_000,
        50.0,
        {series("out", one, group.physical_name): (5, 50.0), series("out", two, group.physical_name): (7, 50.0)},
    )
    names = [one.physical_name, two.physical_name]
    curve = curves.group_curve(group, names, period_minutes=1, measure="count", begin_ms=start, end_ms=start)
    assert [p.value for p in curve.points] == [12]


def test_two_topics_in_the_same_seconds_are_as_fast_as_both_together(live: Live) -> None:
    """Sampled at the same time: their counts add up, the seconds do not."""
    one, two, group = live.topic(), live.topic(), live.group()
    start = (now_ms() // MINUTE - 3) * MINUTE
    kept = Store(live.instance.cluster.name)
    names = [one.physical_name, two.physical_name]
    kept.add(start + 50_000, 50.0, {series("out", topic, group.physical_name): (100, 50.0) for topic in (one, two)})
    curve = curves.group_curve(group, names, period_minutes=1, measure="tps", begin_ms=start, end_ms=start)
    assert [p.value for p in curve.points] == [4.0]


@pytest.mark.parametrize(("later_ms", "shown"), [(0, 7), (1, 5)])
def test_the_hot_window_counts_from_its_first_whole_period_on(
    live: Live, monkeypatch: pytest.MonkeyPatch, later_ms: int, shown: int
) -> None:
    """A period that begins with the window is whole in it; one millisecond later the lake knows it better."""
    topic = live.topic()
    start = (now_ms() // MINUTE - 3) * MINUTE
    kept = Store(live.instance.cluster.name)
    kept.add(start + 60_000, 58.0, {f"in:{topic.physical_name}": (5, 58.0)})
    assert sampler.flush(kept, start + MINUTE + 5_000, live.instance.cluster) == 2
    kept.add(start + 59_000, 2.0, {f"in:{topic.physical_name}": (2, 2.0)})  # what the lake did not get
    now_s = (start + store.HOT_WINDOW_MS + later_ms) / 1000
    monkeypatch.setattr(curves, "time", SimpleNamespace(time=lambda: now_s))
    curve = curves.topic_curve(topic, period_minutes=1, measure="count", begin_ms=start, end_ms=start)
    assert [p.value for p in curve.points] == [shown]


def series(kind: str, topic: Topic, group: str) -> str:
    return f"{kind}:{topic.physical_name}@{group}"


def test_periods_and_ranges_have_their_rules(live: Live) -> None:
    topic = live.topic()
    with pytest.raises(Refused, match="allowed are 1, 5 and 10 minutes"):
        curves.topic_curve(topic, period_minutes=2, measure="count", begin_ms=0, end_ms=1)
    with pytest.raises(Refused, match="at most 7 days"):
        curves.topic_curve(topic, period_minutes=1, measure="count", begin_ms=0, end_ms=8 * 86_400_000)


def test_the_hot_window_forgets_what_is_old(live: Live) -> None:
    kept = Store("c")
    kept.add(1_000_000, 10.0, {"in:t": (1, 10.0)})
    kept.add(1_000_000 + store.HOT_WINDOW_MS + 1, 10.0, {"in:t": (2, 10.0)})
    assert kept.hot(["in:t", "in:u"], 0, 2**50) == [[HotSample(1_000_000 + store.HOT_WINDOW_MS + 1, 2, 10.0)], []]


def test_a_tick_asks_each_broker_two_things_however_much_it_has(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = live.topic(queues=1)
    queue = next(iter(live.admin.topics.stats(topic.physical_name)))
    for _ in range(30):
        live.admin.offsets.commit(live.group().physical_name, {queue: 0})
    asked: list[int] = []
    submit = live.admin.session.submit

    def counting(call, *more):  # type: ignore[no-untyped-def]
        asked.append(int(call.code))
        return submit(call, *more)

    monkeypatch.setattr(live.admin.session, "submit", counting)
    reading = sampler.read_counters(live.admin, Known(None, {}, {}, {}))
    assert len([group for group, topics in reading.groups.items() if topic.physical_name in topics]) == 30
    assert Counter(asked) - Counter({106: 3}) == {43: 1, OwnRequestCode.GET_ALL_TOPIC_OFFSETS: 1}
    assert reading.topics == {name for name in live.admin.topics.names() if not is_system_topic(name)}


def test_letters_are_counted_without_asking_the_broker(live: Live) -> None:
    topic, group = live.topic(), live.group()
    live.send(topic)
    live.consume(group, topic, fail=True, retries=0)
    letters = f"%DLQ%{group.physical_name}"
    eventually(lambda: letters in live.admin.topics.names(), 20)
    sample_again(live)
    counts, sampled_at = queries.dead_letter_counts(live.instance.cluster, [group.physical_name])
    assert counts == {group.physical_name: 1}
    assert sampled_at is not None


def test_a_broker_without_the_bulk_request_is_asked_by_turns(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    """As brokers of Apache: topics in use each time, the others in each fifth reading."""

    def unknown() -> None:
        raise RequestNotSupported(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "not supported", "a broker of Apache")

    for _ in range(20):
        live.topic(queues=1)
    used = live.topic(queues=1)
    monkeypatch.setattr(sampler, "TURN_TOPICS", 10)
    monkeypatch.setattr(live.admin.topics, "all_positions", unknown)
    kept = Store(live.instance.cluster.name)

    def take() -> Reading:
        known = kept.known()
        reading = sampler.read_counters(live.admin, known)
        with kept.lease() as token:
            assert kept.commit(token, sampler.changed(known, reading))
        return reading

    store.connection().flushdb()
    first = take()
    assert first.positions.keys() == first.topics >= {used.physical_name}
    turns = [take() for _ in range(sampler.TURNS)]
    assert sorted(name for reading in turns for name in reading.positions) == sorted(first.topics)
    live.send(used)
    seen = [take() for _ in range(sampler.TURNS)]
    assert kept.hot([f"in:{used.physical_name}"], 0, 2**50)[0][0].count == 1
    place = next(number for number, reading in enumerate(seen) if used.physical_name in reading.positions)
    assert all(used.physical_name in reading.positions for reading in [*seen[place:], take(), take()])
    fresh = live.topic(queues=1)
    assert fresh.physical_name in take().positions


def test_a_group_that_moves_makes_its_topic_one_in_use(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown() -> None:
        raise RequestNotSupported(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "not supported", "a broker of Apache")

    topic, group = live.topic(queues=1), live.group()
    monkeypatch.setattr(sampler, "TURN_TOPICS", 0)
    monkeypatch.setattr(live.admin.topics, "all_positions", unknown)
    reading = sampler.read_counters(live.admin, Known(None, {}, {}, {}))
    topics = dict.fromkeys(reading.topics, b"{}")
    crc = crc32(topic.physical_name.encode()) % sampler.TURNS
    turns = [0 if number == (crc + 1) % sampler.TURNS else 9 for number in range(sampler.TURNS)]
    known = Known(Latest(9, 1.0, [], turns), topics, {}, {})
    assert topic.physical_name not in sampler.read_counters(live.admin, known).positions
    live.admin.offsets.commit(group.physical_name, {MessageQueue(topic.physical_name, "broker-a", 0): 0})
    assert topic.physical_name in sampler.read_counters(live.admin, known).positions
