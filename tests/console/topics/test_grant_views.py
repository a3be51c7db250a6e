"""Pages of shared topics: what the owner gives, and what the receiver finds and may not touch."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from console.accounts.models import Tenant
from console.audit.models import Entry
from console.instances import services as instances
from console.topics import grants, services
from console.topics.models import Grant, Group, Topic
from console.web.errors import Refused
from tests.support.cast import Cast, make_group, make_topic, on_broker


@pytest.fixture
def umbrella(cast: Cast) -> Tenant:
    assert cast.charlie.tenant is not None
    return cast.charlie.tenant


def _share(cast: Cast, topic: Topic, relation: int = 6) -> Grant:
    return grants.create_grant(actor=cast.actor("alice"), topic=topic, relation=relation, tenant=cast.charlie.tenant)


def test_the_owner_shares_and_revokes_on_the_topics_page(cast: Cast, umbrella: Tenant) -> None:
    topic = make_topic(cast.alice, cast.instance)
    client, url = cast.client("alice"), reverse("grants.topic", args=[cast.instance.instance_id, topic.name])
    assert "Nobody else" in client.get(url).content.decode()
    assert client.post(url, {"receiver": "account", "tenant": umbrella.uid, "relation": "4"}).status_code == 302
    grant = Grant.objects.get()
    assert (grant.tenant, grant.relation, grant.creator) == (umbrella, 4, cast.alice)
    revoke = reverse("grants.revoke", args=[cast.instance.instance_id, topic.name, grant.pk])
    assert "Type" in client.get(revoke).content.decode()
    assert client.post(revoke, {"name": "somebody"}).status_code == 422
    assert Grant.objects.exists()
    assert client.post(revoke, {"name": "umbrella"}).status_code == 302
    assert not Grant.objects.exists()


@pytest.mark.parametrize(
    ("values", "field", "sentence"),
    [
        ({"receiver": "account", "tenant": "123"}, "tenant", "no account with this account ID"),
        ({"receiver": "account", "tenant": ""}, "tenant", "no account with this account ID"),
        ({"receiver": "user", "user": "una@umbrella"}, "user", "no such RAM user"),
        ({"receiver": "user", "user": "bob@acme", "relation": "3"}, "relation", "Select a valid choice"),
    ],
)
def test_a_mistake_is_said_beside_its_field(cast: Cast, values: dict[str, str], field: str, sentence: str) -> None:
    topic = make_topic(cast.alice, cast.instance)
    url = reverse("grants.topic", args=[cast.instance.instance_id, topic.name])
    response = cast.client("alice").post(url, {"relation": "6"} | values)
    assert response.status_code == 422
    assert sentence in str(response.context["form"].errors[field])


def test_a_ram_user_is_chosen_by_name(cast: Cast) -> None:
    topic = make_topic(cast.alice, cast.instance)
    url = reverse("grants.topic", args=[cast.instance.instance_id, topic.name])
    client = cast.client("alice")
    assert '<option value="nora@acme">' in client.get(url).content.decode()
    client.post(url, {"receiver": "user", "user": "nora@acme", "relation": "4"})
    assert Grant.objects.get().user == cast.nora
    shown = cast.client("nora").get(reverse("grants.index")).content.decode()
    assert topic.name in shown


def test_both_sides_see_it_under_shared_topics(cast: Cast) -> None:
    topic = make_topic(cast.alice, cast.instance, "flights")
    make_topic(cast.alice, cast.instance, "private")
    _share(cast, topic)
    url = reverse("grants.index")
    mine = cast.client("alice").get(url, {"tab": "by"}).content.decode()
    theirs = cast.client("charlie").get(url).content.decode()
    assert "flights" in mine and "umbrella" in mine
    assert "flights" in theirs and "acme" in theirs and "private" not in theirs
    assert "Nothing is shared with you" in cast.client("alice").get(url).content.decode()
    assert "No shared topic matches" in cast.client("charlie").get(url, {"q": "zzz"}).content.decode()
    assert "flights" in cast.client("charlie").get(url, {"q": "ACM"}).content.decode()


def test_a_ram_user_sees_of_shared_topics_what_its_policies_let_it_see(cast: Cast) -> None:
    _share(cast, make_topic(cast.alice, cast.instance, "flights"))
    url = reverse("grants.index")
    assert "flights" in cast.client("rita").get(url, {"tab": "by"}).content.decode()
    assert "flights" not in cast.client("nora").get(url, {"tab": "by"}).content.decode()


def test_the_list_costs_the_same_queries_for_more_rows(cast: Cast) -> None:
    def share(numbers: range) -> None:
        for number in numbers:
            name = f"topic-{number:03d}"
            topic = Topic.objects.create(
                instance=cast.instance, name=name, physical_name=cast.instance.physical_name(name), order_type=0
            )
            Grant.objects.create(topic=topic, tenant=cast.charlie.tenant, relation=4)

    def queries(client: Client, tab: str) -> int:
        with CaptureQueriesContext(connection) as captured:
            assert client.get(reverse("grants.index"), {"tab": tab}).status_code == 200
        return len(captured)

    share(range(3))
    callers = [(cast.client("alice"), "by"), (cast.client("rita"), "by"), (cast.client("charlie"), "with")]
    for client, tab in callers:
        queries(client, tab)
    few = [queries(client, tab) for client, tab in callers]
    share(range(3, 200))
    assert [queries(client, tab) for client, tab in callers] == few


def test_the_receiver_looks_at_the_topic_and_changes_nothing(cast: Cast) -> None:
    topic = make_topic(cast.alice, cast.instance)
    _share(cast, topic, 4)
    client, where = cast.client("charlie"), [cast.instance.instance_id, topic.name]
    page = client.get(reverse("topics.detail", args=where)).content.decode()
    assert "by acme" in page and "Subscribe" in page
    for name in ("topics.mode", "topics.delete", "grants.topic"):
        assert reverse(name, args=where) not in page, name
    for name in ("topics.live", "metrics.topic", "grants.groups", "grants.client"):
        assert client.get(reverse(name, args=where)).status_code == 200, name
    assert client.post(reverse("topics.mode", args=where), {"perm": "4"}).status_code == 403
    assert client.post(reverse("topics.delete", args=where), {"name": topic.name}).status_code == 403
    assert client.get(reverse("messaging.publish", args=where)).status_code == 403
    assert client.get(reverse("grants.topic", args=where)).status_code == 404
    assert Topic.objects.filter(pk=topic.pk, perm=6).exists()


def test_the_receiver_searches_the_granted_topic_and_no_other(cast: Cast) -> None:
    topic, other = make_topic(cast.alice, cast.instance), make_topic(cast.alice, cast.instance, "other")
    url = reverse("messaging.search", args=[cast.instance.instance_id])
    assert cast.client("charlie").get(url).status_code == 404
    grant = _share(cast, topic, 4)
    wanted = {"by": "time", "range": "1h", "search": "1"}
    assert cast.client("charlie").get(url, wanted | {"topic": topic.name}).status_code == 200
    hidden = cast.client("charlie").get(url, wanted | {"topic": other.name})
    unknown = cast.client("charlie").get(url, wanted | {"topic": "nowhere"})
    assert hidden.status_code == unknown.status_code == 422
    assert "There is no such topic" in hidden.content.decode()
    grants.delete_grant(actor=cast.actor("alice"), grant=grant)
    _share(cast, topic, 2)
    assert cast.client("charlie").get(url, wanted | {"topic": topic.name}).status_code == 403


def test_the_receiver_makes_and_keeps_its_own_group_in_the_owners_instance(cast: Cast) -> None:
    topic = make_topic(cast.alice, cast.instance)
    make_group(cast.alice, cast.instance, "GID_acme")
    where = [cast.instance.instance_id, topic.name]
    client = cast.client("charlie")
    create = reverse("grants.group_create", args=where)
    assert client.get(create).status_code == 404
    grant = _share(cast, topic)
    assert client.post(create, {"group_id": "GID_acme"}).status_code == 422
    assert client.post(create, {"group_id": "GID_umbrella"}).status_code == 302
    group = Group.objects.get(group_id="GID_umbrella")
    assert (group.owner, group.instance) == (cast.charlie.tenant, cast.instance)
    assert "GID_umbrella" in client.get(reverse("grants.groups", args=where)).content.decode()
    assert "GID_acme" not in client.get(reverse("grants.groups", args=where)).content.decode()
    own = [cast.instance.instance_id, "GID_umbrella"]
    for name in ("groups.detail", "messaging.status", "messaging.dead_letters", "messaging.reset", "metrics.group"):
        assert client.get(reverse(name, args=own)).status_code == 200, name
        assert cast.client("alice").get(reverse(name, args=own)).status_code == 404, name
        assert client.get(reverse(name, args=[own[0], "GID_acme"])).status_code == 404, name
    grants.delete_grant(actor=cast.actor("alice"), grant=grant)
    assert client.get(reverse("topics.detail", args=where)).status_code == 404
    # Its group stays its own: it can still be looked at, and deleted.
    gone = client.post(reverse("groups.delete", args=own), {"name": "GID_umbrella"})
    assert (gone.status_code, gone["Location"]) == (302, reverse("grants.index"))
    assert not Group.objects.filter(group_id="GID_umbrella").exists()


def test_client_settings_name_the_owners_instance_and_the_receivers_own_group(cast: Cast) -> None:
    topic = make_topic(cast.alice, cast.instance)
    _share(cast, topic)
    where = [cast.instance.instance_id, topic.name]
    cast.client("charlie").post(reverse("grants.group_create", args=where), {"group_id": "GID_umbrella"})
    page = cast.client("charlie").get(reverse("grants.client", args=where)).content.decode()
    assert cast.instance.instance_id in page and "GID_umbrella" in page and topic.name in page


def test_groups_that_a_receiver_left_behind_go_with_the_instance(cast: Cast, umbrella: Tenant) -> None:
    topic = make_topic(cast.alice, cast.instance)
    _share(cast, topic)
    group = services.create_group(actor=cast.actor("charlie"), instance=cast.instance, group_id="GID_umbrella")
    with pytest.raises(Refused):
        instances.delete_instance(actor=cast.actor("alice"), instance=cast.instance)
    services.delete_topic(actor=cast.actor("alice"), topic=topic)
    ended = Entry.objects.get(tenant=umbrella, action="topics.grant.delete")
    assert ended.resource == topic.physical_name
    instances.delete_instance(actor=cast.actor("alice"), instance=cast.instance)
    assert not Group.objects.exists()
    assert group.physical_name not in on_broker(cast.cluster)
    assert Entry.objects.filter(tenant=umbrella, action="topics.group.delete").exists()
