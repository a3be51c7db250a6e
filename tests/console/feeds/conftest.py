"""A webhook and a schedule of acme's that no process fills."""

from __future__ import annotations

from typing import Any

import pytest

from console.feeds import services
from console.feeds.models import Feed, Kind
from tests.support.cast import Cast


def hook_of(cast: Cast, name: str = "orders", **told: Any) -> Feed:
    """A webhook with an address."""
    return services.keep(
        tenant=cast.acme, name=name, holder=f"task {name}", kind=Kind.WEBHOOK, told=told, retention_days=7
    )


@pytest.fixture
def hook(cast: Cast) -> Feed:
    return hook_of(cast)


@pytest.fixture
def token(hook: Feed) -> str:
    return services.renew_token(hook)


@pytest.fixture
def nightly(cast: Cast) -> Feed:
    """Due at each full hour."""
    feed = tell(cast, cron="0 * * * *")
    services.resume(feed)
    return feed


def tell(cast: Cast, **told: Any) -> Feed:
    """The schedule, told something else."""
    told = {"timeZone": "UTC", "event": {"job": "rollup"}} | told
    return services.keep(
        tenant=cast.acme, name="nightly", holder="task nightly", kind=Kind.SCHEDULE, told=told, retention_days=7
    )
