"""A topic and a group through which messages flowed at a steady pace, as the sampler would have kept it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import orjson
from django.utils import timezone

from brokercore.names import dead_letter_topic
from console.audit.models import Entry
from console.metrics import sampler
from console.metrics.store import HOT_WINDOW_MS, Change, Latest, Store
from console.topics.models import Group, Topic
from tests.support.cast import Cast, make_group, make_topic

MINUTE, STEP_MS = 60_000, 10_000


@dataclass(frozen=True)
class Flowing:
    """In each step of 10 s until `end_ms`, a full minute that is just over, 30 came and 20 were consumed."""

    topic: Topic
    group: Group
    end_ms: int
    store: Store

    @property
    def series(self) -> tuple[str, str, str]:
        """In, out and dead letters."""
        topic, group = self.topic.physical_name, self.group.physical_name
        return f"in:{topic}", f"out:{topic}@{group}", f"in:{dead_letter_topic(group)}"


def flowing(cast: Cast, minutes: int = 10, *, waiting: int = 1000, without: tuple[int, int] = (0, 0)) -> Flowing:
    """So many minutes of it, `waiting` at the end; nothing was sampled from `without[0]` to `without[1]` minutes ago.

    What is older than the hot window is in the lake.
    """
    topic, group = make_topic(cast.alice, cast.instance), make_group(cast.alice, cast.instance)
    long_ago = timezone.now() - timedelta(days=20)
    Topic.objects.filter(pk=topic.pk).update(created_at=long_ago)
    Group.objects.filter(pk=group.pk).update(created_at=long_ago)
    cluster, end_ms = cast.instance.cluster, int(time.time() * 1000) // MINUTE * MINUTE
    found = Flowing(Topic.objects.get(pk=topic.pk), Group.objects.get(pk=group.pk), end_ms, Store(cluster.name))
    came, went, _ = found.series
    begin_ms, gap = end_ms - minutes * MINUTE, [end_ms - ago * MINUTE for ago in without]
    found.store.set_flushed_ms(begin_ms)
    for at_ms in range(begin_ms + STEP_MS, end_ms + 1, STEP_MS):
        if gap[0] < at_ms <= gap[1]:
            continue
        found.store.add(at_ms, STEP_MS / 1000, {came: (30, 10.0), went: (20, 10.0)})
        if (at_ms - begin_ms) % HOT_WINDOW_MS < STEP_MS:
            sampler.flush(found.store, at_ms, cluster)
    committed = {topic.physical_name: {"broker-a": {"0": 0}}}
    change = Change(
        Latest(end_ms, 10.0, ["broker-a"], [end_ms]),
        groups={group.physical_name: orjson.dumps(committed)},
        topics={topic.physical_name: orjson.dumps({"broker-a": [0, waiting]})},
        backlog={group.physical_name: waiting},
    )
    with found.store.lease() as token:
        assert found.store.commit(token, change)
    return found


def done(cast: Cast, action: str, resource: str, at_ms: int, *, name: str = "alice") -> None:
    """What `name` did at that time, as the audit has it."""
    user = cast.users[name]
    Entry.objects.create(
        at=datetime.fromtimestamp(at_ms / 1000, UTC), tenant=user.tenant, actor=user.username, channel="page",
        action=action, resource=resource, result="success",
    )  # fmt: skip
