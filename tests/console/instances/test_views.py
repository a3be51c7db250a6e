"""The overview and the pages of instances."""

from __future__ import annotations

from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from console.accounts import services as accounts
from console.audit.models import Entry
from console.instances.models import Instance
from tests.support.cast import Cast, make_group, make_instance, make_topic


def test_the_overview_counts_what_the_account_has(cast: Cast) -> None:
    make_topic(cast.alice, cast.instance, "one")
    make_topic(cast.alice, cast.instance, "two")
    make_group(cast.alice, cast.instance)
    make_topic(cast.charlie, cast.charlies, "not-ours")
    overview = cast.client("alice").get("/").context["overview"]
    assert (len(overview.instances), overview.topics, overview.groups) == (1, 2, 1)


def test_without_a_policy_the_overview_shows_nothing_of_the_account(cast: Cast) -> None:
    make_topic(cast.alice, cast.instance)
    response = cast.client("nora").get("/")
    assert (response.context["overview"].instances, response.context["overview"].totals) == ([], None)
    assert cast.instance.instance_id not in response.content.decode()


def test_overview_and_list_cost_the_same_queries_for_more_instances(cast: Cast) -> None:
    client = cast.client("alice")
    counts = []
    for number in (2, 12):
        while Instance.objects.filter(tenant=cast.acme).count() < number:
            make_instance(cast.alice, cast.cluster, name=f"instance {Instance.objects.count()}")
        for url in ("/", reverse("instances.list")):
            client.get(url)
            with CaptureQueriesContext(connection) as captured:
                client.get(url)
            counts.append(len(captured))
    assert counts[:2] == counts[2:]


def test_client_settings_carry_the_real_values_but_no_secret(cast: Cast) -> None:
    make_topic(cast.alice, cast.instance, "orders")
    make_group(cast.alice, cast.instance, "GID_orders")
    key = accounts.create_access_key(actor=cast.actor("alice"), user=cast.alice)
    response = cast.client("alice").get(reverse("instances.client", args=[cast.instance.instance_id]))
    page = response.content.decode()
    for value in (cast.cluster.namesrv, cast.instance.instance_id, key.access_key_id, "GID_orders"):
        assert value in page
    assert key.access_key_secret not in page
    ons = next(s for s in response.context["snippets"] if s.slug == "ons")
    assert f'INSTANCE_ID, "{cast.instance.instance_id}"' in ons.text


def test_an_instance_without_namespace_needs_no_instance_id(cast: Cast) -> None:
    bare = make_instance(cast.alice, cast.cluster, name="bare", independent_naming=False)
    response = cast.client("alice").get(reverse("instances.client", args=[bare.instance_id]))
    assert all("INSTANCE_ID" not in s.text and "namespace" not in s.text.lower() for s in response.context["snippets"])


def test_the_chosen_instance_is_remembered(cast: Cast) -> None:
    second = make_instance(cast.alice, cast.cluster, name="second")
    client = cast.client("alice")
    client.get(reverse("topics.list", args=[second.instance_id]))
    assert client.get("/keys/").context["current_instance"] == second


def test_creating_leads_to_the_new_instance(cast: Cast) -> None:
    data = {
        "name": "fresh",
        "cluster": cast.cluster.name,
        "independent_naming": "true",
        "max_send_tps": "100",
        "max_receive_tps": "100",
    }
    response = cast.client("alice").post(reverse("instances.create"), data)
    fresh = Instance.objects.get(name="fresh")
    assert response["Location"] == reverse("instances.detail", args=[fresh.instance_id])
    taken = cast.client("alice").post(reverse("instances.create"), data)
    assert taken.status_code == 422
    assert "is taken" in str(taken.context["form"].errors["name"])


def test_the_page_shows_what_is_used_of_the_limits_and_changes_them(cast: Cast) -> None:
    page = reverse("instances.detail", args=[cast.instance.instance_id])
    assert (
        'of <span class="num" title="100,000">100.0 k</span> messages/s'
        in cast.client("alice").get(page).content.decode()
    )
    edit = reverse("instances.update", args=[cast.instance.instance_id])
    data = {"name": cast.instance.name, "max_send_tps": "250", "max_receive_tps": "0"}
    refused = cast.client("alice").post(edit, data)
    assert refused.status_code == 422
    assert "greater than or equal to 1" in str(refused.context["form"].errors["max_receive_tps"])
    assert cast.client("alice").post(edit, data | {"max_receive_tps": "300"}).status_code == 302
    shown = cast.client("alice").get(page).content.decode()
    assert 'of <span class="num" title="250">250</span> messages/s' in shown
    assert 'of <span class="num" title="300">300</span> messages/s' in shown
    (entry,) = Entry.objects.filter(action="instances.instance.limit")
    assert entry.detail == {"max_send_tps": 250, "max_receive_tps": 300}


def test_the_overview_tells_how_full_the_broker_is(cast: Cast) -> None:
    response = cast.client("alice").get(reverse("instances.overview_storage"))
    broker = response.context["brokers"][0]
    assert broker.name == "broker-a"
    assert broker.max_bytes == 1024**3
    assert 0 <= broker.used_bytes < broker.max_bytes
    assert broker.retention_hours == 72
    assert "1.0 GiB" in response.content.decode()
