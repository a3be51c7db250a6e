"""Lists and forms of topics and groups."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from console.accounts.models import Policy
from console.topics.models import Group, Topic
from tests.support.cast import Cast, make_group, make_topic


def _fill(cast: Cast, count: int) -> None:
    """Rows only: a list never asks the broker."""
    for n in range(count):
        name = f"topic-{n:03d}"
        Topic.objects.create(
            instance=cast.instance, name=name, physical_name=cast.instance.physical_name(name), order_type=0
        )
        group_id = f"GID_{n:03d}"
        Group.objects.create(
            instance=cast.instance,
            group_id=group_id,
            physical_name=cast.instance.physical_name(group_id),
            owner=cast.acme,
            shared=True,
        )


def _queries(client: Client, url: str) -> int:
    with CaptureQueriesContext(
        connection,
    ) as captured:
        assert client.get(url).status_code == 200
    return len(captured)


@pytest.mark.parametrize("name", ["topics.list", "groups.list"])
@pytest.mark.parametrize("who", ["alice", "rita"])
def test_a_list_costs_the_same_queries_for_more_rows(cast: Cast, name: str, who: str) -> None:
    client, url = cast.client(who), reverse(name, args=[cast.instance.instance_id])
    _fill(cast, 3)
    client.get(url)
    few = _queries(client, url)
    Topic.objects.all().delete()
    Group.objects.all().delete()
    _fill(cast, 19)
    assert _queries(client, url) == few


def test_it_searches_sorts_and_pages(cast: Cast) -> None:
    _fill(cast, 45)
    client, url = cast.client("alice"), reverse("topics.list", args=[cast.instance.instance_id])
    found = client.get(url, {"q": "topic-04"}).content.decode()
    assert found.count("<tr ") == 1 + 5
    assert "topic-044" in found
    last = client.get(url, {"sort": "-name", "page": "3"}).content.decode()
    assert "topic-004" in last
    assert "topic-005" not in last


def test_a_fragment_begins_with_its_target(cast: Cast) -> None:
    _fill(cast, 1)
    url = reverse("topics.list", args=[cast.instance.instance_id])
    response = cast.client("alice").get(url, headers={"HX-Request": "true"})
    assert response.content.decode().lstrip().startswith('<div id="results"')
    assert response["Vary"].startswith("HX-Request")


def test_a_list_shows_only_what_the_policy_lets_see(cast: Cast) -> None:
    make_topic(cast.alice, cast.instance, "visible")
    make_topic(cast.alice, cast.instance, "kept-away")
    instance = cast.instance.instance_id
    document = {
        "Version": "1",
        "Statement": [
            {"Effect": "Allow", "Action": "mq:QueryInstance", "Resource": f"acs:mq:*:*:{instance}"},
            {"Effect": "Allow", "Action": "mq:QueryTopic", "Resource": f"acs:mq:*:*:{instance}%vis*"},
        ],
    }
    cast.nora.policies.add(Policy.objects.create(tenant=cast.acme, name="some", document=document))
    page = cast.client("nora").get(reverse("topics.list", args=[instance])).content.decode()
    assert "visible" in page
    assert "kept-away" not in page


def test_an_invalid_form_comes_back_with_422_and_the_reason_at_the_field(cast: Cast) -> None:
    url = reverse("topics.create", args=[cast.instance.instance_id])
    response = cast.client("alice").post(url, {"name": "GIDwrong", "order_type": "0"})
    assert response.status_code == 422
    assert response.context["form"].errors["name"] == [
        "A topic name does not begin with CID or GID; those are kept for groups."
    ]
    assert "is-invalid" in response.content.decode()


def test_deleting_asks_for_the_name(cast: Cast) -> None:
    make_topic(cast.alice, cast.instance)
    url = reverse("topics.delete", args=[cast.instance.instance_id, "orders"])
    client = cast.client("alice")
    assert client.post(url, {"name": "order"}).status_code == 422
    assert Topic.objects.exists()
    dialog = client.get(url, headers={"HX-Request": "true"}).content.decode()
    assert "<dialog" in dialog
    done = client.post(url, {"name": "orders"}, headers={"HX-Request": "true"})
    assert done["HX-Redirect"] == reverse("topics.list", args=[cast.instance.instance_id])
    assert not Topic.objects.exists()


def test_a_hostile_description_is_shown_as_text(cast: Cast) -> None:
    _fill(cast, 1)
    Topic.objects.update(remark="<script>alert(1)</script>")
    page = cast.client("alice").get(reverse("topics.list", args=[cast.instance.instance_id])).content.decode()
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page


def test_the_live_part_shows_queues_and_subscribed_groups(cast: Cast) -> None:
    make_topic(cast.alice, cast.instance)
    make_group(cast.alice, cast.instance)
    url = reverse("topics.live", args=[cast.instance.instance_id, "orders"])
    page = cast.client("alice").get(url).content.decode()
    assert page.count("broker-a · ") == 8
    assert "No group has subscribed" in page
