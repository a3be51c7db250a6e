"""The sampler's beat."""

from __future__ import annotations

from typing import Any

import pytest

from console.celery import app
from console.instances.models import Cluster, Instance
from console.metrics import tasks
from console.metrics.store import Store
from tests.console.live import Live


def test_each_cluster_with_instances_is_a_task_of_its_own(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[str, Any]] = []
    monkeypatch.setattr(app, "send_task", lambda name, args, **_: sent.append((name, args)))
    away = Cluster.objects.create(name="away", region="r", namesrv="127.0.0.1:9")
    Cluster.objects.create(name="unused", region="r", namesrv="127.0.0.1:9")
    Instance.objects.create(
        instance_id="MQ_INST_1_away", tenant=live.instance.tenant, cluster=away, region="r", name="away"
    )
    tasks.sample()
    assert sorted(sent) == sorted(
        ("console.metrics.tasks.sample_cluster", [cluster.pk]) for cluster in (live.instance.cluster, away)
    )
    for _, (number,) in sent:
        tasks.sample_cluster(number)
    assert Store("away").latest() is None
    assert Store(live.instance.cluster.name).latest() is not None


def test_a_cluster_that_is_gone_by_then_is_nothing_to_sample(live: Live) -> None:
    tasks.sample_cluster(live.instance.cluster.pk + 1000)
