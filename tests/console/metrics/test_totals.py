"""What an account's messages did: its own, reading by reading and in steps of five minutes."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from brokercore.names import dead_letter_topic, retry_topic
from console.metrics import store, totals
from console.metrics.store import ROLLED_MS, Store, Total
from console.metrics.totals import DAY_MS, SPANS, history
from tests.console.live import Live
from tests.console.metrics.test_sampler import message_to, sample_again
from tests.support.broker import eventually
from tests.support.cast import Cast

MINUTE = 60_000


@pytest.fixture(autouse=True)
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GANTRY_LAKE", str(tmp_path))


def test_a_reading_tells_what_the_account_got_consumed_lost_and_waits_for(live: Live) -> None:
    topic, group = live.topic(), live.group()
    live.admin.topics.create("somebody-elses", queues=1)
    sample_again(live)
    live.producer.send(message_to("somebody-elses"))
    for _ in range(6):
        live.send(topic)
    got = live.consume(group, topic)
    eventually(lambda: len(got) == 6)
    live.stop_consumers()
    for _ in range(3):
        live.send(topic)
    sample_again(live, seconds_ago=30)
    kept = Store(live.instance.cluster.name).totals(live.actor.tenant.pk, 0, int(time.time() * 1000), False)[-1]
    assert (kept.received, kept.consumed, kept.died) == (9, 6, 0)
    assert kept.backlog == 3
    assert kept.seconds == pytest.approx(30, abs=5)
    step = [one for one in history(live.actor.tenant, "1h") if one.backlog is not None][-1]
    assert step.backlog == 3 and step.in_tps == pytest.approx(9 / 30, rel=0.2)


def test_only_dead_letters_have_died_and_what_is_tried_again_has_not(live: Live) -> None:
    topic, group = live.topic(queues=1), live.group()
    own = (retry_topic(group.physical_name), dead_letter_topic(group.physical_name))
    for name in own:
        live.admin.topics.create(name, queues=1)
    sample_again(live)
    live.send(topic)
    for name in (own[0], own[0], own[1]):
        live.producer.send(message_to(name))
    sample_again(live)
    kept = Store(live.instance.cluster.name).totals(live.actor.tenant.pk, 0, int(time.time() * 1000), False)[-1]
    assert (kept.received, kept.died) == (1, 1)


def test_five_minutes_are_summed_up_once_they_are_over_and_last_beyond_the_readings(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Store(cast.cluster.name)
    end_ms = int(time.time() * 1000) // ROLLED_MS * ROLLED_MS
    begin_ms = end_ms - 2 * ROLLED_MS
    for at_ms in range(begin_ms + MINUTE, end_ms + 2 * MINUTE, MINUTE):
        kept.add_totals({cast.acme.pk: Total(at_ms, 60, 30, 1, (at_ms - begin_ms) // MINUTE, 60.0)})
    rolled = kept.totals(cast.acme.pk, begin_ms, end_ms, True)
    assert [(one.at_ms, one.received, one.consumed, one.died, one.backlog, one.seconds) for one in rolled] == [
        (begin_ms + ROLLED_MS, 300, 150, 5, 5, 300.0),
        (end_ms, 300, 150, 5, 10, 300.0),
    ]
    monkeypatch.setattr(store, "HOT_WINDOW_MS", MINUTE)
    kept.add_totals({cast.acme.pk: Total(end_ms + 2 * MINUTE, 1, 1, 0, 0, 60.0)})
    assert len(kept.totals(cast.acme.pk, begin_ms, end_ms, False)) == 0
    assert kept.totals(cast.acme.pk, begin_ms, end_ms, True) == rolled
    assert kept.totals(cast.charlies.tenant.pk, begin_ms, end_ms, True) == []


@pytest.mark.parametrize("span", SPANS)
def test_a_history_has_each_step_once_and_ends_now(cast: Cast, span: str) -> None:
    length_ms, step_ms = SPANS[span]
    now_ms = int(time.time() * 1000)
    Store(cast.cluster.name).add_totals({cast.acme.pk: Total(now_ms - 1, 20, 10, 0, 7, 10.0)})
    steps = history(cast.acme, span)
    assert len(steps) == length_ms // step_ms
    assert steps[-1].at_ms <= now_ms + 1000 and now_ms < steps[-1].at_ms + step_ms + 1000
    known = [step for step in steps if step.backlog is not None]
    assert [(step.in_tps, step.out_tps, step.backlog) for step in known] == [(2.0, 1.0, 7)]


def test_what_was_a_day_before_is_found_in_steps_of_five_minutes(cast: Cast) -> None:
    kept = Store(cast.cluster.name)
    then_ms = int(time.time() * 1000) - DAY_MS - 10 * MINUTE
    kept.add_totals({cast.acme.pk: Total(then_ms, 600, 0, 0, 0, 60.0)})
    kept.add_totals({cast.acme.pk: Total(then_ms + 2 * ROLLED_MS, 0, 0, 0, 0, 60.0)})
    before = history(cast.acme, "1h", before_ms=DAY_MS)
    assert len(before) == 12
    assert 10.0 in [step.in_tps for step in before]


def test_names_without_a_namespace_are_the_account_s_that_the_database_says(cast: Cast) -> None:
    names = [f"bare-{number}" for number in range(totals._NAMES_AT_ONCE + 1)]
    found = totals._owners(cast.cluster, {cast.instance.instance_id: 5}, [*names, f"{cast.instance.instance_id}%a"],
                           lambda _, some: [(name, 7) for name in some if name == names[-1]])  # fmt: skip
    assert found == {names[-1]: 7, f"{cast.instance.instance_id}%a": 5}
