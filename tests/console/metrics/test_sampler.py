"""The sampler and the curves read from it, on a real broker and a real Redis."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from console.metrics import queries, sampler, store
from console.metrics.sampler import Reading
from console.metrics.store import HotSample, Store
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
    last = kept.get("reading")
    if last is not None:
        kept.put("reading", last | {"at_ms": now_ms() - seconds_ago * 1000})
    assert sampler.sample_cluster(live.instance.cluster)


def test_one_sample_gives_rates_and_backlogs_of_everything(live: Live) -> None:
    topic, group = live.topic(), live.group()
    sample_again(live)
    assert queries.live_totals(live.actor.tenant)["in_tps"] == 0
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
    totals = queries.live_totals(live.actor.tenant, live.instance)
    assert totals["in_tps"] == pytest.approx(0.5, rel=0.1)
    assert (totals["backlog"], totals["sampled_at"]) == (5, rates.sampled_at)


def test_totals_are_the_tenants_own(live: Live) -> None:
    live.admin.topics.create("somebody-elses", queues=1)
    sample_again(live)
    live.producer.send(message_to("somebody-elses"))
    sample_again(live)
    assert queries.rates(live.instance.cluster).in_tps["somebody-elses"]
    assert queries.live_totals(live.actor.tenant)["in_tps"] == 0


def message_to(topic: str):  # type: ignore[no-untyped-def]
    from brokercore.client import Message

    return Message(topic, b"{}")


def test_without_a_recent_sample_nothing_is_claimed(live: Live) -> None:
    nothing = {"in_tps": None, "out_tps": None, "backlog": None, "sampled_at": None}
    assert queries.live_totals(live.actor.tenant) == nothing
    sample_again(live)
    kept = Store(live.instance.cluster.name)
    kept.put("snapshot", (kept.get("snapshot") or {}) | {"sampled_at": now_ms() - 61_000})
    assert queries.live_totals(live.actor.tenant) == nothing


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


def test_the_curve_shows_what_was_sampled_and_gaps_elsewhere(live: Live) -> None:
    topic = live.topic()
    sample_again(live)
    for _ in range(12):
        live.send(topic)
    sample_again(live, seconds_ago=50)
    end = now_ms()
    curve = queries.topic_curve(topic, period_minutes=1, measure="count", begin_ms=end - 10 * MINUTE, end_ms=end)
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
        kept.add(at, 10.0, {f"in:{topic.physical_name}": 3})
    assert sampler.flush(kept, start + 2 * MINUTE + 5_000) == 2
    assert sampler.flush(kept, start + 2 * MINUTE + 15_000) == 0
    store.connection().flushdb()
    curve = queries.topic_curve(
        topic, period_minutes=1, measure="count", begin_ms=start - MINUTE, end_ms=start + 3 * MINUTE - 1
    )
    assert [p.value for p in curve.points] == [None, 18, 18, None]
    tps = queries.topic_curve(topic, period_minutes=1, measure="tps", begin_ms=start, end_ms=start + 2 * MINUTE)
    assert [p.value for p in tps.points] == [0.3, 0.3]


def test_a_period_sampled_less_than_half_is_a_gap(live: Live) -> None:
    topic = live.topic()
    start = (now_ms() // MINUTE - 3) * MINUTE
    Store(live.instance.cluster.name).add(start + 10_000, 10.0, {f"in:{topic.physical_name}": 3})
    curve = queries.topic_curve(topic, period_minutes=1, measure="count", begin_ms=start, end_ms=start)
    assert [p.value for p in curve.points] == [None]


def test_a_groups_curve_sums_its_topics(live: Live) -> None:
    one, two, group = live.topic(), live.topic(), live.group()
    start = (now_ms() // MINUTE - 3) * MINUTE
    kept = Store(live.instance.cluster.name)
    kept.add(
        start + 50_000, 50.0, {series("out", one, group.physical_name): 5, series("out", two, group.physical_name): 7}
    )
    names = [one.physical_name, two.physical_name]
    curve = queries.group_curve(group, names, period_minutes=1, measure="count", begin_ms=start, end_ms=start)
    assert [p.value for p in curve.points] == [12]


def test_two_topics_in_the_same_seconds_are_as_fast_as_both_together(live: Live) -> None:
    """Sampled at the same time: their counts add up, the seconds do not."""
    one, two, group = live.topic(), live.topic(), live.group()
    start = (now_ms() // MINUTE - 3) * MINUTE
    kept = Store(live.instance.cluster.name)
    names = [one.physical_name, two.physical_name]
    kept.add(start + 50_000, 50.0, {series("out", topic, group.physical_name): 100 for topic in (one, two)})
    curve = queries.group_curve(group, names, period_minutes=1, measure="tps", begin_ms=start, end_ms=start)
    assert [p.value for p in curve.points] == [4.0]


@pytest.mark.parametrize(("later_ms", "shown"), [(0, 7), (1, 5)])
def test_the_hot_window_counts_from_its_first_whole_period_on(
    live: Live, monkeypatch: pytest.MonkeyPatch, later_ms: int, shown: int
) -> None:
    """A period that begins with the window is whole in it; one millisecond later the lake knows it better."""
    topic = live.topic()
    start = (now_ms() // MINUTE - 3) * MINUTE
    kept = Store(live.instance.cluster.name)
    kept.add(start + 60_000, 58.0, {f"in:{topic.physical_name}": 5})
    assert sampler.flush(kept, start + MINUTE + 5_000) == 1
    kept.add(start + 59_000, 2.0, {f"in:{topic.physical_name}": 2})  # what the lake did not get
    now_s = (start + store.HOT_WINDOW_MS + later_ms) / 1000
    monkeypatch.setattr(queries, "time", SimpleNamespace(time=lambda: now_s))
    curve = queries.topic_curve(topic, period_minutes=1, measure="count", begin_ms=start, end_ms=start)
    assert [p.value for p in curve.points] == [shown]


def series(kind: str, topic: Topic, group: str) -> str:
    return f"{kind}:{topic.physical_name}@{group}"


def test_periods_and_ranges_have_their_rules(live: Live) -> None:
    topic = live.topic()
    with pytest.raises(Refused, match="allowed are 1, 5 and 10 minutes"):
        queries.topic_curve(topic, period_minutes=2, measure="count", begin_ms=0, end_ms=1)
    with pytest.raises(Refused, match="at most 7 days"):
        queries.topic_curve(topic, period_minutes=1, measure="count", begin_ms=0, end_ms=8 * 86_400_000)


def test_the_hot_window_forgets_what_is_old(live: Live) -> None:
    kept = Store("c")
    kept.add(1_000_000, 10.0, {"in:t": 1})
    kept.add(1_000_000 + store.HOT_WINDOW_MS + 1, 10.0, {"in:t": 2})
    assert kept.hot(["in:t", "in:u"], 0, 2**50) == [[HotSample(1_000_000 + store.HOT_WINDOW_MS + 1, 2, 10.0)], []]


def test_a_tick_asks_nothing_per_group(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
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
    reading = sampler.read_counters(live.admin, live.instance.cluster)
    assert isinstance(reading, Reading)
    assert len([s for s in reading.committed if s.startswith(f"{topic.physical_name}@")]) == 30
    assert set(asked) <= {43, 106, 202, 206}
    assert asked.count(202) <= len(live.admin.topics.names())


def test_letters_are_counted_without_asking_the_broker(live: Live) -> None:
    topic, group = live.topic(), live.group()
    live.send(topic)
    live.consume(group, topic, fail=True, retries=0)
    letters = f"%DLQ%{group.physical_name}"
    eventually(lambda: letters in live.admin.topics.names(), 20)
    sample_again(live)
    counts, age_seconds = queries.dead_letter_counts(live.instance)
    assert counts == {group.physical_name: 1}
    assert age_seconds is not None
