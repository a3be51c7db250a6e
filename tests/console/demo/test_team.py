"""The one account of a team that brings its cluster: all that is there is its own, however much that is."""

from __future__ import annotations

import pytest
from pytest_django import Settings

from console.accounts.models import Tenant
from console.adoption.models import Rule
from console.demo import team
from console.instances import broker as clients
from console.rights import limits
from console.topics.models import Group, Topic
from tests.support.cast import Cast, on_broker


@pytest.fixture
def one_topic_an_account(settings: Settings) -> None:
    settings.TENANT_LIMITS = settings.TENANT_LIMITS | {"topics": 1, "groups": 1}


@pytest.mark.usefixtures("one_topic_an_account")
def test_it_has_all_names_without_a_limit_and_what_comes_later(cast: Cast) -> None:
    admin = clients.admin(cast.cluster)
    for name in ("team-orders", "team-payments"):
        admin.topics.create(name)
        admin.groups.create(f"{name}-service")
    before = on_broker(cast.cluster)
    issued = team.create(cast.cluster)
    assert issued["instance_id"] and issued["password"] != issued["sql_password"]
    team.adopt(cast.cluster)
    tenant = Tenant.objects.get(name=team.TENANT)
    assert tenant.may_adopt and limits.effective(tenant)["topics"] == limits.effective(tenant)["groups"] == 0
    assert {"team-orders", "team-payments"} <= set(Topic.objects.values_list("name", flat=True))
    assert Group.objects.filter(owner=tenant, group_id="team-orders-service", adopted=True).exists()
    assert Rule.objects.get().include == "*" and on_broker(cast.cluster) == before
