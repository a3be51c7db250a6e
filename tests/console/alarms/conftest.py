"""Readings of a sampler that never ran, and rules of acme's that tell a webhook."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from console.alarms import rounds, services
from console.alarms.models import Condition, Recipient, RecipientKind, Rule
from console.alarms.readings import Readings
from console.alarms.services import RecipientValues, RuleValues
from console.metrics.store import Change, Latest, Store
from console.topics.models import Group, Topic
from tests.support.cast import Cast

MakeRule = Callable[..., Rule]


@pytest.fixture(autouse=True)
def slow_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sample stays recent for as long as a test takes on a busy machine."""
    monkeypatch.setattr("console.metrics.store.STALE_MS", 600_000)


@pytest.fixture
def recipient(cast: Cast) -> Recipient:
    values = RecipientValues(name="on call", kind=RecipientKind.WEBHOOK, address="http://127.0.0.1:9/hook")
    return services.create_recipient(actor=cast.actor("alice"), values=values)


@pytest.fixture
def make_rule(cast: Cast, recipient: Recipient) -> MakeRule:
    def make(condition: Condition, **values: Any) -> Rule:
        told: dict[str, Any] = {
            "name": str(condition.label),
            "recipients": [recipient],
            "instance": cast.instance,
        } | values
        return services.create_rule(actor=cast.actor("alice"), values=RuleValues(condition=condition, **told))

    return make


@dataclass
class Sampled:
    """What the sampler told last, and rounds at times of the test's choice."""

    cast: Cast
    began_ms: int = field(default_factory=lambda: int(time.time() * 1000))
    passed: timedelta = timedelta()

    def __call__(
        self,
        *,
        backlog: dict[Group, int] | None = None,
        out: dict[Group, float] | None = None,
        rates: dict[Topic, float] | None = None,
        stored: dict[str, int] | None = None,
    ) -> None:
        """A reading of now."""
        change = Change(Latest(int(time.time() * 1000), 10.0, ["broker-a"], []))
        change.backlog.update({group.physical_name: number for group, number in (backlog or {}).items()})
        change.out_rates.update({group.physical_name: rate for group, rate in (out or {}).items()})
        change.in_rates.update({topic.physical_name: rate for topic, rate in (rates or {}).items()})
        change.stored.update(stored or {})
        store = Store(self.cast.cluster.name)
        with store.lease() as token:
            assert store.commit(token, change)

    def for_an_hour(self, ago: timedelta = timedelta()) -> None:
        """The sampler has counted for longer than it keeps what it counts, up to so long ago, and nothing came."""
        store, end_ms = Store(self.cast.cluster.name), self.began_ms - int(ago / timedelta(milliseconds=1))
        for number in range(72):
            store.add(end_ms - number * 60_000, 60.0, {})

    def came(self, ago: timedelta, counts: dict[str, int]) -> None:
        """So many messages came to topics so long before now."""
        at_ms = self.began_ms - int(ago / timedelta(milliseconds=1))
        series = {f"in:{name}": (number, 10.0) for name, number in counts.items()}
        Store(self.cast.cluster.name).add(at_ms, 10.0, series)

    def round(self, after: timedelta = timedelta()) -> rounds.Outcome:
        """A round of evaluation, so much later than the last one."""
        self.passed += after
        return rounds.run(Readings(self.began_ms + int(self.passed / timedelta(milliseconds=1))))


@pytest.fixture
def sampled(cast: Cast) -> Sampled:
    Store(cast.cluster.name).forget()
    return Sampled(cast)
