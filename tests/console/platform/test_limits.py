"""What an account may take of the brokers: set by the platform's administrator, seen by the account."""

from __future__ import annotations

import time
from typing import Any

import orjson
import pytest
import redis
from django.conf import settings
from django.urls import reverse

from brokercore.policy.table import LIMITS, USE
from brokercore.smq.storage import keys as smq_keys
from console.accounts.models import TenantLimits
from console.audit.models import Entry
from console.rights import limits
from console.rights.services import set_limits
from console.topics import services as topics
from console.tracking.models import TrackingTask
from console.web.errors import Refused
from tests.support.broker import eventually
from tests.support.cast import Cast, make_group, make_topic

URL = "/platform/accounts/acme/limits/"
ALL_LIMITS = "/overview/limits?all=1"


def store() -> Any:
    return redis.Redis.from_url(f"{settings.REDIS_URL}?db=0", decode_responses=True)


def limited(cast: Cast, **values: int) -> None:
    none = dict.fromkeys((kind.name for kind in limits.KINDS), None)
    set_limits(actor=cast.actor("petra"), tenant=cast.acme, values=none | values)


@pytest.mark.django_db(transaction=True)
def test_limits_of_an_account_are_published_and_on_record(cast: Cast) -> None:
    petra = cast.client("petra")
    form = {"connections": "5", "messages_per_second": "0", "stored_bytes": "1.5 MiB"}
    assert petra.post(URL, form).status_code == 302
    rows = store().hgetall(LIMITS)
    assert orjson.loads(rows["*"]) == settings.TENANT_LIMITS
    expected = settings.TENANT_LIMITS | {"connections": 5, "messages_per_second": 0, "stored_bytes": 1_572_864}
    assert orjson.loads(rows[cast.acme.uid]) == expected
    entry = Entry.objects.get(action="accounts.tenant.limit")
    assert (entry.actor, entry.tenant_uid) == ("petra", cast.acme.uid)
    assert entry.detail["connections"] == {"from": "default", "to": 5}
    assert entry.detail.keys() == {"connections", "messages_per_second", "stored_bytes"}
    assert petra.post(URL, {}).status_code == 302
    assert not TenantLimits.objects.exists()
    assert set(store().hgetall(LIMITS)) == {"*"}


def test_the_page_has_each_limit_with_what_is_used(cast: Cast) -> None:
    make_topic(cast.alice, cast.instance, "first")
    limited(cast, topics=4, stored_bytes=1 << 20)
    use = {"connections": 3, "messages_per_second": 7, "bytes_per_second": 70, "stored_bytes": 996_148, "refused": {}}
    store().hset(USE, mapping={
        f"{cast.acme.uid}/broker-x": orjson.dumps(use | {"refused": {"stored_bytes": 2}}),
        "/broker-x": int(time.time() * 1000),
        f"{cast.acme.uid}/broker-gone": orjson.dumps(use),
        "/broker-gone": int(time.time() * 1000) - 60_000,
    })  # fmt: skip
    try:
        page = cast.client("petra").get(URL)
    finally:
        store().hdel(USE, *store().hkeys(USE))
    lines = {line.kind.name: line for line in page.context["lines"]}
    assert (lines["topics"].used, lines["topics"].limit, lines["topics"].percent, lines["topics"].own) == (
        1,
        4,
        25,
        True,
    )
    assert (lines["stored_bytes"].percent, lines["stored_bytes"].colour) == (95, "red")
    assert lines["connections"].used == 3, "of a broker that is gone nothing counts"
    assert not lines["connections"].own
    assert page.context["use"].refused["stored_bytes"] == 2


@pytest.mark.parametrize(
    ("field", "text"),
    [("topics", "-1"), ("topics", "many"), ("stored_bytes", "1 XB"), ("stored_bytes", "-1"), ("groups", "9" * 17)],
)
def test_what_is_no_limit_is_refused_beside_its_field(cast: Cast, field: str, text: str) -> None:
    page = cast.client("petra").post(URL, {field: text})
    assert page.status_code == 422
    assert field in page.context["form"].errors
    assert not TenantLimits.objects.exists()


def test_an_account_sees_its_own_limits(cast: Cast) -> None:
    limited(cast, topics=42)
    page = cast.client("alice").get(ALL_LIMITS).content.decode()
    assert ">42<" in page
    assert ">42<" not in cast.client("charlie").get(ALL_LIMITS).content.decode()


def test_the_first_page_begins_with_the_limit_that_is_taken_the_most(cast: Cast) -> None:
    limited(cast, tracking_tasks=1)
    TrackingTask.objects.create(tenant=cast.acme, name="shop", port=3306)
    client = cast.client("alice")
    page = client.get(reverse("instances.overview_limits"))
    shown = [line.kind.label for line in page.context["lines"]]
    assert (shown[0], len(shown)) == ("Change tracking tasks", 6)
    every = client.get(ALL_LIMITS)
    assert len(every.context["lines"]) == len(limits.KINDS)
    # What was opened stays so when the part is asked for again.
    assert f'hx-get="{ALL_LIMITS}" hx-trigger="every' in every.content.decode()


def test_topics_and_groups_are_counted_over_all_instances_of_the_account(cast: Cast) -> None:
    limited(cast, topics=1, groups=1)
    make_topic(cast.alice, cast.instance, "first")
    make_group(cast.alice, cast.instance, "GID_first")
    with pytest.raises(Refused, match="acme may have 1 topics") as refused:
        topics.create_topic(actor=cast.actor("alice"), instance=cast.instance, name="second", order_type=0)
    assert refused.value.symbol == "BIZ_TOPIC_QUOTA_EXCEEDED"
    with pytest.raises(Refused, match="acme may have 1 groups") as refused:
        topics.create_group(actor=cast.actor("alice"), instance=cast.instance, group_id="GID_second")
    assert refused.value.symbol == "BIZ_SUBSCRIPTION_QUOTA_EXCEEDED"
    make_topic(cast.users["charlie"], cast.charlies, "theirs")


def test_settings_tell_what_all_queues_hold(cast: Cast) -> None:
    def shown(size: int, told: str) -> str:
        """The page with it; a queue service of other tests counts anew from time to time."""
        store().hset(smq_keys.ALL_HELD, mapping={"messages": 1000, "bytes": size, "most": 1 << 20})
        page = settings_page(cast)
        return page if told in page else ""

    try:
        page = eventually(lambda: shown(124_000, "1,000"))
        assert "511.7\xa0KB" in page and "1.0\xa0MB" in page
        assert "until consumers have made room" not in page
        eventually(lambda: shown(650_000, "until consumers have made room"))
    finally:
        store().delete(smq_keys.ALL_HELD)


def settings_page(cast: Cast) -> str:
    return cast.client("petra").get(reverse("platform.settings")).content.decode()
