"""A real worker that adopts thousands of names is killed half way, and another one ends what it began."""

from __future__ import annotations

import os
import signal

import pytest
from django.core.cache import cache
from django.utils import timezone

from console.adoption import services
from console.adoption.models import Run, State
from console.adoption.unowned import unowned
from console.audit.models import Entry
from console.instances import broker as clients
from console.topics.models import Topic
from tests.support.broker import BrokerProcess, eventually
from tests.support.cast import Cast, make_instance, on_broker
from tests.support.many_names import create_topics
from tests.support.worker import worker_on

NAMES = 4_000
WORK, SWEEP = "console.adoption.tasks.work", "console.adoption.tasks.sweep"
RULES = "console.adoption.tasks.rules"
pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.django_db(transaction=True)]


def test_a_run_goes_on_after_its_worker_was_killed_and_takes_each_name_once(cast: Cast, broker: BrokerProcess) -> None:
    bare = make_instance(cast.alice, cast.cluster, name="bare", independent_naming=False)
    create_topics(clients.admin(cast.cluster), (f"kill-{number:05}" for number in range(NAMES)), queues=1)
    before = on_broker(cast.cluster)
    names = [one for one in unowned(cast.cluster) if one.name.startswith("kill-")]
    run = services.adopt(actor=cast.actor("petra"), instance=bare, names=names)
    first = worker_on(broker)
    try:
        first.send(WORK, run.pk)
        eventually(bare.topics.exists, seconds=120, pause=0.01)
    finally:
        first.kill()
    half = bare.topics.count()
    assert 0 < half < NAMES, first.log
    assert run.names.filter(state=State.DONE).count() == half
    # Its lease ends by itself; here at once.
    Run.objects.filter(pk=run.pk).update(leased_until=timezone.now())
    second = worker_on(broker)
    try:
        second.send(SWEEP)
        eventually(lambda: Run.objects.get(pk=run.pk).ended_at, seconds=120)
    finally:
        second.kill()
    assert run.names.filter(state=State.DONE).count() == NAMES == bare.topics.count()
    assert Topic.objects.filter(adopted=True).count() == NAMES and on_broker(cast.cluster) == before
    assert Entry.objects.filter(action="adoption.run.adopt_end").count() == 1


def test_rules_are_applied_though_the_worker_that_began_was_killed(cast: Cast, broker: BrokerProcess) -> None:
    """It stood before a broker that did not answer: nobody waits for it longer than its lease."""
    bare = make_instance(cast.alice, cast.cluster, name="bare", independent_naming=False)
    clients.admin(cast.cluster).topics.create("ruled")
    services.create_rule(actor=cast.actor("petra"), instance=bare, include="ruled")
    first = worker_on(broker)
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        first.send(RULES)
        eventually(lambda: cache.get(f"adoption:rules:{cast.cluster.pk}"), seconds=120, pause=0.01)
    finally:
        first.kill()
        os.kill(broker.pid, signal.SIGCONT)
    second = worker_on(broker)

    def is_applied() -> bool:
        second.send(RULES)
        return bare.topics.exists()

    try:
        eventually(is_applied, seconds=120)
    finally:
        second.kill()
