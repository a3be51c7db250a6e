"""Whose a group is (spec 6.3): the account's, and of its RAM users the creator's, unless the account shares it."""

from __future__ import annotations

import pytest
from django.urls import reverse

from brokercore.client import Credentials, MessageQueue
from brokercore.client.admin import Admin
from brokercore.client.errors import NoPermission
from console.accounts import services as accounts
from console.audit.models import Entry
from console.topics import services
from console.topics.models import Group
from tests.support.broker import eventually
from tests.support.cast import Cast, make_group, make_topic

PAGES = (
    "groups.detail",
    "messaging.status",
    "messaging.clients",
    "messaging.dead_letters",
    "messaging.reset",
    "metrics.group",
)


@pytest.mark.parametrize("name", PAGES)
def test_a_group_of_the_account_does_not_exist_for_its_users_until_it_is_shared(cast: Cast, name: str) -> None:
    group = make_group(cast.alice, cast.instance, shared=False)
    url = reverse(name, args=[cast.instance.instance_id, group.group_id])
    assert cast.client("bob").get(url).status_code == 404
    assert cast.client("alice").get(url).status_code == 200
    services.set_group_shared(actor=cast.actor("alice"), group=group, shared=True)
    assert cast.client("bob").get(url).status_code == 200
    assert cast.client("nora").get(url).status_code == 403


def test_a_users_own_group_is_its_and_the_accounts(cast: Cast) -> None:
    services.create_group(actor=cast.actor("bob"), instance=cast.instance, group_id="GID_bob")
    url = reverse("groups.detail", args=[cast.instance.instance_id, "GID_bob"])
    assert cast.client("bob").get(url).status_code == 200
    assert cast.client("alice").get(url).status_code == 200
    assert cast.client("rita").get(url).status_code == 404


def test_lists_show_each_the_own_and_the_shared_ones(cast: Cast) -> None:
    make_group(cast.alice, cast.instance, "GID_kept", shared=False)
    make_group(cast.alice, cast.instance, "GID_open", shared=True)
    services.create_group(actor=cast.actor("bob"), instance=cast.instance, group_id="GID_bob")
    url = reverse("groups.list", args=[cast.instance.instance_id])
    seen = {
        who: {
            name for name in ("GID_kept", "GID_open", "GID_bob") if name in cast.client(who).get(url).content.decode()
        }
        for who in ("alice", "bob", "rita")
    }
    assert seen == {
        "alice": {"GID_kept", "GID_open", "GID_bob"},
        "bob": {"GID_open", "GID_bob"},
        "rita": {"GID_open"},
    }


def test_the_account_shares_a_group_and_takes_it_back_on_its_page(cast: Cast) -> None:
    group = make_group(cast.alice, cast.instance, shared=False)
    where = [cast.instance.instance_id, group.group_id]
    page, switch = reverse("groups.detail", args=where), reverse("groups.sharing", args=where)
    assert "Account only" in cast.client("alice").get(page).content.decode()
    assert cast.client("bob").post(switch, {"shared": "true"}).status_code == 404
    assert cast.client("alice").post(switch, {"shared": "true"}).status_code == 302
    assert "All users" in cast.client("alice").get(page).content.decode()
    assert switch not in cast.client("bob").get(page).content.decode()
    assert cast.client("bob").post(switch, {"shared": "false"}).status_code == 403
    assert cast.client("alice").post(switch, {"shared": "false"}).status_code == 302
    assert not Group.objects.get().shared
    assert [e.detail for e in Entry.objects.filter(action="topics.group.share").order_by("pk")] == [
        {"shared": True},
        {"shared": False},
    ]


@pytest.mark.django_db(transaction=True)
def test_the_broker_holds_the_rule_for_a_users_key(cast: Cast) -> None:
    topic = make_topic(cast.alice, cast.instance)
    kept = make_group(cast.alice, cast.instance, "GID_kept", shared=False)
    own = services.create_group(actor=cast.actor("bob"), instance=cast.instance, group_id="GID_bob")
    key = accounts.create_access_key(actor=cast.actor("alice"), user=cast.bob)
    queue = MessageQueue(topic.physical_name, "broker-a", 0)
    with Admin(cast.cluster.namesrv, Credentials(key.access_key_id, key.access_key_secret)) as bob:

        def may_use(group: Group) -> bool:
            try:
                bob.offsets.commit(group.physical_name, {queue: 0})
            except NoPermission:
                return False
            return True

        assert eventually(lambda: may_use(own), 5)
        assert not may_use(kept)
        services.set_group_shared(actor=cast.actor("alice"), group=kept, shared=True)
        assert eventually(lambda: may_use(kept), 2)
        services.set_group_shared(actor=cast.actor("alice"), group=kept, shared=False)
        assert eventually(lambda: not may_use(kept), 2)
