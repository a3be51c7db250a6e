"""First steps of an instance: each ticks itself, and they are gone once a message was consumed."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.urls import reverse

from tests.console.live import Live
from tests.console.metrics.test_sampler import sample_again
from tests.support.broker import eventually
from tests.support.cast import Cast


@pytest.fixture(autouse=True)
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GANTRY_LAKE", str(tmp_path))


def shown(cast: Cast, live: Live, who: str = "alice") -> tuple[int, int, str]:
    """How many steps are done and how many offer a way, and the whole part."""
    part = cast.client(who).get(reverse("instances.first_steps", args=[live.instance.instance_id])).content.decode()
    return part.count("is-done"), part.count("Do it"), part


def test_each_step_ticks_itself_and_at_the_end_they_are_gone(live: Live, cast: Cast) -> None:
    assert shown(cast, live)[:2] == (0, 4)
    assert 'hx-trigger="every 5s"' in shown(cast, live)[2]
    topic = live.topic()
    assert shown(cast, live)[:2] == (1, 3)
    group = live.group()
    assert shown(cast, live)[:2] == (2, 2)
    live.send(topic)
    sample_again(live)
    assert shown(cast, live)[:2] == (3, 1)
    got = live.consume(group, topic)
    eventually(lambda: len(got) == 1)
    live.stop_consumers()
    sample_again(live)
    assert shown(cast, live)[2].strip() == ""


def test_who_may_only_look_is_offered_what_it_may(live: Live, cast: Cast) -> None:
    done, offered, part = shown(cast, live, "rita")
    assert (done, offered) == (0, 2) and "create-topic" not in part


def test_others_and_a_read_only_cluster_have_none(live: Live, cast: Cast) -> None:
    url = reverse("instances.first_steps", args=[live.instance.instance_id])
    assert cast.client("charlie").get(url).status_code == 404
    assert cast.client("nora").get(url).status_code == 403
    cast.cluster.read_only = True
    cast.cluster.save()
    assert shown(cast, live)[2].strip() == ""
