"""The platform's administrator keeps accounts, and sees nothing inside of them."""

from __future__ import annotations

from typing import Any

import pytest
import redis
from django.conf import settings
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from brokercore.policy.table import KEYS
from console.accounts import services as accounts
from console.accounts.models import Organization, Tenant
from console.accounts.services import tenants
from console.audit.models import Entry
from console.rights import access_table
from console.web.errors import Refused
from tests.support.cast import PASSWORD, Cast, make_group, make_topic

URL = "/platform/accounts/"


def signed_in(name: str, password: str) -> Any:
    client = Client()
    return client.post(reverse("account_login"), {"login": name, "password": password})


def published() -> set[str]:
    """The AccessKeys that the broker accepts."""
    keys: Any = redis.Redis.from_url(f"{settings.REDIS_URL}?db=0", decode_responses=True).hkeys(KEYS)
    return set(keys)


def test_the_first_page_is_the_list_of_accounts(cast: Cast) -> None:
    assert signed_in("petra", PASSWORD)["Location"] == URL
    assert cast.client("petra").get("/")["Location"] == URL


def test_a_page_of_an_account_says_why_it_is_closed(cast: Cast) -> None:
    response = cast.client("petra").get(reverse("topics.list", args=[cast.instance.instance_id]))
    assert response.status_code == 403
    assert "petra belongs to no account" in response.content.decode()
    assert Entry.objects.filter(actor="petra", result="refused", action="topics.list").count() == 1


def test_it_counts_what_an_account_has(cast: Cast) -> None:
    for number in range(3):
        make_topic(cast.alice, cast.instance, f"topic-{number}")
    make_group(cast.alice, cast.instance)
    rows = {row.record.name: row.record for row in cast.client("petra").get(URL).context["table"].rows}
    acme = rows["acme"]
    assert (acme.instance_count, acme.topic_count, acme.group_count, acme.user_count) == (1, 3, 1, 4)


def test_it_searches_filters_and_sorts(cast: Cast) -> None:
    branch = Organization.objects.create(name="Branch", parent=cast.acme.organization)
    elsewhere = Organization.objects.create(name="Elsewhere")
    tenants.create_tenant(name="below", organization=branch, password=PASSWORD)
    tenants.create_tenant(name="apart", organization=elsewhere, password=PASSWORD)
    Tenant.objects.filter(name="apart").update(enabled=False)
    client = cast.client("petra")

    def shown(**query: str) -> list[str]:
        return [row.record.name for row in client.get(URL, query).context["table"].rows]

    assert shown() == ["acme", "apart", "below", "umbrella"]
    assert shown(q="umb") == ["umbrella"]
    assert shown(q=cast.acme.uid) == ["acme"]
    assert shown(organization=str(cast.acme.organization_id)) == ["acme", "below", "umbrella"]
    assert shown(enabled="false") == ["apart"]
    assert shown(sort="-instance_count")[-1] in ("apart", "below")


def test_the_list_costs_the_same_for_more_rows(cast: Cast) -> None:
    client, counts = cast.client("petra"), []
    for number in (3, 30):
        while Tenant.objects.count() < number:
            tenants.create_tenant(
                name=f"more-{Tenant.objects.count()}", organization=cast.acme.organization, password=PASSWORD
            )
        client.get(URL)
        with CaptureQueriesContext(connection) as captured:
            client.get(URL)
        counts.append(len(captured))
    assert counts[0] == counts[1]


def test_a_new_account_gets_an_administrator_whose_password_is_shown_once(cast: Cast) -> None:
    form = {"name": "fresh", "organization": str(cast.acme.organization_id)}
    page = cast.client("petra").post(reverse("platform.account_create"), form)
    assert "no-store" in page["Cache-Control"]
    answer = signed_in("admin@fresh", page.context["password"])
    assert answer.status_code == 302
    assert answer.wsgi_request.user.must_change_password
    entry = Entry.objects.get(action="accounts.tenant.create", resource="fresh")
    assert (entry.actor, entry.tenant_uid) == ("petra", Tenant.objects.get(name="fresh").uid)


@pytest.mark.parametrize("name", ["a", "Acme2", "has space", "-acme", "x" * 33, "a@b"])
def test_a_malformed_name_is_refused_beside_its_field(cast: Cast, name: str) -> None:
    form = {"name": name, "organization": str(cast.acme.organization_id)}
    page = cast.client("petra").post(reverse("platform.account_create"), form)
    assert page.status_code == 422
    assert "name" in page.context["form"].errors


def test_a_taken_name_is_refused(cast: Cast) -> None:
    with pytest.raises(Refused, match="acme already exists"):
        tenants.create_tenant(name="acme", organization=cast.acme.organization, password=PASSWORD)


@pytest.mark.django_db(transaction=True)
def test_a_disabled_account_stops_at_once(cast: Cast) -> None:
    key = accounts.create_access_key(actor=cast.actor("alice"), user=cast.bob)
    assert key.access_key_id in access_table.compiled()
    bob = cast.client("bob")
    assert bob.get("/keys/").status_code == 200
    url = reverse("platform.account_switch", args=["acme"])
    assert cast.client("petra").post(url, {"typed": "umbrella"}).status_code == 422
    assert cast.client("petra").post(url, {"typed": "acme"}).status_code == 302
    assert bob.get("/keys/").status_code == 302
    assert signed_in("bob@acme", PASSWORD).headers.get("Location", "").endswith("inactive/")
    assert key.access_key_id not in published()
    cast.client("petra").post(url, {"typed": "acme"})
    assert key.access_key_id in published()
    # The account reads in its own trail what was done with it.
    assert Entry.objects.filter(tenant=cast.acme, action="accounts.tenant.disable", actor="petra").exists()


def test_its_administrator_gets_back_in(cast: Cast) -> None:
    alice = cast.client("alice")
    assert alice.get("/keys/").status_code == 200
    page = cast.client("petra").post(reverse("platform.account_reset", args=["acme"]), {"typed": "acme"})
    assert alice.get("/keys/").status_code == 302
    assert signed_in("admin@acme", PASSWORD).status_code == 200
    assert signed_in("admin@acme", page.context["password"]).status_code == 302


def test_an_account_with_instances_in_resource_sets_is_not_moved(cast: Cast) -> None:
    elsewhere = Organization.objects.create(name="Elsewhere")
    url = reverse("platform.account", args=["acme"])
    cast.client("petra").post(url, {"organization": str(elsewhere.pk)})
    assert Tenant.objects.get(name="acme").organization == elsewhere
    cast.instance.resource_set = elsewhere.resource_sets.create(name="production")
    cast.instance.save()
    page = cast.client("petra").post(url, {"organization": str(Organization.objects.get(name="Head office").pk)})
    assert page.status_code == 422
    assert "move them out first" in page.content.decode()
